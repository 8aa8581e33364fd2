//! The state of purges at the start of a fetch.

use std::collections::VecDeque;

use crate::purges::Generation;

/// The number of cancellations that each part of the table of fills keeps. If more follow the start of a fetch, its key
/// counts as cancelled.
const RECENT: usize = 128;

/// The state of the store for one key at one moment, from [`Fills::epoch`](super::Fills::epoch).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// The number of cancellations in the key's part of the table.
    pub(super) cancelled: u64,
    /// The number of responses stored under the keys of this part.
    pub(super) stored: u64,
    /// The generation of purges.
    pub(super) generation: Generation,
    /// The removals of all keys.
    pub(super) removals: u64,
}

impl Epoch {
    /// Returns the generation in force then.
    pub fn generation(self) -> Generation {
        self.generation
    }

    /// Returns the same epoch with the purges in force at `began`: a response purged since then is not stored.
    #[must_use]
    pub fn of_fetch(self, began: Self) -> Self {
        Self { generation: began.generation, removals: began.removals, ..self }
    }

    /// Whether no response was stored or cancelled between the two epochs.
    pub(crate) fn is_like(self, other: Self) -> bool {
        (self.cancelled, self.stored) == (other.cancelled, other.stored)
    }
}

/// The epochs of all keys at one moment.
#[derive(Debug)]
pub(crate) struct Epochs(pub(super) Box<[Epoch]>);

impl Epochs {
    /// Returns the epoch of the key with this hash.
    pub(crate) fn of(&self, hash: u64) -> Epoch {
        self.0[hash as usize % self.0.len()]
    }
}

/// The cancellations of the keys in one part of the table of fills.
#[derive(Debug, Default)]
pub(super) struct Cancellations {
    count: u64,
    /// The hashes of the keys cancelled last, at most [`RECENT`].
    recent: VecDeque<u64>,
}

impl Cancellations {
    /// Returns the number of cancellations so far.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Adds a cancellation of the key with this hash.
    pub(super) fn add(&mut self, hash: u64) {
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(hash);
        self.count += 1;
    }

    /// Adds a cancellation of all keys.
    pub(super) fn add_all(&mut self) {
        self.recent.clear();
        self.count += 1;
    }

    /// Whether the key with this hash was cancelled after `earlier`, or may have been.
    pub(super) fn includes(&self, hash: u64, earlier: Epoch) -> bool {
        self.times(hash, earlier) != Some(0)
    }

    /// Returns how often the key with this hash was cancelled after `earlier`; `None` if that is not known any more.
    pub(super) fn times(&self, hash: u64, earlier: Epoch) -> Option<u64> {
        let since = usize::try_from(self.count.checked_sub(earlier.cancelled)?).ok()?;
        let first = self.recent.len().checked_sub(since)?;
        Some(self.recent.range(first..).filter(|other| **other == hash).count() as u64)
    }
}
