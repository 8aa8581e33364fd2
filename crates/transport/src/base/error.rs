//! Errors that prevent the start of the proxy: one line with the failed action and the system's reason.

use std::fmt::Display;

pub use larder_words::{cause, part};

/// An error for the operator who starts the proxy.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct Error {
    what: String,
    why: String,
}

impl Error {
    /// Creates the error that `what` failed because of `why`.
    pub fn new(what: impl Into<String>, why: impl Display) -> Self {
        Self { what: what.into(), why: why.to_string() }
    }
}
