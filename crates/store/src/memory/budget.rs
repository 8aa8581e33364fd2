//! The capacity of the tier, and the sizes of responses in it.

use larder_evict::{By, Capacity, Object};

use super::Memory;
use super::resident::Kept;

/// A shard is at least this large, so that small caches evict exactly as their policy says.
const SHARD_BYTES: u64 = 128 << 20;
const SHARD_ENTRIES: u64 = 1 << 16;
const MOST_SHARDS: u64 = 64;
/// What a shard's index and slots, the policy that takes most and the allocator's own notes take for one resident, in
/// bytes.
const BOOKKEEPING: u64 = 96;
/// The part of the budget kept for responses on their way in and for field lines that responses share.
const FILLING_SHARE: u64 = 8;
/// That part when the budget counts entries or content, in bytes.
const FILLING_BYTES: u64 = 256 << 20;

/// What counts as the size of a response: for a capacity in bytes, and for the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counts {
    /// All that is held: content, head, key and bookkeeping. An eighth of a capacity is for responses in progress.
    #[default]
    All,
    /// Content alone, at least a byte of each URL. All else comes on top of the capacity.
    Content,
}

/// A capacity, and the sizes of responses in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// How much.
    pub capacity: Capacity,
    /// By which sizes.
    pub counts: Counts,
}

impl From<Capacity> for Budget {
    fn from(capacity: Capacity) -> Self {
        Self { capacity, counts: Counts::All }
    }
}

impl Budget {
    /// Whether all memory that the tier takes is counted.
    pub(super) fn is_whole(self) -> bool {
        self.capacity.by == By::Bytes && self.counts == Counts::All
    }

    /// Bytes for responses in progress and for field lines that responses share.
    pub(super) fn filling(self) -> u64 {
        if self.is_whole() { self.capacity.amount / FILLING_SHARE } else { FILLING_BYTES }
    }

    /// What is left for stored responses, in the capacity's unit.
    pub(super) fn kept(self) -> u64 {
        if self.is_whole() { self.capacity.amount - self.filling() } else { self.capacity.amount }
    }

    /// How many shards share it.
    pub(super) fn shards(self) -> u64 {
        let least = match self.capacity.by {
            By::Bytes => SHARD_BYTES,
            By::Entries => SHARD_ENTRIES,
        };
        previous_power_of_two(self.capacity.amount / least).clamp(1, MOST_SHARDS)
    }
}

impl Kept {
    /// Bytes held for it.
    fn held(&self) -> u64 {
        self.charge() + BOOKKEEPING
    }

    /// As its shard weighs it.
    pub(super) fn object(&self, key: u64, counts: Counts) -> Object {
        let size = match counts {
            Counts::All => self.held(),
            // What weighs nothing could be stored without an end.
            Counts::Content => self.content().max(1),
        };
        Object { key, size, cost: self.cost() }
    }

    /// Bytes held for it that its weight does not count.
    pub(super) fn uncounted(&self, counts: Counts) -> u64 {
        match counts {
            Counts::All => 0,
            Counts::Content => self.held().saturating_sub(self.content().max(1)),
        }
    }
}

impl Memory {
    /// Bytes of the largest response that can be stored.
    pub fn largest(&self) -> u64 {
        match self.budget.capacity.by {
            By::Bytes => (self.budget.kept() - self.withheld.bytes()) / self.shards.len() as u64,
            By::Entries => FILLING_BYTES,
        }
    }

    /// Bytes that bodies in memory files may take, those being read after their eviction included.
    pub(crate) fn most_held(&self) -> u64 {
        let Capacity { by, amount } = self.budget.capacity;
        match by {
            By::Bytes if self.budget.is_whole() => amount.max(SHARD_BYTES),
            By::Bytes => amount.saturating_add(FILLING_BYTES),
            By::Entries => u64::MAX,
        }
    }

    /// The capacity it was made with.
    pub fn capacity(&self) -> Capacity {
        self.budget.capacity
    }

    /// What counts as the size of a response.
    pub fn counts(&self) -> Counts {
        self.budget.counts
    }
}

fn previous_power_of_two(n: u64) -> u64 {
    1 << n.max(1).ilog2()
}
