//! Refreshes of popular responses before they expire, so that no client waits for the origin: limits on their number
//! and rate, and counts of those that were of use.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use larder_semantics::freshness::Freshness;
use larder_store::Store;
use larder_words::with_defaults;
use serde::Serialize;
use tokio::sync::Semaphore;

use crate::base::clock;

/// The most refreshes in progress.
const AT_ONCE: usize = 32;
/// The divisor of the limit on requests to origins in progress: refreshes may take an eighth of it.
const SHARE: usize = 8;
/// The most responses observed after their refresh. Beyond that, refreshes are not measured.
const OBSERVED: usize = 1_024;
/// Slots for the last tries. If two keys share a slot, it holds the later one.
const TRIED: usize = 1_024;

with_defaults! {
    /// The state and the counters of refreshes before expiry.
    pub struct RefreshesAhead {
        running: Arc<AtomicUsize> = Arc::default(),
        observed: Semaphore = Semaphore::new(OBSERVED),
        /// By slot: the upper half of a key's hash, and the second of the last try.
        tried: Box<[AtomicU64]> = (0..TRIED).map(|_| AtomicU64::default()).collect(),
        started: AtomicU64 = <_>::default(),
        skipped: AtomicU64 = <_>::default(),
        measured: AtomicU64 = <_>::default(),
        used: AtomicU64 = <_>::default(),
    }
}

/// A refresh or a prefetch in progress. Dropping it releases its place.
pub(crate) struct Refresh(Arc<AtomicUsize>);

/// The counts of refreshes so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RefreshCounts {
    /// Refreshes that were started.
    pub started: u64,
    /// Popular responses that were due but not refreshed, because the budget was used up.
    pub skipped: u64,
    /// Refreshes whose response was observed until it expired again or was removed.
    pub measured: u64,
    /// Measured refreshes whose response was requested after the time at which it would have expired without them.
    pub used: u64,
}

impl RefreshesAhead {
    /// Whether a refresh of the key with this hash may be tried at `now` (UNIX seconds).
    pub(crate) fn is_open(&self, hash: u64, now: u32) -> bool {
        let (place, stamp) = self.place(hash, now);
        place.load(Ordering::Relaxed) != stamp
    }

    /// Begins the refresh of a popular response. Each key is tried once in a second. The refreshes in progress are
    /// limited by [`AT_ONCE`] and by the [`SHARE`] of the `permits` for requests to origins. `None` beyond these
    /// limits, and while requests `wait` for a permit.
    pub(crate) fn begin(&self, hash: u64, now: u32, permits: usize, wait: bool) -> Option<Refresh> {
        let (place, stamp) = self.place(hash, now);
        if place.swap(stamp, Ordering::Relaxed) == stamp {
            return None;
        }
        let most = if wait { 0 } else { AT_ONCE.min(permits / SHARE).max(1) };
        let one_more = |running: usize| (running < most).then_some(running + 1);
        if self.running.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            self.skipped.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.started.fetch_add(1, Ordering::Relaxed);
        Some(Refresh(Arc::clone(&self.running)))
    }

    /// Returns the number of refreshes and prefetches in progress.
    pub fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    /// Begins a prefetch if fewer than half of [`AT_ONCE`] refreshes and prefetches are in progress.
    pub(crate) fn begin_prefetch(&self) -> Option<Refresh> {
        let one_more = |running: usize| (running < AT_ONCE / 2).then_some(running + 1);
        let begun = self.running.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        begun.is_ok().then(|| Refresh(Arc::clone(&self.running)))
    }

    /// Observes whether the response refreshed under `key` is requested after its `old` freshness would have expired.
    pub(crate) async fn observe(&self, store: &Store, key: &[u8], old: &Freshness) {
        let Ok(_place) = self.observed.try_acquire() else { return };
        let now = clock::now();
        let expiry = |freshness: &Freshness| i64::from(now) + freshness.ttl(now);
        let resident = store.memory.used(key).map(|(resident, _)| resident);
        let variants = resident.iter().flat_map(|resident| resident.variants());
        let Some(next) = variants.map(|entry| entry.freshness().ttl(now)).max() else { return };
        tokio::time::sleep(Duration::from_secs(next.max(0).unsigned_abs())).await;
        self.measured.fetch_add(1, Ordering::Relaxed);
        let last = store.memory.used(key).map(|(_, used)| i64::from(used.last));
        if last.is_some_and(|last| last >= expiry(old)) {
            self.used.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the counts so far.
    pub fn figures(&self) -> RefreshCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Acquire);
        // Read in this order, no count exceeds the count that includes it.
        let (used, measured, started) = (of(&self.used), of(&self.measured), of(&self.started));
        RefreshCounts { started, skipped: of(&self.skipped), measured, used }
    }

    fn place(&self, hash: u64, now: u32) -> (&AtomicU64, u64) {
        let stamp = (hash >> 32 << 32) | u64::from(now);
        (&self.tried[hash as usize % TRIED], stamp)
    }
}

impl Drop for Refresh {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_is_tried_once_in_a_second() {
        let ahead = RefreshesAhead::default();
        let first = ahead.begin(7, 100, 1_000, false);
        assert!(first.is_some() && !ahead.is_open(7, 100) && ahead.begin(7, 100, 1_000, false).is_none());
        assert!(ahead.is_open(7, 101) && ahead.is_open(8, 100));
        assert!(ahead.begin(7, 101, 1_000, true).is_none() && !ahead.is_open(7, 101), "others wait");
        let RefreshCounts { started, skipped, .. } = ahead.figures();
        assert_eq!((started, skipped), (1, 1));
    }

    proptest! {
        #[test]
        fn no_more_are_in_progress_than_the_budget(
            steps in prop::collection::vec((any::<u64>(), 100..104_u32, any::<bool>()), 1..300),
            permits in prop_oneof![1..64_usize, 64..4_096_usize],
        ) {
            let (ahead, mut running) = (RefreshesAhead::default(), Vec::new());
            let most = (permits / 8).clamp(1, 32);
            for (hash, now, ends) in steps {
                if ends {
                    running.pop();
                }
                running.extend(ahead.begin(hash, now, permits, false));
                prop_assert!(running.len() <= most, "{} of {most}", running.len());
                prop_assert_eq!(ahead.running.load(Ordering::Relaxed), running.len());
            }
            drop(running);
            prop_assert!(ahead.begin(1, 200, permits, false).is_some(), "what has ended makes room");
        }
    }
}
