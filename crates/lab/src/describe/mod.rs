//! Statistics of a trace: number of requests, sizes, popularity, reuse.
//!
//! Outside this module: the effect of a cache on the trace.

mod page;
mod zipf;

use std::collections::HashMap;

use serde::Serialize;

use crate::stack::{self, FIRST};
use crate::trace::Trace;

pub use page::{page, part};

/// The number of parts of a trace that show its changes over time.
const WINDOWS: usize = 60;

/// The statistics of a trace. The field names are stable, since they are printed as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Description {
    /// Number of requests.
    pub requests: u64,
    /// The number of requested objects.
    pub objects: u64,
    /// The time from the earliest request to the latest, if the trace has times.
    pub seconds: Option<f64>,
    /// The sum of the sizes of all requests, if the trace has sizes.
    pub bytes_requested: Option<u64>,
    /// The sum of the sizes of all objects, if the trace has sizes.
    pub bytes_distinct: Option<u64>,
    /// Objects with one request.
    pub one_hit_objects: u64,
    /// Their share of the objects, for which no cache can have a hit.
    pub one_hit_share: f64,
    /// The share of the requests that are for the most popular object.
    pub most_popular_share: f64,
    /// The exponent of the Zipf distribution with the best fit to the popularity; `None` for a single object.
    pub zipf_exponent: Option<f64>,
    /// Sizes of objects in bytes, at their first requests, if the trace has sizes.
    pub object_size: Option<Percentiles>,
    /// Stack distances of repeated requests, in objects.
    pub reuse_distance: Option<Percentiles>,
    /// The same in bytes, if the trace has sizes.
    pub reuse_distance_bytes: Option<Percentiles>,
    /// Parts of the trace, in order, with the same number of requests each.
    pub working_set: Vec<Window>,
}

/// The distribution of a set of numbers. A percentile is the smallest number that this share of the numbers does not
/// exceed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentiles {
    /// The minimum.
    pub min: u64,
    /// The 10th percentile.
    pub p10: u64,
    /// The 25th percentile.
    pub p25: u64,
    /// The median.
    pub p50: u64,
    /// The 75th percentile.
    pub p75: u64,
    /// The 90th percentile.
    pub p90: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The maximum.
    pub max: u64,
    /// The arithmetic mean.
    pub mean: f64,
}

/// A part of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Window {
    /// The number of its first request, counted from 0.
    pub begin: u64,
    /// The time of that request, in seconds since the earliest one, if the trace has times.
    pub seconds: Option<f64>,
    /// Objects requested in this part.
    pub objects: u64,
    /// Objects requested for the first time in this part.
    pub new_objects: u64,
    /// The bytes of the objects requested in this part, if the trace has sizes.
    pub bytes: Option<u64>,
}

/// Counts that a description is computed from.
struct TraceCounts {
    /// The number of requests, by object.
    requests: Vec<u64>,
    /// The size at the first request, by object.
    sizes: Vec<u64>,
    /// The stack distance, by request.
    distances: Vec<u64>,
}

/// Describes `trace`, which has at least one request.
pub fn describe(trace: &Trace) -> Description {
    let counted = TraceCounts::new(trace);
    let (shape, has_sizes) = (trace.shape(), trace.has_sizes());
    let (requests, objects) = (trace.len() as u64, u64::from(shape.objects));
    let one_hit_objects = counted.requests.iter().filter(|count| **count == 1).count() as u64;
    let most = counted.requests.iter().max().copied().unwrap_or(0);
    let sized = |sum: u64| has_sizes.then_some(sum);
    let in_bytes = has_sizes.then(|| stack::distances(trace, true));
    Description {
        requests,
        objects,
        seconds: trace.times().map(|_| in_seconds(trace.span().end - trace.span().start)),
        bytes_requested: sized((0..trace.len()).map(|at| trace.size(at)).fold(0, u64::saturating_add)),
        bytes_distinct: sized(trace.distinct_bytes()),
        one_hit_objects,
        one_hit_share: one_hit_objects as f64 / objects as f64,
        most_popular_share: most as f64 / requests as f64,
        zipf_exponent: zipf::exponent(&ranked(&counted.requests)),
        object_size: has_sizes.then(|| Percentiles::of(counted.sizes)).flatten(),
        reuse_distance: Percentiles::of(reused(counted.distances)),
        reuse_distance_bytes: in_bytes.and_then(|distances| Percentiles::of(reused(distances))),
        working_set: windows(trace),
    }
}

impl TraceCounts {
    fn new(trace: &Trace) -> Self {
        let mut requests = vec![0; trace.shape().objects as usize];
        let mut sizes = Vec::with_capacity(requests.len());
        for (at, &id) in trace.ids().iter().enumerate() {
            if id as usize == sizes.len() {
                sizes.push(trace.size(at));
            }
            requests[id as usize] += 1;
        }
        Self { requests, sizes, distances: stack::distances(trace, false) }
    }
}

