//! Requests as shadow caches see them.

use larder_evict::Object;

use crate::counts::Sums;

/// One or more consecutive requests for an object, and the response that an origin would give.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The object as the cache would store it now. Its key is a hash that clients cannot predict.
    pub object: Object,
    /// The time (UNIX seconds).
    pub now: u32,
    /// The number of requests.
    pub requests: u32,
    /// The bytes sent for them.
    pub bytes: u64,
    /// How long a response that is fetched now may answer; `None`: it may not be stored.
    pub freshness: Option<Freshness>,
    /// Whether the client demands that an origin is asked, so that no cache can answer.
    pub is_forced: bool,
    /// Whether the response came from a fetch for another client, which any cache shares.
    pub is_shared: bool,
    /// Whether an origin that is asked to validate a copy confirms it, so that the content comes from the cache.
    pub is_confirmed: bool,
    /// What has happened to all stored copies since the last request for the object.
    pub change: Change,
}

/// How long a fetched response may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// Seconds of freshness; [`u32::MAX`]: for ever.
    pub lifetime: u32,
    /// Seconds of staleness in which it answers while it is revalidated in the background.
    pub stale: u32,
}

/// What has happened to the stored copies of an object, in every cache alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    #[default]
    None,
    /// They were removed.
    Removed,
    /// They have to be validated before the next use.
    Expired,
    /// They were refreshed in the background at this time (UNIX seconds).
    Refreshed(u32),
}

/// How a cache answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// By a stored copy.
    Hit,
    /// By an origin: the copy has been stale for this many seconds.
    Stale(u32),
    /// By an origin, since the client demands it: there is a copy.
    Demanded,
    /// By an origin: there is no copy that could be used.
    Miss,
}

/// A stored copy without its content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredCopy {
    /// The time until which it is fresh (UNIX seconds).
    pub(crate) until: u32,
}

impl Answer {
    /// Whether the cache answered by itself.
    pub fn is_hit(self) -> bool {
        self == Self::Hit
    }
}

impl Request {
    /// Returns the part of what was `asked` that a cache gives with this answer.
    pub(crate) fn given(&self, answer: Answer, asked: Sums) -> Sums {
        match answer {
            _ if answer.is_hit() || self.is_shared => asked,
            Answer::Stale(_) | Answer::Demanded if self.is_confirmed => {
                Sums { bytes: asked.bytes, ..Sums::default() }
            }
            _ => Sums::default(),
        }
    }

    /// Returns the copy of a response that is fetched at `then`.
    pub(crate) fn copy(&self, then: u32) -> StoredCopy {
        StoredCopy { until: then.saturating_add(self.freshness.map_or(0, |fresh| fresh.lifetime)) }
    }
}

impl StoredCopy {
    /// Answers `request`. If an origin has to be asked, or a refresh in the background follows, the copy is then a new one.
    pub(crate) fn answer(&mut self, request: &Request) -> Answer {
        match request.change {
            Change::Refreshed(then) => self.until = self.until.max(request.copy(then).until),
            Change::Expired => self.until = 0,
            Change::Removed | Change::None => {}
        }
        let stale = request.now.saturating_sub(self.until);
        let allowed = request.freshness.map_or(0, |fresh| fresh.stale);
        let is_fresh = request.now < self.until;
        // After a purge, nothing stale is allowed.
        let is_hit = is_fresh || self.until > 0 && stale < allowed;
        if (!is_fresh || request.is_forced) && request.freshness.is_some() {
            *self = request.copy(request.now);
        }
        match is_hit && !request.is_forced {
            true => Answer::Hit,
            false if request.is_forced => Answer::Demanded,
            false => Answer::Stale(stale),
        }
    }
}
