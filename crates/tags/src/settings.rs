//! The settings of a gateway: plain data.

use larder_words::with_defaults;

use crate::Couplings;

with_defaults! {
    /// The limits of tags, and the lines for caches.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Settings {
        /// The most tags of a pool.
        pub tags: u64 = 100_000,
        /// The most bytes of a pool, bookkeeping included.
        pub bytes: u64 = 64 << 20,
        /// The most pools; further segments share one.
        pub pools: usize = 64,
        /// The largest content that is read for a tag, in bytes.
        pub content: u64 = 1 << 20,
        /// The time for which a change may still happen after its end has become unknown, in seconds. Meanwhile
        /// no tags are created, and caches get no lifetimes.
        pub doubt: u32 = 60,
        /// The pools that a change blanks in addition to its own.
        pub couplings: Couplings = Couplings::default(),
        /// Whether responses name their group, and changes the groups that they invalidate (RFC 9875), for caches.
        pub push: Option<Push> = None,
    }
}

/// The lines for caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Push {
    /// The lifetime of responses for which the backend gives none, in seconds.
    pub lifetime: u32,
}
