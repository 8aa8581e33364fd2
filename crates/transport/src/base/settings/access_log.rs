//! The access log.

use std::ops::RangeInclusive;

use http::StatusCode;

/// The format of the access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessLog {
    /// No access log.
    Off,
    /// One readable line per request.
    Text,
    /// One JSON object per request.
    Json,
    /// NCSA's combined log format.
    Combined,
    /// Squid's native format.
    Squid,
}

/// The requests that have a line in the access log.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedRequests {
    /// The statuses of replies to them.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// The share of the others that have one, by chance: from 0 to 1.
    pub share: f64,
}

impl LoggedRequests {
    /// All requests, or none.
    pub fn all(are: bool) -> Self {
        Self { statuses: Vec::new(), share: if are { 1.0 } else { 0.0 } }
    }

    /// Whether a request with a reply of this status has a line.
    pub fn has(&self, status: StatusCode) -> bool {
        self.share >= 1.0
            || self.statuses.iter().any(|own| own.contains(&status.as_u16()))
            || (self.share > 0.0 && fastrand::f64() < self.share)
    }
}
