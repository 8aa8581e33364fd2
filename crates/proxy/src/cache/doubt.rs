//! Changes of which this cache does not know whether they have happened: it gave up waiting for the answer, or got none.
//!
//! The origin may still commit such a change. Until the site's `tag_doubt` is over, whatever is fetched that the change
//! may concern is stored as invalid, so that each use is validated: the URL, all responses of its path that may answer other
//! queries (`No-Vary-Search`), and all responses of its origin that have
//! cache groups, since only the answer would have said which groups the change invalidates. What was stored
//! before is invalidated when the doubt begins.

use std::sync::atomic::{AtomicU64, Ordering};

use larder_semantics::fields::Fields;
use larder_semantics::freshness::Freshness;
use larder_semantics::purge::{Effect, Scope};
use larder_semantics::{groups, key, no_vary_search};

use super::Cache;
use crate::base::clock;

/// How many URLs and origins are told apart. Two that share a place are in doubt together, which costs validations.
const PLACES: usize = 4_096;

/// The clock may be so many milliseconds behind.
const COARSE: u64 = 10;

/// What is in doubt, and until when (milliseconds of [`clock::millis`]).
#[derive(Debug)]
pub(crate) struct Doubts {
    /// The end of the last doubt; 0: there was none.
    latest: AtomicU64,
    /// By the hash of a cache key, or of an origin.
    until: Box<[AtomicU64]>,
}

/// What of the answer to a request is in doubt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Doubt {
    url: bool,
    /// Of the answer to another query of its path.
    path: bool,
    groups: bool,
}

impl Default for Doubts {
    fn default() -> Self {
        Self { latest: AtomicU64::new(0), until: (0..PLACES).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Doubts {
    fn begin(&self, hash: u64, until: u64) {
        self.until[hash as usize % PLACES].fetch_max(until, Ordering::SeqCst);
        self.latest.fetch_max(until, Ordering::SeqCst);
    }

    fn has(&self, hash: u64, now: u64) -> bool {
        now < self.until[hash as usize % PLACES].load(Ordering::SeqCst)
    }
}

impl Doubt {
    /// What is in doubt of the answer to a request for `key`. To be asked after its fetch was registered, and before the
    /// origin is asked: a doubt that begins later invalidates what is fetched.
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
        Self {
            url: doubts.has(memory.hash(key), now),
            path: doubts.has(memory.hash(path(key)), now),
            groups: key::origin(key).is_some_and(of_origin),
        }
    }

    /// The freshness of a response with these fields, which is invalid if a change may concern it.
    pub(crate) fn temper(self, freshness: Freshness, response: &impl Fields) -> Freshness {
        if self.reaches(response) { freshness.invalid() } else { freshness }
    }

    fn reaches(self, response: &impl Fields) -> bool {
        self.url
            || (self.path && response.contains(no_vary_search::FIELD))
            || (self.groups && !groups::groups(response).is_empty())
    }
}

/// A cache key without its query.
fn path(key: &[u8]) -> &[u8] {
    key.split_last().map_or(key, |(_, url)| key::split_at_query(url).0)
}

/// Puts in force that a change may concern `scopes` for so many seconds from now on.
pub(crate) fn begin(cache: &Cache, seconds: u32, scopes: Vec<Scope>) {
    let until = clock::millis() + u64::from(seconds) * 1_000 + COARSE;
    let (memory, scopes) = (&cache.store.memory, cache.fills.with_equivalents(scopes));
    // First, so that what is fetched from now on is tempered; what is being fetched, the rest reaches.
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
    for url in urls {
        if let Scope::Url(key) = url {
            cache.fills.purge(&key);
        }
    }
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
    fn only_what_has_groups_is_in_doubt_with_its_origin_and_what_answers_other_queries_with_its_path() {
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
