//! `larder version`: the version of this build, with its commit and its features.

use std::sync::LazyLock;

/// The version in the sense of semver.org.
pub(super) const NUMBER: &str = env!("CARGO_PKG_VERSION");

/// The commit that was built, or "unknown" outside of a clone (`build.rs`).
const COMMIT: &str = env!("LARDER_COMMIT");

/// What this build has and others lack: earlier ones send no traces by OTLP, and only a static one is independent of the system's
/// C library.
const FEATURES: &str = if cfg!(target_feature = "crt-static") { "otlp, static" } else { "otlp" };

/// Returns the version in one line, as users report it.
pub(super) fn line() -> &'static str {
    static LINE: LazyLock<String> =
        LazyLock::new(|| format!("{NUMBER} (commit {COMMIT}, features: {FEATURES})"));
    &LINE
}
