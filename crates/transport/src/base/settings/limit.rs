//! Limits of rules: the rate of requests, concurrent requests, and the requests that share a limit.

use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

use http::HeaderName;
use larder_rules::Pattern;

/// A limit on requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The rate; `None`: unlimited.
    pub rate: Option<Rate>,
    /// Maximum of concurrent requests; `None`: unlimited.
    pub concurrent: Option<u32>,
    /// The requests that share the limit.
    pub by: LimitBy,
    /// The requests that count against the limit.
    pub counted: CountedRequests,
}

/// A rate of requests per period, with a burst after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests in each period. At least 1.
    pub requests: u32,
    /// The period. More than zero.
    pub period: Duration,
    /// Maximum of requests at once after a pause. At least 1.
    pub burst: u32,
}

/// The rate at which content is sent to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// Bytes in a second.
    pub rate: NonZeroU64,
    /// The replies that share it.
    pub by: BandwidthBy,
    /// Bytes at the beginning of a reply that are sent at any rate.
    pub after: u64,
}

/// The replies that share a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BandwidthBy {
    /// None: each reply has its own.
    Reply,
    /// Those to a client address (to one /64 for IPv6).
    Client,
    /// All of the site.
    All,
}

/// The requests that share a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitBy {
    /// Requests from one client address; from one /64 for IPv6.
    Client,
    /// Requests from one network: a /24 for IPv4, a /48 for IPv6.
    Network,
    /// Requests for one host.
    Host,
    /// Requests with the same value of this field. Those without the field, and those with several, share one limit each.
    Field(HeaderName),
    /// Requests with the same value of this parameter, as far as origins may read it. Those without it, and those with
    /// several, share one limit each.
    Parameter(Pattern),
    /// The same by a cookie.
    Cookie(Pattern),
    /// All requests.
    All,
}

/// The requests that count against a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedRequests {
    /// All requests.
    All,
    /// Requests that go to an origin.
    Misses,
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.period.as_millis() {
            1_000 => "a second".to_owned(),
            60_000 => "a minute".to_owned(),
            3_600_000 => "an hour".to_owned(),
            86_400_000 => "a day".to_owned(),
            millis => format!("{} s", millis as f64 / 1e3),
        };
        write!(f, "{} in {unit}", self.requests)
    }
}
