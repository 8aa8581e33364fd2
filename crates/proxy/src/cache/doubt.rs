//! Doubts: changes whose result this cache does not know, because it stopped waiting for the answer or got none.
//!
//! The origin may still commit such a change. A doubt lasts for the site's `tag_doubt`. Until its end, fetched
//! responses that the change may concern are stored as invalid, so that each use is validated. These are the URL, all
//! responses of its path that may answer other queries (`No-Vary-Search`), and all responses of its origin that have
//! cache groups, since only the answer would have named the groups that the change invalidates. Responses stored before
//! are invalidated when the doubt begins.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Cache;
use crate::base::clock;
use larder_semantics::fields::Fields;
use larder_semantics::freshness::Freshness;
use larder_semantics::purge::{Effect, Scope};
use larder_semantics::{groups, key, no_vary_search};

/// The number of slots for URLs and origins. Two that share a slot are in doubt together, which costs validations. They
/// take 2 MiB, from the first doubt on: with few, one client's changes would put the responses of all sites in doubt.
const PLACES: usize = 1 << 18;

/// The most that the clock may be behind, in milliseconds.
const COARSE: u64 = 10;

/// The ends of the doubts, in milliseconds of [`clock::millis`].
#[derive(Debug, Default)]
pub struct Doubts {
    /// The end of the last doubt; 0 before the first one.
    latest: AtomicU64,
    /// The end of the doubt by the hash of a cache key, of its path, or of an origin.
    until: OnceLock<Box<[AtomicU64]>>,
}

/// The doubts that apply to the answer to a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Doubt {
    url: bool,
    /// Whether the path is in doubt, for an answer that may serve other queries.
    path: bool,
    groups: bool,
}

impl Doubts {
    fn begin(&self, hash: u64, until: u64) {
        let places = self.until.get_or_init(|| (0..PLACES).map(|_| AtomicU64::new(0)).collect());
        places[hash as usize % PLACES].fetch_max(until, Ordering::SeqCst);
        self.latest.fetch_max(until, Ordering::SeqCst);
    }

    /// Iterates over the doubts that have not ended: their place, and their end in milliseconds of [`clock::millis`], which
    /// is the same for all processes of this machine.
    pub fn all(&self) -> impl Iterator<Item = (u64, u64)> {
        let now = clock::millis();
        let ends = self.until.get().into_iter().flatten().map(|until| until.load(Ordering::SeqCst));
        (0..).zip(ends).filter(move |(_, until)| *until > now)
    }

    /// Returns the end of the last doubt; 0 before the first one.
    pub fn latest(&self) -> u64 {
        self.latest.load(Ordering::SeqCst)
    }

    /// Restores a doubt of the process before this one.
    pub fn restore(&self, (place, until): (u64, u64)) {
        self.begin(place, until);
    }

    fn has(&self, hash: u64, now: u64) -> bool {
        let until = self.until.get().map(|places| places[hash as usize % PLACES].load(Ordering::SeqCst));
        until.is_some_and(|until| now < until)
    }
}

impl Doubt {
    /// Returns the doubts that apply to the answer to a request for `key`. Must be called after the fetch is registered
    /// and before the request is sent: a doubt that begins later invalidates the fetched response itself.
    pub(crate) fn about(cache: &Cache, key: &[u8]) -> Self {
        let latest = cache.doubts.latest.load(Ordering::SeqCst);
        if latest == 0 {
            return Self::default();
        }
        let now = clock::millis();
        if now >= latest {
            return Self::default();
        }
        let (doubts, memory) = (&cache.doubts, &cache.store.memory);
        let of_origin = |origin| doubts.has(memory.hash(origin), now);
        let key = key::of_url(key);
        Self {
            url: doubts.has(memory.hash(key), now),
            path: doubts.has(memory.hash(path(key)), now),
            groups: key::origin(key).is_some_and(of_origin),
        }
    }

    /// Returns the freshness of a response with these fields, made invalid if a change in doubt may concern the
    /// response.
    pub(crate) fn temper(self, freshness: Freshness, response: &impl Fields) -> Freshness {
        if self.reaches(response) { freshness.invalid() } else { freshness }
    }

    fn reaches(self, response: &impl Fields) -> bool {
        self.url
            || (self.path && response.contains(no_vary_search::FIELD))
            || (self.groups && !groups::groups(response).is_empty())
    }
}

/// Returns a cache key without its query.
fn path(key: &[u8]) -> &[u8] {
    key.split_last().map_or(key, |(_, url)| key::split_at_query(url).0)
}

/// Begins a doubt about `scopes` that lasts for `seconds` from now.
pub(crate) fn begin(cache: &Cache, seconds: u32, scopes: Vec<Scope>) {
    let until = clock::millis() + u64::from(seconds) * 1_000 + COARSE;
    let (memory, scopes) = (&cache.store.memory, cache.fills.with_equivalents(scopes));
    // First mark the slots, so that fetches that begin from now on store invalid responses. The purges below reach the
    // fetches in flight.
    for scope in &scopes {
        if let Scope::Url(bytes) | Scope::Origin(bytes) = scope {
            cache.doubts.begin(memory.hash(bytes), until);
        }
        if let Scope::Url(key) = scope {
            cache.doubts.begin(memory.hash(path(key)), until);
        }
    }
    let (urls, others): (Vec<_>, Vec<_>) =
        scopes.into_iter().partition(|scope| matches!(scope, Scope::Url(_)));
    cache.purge(&urls);
    if !others.is_empty() {
        cache.fills.order(&others, Effect::Invalid, clock::now());
    }
}

#[cfg(test)]
mod tests {
    use larder_semantics::fields::HeadLines;
    use larder_semantics::freshness::Flags;

    use super::*;

    #[test]
    fn a_doubt_is_about_its_place_until_its_end() {
        let doubts = Doubts::default();
        doubts.begin(7, 1_000);
        doubts.begin(7, 500);
        doubts.begin(8, 2_000);
        let about = |hash, now| doubts.has(hash, now);
        assert!(about(7, 999) && about(7 + PLACES as u64, 999), "places are shared");
        assert!(!about(7, 1_000) && about(8, 1_000) && !about(9, 0));
    }

    #[test]
    fn many_doubts_leave_most_other_urls_in_none() {
        let (doubts, mut random) = (Doubts::default(), fastrand::Rng::with_seed(7));
        (0..20_000).for_each(|_| doubts.begin(random.u64(..), 1_000));
        let others = (0..1_000).filter(|_| doubts.has(random.u64(..), 0)).count();
        assert!(others < 150, "{others} of 1,000 are in doubt, too");
    }

    #[test]
    fn a_doubt_invalidates_its_url_grouped_responses_and_those_for_other_queries() {
        let invalid = |doubt: Doubt, lines: &str| {
            let tempered = doubt.temper(Freshness::default(), &HeadLines(lines.as_bytes()));
            tempered.flags.contains(Flags::INVALID)
        };
        let nothing = Doubt::default();
        let (url, groups) = (Doubt { url: true, ..nothing }, Doubt { groups: true, ..nothing });
        let path = Doubt { path: true, ..nothing };
        assert!(!invalid(path, "") && invalid(path, "No-Vary-Search: params=(\"a\")\r\n"));
        assert!(invalid(url, "") && !invalid(groups, "") && invalid(groups, "Cache-Groups: \"a\"\r\n"));
        assert!(!invalid(Doubt::default(), "Cache-Groups: \"a\"\r\n"));
    }
}
