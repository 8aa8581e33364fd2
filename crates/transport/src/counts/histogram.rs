//! Distributions of times: counts of durations by size, per worker, merged when they are read.
//!
//! Times are whole microseconds. Those below 32 are exact, longer ones have a resolution of a sixteenth, and those
//! beyond [`LONGEST`] are counted as [`LONGEST`]. Recording is two additions, without reading a clock and without a
//! lock.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use larder_words::with_defaults;
use serde::Serialize;

use super::counters::{add, take};
use crate::base::outcome::Kind;

/// Number of buckets for each doubling of the time, as a power of two.
const FINENESS: u32 = 4;
/// The longest time that is distinguished from longer ones, in microseconds: more than an hour.
const LONGEST: u64 = u32::MAX as u64;
const BUCKETS: usize = bucket(LONGEST) + 1;

with_defaults! {
    /// The times of one kind that one worker has recorded. The worker is their only writer.
    #[derive(Debug)]
    pub struct Histogram {
        counts: [AtomicU64; BUCKETS] = array::from_fn(|_| AtomicU64::new(0)),
        /// The sum of all times, in microseconds.
        sum: AtomicU64 = AtomicU64::new(0),
    }
}

with_defaults! {
    /// Times of one kind, summed over all workers.
    #[derive(Clone, Debug)]
    pub struct Distribution {
        counts: [u64; BUCKETS] = [0; BUCKETS],
        /// The sum of all times, in microseconds.
        pub sum: u64 = 0,
    }
}

/// What is timed.
#[derive(Clone, Copy)]
pub enum LatencyKind {
    /// Requests served without a request to an origin.
    Hit,
    /// Requests served after the origin has revalidated the response.
    Validated,
    /// Requests that were fetched.
    Miss,
    /// Requests that were not cacheable, or failed.
    Other,
    /// The beginnings of responses of origins.
    Origin,
}

/// The times that one worker records, by their [`LatencyKind`].
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Times([Histogram; 5]);

/// The times in `/stats`.
#[derive(Debug, Serialize)]
pub struct Latency {
    /// From reading a request to passing its response to the kernel. Requests of idle connections that are served as a
    /// group count with the group's time.
    hit: Summary,
    /// From reading a request to the last byte of its response.
    validated: Summary,
    /// The same as for `validated`.
    miss: Summary,
    /// The same for requests that were not cacheable or failed; refused requests are not timed.
    other: Summary,
    /// From sending a request to an origin to the head of its response.
    origin: Summary,
}

/// Percentiles in microseconds, each at most a sixteenth too high.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    count: u64,
    p50_us: u64,
    p90_us: u64,
    p99_us: u64,
    p999_us: u64,
}

/// The distributions of the times of all workers.
#[derive(Debug, Default)]
pub struct Distributions([Distribution; 5]);

impl Histogram {
    /// Records `times` durations of `time` each.
    #[inline]
    fn record(&self, time: Duration, times: u64) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(LONGEST).min(LONGEST);
        add(&self.counts[bucket(micros)], times);
        add(&self.sum, micros * times);
    }
}

impl Distribution {
    /// Adds the times of a worker.
    #[inline]
    pub fn add(&mut self, histogram: &Histogram) {
        for (sum, counter) in self.counts.iter_mut().zip(&histogram.counts) {
            *sum += counter.load(Ordering::Relaxed);
        }
        self.sum += histogram.sum.load(Ordering::Relaxed);
    }

    /// Returns the number of times.
    #[inline]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the difference to `earlier`, an earlier state of the same distribution.
    fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        take(&mut since.counts, &earlier.counts);
        since.sum = self.sum.saturating_sub(earlier.sum);
        since
    }

    /// Returns the number of times below `2^power` microseconds.
    #[inline]
    pub fn below(&self, power: u32) -> u64 {
        self.counts[..bucket(1 << power)].iter().sum()
    }

    /// Returns the upper bound of this share of the times, in microseconds; 0 if there are none.
    fn quantile(&self, share: f64) -> u64 {
        let rank = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut passed = 0;
        let found = self.counts.iter().position(|count| {
            passed += count;
            passed >= rank
        });
        found.map_or(0, last)
    }

    fn summary(&self) -> Summary {
        let at = |share| self.quantile(share);
        Summary {
            count: self.count(),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
        }
    }
}

impl Times {
    /// Records a request that took `time`.
    pub fn served(&self, kind: Kind, time: Duration) {
        let timed = match kind {
            Kind::Hit | Kind::StaleHit | Kind::Coalesced => LatencyKind::Hit,
            Kind::Revalidated => LatencyKind::Validated,
            Kind::Miss => LatencyKind::Miss,
            Kind::Pass | Kind::Failed => LatencyKind::Other,
            Kind::Refused => return,
        };
        self.0[timed as usize].record(time, 1);
    }

