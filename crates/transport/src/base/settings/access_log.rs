//! The access log.

use std::ops::RangeInclusive;
use std::time::Duration;

use http::StatusCode;
use larder_words::named;

use crate::base::outcome::Kind;

named! {
    /// The format of the access log.
    pub enum AccessLog, name {
        /// No access log.
        Off = "off",
        /// One readable line per request.
        Text = "text",
        /// NCSA's combined log format.
        Combined = "combined",
        /// Squid's native format.
        Squid = "squid",
        /// One JSON object per request.
        Json = "json",
    }
}

/// The requests that have a line in the access log.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedRequests {
    /// The statuses of replies to them.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// The outcomes of them in the cache.
    pub outcomes: Vec<Kind>,
    /// The time that others have to take.
    pub slower: Duration,
    /// The share of the rest that have one, by chance: from 0 to 1.
    pub share: f64,
}

impl LoggedRequests {
    /// All requests, or none.
    pub fn all(are: bool) -> Self {
        Self {
            statuses: Vec::new(),
            outcomes: Vec::new(),
            slower: Duration::MAX,
            share: if are { 1.0 } else { 0.0 },
        }
    }

    /// Returns the time that a request with a reply of this status and outcome has to take for a line; `None` if it has one anyway.
    pub fn from(&self, status: StatusCode, outcome: Kind) -> Option<Duration> {
        let is_logged = self.share >= 1.0
            || self.statuses.iter().any(|own| own.contains(&status.as_u16()))
            || self.outcomes.contains(&outcome)
            || (self.share > 0.0 && fastrand::f64() < self.share);
        (!is_logged).then_some(self.slower)
    }
}
