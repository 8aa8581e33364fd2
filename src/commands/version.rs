//! `larder version`: the version of this build, with its commit and its features.

use std::sync::LazyLock;

/// The version in the sense of semver.org.
pub(super) const NUMBER: &str = env!("CARGO_PKG_VERSION");

/// The commit that was built, or "unknown" outside of a clone (`build.rs`).
const COMMIT: &str = env!("LARDER_COMMIT");

/// The features of Cargo that change the program.
const FEATURES: &[(&str, bool)] = &[("otlp", cfg!(feature = "otlp"))];

/// Returns the version in one line, as users report it.
pub(super) fn line() -> &'static str {
    static LINE: LazyLock<String> = LazyLock::new(|| {
        let features: Vec<_> = FEATURES.iter().filter(|(_, is_in)| *is_in).map(|(name, _)| *name).collect();
        let features = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
        format!("{NUMBER} (commit {COMMIT}, features: {features})")
    });
    &LINE
}
