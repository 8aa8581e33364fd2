//! Thresholds of claims.

use super::Interval;

/// The required side of a value relative to a threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// Above it.
    Above(f64),
    /// Below it.
    Below(f64),
}

impl Bound {
    /// Returns the threshold.
    pub fn threshold(self) -> f64 {
        match self {
            Self::Above(threshold) | Self::Below(threshold) => threshold,
        }
    }

    /// Returns the distance of a value from the threshold, positive on the right side.
    pub(super) fn margin(self, value: f64) -> f64 {
        match self {
            Self::Above(least) => value - least,
            Self::Below(most) => most - value,
        }
    }

    /// Returns the probability of a mean if the claim does not hold, and if the contrary does not.
    pub(super) fn chances(self, interval: &Interval) -> (f64, f64) {
        let (above, below) =
            (interval.chance_above(self.threshold()), interval.chance_below(self.threshold()));
        match self {
            Self::Above(_) => (above, below),
            Self::Below(_) => (below, above),
        }
    }
}
