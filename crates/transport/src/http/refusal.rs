//! The refusal of a request.

use http::StatusCode;

/// The refusal of a request: the status of the reply, and the reason for the client and the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status of the reply, after which the connection is closed.
    pub status: StatusCode,
    /// The reason.
    pub reason: &'static str,
}

impl Refusal {
    /// Returns a 400 with this reason.
    pub const fn bad(reason: &'static str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, reason)
    }

    /// Returns a 421 with this reason.
    pub const fn misdirected(reason: &'static str) -> Self {
        Self::new(StatusCode::MISDIRECTED_REQUEST, reason)
    }

    /// Returns a refusal with this status and reason.
    pub const fn new(status: StatusCode, reason: &'static str) -> Self {
        Self { status, reason }
    }
}