impl Percentiles {
    /// Returns the distribution of `numbers`, if there are any.
    fn of(mut numbers: Vec<u64>) -> Option<Self> {
        numbers.sort_unstable();
        let (&min, &max) = (numbers.first()?, numbers.last()?);
        let at = |share: f64| {
            let rank = (share * numbers.len() as f64).ceil() as usize;
            numbers[rank.clamp(1, numbers.len()) - 1]
        };
        let sum: f64 = numbers.iter().map(|number| *number as f64).sum();
        Some(Self {
            min,
            p10: at(0.1),
            p25: at(0.25),
            p50: at(0.5),
            p75: at(0.75),
            p90: at(0.9),
            p99: at(0.99),
            max,
            mean: sum / numbers.len() as f64,
        })
    }
}

/// Returns the numbers of requests in descending order.
fn ranked(requests: &[u64]) -> Vec<u64> {
    let mut ranked = requests.to_vec();
    ranked.sort_unstable_by(|one, other| other.cmp(one));
    ranked
}

fn reused(mut distances: Vec<u64>) -> Vec<u64> {
    distances.retain(|distance| *distance != FIRST);
    distances
}

fn in_seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

fn windows(trace: &Trace) -> Vec<Window> {
    let length = trace.len().div_ceil(WINDOWS).max(1);
    let start = trace.span().start;
    let mut known = 0;
    let window = |(number, ids): (usize, &[u32])| {
        let begin = number * length;
        let before = known;
        let mut sizes = HashMap::with_capacity(ids.len());
        for (at, &id) in ids.iter().enumerate() {
            known = known.max(id + 1);
            sizes.insert(id, trace.size(begin + at));
        }
        Window {
            begin: begin as u64,
            seconds: trace.times().map(|_| in_seconds(trace.time(begin).saturating_sub(start))),
            objects: sizes.len() as u64,
            new_objects: u64::from(known - before),
            bytes: trace.has_sizes().then(|| sizes.values().copied().fold(0, u64::saturating_add)),
        }
    };
    trace.ids().chunks(length).enumerate().map(window).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Builder, Record};

    #[test]
    fn a_small_trace_is_described_as_one_would_by_hand() {
        let mut builder = Builder::default();
        // Time in seconds, object, size.
        for (time, key, size) in
            [(10, 1, 100), (11, 2, 50), (12, 1, 100), (13, 1, 100), (14, 3, 10), (20, 2, 50)]
        {
            builder.push_number(Record { key, time: time * 1_000_000, size, cost: 0 }).unwrap();
        }
        let found = describe(&builder.finish());
        assert_eq!((found.requests, found.objects, found.seconds), (6, 3, Some(10.0)));
        assert_eq!((found.bytes_requested, found.bytes_distinct), (Some(410), Some(160)));
        assert_eq!((found.one_hit_objects, found.one_hit_share), (1, 1.0 / 3.0));
        assert_eq!(found.most_popular_share, 0.5);
        let sizes = found.object_size.unwrap();
        assert_eq!((sizes.min, sizes.p50, sizes.p75, sizes.max), (10, 50, 100, 100));
        // Object 1 returns after 2 and itself, then after itself; object 2 returns after 1, 3 and itself.
        let reuse = found.reuse_distance.unwrap();
        assert_eq!((reuse.min, reuse.p50, reuse.max, reuse.mean), (1, 2, 3, 2.0));
        let bytes = found.reuse_distance_bytes.unwrap();
        assert_eq!((bytes.min, bytes.p50, bytes.max), (100, 150, 160));
        assert_eq!(found.working_set.len(), 6);
        let last = Window { begin: 5, seconds: Some(10.0), objects: 1, new_objects: 0, bytes: Some(50) };
        assert_eq!(found.working_set[5], last);
        assert_eq!(found.working_set.iter().map(|window| window.new_objects).sum::<u64>(), 3);
    }

    #[test]
    fn the_time_of_an_unordered_trace_is_that_of_all_requests() {
        let mut builder = Builder::default();
        for time in [30, 10, 20] {
            builder.push_number(Record { key: 1, time: time * 1_000_000, size: 5, cost: 0 }).unwrap();
        }
        let found = describe(&builder.finish());
        assert_eq!(found.seconds, Some(20.0));
        let windows: Vec<_> = found.working_set.iter().map(|window| (window.seconds, window.bytes)).collect();
        assert_eq!(windows, [(Some(20.0), Some(5)), (Some(0.0), Some(5)), (Some(10.0), Some(5))]);
    }

    #[test]
    fn a_trace_without_sizes_and_times_yields_none_in_its_description() {
        let mut builder = Builder::default();
        builder.push_name(Record { key: "a", time: 0, size: 1, cost: 0 }).unwrap();
        let found = describe(&builder.finish());
        assert_eq!((found.seconds, found.bytes_requested, found.bytes_distinct), (None, None, None));
        assert!(found.object_size.is_none() && found.reuse_distance.is_none());
        assert_eq!((found.zipf_exponent, found.one_hit_share), (None, 1.0));
    }
}
