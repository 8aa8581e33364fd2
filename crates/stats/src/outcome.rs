//! The meaning of outcomes for hit ratios. They are counted here as the proxy counts them.
//!
//! A request that the cache could have answered is a hit, validated, or a miss. Hit ratio = hits / (hits + validated +
//! misses); validated hit ratio = (hits + validated) / (hits + validated + misses); byte hit ratio = bytes from the
//! cache / bytes served, over the same requests. Other requests count in no ratio.

/// A word, and how requests that ended so count. The database has this table, too, so that queries can join it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The word.
    pub word: &'static str,
    /// Answered without asking an origin for it.
    pub is_hit: bool,
    /// Answered from the cache after an origin said that what is stored is still good.
    pub is_validated: bool,
    /// Fetched from an origin, though the cache might have answered.
    pub is_miss: bool,
    /// Whether the bytes that were sent came from the cache.
    pub from_cache: bool,
}

/// Answered from what was stored and fresh.
pub const HIT: &str = "hit";
/// Answered from what was stored and stale.
pub const STALE_HIT: &str = "stale-hit";
/// Answered from another request's fetch.
pub const COALESCED: &str = "coalesced";
/// The origin said that what is stored is still good.
pub const REVALIDATED: &str = "revalidated";
/// Fetched.
pub const MISS: &str = "miss";
/// Not the cache's business.
pub const PASS: &str = "pass";
/// Refused as malformed or too much.
pub const REFUSED: &str = "refused";
/// There was no answer to give.
pub const FAILED: &str = "failed";

/// All outcomes. A change needs a migration of existing databases.
pub const OUTCOMES: &[Outcome] = &[
    Outcome { is_hit: true, from_cache: true, ..Outcome::other(HIT) },
    Outcome { is_hit: true, from_cache: true, ..Outcome::other(STALE_HIT) },
    Outcome { is_hit: true, from_cache: true, ..Outcome::other(COALESCED) },
    Outcome { is_validated: true, from_cache: true, ..Outcome::other(REVALIDATED) },
    Outcome { is_miss: true, ..Outcome::other(MISS) },
    Outcome::other(PASS),
    Outcome::other(REFUSED),
    Outcome::other(FAILED),
];

impl Outcome {
    const fn other(word: &'static str) -> Self {
        Self { word, is_hit: false, is_validated: false, is_miss: false, from_cache: false }
    }

    /// Whether the cache might have answered: what ratios are taken of.
    pub fn is_cacheable(&self) -> bool {
        self.is_hit || self.is_validated || self.is_miss
    }
}

/// How requests that ended with `word` count; nothing for a word that is not of [`OUTCOMES`], which is none
/// of these.
pub fn classify(word: &str) -> Option<Outcome> {
    OUTCOMES.iter().copied().find(|outcome| outcome.word == word)
}
