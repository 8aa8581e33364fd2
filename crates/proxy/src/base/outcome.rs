//! The outcome of a request: the one record that feeds `Cache-Status`, counters and the log.

use std::time::Duration;

use larder_semantics::coding::Coding;
use larder_semantics::status::{CacheStatus, Forward, Why};
use larder_stats::outcome;

/// The outcome of a request.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// How it counts.
    pub kind: Kind,
    /// The reason.
    pub why: Why,
    /// The status the origin answered with, if it was asked.
    pub origin_status: Option<u16>,
    /// Whether the answer is being stored.
    pub stored: bool,
    /// Seconds of freshness left, for answers from the cache; negative when stale.
    pub ttl: Option<i64>,
    /// Where the answer was found, if it was.
    pub tier: Tier,
    /// How long origins took until they began to answer; `None` if none was asked.
    pub origin_time: Option<Duration>,
    /// The coding in which a stored response is sent, if it came without one.
    pub coding: Option<Coding>,
    /// The request was a prefetch.
    pub is_prefetch: bool,
}

/// Where a stored response was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tier {
    /// In memory.
    #[default]
    Memory,
    /// On a disk.
    Disk,
    /// On the cluster's engine.
    Engine,
}

impl Tier {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Disk, Self::Engine];

    /// What logs call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Engine => "engine",
        }
    }
}

/// How a request counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Answered from what was stored and fresh.
    Hit,
    /// Answered from what was stored and stale.
    StaleHit,
    /// Answered from another request's fetch.
    Coalesced,
    /// The origin said that what is stored is still good.
    Revalidated,
    /// Fetched.
    Miss,
    /// Not the cache's business.
    Pass,
    /// Refused as malformed or too much.
    Refused,
    /// There is no answer to give.
    Failed,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Hit,
        Self::StaleHit,
        Self::Coalesced,
        Self::Revalidated,
        Self::Miss,
        Self::Pass,
        Self::Refused,
        Self::Failed,
    ];

    /// What the statistics call it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hit => outcome::HIT,
            Self::StaleHit => outcome::STALE_HIT,
            Self::Coalesced => outcome::COALESCED,
            Self::Revalidated => outcome::REVALIDATED,
            Self::Miss => outcome::MISS,
            Self::Pass => outcome::PASS,
            Self::Refused => outcome::REFUSED,
            Self::Failed => outcome::FAILED,
        }
    }
}

impl Outcome {
    /// An answer from the cache.
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
        }
    }

    /// A request that went, or should have gone, to the origin.
    pub fn forwarded(kind: Kind, why: Why) -> Self {
        Self {
            kind,
            why,
            origin_status: None,
            stored: false,
            ttl: None,
            tier: Tier::Memory,
            origin_time: None,
            coding: None,
            is_prefetch: false,
        }
    }

    /// The same, found in this tier.
    #[must_use]
    pub fn from(self, tier: Tier) -> Self {
        Self { tier, ..self }
    }

    /// The same, answered by the origin with this status.
    #[must_use]
    pub fn answered(self, status: http::StatusCode) -> Self {
        Self { origin_status: Some(status.as_u16()), ..self }
    }

    /// What the request was for, if its client said so.
    pub fn purpose(&self) -> Option<&'static str> {
        self.is_prefetch.then_some("prefetch")
    }

    /// True when no origin was asked for this request.
    pub fn is_hit(&self) -> bool {
        matches!(self.kind, Kind::Hit | Kind::StaleHit)
    }

    /// True when the answer is one that was stored before, whether an origin was asked about it or not.
    pub fn is_stored(&self) -> bool {
        self.is_hit() || self.kind == Kind::Revalidated
    }

    /// The member of `Cache-Status` (RFC 9211) of a cache called `name`.
    pub fn cache_status<'n>(&self, name: &'n str) -> CacheStatus<'n> {
        // "hit" and "ttl" say all there is to say of an ordinary hit.
        let obvious = matches!(self.why, Why::Fresh | Why::Absent);
        let forward = match self.kind {
            Kind::Hit | Kind::StaleHit | Kind::Refused => None,
            Kind::Pass if matches!(self.why, Why::ByRule | Why::OnlyHttps) => None,
            Kind::Revalidated => Some(self.why.forward().unwrap_or(Forward::Stale)),
            Kind::Coalesced | Kind::Miss | Kind::Pass => Some(self.why.forward().unwrap_or(Forward::Miss)),
            // It may have gone nowhere, or in vain: the detail says why.
            Kind::Failed => self.why.forward(),
        };
        CacheStatus {
            cache: name,
            hit: self.is_hit(),
            forward,
            forward_status: self.origin_status,
            stored: self.stored,
            collapsed: self.kind == Kind::Coalesced,
            ttl: self.ttl,
            key: None,
            coding: self.coding,
            detail: (!obvious).then_some(self.why),
        }
    }
}
