//! Counts of each door since its start, or since a client reset them.

use std::time::Duration;

use hdrhistogram::Histogram;
use larder_rpc::Statistics;
use larder_words::with_defaults;
use parking_lot::Mutex;
use serde::Serialize;

use super::Visitor;
use crate::base::outcome::Outcome;
use crate::base::settings::Door;
use crate::counts::counters::{Counters, Counts as Sum, Ratios, Totals};

/// The longest time that is distinguished from longer ones, in microseconds: an hour.
const LONGEST: u64 = 3_600_000_000;

/// The counts of all doors.
#[derive(Debug, Default)]
pub struct Figures([Tally; Door::ALL.len()]);

/// The counts of one door.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Counts>);

with_defaults! {
    #[derive(Debug)]
    struct Counts {
        counters: Counters = Counters::default(),
        /// Service times in microseconds. Two digits are sufficient for percentiles; a third digit would need ten times the
        /// memory.
        times: Histogram<u64> = Histogram::new_with_bounds(1, LONGEST, 2).expect("constant bounds are sound"),
    }
}

/// The counts of a door at one moment. Times are in microseconds, ratios from 0 to 1.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RpcReport {
    requests: u64,
    hits: u64,
    validated: u64,
    misses: u64,
    #[serde(flatten)]
    ratios: Ratios,
    bytes_served: u64,
    average_micros: f64,
    p50_micros: u64,
    p90_micros: u64,
    p99_micros: u64,
}

impl Figures {
    pub fn of(&self, door: Door) -> &Tally {
        &self.0[door as usize]
    }
}

impl Tally {
    /// Counts a call that took `time`, with `bytes` bytes sent.
    pub(crate) fn record(&self, outcome: &Outcome, bytes: u64, time: Duration) {
        let counts = &mut *self.0.lock();
        counts.counters.record(outcome, bytes);
        counts.times.saturating_record(u64::try_from(time.as_micros()).unwrap_or(LONGEST).max(1));
    }

    /// Resets the counters.
    pub(crate) fn reset(&self) {
        let fresh = Counts::default();
        *self.0.lock() = fresh;
    }

    pub fn report(&self) -> RpcReport {
        let counts = self.0.lock();
        let mut sum = Sum::default();
        sum.add(&counts.counters);
        let totals = sum.totals();
        let Totals { requests, hits, validated, misses, bytes_served, .. } = totals;
        RpcReport {
            requests,
            hits,
            validated,
            misses,
            ratios: totals.ratios(),
            bytes_served,
            average_micros: counts.times.mean(),
            p50_micros: counts.times.value_at_quantile(0.5),
            p90_micros: counts.times.value_at_quantile(0.9),
            p99_micros: counts.times.value_at_quantile(0.99),
        }
    }
}

/// Returns the statistics for a client: the counts of its door, and those of the cache.
pub(super) fn statistics(visitor: &Visitor) -> Statistics {
    let report = visitor.doors.figures.of(visitor.door).report();
    let shared = &visitor.worker.shared;
    let (usage, capacity) = (shared.cache.store.memory.usage(), shared.cache.store.memory.capacity());
    Statistics {
        requests: report.requests,
        hits: report.hits,
        misses: report.misses,
        hit_ratio: report.ratios.hit_ratio,
        byte_hit_ratio: report.ratios.byte_hit_ratio,
        average_micros: report.average_micros,
        p50_micros: report.p50_micros as f64,
        p90_micros: report.p90_micros as f64,
        p99_micros: report.p99_micros as f64,
        bytes_stored: usage.content,
        entries: usage.objects,
        capacity: capacity.amount,
        capacity_unit: capacity.by.name().to_owned(),
        policy: shared.plan().settings.memory.policy.to_string(),
        validated: report.validated,
        validated_hit_ratio: report.ratios.validated_hit_ratio,
    }
}

#[cfg(test)]
mod tests {
    use larder_semantics::status::Why;

    use super::*;
    use crate::base::outcome::Kind;

    fn outcome(kind: Kind) -> Outcome {
        Outcome::forwarded(kind, Why::Absent)
    }

    #[test]
    fn calls_are_counted_until_the_next_reset() {
        let tally = Tally::default();
        for micros in 1..=100 {
            let kind = if micros <= 25 { Kind::Hit } else { Kind::Miss };
            tally.record(&outcome(kind), 10, Duration::from_micros(micros));
        }
        tally.record(&outcome(Kind::Refused), 1, Duration::ZERO);
        let report = tally.report();
        assert_eq!((report.requests, report.hits, report.misses, report.bytes_served), (101, 25, 75, 1001));
        assert_eq!((report.ratios.hit_ratio, report.ratios.byte_hit_ratio), (0.25, 0.25));
        assert_eq!((report.p50_micros, report.p90_micros, report.p99_micros), (50, 90, 99));
        tally.reset();
        let report = tally.report();
        assert_eq!((report.requests, report.average_micros, report.p99_micros), (0, 0.0, 0));
    }

    #[test]
    fn a_call_longer_than_all_measured_lengths_counts() {
        let tally = Tally::default();
        tally.record(&outcome(Kind::Miss), 0, Duration::from_secs(86_400));
        assert!(tally.report().p50_micros >= LONGEST / 100 * 99);
    }
}