    /// Records hits that were served as a group in `time`; each counts with the time of the group.
    #[inline]
    pub fn served_as_group(&self, hits: u64, time: Duration) {
        self.0[LatencyKind::Hit as usize].record(time, hits);
    }

    /// Records the time until an origin's response began.
    #[inline]
    pub fn answered(&self, time: Duration) {
        self.0[LatencyKind::Origin as usize].record(time, 1);
    }
}

impl Distributions {
    /// Adds the times of a worker.
    #[inline]
    pub fn add(&mut self, times: &Times) {
        self.0.iter_mut().zip(&times.0).for_each(|(sum, histogram)| sum.add(histogram));
    }

    /// Returns the difference to `earlier`, an earlier state of the same distributions.
    #[inline]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(array::from_fn(|at| self.0[at].since(&earlier.0[at])))
    }

    /// Returns the times of one kind.
    #[inline]
    pub fn of(&self, timed: LatencyKind) -> &Distribution {
        &self.0[timed as usize]
    }

    /// Returns percentiles of each kind.
    #[inline]
    pub fn latency(&self) -> Latency {
        let [hit, validated, miss, other, origin] = self.0.each_ref().map(Distribution::summary);
        Latency { hit, validated, miss, other, origin }
    }
}

/// Returns the bucket of a time.
const fn bucket(micros: u64) -> usize {
    let shift = match micros.checked_ilog2() {
        Some(magnitude) => magnitude.saturating_sub(FINENESS),
        None => 0,
    };
    ((shift << FINENESS) as u64 + (micros >> shift)) as usize
}

/// Returns the longest time of a bucket.
fn last(bucket: usize) -> u64 {
    let shift = (bucket >> FINENESS).saturating_sub(1);
    let first = (bucket - (shift << FINENESS)) as u64;
    ((first + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(times: impl IntoIterator<Item = u64>) -> Distribution {
        let (histogram, mut all) = (Histogram::default(), Distribution::default());
        times.into_iter().for_each(|micros| histogram.record(Duration::from_micros(micros), 1));
        all.add(&histogram);
        all
    }

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        for at in 1..BUCKETS {
            assert_eq!(bucket(last(at - 1) + 1), at);
            assert_eq!(bucket(last(at)), at);
        }
        assert_eq!(last(BUCKETS - 1), LONGEST);
    }

    #[test]
    fn percentiles_are_those_of_what_was_recorded() {
        let summary = of(1..=1_000).summary();
        assert_eq!(summary, Summary { count: 1_000, p50_us: 511, p90_us: 927, p99_us: 991, p999_us: 1_023 });
        let nothing = Summary { count: 0, p50_us: 0, p90_us: 0, p99_us: 0, p999_us: 0 };
        assert_eq!(of([]).summary(), nothing);
    }

    #[test]
    fn a_time_beyond_all_counts_as_the_longest() {
        let (histogram, mut all) = (Histogram::default(), Distribution::default());
        histogram.record(Duration::MAX, 3);
        all.add(&histogram);
        assert_eq!((all.count(), all.quantile(0.5), all.sum), (3, LONGEST, 3 * LONGEST));
    }

    #[test]
    fn each_kind_has_its_place() {
        let times = Times::default();
        for kind in Kind::ALL {
            times.served(kind, Duration::from_micros(5));
        }
        times.served_as_group(4, Duration::from_micros(9));
        times.answered(Duration::from_micros(2));
        let mut all = Distributions::default();
        all.add(&times);
        let counts = all.0.each_ref().map(Distribution::count);
        assert_eq!(counts, [7, 1, 1, 2, 1]);
    }

    proptest! {
        #[test]
        fn quantiles_and_counts_are_near_the_truth(
            mut times in prop::collection::vec(0..10_000_000_u64, 1..200), share in 0.0..=1.0_f64, power in 4..30_u32,
        ) {
            let all = of(times.iter().copied());
            times.sort_unstable();
            let rank = ((times.len() as f64 * share).ceil() as usize).max(1);
            let (exact, told) = (times[rank - 1], all.quantile(share));
            prop_assert!(exact <= told && told <= exact + exact / 16, "{told} for {exact}");
            prop_assert_eq!(all.below(power), times.iter().filter(|time| **time < 1 << power).count() as u64);
            prop_assert_eq!(all.sum, times.iter().sum::<u64>());
        }
    }
}
