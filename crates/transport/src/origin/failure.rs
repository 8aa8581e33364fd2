//! The reasons why an exchange with an origin has no response.

use std::io;

use crate::http::response::Malformed;

/// The reason why there is no response.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the connection was closed before the answer was complete")]
    Closed,
    #[error("{}", .0.0)]
    Malformed(Malformed),
    #[error("no data came in time")]
    TimedOut,
    #[error("the client stopped in the middle of its request")]
    ClientGone,
    /// The stream or its connection failed.
    #[error("{0}")]
    Stream(h2::Error),
    /// The origin has not processed the request (RFC 9113 section 8.7).
    #[error("the origin did not process the request: {0}")]
    Unprocessed(h2::Error),
}
