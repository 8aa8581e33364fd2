//! The extent of the measurements.

use serde::{Deserialize, Serialize};

/// The extent of the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// A few requests, to check that everything works: the numbers have no meaning.
    Smoke,
    /// Every figure, from few measurements.
    Quick,
    /// All measurements that the claims need.
    Full,
}

impl Size {
    /// Returns the name that users see.
    pub fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }
}
