//! The meaning of outcomes for hit ratios, with the same counting as in the proxy.
//!
//! A request that the cache could have answered is a hit, validated, or a miss. Hit ratio = hits / (hits + validated +
//! misses); validated hit ratio = (hits + validated) / (hits + validated + misses); byte hit ratio = bytes from the
//! cache / bytes served, over the same requests. Other requests do not count in any ratio.

/// A word, and how requests with this outcome count. The database has this table, too, so that queries can join it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The word.
    pub word: &'static str,
    /// Whether the request was answered without asking an origin.
    pub is_hit: bool,
    /// Whether the request was answered from the cache after an origin confirmed the stored response.
    pub is_validated: bool,
    /// Whether the response was fetched from an origin, though the cache might have answered.
    pub is_miss: bool,
    /// Whether the bytes that were sent came from the cache.
    pub from_cache: bool,
}

/// Answered with a fresh stored response.
pub const HIT: &str = "hit";
/// Answered with a stale stored response.
pub const STALE_HIT: &str = "stale-hit";
/// Answered from another request's fetch.
pub const COALESCED: &str = "coalesced";
/// The origin confirmed the stored response.
pub const REVALIDATED: &str = "revalidated";
/// Fetched from the origin.
pub const MISS: &str = "miss";
/// Not handled by the cache.
pub const PASS: &str = "pass";
/// Refused as malformed or as too much.
pub const REFUSED: &str = "refused";
/// No response was available.
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

    /// Whether the cache might have answered: ratios are over these requests.
    pub fn is_cacheable(&self) -> bool {
        self.is_hit || self.is_validated || self.is_miss
    }
}

/// Returns how requests with the outcome `word` count; `None` for a word that is not in [`OUTCOMES`], which
/// counts as none of these.
pub fn classify(word: &str) -> Option<Outcome> {
    OUTCOMES.iter().copied().find(|outcome| outcome.word == word)
}
