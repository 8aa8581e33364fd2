//! The part of the memory budget for responses in progress.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::body::SENDFILE_FROM;

/// The least budget in bytes for responses in progress, for any size of the memory.
const LEAST: u64 = 1 << 20;

/// The purpose of booked bytes. Kinds of responses that may need more room get a smaller share of the budget,
/// so that large and slow responses leave room for small ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A response of up to [`SENDFILE_FROM`] bytes: all of the budget.
    Small,
    /// A larger response that will be stored: seven eighths.
    Large,
    /// The bytes of an unstored response that its slowest reader has yet to read: half.
    Window,
}

impl Purpose {
    /// Returns the purpose of storing a body of `len` bytes.
    pub(crate) fn of(len: u64) -> Self {
        if len <= SENDFILE_FROM { Self::Small } else { Self::Large }
    }
}

/// Counts the bytes of responses in progress.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct FillBudget {
    booked: AtomicU64,
    limit: u64,
}

impl FillBudget {
    pub(super) fn new(limit: u64) -> Self {
        Self { booked: AtomicU64::new(0), limit: limit.max(LEAST) }
    }

    /// Books `bytes`. Returns false, and books nothing, if the share of `purpose` is used up.
    pub(crate) fn book(&self, bytes: u64, purpose: Purpose) -> bool {
        let booked = self.booked.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if booked > self.most(purpose) {
            self.booked.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// Releases booked bytes.
    pub(crate) fn unbook(&self, bytes: u64) {
        self.booked.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes that may be booked for `purpose` while no others are booked.
    pub(crate) fn most(&self, purpose: Purpose) -> u64 {
        match purpose {
            Purpose::Small => self.limit,
            Purpose::Large => self.limit - self.limit / 8,
            Purpose::Window => self.limit / 2,
        }
    }

    /// Returns the bytes booked now.
    pub(crate) fn booked(&self) -> u64 {
        self.booked.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_responses_leave_room_for_small_ones() {
        let filling = FillBudget::new(8 << 20);
        assert!(filling.book(4 << 20, Purpose::Window));
        assert!(!filling.book(1, Purpose::Window));
        assert!(filling.book(3 << 20, Purpose::Large));
        assert!(!filling.book(1, Purpose::Large));
        assert!(filling.book(1 << 20, Purpose::Small));
        assert!(!filling.book(1, Purpose::Small));
        filling.unbook(8 << 20);
        assert_eq!(filling.booked(), 0);
    }
}
