//! What the words for an outcome mean to hit ratios. They are counted here as the proxy counts them itself.
//!
//! Hit ratio = hits / (hits + misses); byte hit ratio = bytes from the cache / bytes served, over the same
//! requests. Whatever is neither a hit nor a miss was never the cache's business.

/// A word, and how requests that ended so count. The database has this table, too, so that queries can join it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The word.
    pub word: &'static str,
    /// Answered without asking an origin for it.
    pub is_hit: bool,
    /// Asked an origin, though the cache might have answered.
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

/// All outcomes. Who changes this adds a migration, so that databases learn of it.
pub const OUTCOMES: &[Outcome] = &[
    Outcome { word: HIT, is_hit: true, is_miss: false, from_cache: true },
    Outcome { word: STALE_HIT, is_hit: true, is_miss: false, from_cache: true },
    Outcome { word: COALESCED, is_hit: true, is_miss: false, from_cache: true },
    Outcome { word: REVALIDATED, is_hit: false, is_miss: true, from_cache: true },
    Outcome { word: MISS, is_hit: false, is_miss: true, from_cache: false },
    Outcome { word: PASS, is_hit: false, is_miss: false, from_cache: false },
    Outcome { word: REFUSED, is_hit: false, is_miss: false, from_cache: false },
    Outcome { word: FAILED, is_hit: false, is_miss: false, from_cache: false },
];

/// How requests that ended with `word` count; nothing for a word that is not of [`OUTCOMES`], which is neither
/// hit nor miss.
pub fn classify(word: &str) -> Option<Outcome> {
    OUTCOMES.iter().copied().find(|outcome| outcome.word == word)
}
