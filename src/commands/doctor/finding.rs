//! A finding: a fact about the machine or the config, and what to change.

use larder_words::named;
use serde::Serialize;

named! {
    /// How bad a finding is.
    #[derive(Serialize)]
    #[serde(rename_all = "lowercase")]
    pub(crate) enum Level, name {
        Ok = "ok",
        /// It works, but worse than it could.
        Warning = "warning",
        /// It will not start, or it will fail.
        Problem = "problem",
    }
}

/// A fact about the machine or the config.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(super) subject: &'static str,
    pub(super) level: Level,
    pub(super) found: String,
    /// What to change, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) advice: Option<String>,
}

impl Finding {
    pub(super) fn ok(subject: &'static str, found: impl Into<String>) -> Self {
        Self { subject, level: Level::Ok, found: found.into(), advice: None }
    }

    pub(super) fn warning(
        subject: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { subject, level: Level::Warning, found: found.into(), advice: Some(advice.into()) }
    }

    pub(super) fn problem(
        subject: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { level: Level::Problem, ..Self::warning(subject, found, advice) }
    }
}
