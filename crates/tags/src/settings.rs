//! The settings of a gateway: plain data.

use crate::Couplings;

/// The limits of tags, and the lines for caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The most tags of a pool.
    pub tags: u64,
    /// The most bytes of a pool, bookkeeping included.
    pub bytes: u64,
    /// The most pools; further segments share one.
    pub pools: usize,
    /// The largest content that is read for a tag, in bytes.
    pub content: u64,
    /// The time for which a change may still happen after its end has become unknown, in seconds. Meanwhile
    /// no tags are created, and caches get no lifetimes.
    pub doubt: u32,
    /// The pools that a change blanks in addition to its own.
    pub couplings: Couplings,
    /// Whether responses name their group, and changes the groups that they invalidate (RFC 9875), for caches.
    pub push: Option<Push>,
}

/// The lines for caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Push {
    /// The lifetime of responses for which the backend gives none, in seconds.
    pub lifetime: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tags: 100_000,
            bytes: 64 << 20,
            pools: 64,
            content: 1 << 20,
            doubt: 60,
            couplings: Couplings::default(),
            push: None,
        }
    }
}
