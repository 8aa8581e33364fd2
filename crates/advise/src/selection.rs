//! The keys that shadows see.

use hashbrown::HashSet;
use larder_evict::{By, Capacity};

use crate::sample::{Sample, fractions};

/// The size in bytes below which no object is large.
const LEAST_LARGE: u64 = 1 << 12;

/// A sample of the keys, and the objects that are in every sample: the heaviest, and the large ones. An object of a good part of a
/// shadow's capacity cannot be represented by chance. The larger one is, the more it matters for the bytes.
pub(crate) struct Selection {
    pub(crate) by: By,
    pub(crate) sample: Sample,
    pub(crate) heavy: HashSet<u64>,
    /// The size in bytes from which an object is large.
    large: u64,
}

impl Selection {
    pub(crate) fn new(by: By, sample: Sample) -> Self {
        Self { by, sample, heavy: HashSet::new(), large: LEAST_LARGE }
    }

    /// Whether an object is in every sample.
    pub(crate) fn is_exact(&self, key: u64, size: u64) -> bool {
        self.is_large(size) || self.heavy.contains(&key)
    }

    pub(crate) fn is_large(&self, size: u64) -> bool {
        size >= self.large
    }

    pub(crate) fn contains(&self, key: u64, size: u64) -> bool {
        self.sample.contains(key) || self.is_exact(key, size)
    }

    /// Whether a request that sent so many bytes is seen whatever the sample.
    pub(crate) fn is_certain(&self, key: u64, sent: u64) -> bool {
        sent >= self.large_sent() || self.heavy.contains(&key)
    }

    /// Returns the bytes of a response that may be a large object's, which takes more memory than it has content.
    pub(crate) fn large_sent(&self) -> u64 {
        self.large / 2
    }

    /// Returns what an object takes of a shadow's room, in fractions. One in every sample takes a part, as though all were there.
    pub(crate) fn part(&self, key: u64, size: u64) -> u64 {
        let weight = Capacity { by: self.by, amount: 0 }.weigh(size);
        if self.is_exact(key, size) { self.sample.part(weight) } else { fractions(weight) }
    }

    /// Makes the selection no larger than another one. Returns whether it was.
    pub(crate) fn narrow(&mut self, other: &Self) -> bool {
        let is_larger = self.sample.share() > other.sample.share() || self.large < other.large;
        self.large = self.large.max(other.large);
        if self.sample.share() > other.sample.share() {
            self.sample = other.sample;
        }
        is_larger
    }

    /// Doubles the size from which an object is large.
    pub(crate) fn raise_large(&mut self) {
        self.large = self.large.saturating_mul(2);
    }
}
