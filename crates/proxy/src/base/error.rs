//! Why the proxy cannot start: one line, with what was tried and what the system said.

use std::fmt::Display;

/// An error for the person who starts the proxy.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct Error {
    what: String,
    why: String,
}

impl Error {
    /// `what` could not be done, because of `why`.
    pub(crate) fn new(what: impl Into<String>, why: impl Display) -> Self {
        Self { what: what.into(), why: why.to_string() }
    }
}
