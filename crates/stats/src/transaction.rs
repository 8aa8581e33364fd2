//! The recorded data of a request: plain data, in the caller's words.

use std::borrow::Cow;
use std::sync::Arc;

/// A word that the caller has at hand, or made for this row.
pub type Text = Cow<'static, str>;

/// One request that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// When it came, in milliseconds since 1970.
    pub time: u64,
    /// What it came through: `http`, `thrift`, ...
    pub door: Text,
    /// The site that it belongs to.
    pub site: Arc<str>,
    /// The part of the site: the first segment of the path.
    pub route: Text,
    /// The request's method.
    pub method: Text,
    /// The whole URL. Beyond [`Transaction::LONGEST_URL`] bytes it is cut off.
    pub url: String,
    /// The status that was answered; 0 if none was.
    pub status: u16,
    /// What became of it: a word of [`crate::outcome::OUTCOMES`].
    pub outcome: Text,
    /// Why.
    pub reason: Text,
    /// Bytes sent to the client, the head included.
    pub bytes: u64,
    /// Microseconds from the request's arrival to the end of its answer.
    pub service_us: u64,
    /// Of those, microseconds that an origin took; nothing if none was asked.
    pub origin_us: Option<u64>,
    /// Seconds since the answer was made or validated, if it was stored.
    pub age: Option<u64>,
    /// Where the answer was stored: `memory`, `disk`, ...; empty if it was not.
    pub tier: Text,
    /// The client, as far as it may be known.
    pub client: Text,
    /// The version of HTTP that the client used: `1.0`, `1.1`, `2`; empty if it did not use HTTP.
    pub http_version: Text,
}

impl Transaction {
    /// Bytes of a URL that are kept.
    pub const LONGEST_URL: usize = 2048;

    /// Takes no more memory than it may.
    pub(crate) fn bound(&mut self) {
        if self.url.len() > Self::LONGEST_URL {
            let is_boundary = |at: &usize| self.url.is_char_boundary(*at);
            let end = (0..=Self::LONGEST_URL).rev().find(is_boundary).unwrap_or(0);
            self.url.truncate(end);
            self.url.shrink_to_fit();
        }
    }
}

/// One object that is in the cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The hash of its key, as the caller writes it.
    pub hash: String,
    /// Its URL.
    pub url: String,
    /// Bytes that it takes.
    pub size: u64,
    /// When it was stored, in milliseconds since 1970.
    pub stored: u64,
    /// When it ceases to be fresh, in milliseconds since 1970.
    pub expires: u64,
    /// Requests that it answered.
    pub hits: u64,
    /// The tags it may be purged by, with spaces between.
    pub tags: String,
    /// Where it is: `memory`, `disk`, ...
    pub tier: Text,
}
