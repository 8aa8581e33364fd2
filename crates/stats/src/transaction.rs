//! The recorded data of a request: plain data, in the caller's words.

use std::borrow::Cow;
use std::sync::Arc;

/// A static text of the caller, or one created for this row.
pub type Text = Cow<'static, str>;

/// One request that was answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// The time of its arrival, in milliseconds since 1970.
    pub time: u64,
    /// The listener: `http`, `thrift`, ...
    pub door: Text,
    /// The site that it belongs to.
    pub site: Arc<str>,
    /// The part of the site: the first segment of the path.
    pub route: Text,
    /// The request's method.
    pub method: Text,
    /// The whole URL, cut off after [`Transaction::LONGEST_URL`] bytes.
    pub url: String,
    /// The status of the response; 0 if there was none.
    pub status: u16,
    /// The outcome: a word of [`crate::outcome::OUTCOMES`].
    pub outcome: Text,
    /// The reason of the outcome.
    pub reason: Text,
    /// Bytes sent to the client, the head included.
    pub bytes: u64,
    /// Microseconds from the request's arrival to the end of its response.
    pub service_us: u64,
    /// Microseconds of those that an origin needed; `None` if none was asked.
    pub origin_us: Option<u64>,
    /// Seconds since the response was generated or validated, if it was stored.
    pub age: Option<u64>,
    /// The tier that stored the response: `memory`, `disk`, ...; empty if it was not stored.
    pub tier: Text,
    /// The client, as far as it may be recorded.
    pub client: Text,
    /// The version of HTTP that the client used: `1.0`, `1.1`, `2`; empty if it did not use HTTP.
    pub http_version: Text,
}

impl Transaction {
    /// The most bytes of a URL.
    pub const LONGEST_URL: usize = 2048;

    /// Limits its memory.
    pub(crate) fn bound(&mut self) {
        if self.url.len() > Self::LONGEST_URL {
            let is_boundary = |at: &usize| self.url.is_char_boundary(*at);
            let end = (0..=Self::LONGEST_URL).rev().find(is_boundary).unwrap_or(0);
            self.url.truncate(end);
            self.url.shrink_to_fit();
        }
    }
}

/// What a policy and size of a tier would have done in an hour, or a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prediction {
    /// The beginning of the hour, in milliseconds since 1970.
    pub hour: u64,
    /// The tier: `memory` or `disk`.
    pub tier: Text,
    /// The policy.
    pub policy: String,
    /// The size, in bytes or entries.
    pub size: u64,
    /// Cacheable requests.
    pub requests: u64,
    /// Hits.
    pub hits: u64,
    /// The standard error of the hits.
    pub hits_error: u64,
    /// Bytes sent for the requests.
    pub bytes: u64,
    /// Those of them that would have come from the cache.
    pub bytes_from_cache: u64,
    /// Whether this policy and size really ran: then the figures are measured.
    pub is_running: bool,
}

/// One object in the cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The hash of its key, in the caller's format.
    pub hash: String,
    /// Its URL.
    pub url: String,
    /// Bytes that it takes.
    pub size: u64,
    /// The time at which it was stored, in milliseconds since 1970.
    pub stored: u64,
    /// The end of its lifetime, in milliseconds since 1970.
    pub expires: u64,
    /// Requests that it has answered.
    pub hits: u64,
    /// The tags for purges, with spaces between.
    pub tags: String,
    /// The tier that stores it: `memory`, `disk`, ...
    pub tier: Text,
}
