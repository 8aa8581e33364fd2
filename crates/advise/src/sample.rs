//! The sample of keys that shadows see.

/// A share of all keys, chosen by their hashes and a seed. Shares are powers of two, and a smaller one is part of each larger one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    multiplier: u64,
    halvings: u32,
}

/// The number of disjoint parts of a sample. Their differences give the error of the whole.
pub(crate) const GROUPS: usize = 16;

/// The fractions of a unit in which shadows count room: an object of one entry may take a part of an entry.
const FRACTIONS: u32 = 10;

/// The number of halvings at most.
const MOST_HALVINGS: u32 = 30;

impl Sample {
    /// Returns the sample of all keys. Who does not know `seed` cannot tell which keys stay in smaller ones.
    pub fn all(seed: u64) -> Self {
        Self { multiplier: seed | 1, halvings: 0 }
    }

    /// Whether `key` is in the sample.
    #[inline]
    pub fn contains(self, key: u64) -> bool {
        self.mark(key) <= self.limit()
    }

    /// Returns the number that decides on a key, which is compared with [`limit`](Self::limit).
    #[inline]
    pub fn mark(self, key: u64) -> u64 {
        key.wrapping_mul(self.multiplier)
    }

    /// Returns the largest number of a key in the sample.
    pub fn limit(self) -> u64 {
        u64::MAX >> self.halvings
    }

    /// Returns the multiplier of [`mark`](Self::mark).
    pub fn multiplier(self) -> u64 {
        self.multiplier
    }

    /// Returns the share of all keys: 1 for all.
    pub fn share(self) -> f64 {
        0.5_f64.powi(self.halvings.cast_signed())
    }

    /// Returns half of the sample, or the same if it is too small already.
    #[must_use]
    pub fn half(self) -> Self {
        Self { halvings: (self.halvings + 1).min(MOST_HALVINGS), ..self }
    }

    /// Returns twice the sample, or the same if it has all keys.
    #[must_use]
    pub fn double(self) -> Self {
        Self { halvings: self.halvings.saturating_sub(1), ..self }
    }

    /// Returns the sample's part of an amount in [fractions](fractions), at least 1.
    pub(crate) fn part(self, amount: u64) -> u64 {
        (fractions(amount) >> self.halvings).max(1)
    }

    /// Returns the group of a key, by bits that do not decide whether it is in the sample.
    pub(crate) fn group(self, key: u64) -> usize {
        (self.mark(key.rotate_left(32)) >> 60) as usize % GROUPS
    }
}

/// Returns an amount in fractions of its unit.
pub(crate) fn fractions(amount: u64) -> u64 {
    amount.min(u64::MAX >> FRACTIONS) << FRACTIONS
}

/// Returns the whole units in so many fractions.
pub(crate) fn units(fractions: u64) -> u64 {
    fractions >> FRACTIONS
}
