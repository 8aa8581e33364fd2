//! The settings of a gateway: plain data.

use crate::Couplings;

/// How tags are kept, and what is told of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Tags of a pool, at most.
    pub tags: u64,
    /// Bytes of a pool, at most, bookkeeping included.
    pub bytes: u64,
    /// Pools, at most; segments beyond them share one.
    pub pools: usize,
    /// The largest content that is read for a tag, in bytes.
    pub content: u64,
    /// How long a change may still happen after its end has become unknown, in seconds. Meanwhile no tags are made,
    /// and caches are given no lifetimes.
    pub doubt: u32,
    /// Which pools a change blanks besides its own.
    pub couplings: Couplings,
    /// Tell caches which group each answer belongs to, and which groups a change invalidates (RFC 9875).
    pub push: Option<Push>,
}

/// What caches are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Push {
    /// How long they may keep answers of whose lifetime the backend says nothing, in seconds.
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
