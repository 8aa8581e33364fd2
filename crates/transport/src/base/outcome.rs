//! The outcome of a request: the one record that feeds `Cache-Status`, counters and the log.

use std::time::Duration;

use larder_semantics::cache_status::CacheStatus;
use larder_semantics::coding::Coding;
use larder_semantics::status::{Forward, Why};
use larder_stats::outcome;
pub use larder_store::TierName as Tier;
use larder_words::named;

/// The outcome of a request.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// The kind of the outcome.
    pub kind: Kind,
    /// The reason.
    pub why: Why,
    /// The status of the origin's response, if there was one.
    pub origin_status: Option<u16>,
    /// Whether the response is being stored.
    pub stored: bool,
    /// Remaining freshness in seconds, for responses from the cache, and those that are too large for it; negative when stale.
    pub ttl: Option<i64>,
    /// The tier of the stored response, if there was one.
    pub tier: Tier,
    /// Time that origins took until the first byte of their responses; `None` if the request was not forwarded.
    pub origin_time: Option<Duration>,
    /// The coding in which a stored response is sent, if the origin sent it without one.
    pub coding: Option<Coding>,
    /// Whether the request was a prefetch.
    pub is_prefetch: bool,
    /// The time from which on it is in the access log, if a rule leaves out shorter ones.
    pub logged_from: Option<Duration>,
}

named! {
    /// The kind of an outcome.
    pub enum Kind, word {
        /// Served from a fresh stored response.
        Hit = outcome::HIT,
        /// Served from a stale stored response.
        StaleHit = outcome::STALE_HIT,
        /// Served from the fetch of another request.
        Coalesced = outcome::COALESCED,
        /// Served from a stored response that the origin has revalidated.
        Revalidated = outcome::REVALIDATED,
        /// Fetched from the origin.
        Miss = outcome::MISS,
        /// Passed through without the cache.
        Pass = outcome::PASS,
        /// Refused, because the request was malformed, exceeded a limit, or was not allowed.
        Refused = outcome::REFUSED,
        /// Failed without a response to serve.
        Failed = outcome::FAILED,
    }
}

impl Outcome {
    /// Creates the outcome of a request that was served from the cache.
    pub fn hit(kind: Kind, why: Why, ttl: i64) -> Self {
        Self {
            kind,
            why,
            origin_status: None,
            stored: false,
            ttl: Some(ttl),
            tier: Tier::Memory,
            origin_time: None,
            coding: None,
            is_prefetch: false,
            logged_from: None,
        }
    }

    /// Creates the outcome of a request that was, or should have been, forwarded to the origin.
    #[inline]
    pub fn forwarded(kind: Kind, why: Why) -> Self {
        Self { ttl: None, ..Self::hit(kind, why, 0) }
    }

    /// Sets the tier of the stored response.
    #[must_use]
    #[inline]
    pub fn from(self, tier: Tier) -> Self {
        Self { tier, ..self }
    }

    /// Sets the status of the origin's response.
    #[must_use]
    #[inline]
    pub fn answered(self, status: http::StatusCode) -> Self {
        Self { origin_status: Some(status.as_u16()), ..self }
    }

    /// Returns the purpose of the request, if its client sent one.
    #[inline]
    pub fn purpose(&self) -> Option<&'static str> {
        self.is_prefetch.then_some("prefetch")
    }

    /// Whether the request was served without forwarding it to an origin.
    #[inline]
    pub fn is_hit(&self) -> bool {
        matches!(self.kind, Kind::Hit | Kind::StaleHit)
    }

    /// Whether the response was stored before, with or without a revalidation.
    #[inline]
    pub fn is_stored(&self) -> bool {
        self.is_hit() || self.kind == Kind::Revalidated
    }

    /// Whether the response is being stored, unless the admission filter refuses it in the end.
    #[inline]
    pub fn may_be_stored(&self) -> bool {
        self.stored || !self.is_hit() && self.ttl.is_some() && self.why != Why::TooLarge
    }

    /// Returns the remaining freshness of a response from the cache; that of one that is too large matters to shadow caches alone.
    #[inline]
    pub fn shown_ttl(&self) -> Option<i64> {
        self.ttl.filter(|_| self.why != Why::TooLarge)
    }

    /// Returns the member of `Cache-Status` (RFC 9211) of a cache called `name`.
    pub fn cache_status<'n>(&self, name: &'n str) -> CacheStatus<'n> {
        // "hit" and "ttl" describe an ordinary hit completely.
        let obvious = matches!(self.why, Why::Fresh | Why::Absent);
        let forward = match self.kind {
            // An origin was asked first, also if it has not answered: it is no hit (RFC 9211 section 2.1).
            Kind::StaleHit if self.why == Why::StaleIfError => Some(Forward::Stale),
            Kind::Hit | Kind::StaleHit | Kind::Refused => None,
            Kind::Pass if matches!(self.why, Why::ByRule | Why::OnlyHttps) => None,
            Kind::Revalidated => Some(self.why.forward().unwrap_or(Forward::Stale)),
            Kind::Coalesced | Kind::Miss | Kind::Pass => Some(self.why.forward().unwrap_or(Forward::Miss)),
            // The request was not forwarded, or the forward failed; the detail tells which.
            Kind::Failed => self.why.forward(),
        };
        CacheStatus {
            cache: name,
            hit: self.is_hit() && forward.is_none(),
            forward,
            forward_status: self.origin_status,
            stored: self.stored,
            collapsed: self.kind == Kind::Coalesced,
            ttl: self.shown_ttl(),
            key: None,
            coding: self.coding,
            detail: (!obvious).then_some(self.why),
        }
    }
}
