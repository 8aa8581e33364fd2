//! Limits on checks of hits: the selection, the concurrent checks, and the rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use larder_words::with_defaults;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::base::findings::{SkipCounters, SkipCounts};

/// Maximum of concurrent checks.
const AT_ONCE: usize = 1_024;
/// Maximum of stale hits that are logged per second.
const TOLD: u32 = 5;

/// The selection of hits on one worker, which is its only writer.
#[derive(Debug, Default)]
pub(crate) struct Sampler(AtomicU32);

impl Sampler {
    /// Whether this hit is checked, if `sample` is the share of checked hits. Costs one comparison if the share is 0.
    #[inline]
    pub(crate) fn picks(&self, sample: f64) -> bool {
        sample > 0.0 && self.count_down(sample)
    }

    fn count_down(&self, sample: f64) -> bool {
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.checked_sub(1).unwrap_or_else(|| gap(sample, fastrand::f64())), Ordering::Relaxed);
        left == 0
    }
}

/// Returns the number of hits between two selected ones, for the random number `luck` of 0 to 1. The gaps are random,
/// so that requests in a regular order are selected evenly.
fn gap(sample: f64, luck: f64) -> u32 {
    // For a share of 1, the divisor is minus infinity, and the gap is 0.
    ((-luck).ln_1p() / (-sample).ln_1p()) as u32
}

/// Counts up to a maximum within each second: the second is in the upper half, the count in the lower half.
#[derive(Debug, Default)]
struct Window(AtomicU64);

impl Window {
    /// Counts one more in the second `now`, unless `most` is reached. Returns whether it was counted.
    fn take(&self, now: u32, most: u32) -> bool {
        let next = |packed: u64| {
            let used = if (packed >> 32) as u32 == now { packed as u32 } else { 0 };
            (used < most).then(|| u64::from(now) << 32 | u64::from(used + 1))
        };
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

with_defaults! {
    /// Limits the checks of all workers, and counts those that were not made.
    #[derive(Debug)]
    pub(crate) struct Limits {
        window: Window = Window::default(),
        told: Window = Window::default(),
        places: Arc<Semaphore> = Arc::new(Semaphore::new(AT_ONCE)),
        skipped: SkipCounters = SkipCounters::default(),
    }
}

impl Limits {
    /// Returns a permit for a check that begins in the second `now`, if the limits allow it.
    pub(crate) fn admit(&self, rate: u32, origins_are_busy: bool, now: u32) -> Option<OwnedSemaphorePermit> {
        if origins_are_busy {
            return skip(&self.skipped.busy);
        }
        if !self.window.take(now, rate) {
            return skip(&self.skipped.rate);
        }
        Arc::clone(&self.places).try_acquire_owned().ok().or_else(|| skip(&self.skipped.busy))
    }

    pub(crate) fn skip_credentials(&self) -> Option<OwnedSemaphorePermit> {
        skip(&self.skipped.credentials)
    }

    pub(crate) fn skip_large(&self) -> Option<OwnedSemaphorePermit> {
        skip(&self.skipped.large)
    }

    /// Counts an additional fetch of a check.
    pub(crate) fn spend(&self, now: u32) {
        self.window.take(now, u32::MAX);
    }

    /// Whether a stale hit may be logged in the second `now`.
    pub(crate) fn may_tell(&self, now: u32) -> bool {
        self.told.take(now, TOLD)
    }

    pub(crate) fn under_way(&self) -> usize {
        AT_ONCE - self.places.available_permits()
    }

    pub(crate) fn skipped(&self) -> SkipCounts {
        self.skipped.report()
    }
}

fn skip(counter: &AtomicU64) -> Option<OwnedSemaphorePermit> {
    counter.fetch_add(1, Ordering::Relaxed);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_hits_is_picked() {
        for (sample, least, most) in [
            (0.0, 0, 0),
            (0.001, 60, 140),
            (0.1, 9_500, 10_500),
            (0.9, 89_500, 90_500),
            (1.0, 100_000, 100_000),
        ] {
            let sampler = Sampler::default();
            let picked = (0..100_000).filter(|_| sampler.picks(sample)).count();
            assert!((least..=most).contains(&picked), "{sample}: {picked}");
        }
        assert_eq!((gap(1e-300, 0.999), gap(1.0, 0.0), gap(0.5, 0.5)), (u32::MAX, 0, 1));
    }

    #[test]
    fn checks_of_hits_are_limited_in_rate_and_in_number_at_once() {
        let limits = Limits::default();
        let admitted = |now| (0..10).filter(|_| limits.admit(4, false, now).is_some()).count();
        assert_eq!((admitted(1), admitted(1), admitted(2)), (4, 0, 4));
        limits.spend(3);
        assert_eq!(admitted(3), 3);
        let all: Vec<_> = std::iter::from_fn(|| limits.admit(u32::MAX, false, 4)).collect();
        assert_eq!((all.len(), limits.under_way()), (AT_ONCE, AT_ONCE));
        drop(all);
        assert!(limits.admit(1, true, 5).is_none() && limits.under_way() == 0);
        assert_eq!(limits.skipped(), SkipCounts { rate: 6 + 10 + 6 + 7, busy: 2, credentials: 0, large: 0 });
    }
}
