//! Refreshes of popular responses before they expire, so that no client waits for the origin: how many at once, how often, and
//! how many of them were of use.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use larder_semantics::freshness::Freshness;
use larder_store::Store;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::base::clock;

/// Refreshes at once.
const AT_ONCE: usize = 32;
/// Responses that are observed after their refresh; beyond, refreshes are not measured.
const OBSERVED: usize = 1_024;
/// Places for the last tries; of two keys at one place, the later one counts.
const TRIED: usize = 1_024;
/// Hits without which a response is not popular.
pub(crate) const POPULAR: u32 = 2;

/// The refreshes.
pub(crate) struct RefreshesAhead {
    running: Arc<Semaphore>,
    observed: Arc<Semaphore>,
    /// The upper half of a key's hash, and the second of the last try.
    tried: Box<[AtomicU64]>,
    started: AtomicU64,
    measured: AtomicU64,
    used: AtomicU64,
}

/// What refreshes have done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Refreshed {
    /// Refreshes before expiry.
    pub(crate) started: u64,
    /// Those whose response was observed until it expired again, or was gone.
    pub(crate) measured: u64,
    /// Those of the measured ones whose response was asked for when it would have expired without them.
    pub(crate) used: u64,
}

impl Default for RefreshesAhead {
    fn default() -> Self {
        let (started, measured, used) = <_>::default();
        Self {
            running: Arc::new(Semaphore::new(AT_ONCE)),
            observed: Arc::new(Semaphore::new(OBSERVED)),
            tried: (0..TRIED).map(|_| AtomicU64::default()).collect(),
            started,
            measured,
            used,
        }
    }
}

impl RefreshesAhead {
    /// Whether a response with this hash of its key may be refreshed at `now` (UNIX seconds).
    pub(crate) fn is_open(&self, hash: u64, now: u32) -> bool {
        let (place, stamp) = self.place(hash, now);
        place.load(Ordering::Relaxed) != stamp && self.running.available_permits() > 0
    }

    /// A permit to refresh it: one in a second, and not more than [`AT_ONCE`] of all.
    pub(crate) fn begin(&self, hash: u64, now: u32) -> Option<OwnedSemaphorePermit> {
        let (place, stamp) = self.place(hash, now);
        if place.swap(stamp, Ordering::Relaxed) == stamp {
            return None;
        }
        let permit = Arc::clone(&self.running).try_acquire_owned().ok()?;
        self.started.fetch_add(1, Ordering::Relaxed);
        Some(permit)
    }

    /// A permit for a prefetch, which takes at most half of those that refreshes have.
    pub(crate) fn begin_prefetch(&self) -> Option<OwnedSemaphorePermit> {
        let leaves_half = self.running.available_permits() > AT_ONCE / 2;
        leaves_half.then(|| Arc::clone(&self.running).try_acquire_owned().ok()).flatten()
    }

    /// Observes whether what was refreshed under `key`, and would have expired with `old`, is asked for after that.
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

    /// What they have done.
    pub(crate) fn figures(&self) -> Refreshed {
        let of = |count: &AtomicU64| count.load(Ordering::Acquire);
        // In this order, none is larger than the one that it is a part of.
        let (used, measured, started) = (of(&self.used), of(&self.measured), of(&self.started));
        Refreshed { started, measured, used }
    }

    fn place(&self, hash: u64, now: u32) -> (&AtomicU64, u64) {
        let stamp = (hash >> 32 << 32) | u64::from(now);
        (&self.tried[hash as usize % TRIED], stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_tried_once_in_a_second_and_all_have_a_limit() {
        let ahead = RefreshesAhead::default();
        let first = ahead.begin(7, 100);
        assert!(first.is_some() && !ahead.is_open(7, 100) && ahead.begin(7, 100).is_none());
        assert!(ahead.is_open(7, 101) && ahead.is_open(8, 100));
        let others: Vec<_> = (1..AT_ONCE as u64).map(|number| ahead.begin(number << 40, 100)).collect();
        assert!(
            others.iter().all(Option::is_some) && !ahead.is_open(9, 100) && ahead.begin(9, 100).is_none()
        );
        drop(first);
        assert!(ahead.is_open(10, 100) && ahead.begin(10, 100).is_some());
        assert_eq!(ahead.figures().started, AT_ONCE as u64 + 1);
    }
}
