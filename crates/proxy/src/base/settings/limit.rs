//! Limits of rules: how many requests in which time and at once, and which requests share them.

use std::fmt;
use std::time::Duration;

use http::HeaderName;

/// A limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// How many requests in which time; `None`: any number.
    pub rate: Option<Rate>,
    /// How many requests in progress at once; `None`: any number.
    pub concurrent: Option<u32>,
    /// Which requests share it.
    pub by: LimitBy,
    /// Which requests count.
    pub counted: Counted,
}

/// So many requests in each period, evenly; and so many at once after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// At least 1.
    pub requests: u32,
    /// More than nothing.
    pub period: Duration,
    /// At least 1.
    pub burst: u32,
}

/// The requests that share a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitBy {
    /// Those of one client's address; of IPv6, of one /64.
    Client,
    /// Those of one network: a /24 of IPv4, a /48 of IPv6.
    Network,
    /// Those for one host.
    Host,
    /// Those with one value of this field. Requests without it share one limit, too.
    Field(HeaderName),
    /// All.
    All,
}

/// The requests that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// All.
    All,
    /// Those for which an origin is asked.
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
