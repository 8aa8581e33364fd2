//! The early end of a measurement.

use std::fmt::Display;

/// The reason why a measurement ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// The user requested the end.
    #[error("stopped")]
    Stopped,
    /// An error, in one line.
    #[error("{0}")]
    Failed(String),
}

impl Halt {
    /// Returns the error that `what` failed because of `why`.
    pub fn because(what: &str, why: impl Display) -> Self {
        Self::Failed(format!("{what}: {why}"))
    }
}
