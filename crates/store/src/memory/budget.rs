//! The capacity of the tier, and the sizes of responses in it.

use larder_evict::{By, Capacity, Object};
use larder_words::named;

use super::Memory;
use super::fill_budget::{FillBudget, Purpose};
use super::resident::UsedResident;
use crate::Entry;
use crate::body::charge_of_new;

/// A cache of less than two such parts has one shard, so that it evicts exactly as its policy says. The largest response fits
/// into one part.
const PART_BYTES: u64 = 128 << 20;
const PART_ENTRIES: u64 = 1 << 16;
const MOST_PARTS: u64 = 64;
/// The shards of a larger cache for each worker: two of many workers seldom want the same lock.
const SHARDS_PER_WORKER: u64 = 4;
/// The least share of a shard in the capacity.
const SHARE_BYTES: u64 = 1 << 20;
const SHARE_ENTRIES: u64 = 1 << 9;
/// Bytes for one resident in a shard's index and slots, in the policy with the most memory, and in the
/// allocator's metadata.
const BOOKKEEPING: u64 = 96;
/// Bytes of a usual head and key.
const USUAL_HEAD: u64 = 256;
/// The divisor for the part of the budget that is reserved for responses in progress and shared field lines.
const FILLING_SHARE: u64 = 8;
/// The bytes of that part when the budget counts entries or content.
const FILLING_BYTES: u64 = 256 << 20;

named! {
    /// The bytes that count as the size of a response, for a capacity in bytes and for the policy.
    #[derive(Default)]
    pub enum Counts, name {
        /// All bytes held: content, head, key and bookkeeping. An eighth of a capacity is for responses in progress.
        #[default]
        All = "all",
        /// Content alone, at least one byte for each URL. All other bytes come on top of the capacity.
        Content = "content",
    }
}

/// A capacity, and the sizes of responses in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The capacity.
    pub capacity: Capacity,
    /// The bytes that count as a response's size.
    pub counts: Counts,
    /// The number of threads that look responses up all the time.
    pub workers: usize,
}

impl From<Capacity> for Budget {
    fn from(capacity: Capacity) -> Self {
        Self { capacity, counts: Counts::All, workers: 1 }
    }
}

impl Budget {
    /// Whether all memory that the tier takes is counted.
    pub(super) fn is_whole(self) -> bool {
        self.capacity.by == By::Bytes && self.counts == Counts::All
    }

    /// Returns the bytes of the largest response that can be stored.
    pub fn largest(self) -> u64 {
        match self.capacity.by {
            By::Bytes => self.kept() / self.parts(),
            By::Entries => FILLING_BYTES,
        }
    }

    /// Returns the bytes of the largest response that a fetch can store: it is in progress before it is stored.
    pub fn largest_fetched(self) -> u64 {
        self.largest().min(FillBudget::new(self.filling()).most(Purpose::Large))
    }

    /// Returns the bytes for responses in progress and for shared field lines.
    pub(super) fn filling(self) -> u64 {
        if self.is_whole() { self.capacity.amount / FILLING_SHARE } else { FILLING_BYTES }
    }

    /// Returns the rest for stored responses, in the capacity's unit.
    pub fn kept(self) -> u64 {
        if self.is_whole() { self.capacity.amount - self.filling() } else { self.capacity.amount }
    }

    /// Returns the number of parts of the capacity into one of which the largest response fits.
    fn parts(self) -> u64 {
        let least = self.in_unit(PART_BYTES, PART_ENTRIES);
        previous_power_of_two(self.capacity.amount / least).min(MOST_PARTS)
    }

    /// Returns the number of shards.
    pub(super) fn shards(self) -> u64 {
        let share = self.in_unit(SHARE_BYTES, SHARE_ENTRIES);
        let most = previous_power_of_two(self.capacity.amount / share);
        let for_workers = (SHARDS_PER_WORKER * self.workers as u64).next_power_of_two();
        match self.parts() {
            1 => 1,
            parts => for_workers.min(most).max(parts),
        }
    }

    fn in_unit(self, bytes: u64, entries: u64) -> u64 {
        match self.capacity.by {
            By::Bytes => bytes,
            By::Entries => entries,
        }
    }
}

impl UsedResident {
    /// Returns the bytes held for the resident.
    fn held(&self) -> u64 {
        self.charge() + BOOKKEEPING
    }

    /// Returns the object of this resident for the policy.
    pub(super) fn object(&self, key: u64, counts: Counts) -> Object {
        let size = match counts {
            Counts::All => self.held(),
            // Residents of size zero could be stored without a limit.
            Counts::Content => self.content().max(1),
        };
        Object { key, size, cost: self.cost() }
    }

    /// Returns the bytes held for the resident that its size does not include.
    pub(super) fn uncounted(&self, counts: Counts) -> u64 {
        match counts {
            Counts::All => 0,
            Counts::Content => self.held().saturating_sub(self.content().max(1)),
        }
    }
}

impl Memory {
    /// Returns the bytes of the largest response that can be stored.
    pub fn largest(&self) -> u64 {
        match self.budget.capacity.by {
            By::Bytes => (self.budget.kept() - self.withheld.bytes()) / self.budget.parts(),
            By::Entries => FILLING_BYTES,
        }
    }

    /// Returns the share of the room for stored responses that is not withheld.
    pub fn usable(&self) -> f64 {
        1.0 - self.withheld.bytes() as f64 / self.budget.kept().max(1) as f64
    }

    /// Returns the size of `entry` for the policy, if it is the only response stored under its key.
    pub fn size_of(&self, entry: &Entry) -> u64 {
        match self.budget.counts {
            Counts::All => entry.charge() + BOOKKEEPING,
            Counts::Content => entry.content().max(1),
        }
    }

    /// Returns about the size for the policy of a response with so many bytes of content that is not stored yet.
    pub fn size_of_new(&self, content: u64) -> u64 {
        match self.budget.counts {
            Counts::All => charge_of_new(content) + USUAL_HEAD + BOOKKEEPING,
            Counts::Content => content.max(1),
        }
    }

    /// Returns the limit in bytes for bodies in memory files, including those that clients read after their eviction.
    pub(crate) fn most_held(&self) -> u64 {
        let Capacity { by, amount } = self.budget.capacity;
        match by {
            By::Bytes if self.budget.is_whole() => amount.max(PART_BYTES),
            By::Bytes => amount.saturating_add(FILLING_BYTES),
            By::Entries => u64::MAX,
        }
    }

    /// Returns the capacity that the tier was created with.
    pub fn capacity(&self) -> Capacity {
        self.budget.capacity
    }

    /// Returns which bytes count as the size of a response.
    pub fn counts(&self) -> Counts {
        self.budget.counts
    }
}

fn previous_power_of_two(n: u64) -> u64 {
    1 << n.max(1).ilog2()
}
