//! The part of the memory budget for responses in progress.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::body::SENDFILE_FROM;

/// However small the memory is, responses on their way in may take this much.
const LEAST: u64 = 1 << 20;

/// What bytes are booked for. The more room a kind of response may ask for, the sooner it gets none, so that large and
/// slow responses leave room for small ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A response of up to [`SENDFILE_FROM`] bytes: all of the budget.
    Small,
    /// A larger one that is to be stored: seven eighths.
    Large,
    /// What the slowest reader of a response that is not stored has yet to read: half.
    Window,
}

impl Purpose {
    /// The purpose of storing a body of `len` bytes.
    pub(crate) fn of(len: u64) -> Self {
        if len <= SENDFILE_FROM { Self::Small } else { Self::Large }
    }
}

/// Counts the bytes of responses on their way in.
#[derive(Debug)]
pub(crate) struct Filling {
    booked: AtomicU64,
    limit: u64,
}

impl Filling {
    pub(super) fn new(limit: u64) -> Self {
        Self { booked: AtomicU64::new(0), limit: limit.max(LEAST) }
    }

    /// Books `bytes`. False, and nothing booked, if the share of `purpose` is used up.
    pub(crate) fn book(&self, bytes: u64, purpose: Purpose) -> bool {
        let booked = self.booked.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if booked > self.most(purpose) {
            self.booked.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// Takes back what was booked.
    pub(crate) fn unbook(&self, bytes: u64) {
        self.booked.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes that may be booked for `purpose` while nothing else is booked.
    pub(crate) fn most(&self, purpose: Purpose) -> u64 {
        match purpose {
            Purpose::Small => self.limit,
            Purpose::Large => self.limit - self.limit / 8,
            Purpose::Window => self.limit / 2,
        }
    }

    /// Bytes booked now.
    pub(crate) fn booked(&self) -> u64 {
        self.booked.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_responses_leave_room_for_small_ones() {
        let filling = Filling::new(8 << 20);
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
