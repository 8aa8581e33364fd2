//! The selection of hits that the validator checks.

/// The selection of hits that the validator checks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValidatorSettings {
    /// The share of checked hits: 0 (none) to 1 (all).
    pub sample: f64,
    /// Maximum of checks per second; further hits are not checked.
    pub rate: u32,
    /// Whether to repeat requests with a cookie or an authorization, too.
    pub cookies: bool,
}

impl Default for ValidatorSettings {
    fn default() -> Self {
        Self { sample: 0.0, rate: 100, cookies: false }
    }
}
