//! The early end of a measurement.

use std::fmt::{self, Display};

/// The reason why a measurement ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The user requested the end.
    Stopped,
    /// An error, in one line.
    Failed(String),
}

impl Halt {
    /// Returns the error that `what` failed because of `why`.
    pub fn because(what: &str, why: impl Display) -> Self {
        Self::Failed(format!("{what}: {why}"))
    }
}

impl Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Halt {}
