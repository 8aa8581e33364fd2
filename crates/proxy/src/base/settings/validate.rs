//! Which hits the validator checks.

/// Which hits are checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Validate {
    /// The share of hits: 0 (none) to 1 (all).
    pub sample: f64,
    /// Hits that are fetched again in a second at most; what exceeds it is not checked.
    pub rate: u32,
    /// Also repeat requests with a cookie or an authorization.
    pub cookies: bool,
}

impl Default for Validate {
    fn default() -> Self {
        Self { sample: 0.0, rate: 100, cookies: false }
    }
}
