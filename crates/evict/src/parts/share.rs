//! A share of the capacity, recomputed only after the capacity has changed.

use crate::policy::Capacity;

/// The share, and its amount for the latest capacity.
pub(crate) struct Share {
    share: f64,
    amount: u64,
    limit: u64,
}

impl Share {
    pub(crate) const fn new(share: f64) -> Self {
        Self { share, amount: 0, limit: 0 }
    }

    /// Returns the same as [`Capacity::share`].
    #[inline]
    pub(crate) fn of(&mut self, capacity: Capacity) -> u64 {
        if self.amount != capacity.amount {
            (self.amount, self.limit) = (capacity.amount, capacity.share(self.share));
        }
        self.limit
    }
}
