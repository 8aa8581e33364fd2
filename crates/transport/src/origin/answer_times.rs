//! The times that answers of origins take: their mean, and the time that one in twenty exceeds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::base::clock;

/// The weight of a new time in the mean is one of this number.
const MEMORY: u64 = 8;
/// Milliseconds after which a mean counts half: an origin that was slow gets requests again.
const HALF: u64 = 10_000;
/// The step of an estimate is one of this number.
const STEP: u64 = 32;
/// Times until an estimate is used.
const ENOUGH: u64 = 100;

/// The mean of the times of one origin. Concurrent updates may get lost, which makes no difference to a mean.
#[derive(Debug, Default)]
pub(super) struct MeanTime {
    micros: AtomicU64,
    /// The time of the last update (`clock::millis`).
    updated: AtomicU64,
}

/// An estimate of the 95th percentile.
#[derive(Debug, Default)]
pub(super) struct LateTime {
    micros: AtomicU64,
    count: AtomicU64,
}

impl MeanTime {
    pub(super) fn add(&self, took: Duration) {
        let (new, mean) = (micros(took), self.micros());
        let next = if mean == 0 { new } else { (mean * (MEMORY - 1) + new) / MEMORY };
        self.micros.store(next.max(1), Ordering::Relaxed);
        self.updated.store(clock::millis(), Ordering::Relaxed);
    }

    /// Returns the mean in microseconds, which falls with time; 0 without a time.
    pub(super) fn micros(&self) -> u64 {
        let age = clock::millis().saturating_sub(self.updated.load(Ordering::Relaxed));
        self.micros.load(Ordering::Relaxed).checked_shr((age / HALF).min(63) as u32).unwrap_or(0)
    }
}

impl LateTime {
    /// Adds a time: the estimate rises by 19 parts of a step for a longer time, and falls by one for a shorter one, so
    /// that one time in twenty is longer.
    pub(super) fn add(&self, took: Duration) {
        let (new, known) = (micros(took), self.micros.load(Ordering::Relaxed));
        let step = (known / STEP / 20).max(1);
        let next = match self.count.fetch_add(1, Ordering::Relaxed) {
            0 => new,
            _ if new > known => known + 19 * step,
            _ => known.saturating_sub(step),
        };
        self.micros.store(next, Ordering::Relaxed);
    }

    /// Returns the estimate; `None` after too few times.
    pub(super) fn get(&self) -> Option<Duration> {
        let is_known = self.count.load(Ordering::Relaxed) >= ENOUGH;
        is_known.then(|| Duration::from_micros(self.micros.load(Ordering::Relaxed)))
    }
}

fn micros(time: Duration) -> u64 {
    // Above an hour, the difference has no meaning, and sums do not overflow.
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX).min(3_600_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_late_time_is_near_the_95th_percentile() {
        let (late, mut random) = (LateTime::default(), fastrand::Rng::with_seed(1));
        assert_eq!(late.get(), None);
        // Of times from 1 to 100 ms that are equally likely, one in twenty exceeds 95 ms.
        (0..20_000).for_each(|_| late.add(Duration::from_micros(random.u64(1_000..100_000))));
        let found = late.get().unwrap().as_micros();
        assert!((90_000..100_000).contains(&found), "{found}");
    }

    #[test]
    fn the_mean_follows_new_times() {
        let mean = MeanTime::default();
        assert_eq!(mean.micros(), 0);
        mean.add(Duration::from_micros(800));
        assert_eq!(mean.micros(), 800);
        mean.add(Duration::from_micros(1_600));
        assert_eq!(mean.micros(), 900);
    }
}
