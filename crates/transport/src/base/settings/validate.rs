//! The selection of hits that the validator checks.

use larder_words::with_defaults;

with_defaults! {
    /// The selection of hits that the validator checks.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct ValidatorSettings {
        /// The share of checked hits: 0 (none) to 1 (all).
        pub sample: f64 = 0.0,
        /// Maximum of checks per second; further hits are not checked.
        pub rate: u32 = 100,
        /// Whether to repeat requests with a cookie or an authorization, too.
        pub cookies: bool = false,
    }
}
