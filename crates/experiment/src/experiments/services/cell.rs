//! One path to the services, under one load: the clients' measurements, and the cost.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use larder_evict::{By, Capacity};
use larder_lab::replay::ratio;
use serde::{Deserialize, Serialize};

use super::conditions::Cell;
use super::ways::OpenWay;
use crate::drive::{Exchange, Outcome, Plan, Source, drive};
use crate::experiments::cell::{AnswerTimes, part};
use crate::{Bench, Halt};

/// A capacity that is enough for all requested objects.
pub(super) const ROOMY: Capacity = Capacity { by: By::Bytes, amount: 1 << 30 };
/// The numbers of requests at which the progress of a run is recorded.
const POINTS: [u64; 12] = [50, 100, 200, 300, 500, 1_000, 2_000, 3_000, 5_000, 8_000, 11_000, 15_000];

/// Shares of the GETs, from 0 to 1.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct ReadShares {
    /// Those whose content was in the cache, validated or not, by the report's definition.
    pub(super) hit_ratio: f64,
    /// The same by bytes.
    pub(super) byte_hit_ratio: f64,
    /// Those without work for the services.
    pub(super) unasked: f64,
}

/// The results of the first requests of a run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Point {
    pub(super) requests: u64,
    /// The mean time of all requests so far, in milliseconds.
    pub(super) mean_ms: f64,
    #[serde(flatten)]
    pub(super) gets: ReadShares,
}

/// The results of a measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CellResult {
    #[serde(flatten)]
    pub(super) cell: Cell,
    /// The capacity of one cache, in bytes.
    pub(super) capacity: u64,
    pub(super) seconds: f64,
    /// The times of all requests.
    pub(super) all: AnswerTimes,
    /// The times of GETs.
    pub(super) reads: AnswerTimes,
    /// The times of all other requests.
    pub(super) writes: AnswerTimes,
    /// The number of GETs.
    pub(super) read_count: u64,
    #[serde(flatten)]
    pub(super) gets: ReadShares,
    /// The simulated hit ratio, if it was simulated.
    pub(super) simulated: Option<f64>,
    /// The number of stale answers.
    pub(super) stale: u64,
    /// The processor time of caches and gateway for a request, in microseconds.
    pub(super) proxies_us: f64,
    /// The same for the services.
    pub(super) services_us: f64,
    /// The bytes per request on the link to the services, if there is a link.
    pub(super) line_bytes: Option<f64>,
    pub(super) course: Vec<Point>,
}

/// The contents of a cache with room for all objects.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Room {
    /// The bytes stored, including heads and bookkeeping.
    pub(super) bytes: u64,
    pub(super) objects: u64,
    /// The share of GETs whose content was in the cache.
    pub(super) hit_ratio: f64,
    /// The program's memory with these contents, in bytes.
    pub(super) resident: u64,
}

/// Measures a cell whose cache may keep `percent` of `full` bytes. Fails if a process does not start or answer, or the
/// user ends the experiment.
pub(super) fn take(bench: &Bench, cell: &Cell, full: u64) -> Result<CellResult, Halt> {
    let capacity = if cell.percent == 0 { ROOMY } else { part(By::Bytes, full, cell.percent) };
    let mut open = OpenWay::start(bench, cell, capacity)?;
    let before = open.processors();
    let outcome = send(bench, cell, &mut open)?;
    let after = open.processors();
    let requests = outcome.exchanges.len().max(1) as f64;
    let each = |which: usize| after[which].saturating_sub(before[which]).as_secs_f64() * 1e6 / requests;
    let total = Sums::of(&outcome.exchanges);
    let of = |is_it: fn(&Exchange) -> bool| took(outcome.exchanges.iter().filter(|one| is_it(one)));
    Ok(CellResult {
        cell: cell.clone(),
        capacity: capacity.amount,
        seconds: outcome.elapsed.as_secs_f64(),
        all: of(|_| true),
        reads: of(|one| one.read.is_some()),
        writes: of(|one| one.read.is_none()),
        read_count: total.reads,
        gets: total.shares(),
        simulated: None,
        stale: outcome.stale,
        proxies_us: each(0),
        services_us: each(1),
        line_bytes: open.passed().map(|bytes| bytes as f64 / requests),
        course: course(&outcome.exchanges),
    })
}

/// Requests everything through a cache with room for all objects, and returns its contents.
pub(super) fn room(bench: &Bench, cell: &Cell) -> Result<Room, Halt> {
    let mut open = OpenWay::start(bench, cell, ROOMY)?;
    let outcome = send(bench, cell, &mut open)?;
    let cache = open.cache().ok_or_else(|| Halt::Failed("a way without a cache keeps nothing".to_owned()))?;
    cache.settle()?;
    Ok(Room {
        bytes: cache.figure("bytes_stored")?,
        objects: cache.figure("objects")?,
        hit_ratio: Sums::of(&outcome.exchanges).shares().hit_ratio,
        resident: cache.resident(),
    })
}

fn send(bench: &Bench, cell: &Cell, open: &mut OpenWay) -> Result<Outcome, Halt> {
    let plan = Plan {
        to: open.to().clone(),
        clients: cell.clients,
        workload: cell.workload(),
        seed: bench.scale.of(cell.repetition),
        limit: None,
        stop: bench.stop.clone(),
    };
    let outcome = drive(&plan).map_err(|error| open.explain(error))?;
    match outcome.failed {
        0 => Ok(outcome),
        failed => {
            let Outcome { statuses, .. } = outcome;
            Err(open.explain(Halt::Failed(failure(failed, cell.requests, &statuses))))
        }
    }
}

fn failure(failed: u64, requests: u64, statuses: &BTreeMap<u16, u64>) -> String {
    let told: Vec<_> = statuses.iter().map(|(status, count)| format!("{count} of {status}")).collect();
    let told = if told.is_empty() { "none".to_owned() } else { told.join(", ") };
    format!("{failed} of {requests} requests to the services failed; answers: {told}")
}

fn took<'a>(exchanges: impl Iterator<Item = &'a Exchange>) -> AnswerTimes {
    let Ok(mut times) = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3) else {
        return AnswerTimes::default();
    };
    let (mut sum, mut count) = (Duration::ZERO, 0_u32);
    for exchange in exchanges {
        times.saturating_record(u64::try_from(exchange.took.as_nanos()).unwrap_or(u64::MAX));
        sum += exchange.took;
        count += 1;
    }
    let at = |share: f64| times.value_at_quantile(share) as f64 / 1e6;
    AnswerTimes { mean: ratio(sum.as_secs_f64() * 1e3, f64::from(count)), p50: at(0.5), p99: at(0.99) }
}

/// The sums over the GETs of a run, and the time of all requests.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    requests: u64,
    time: Duration,
    reads: u64,
    hits: u64,
    unasked: u64,
    bytes: u64,
    hit_bytes: u64,
}

impl Sums {
    fn of(exchanges: &[Exchange]) -> Self {
        let mut sums = Self::default();
        exchanges.iter().for_each(|exchange| sums.add(exchange));
        sums
    }

    fn add(&mut self, exchange: &Exchange) {
        self.requests += 1;
        self.time += exchange.took;
        let Some(source) = exchange.read else { return };
        let (is_hit, bytes) = (source != Source::Backend, u64::from(exchange.bytes));
        self.reads += 1;
        self.bytes += bytes;
        self.hits += u64::from(is_hit);
        self.hit_bytes += if is_hit { bytes } else { 0 };
        self.unasked += u64::from(source == Source::Cache);
    }

    fn shares(&self) -> ReadShares {
        let part = |part: u64, whole: u64| ratio(part as f64, whole as f64);
        ReadShares {
            hit_ratio: part(self.hits, self.reads),
            byte_hit_ratio: part(self.hit_bytes, self.bytes),
            unasked: part(self.unasked, self.reads),
        }
    }
}

fn course(exchanges: &[Exchange]) -> Vec<Point> {
    let (mut sums, mut points) = (Sums::default(), Vec::new());
    for exchange in exchanges {
        sums.add(exchange);
        if POINTS.contains(&sums.requests) {
            points.push(Point {
                requests: sums.requests,
                mean_ms: sums.time.as_secs_f64() * 1e3 / sums.requests as f64,
                gets: sums.shares(),
            });
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(read: Option<Source>, bytes: u32, ms: u64) -> Exchange {
        Exchange { read, bytes, took: Duration::from_millis(ms) }
    }

    #[test]
    fn writes_take_time_and_are_neither_hit_nor_miss() {
        let all = [
            exchange(Some(Source::Backend), 300, 4),
            exchange(Some(Source::Confirmed), 100, 4),
            exchange(Some(Source::Cache), 100, 1),
            exchange(None, 1_000, 3),
        ];
        let sums = Sums::of(&all);
        assert_eq!((sums.requests, sums.reads, sums.time), (4, 3, Duration::from_millis(12)));
        let shares = sums.shares();
        assert_eq!((shares.hit_ratio, shares.byte_hit_ratio, shares.unasked), (2.0 / 3.0, 0.4, 1.0 / 3.0));
        let reads = took(all.iter().filter(|one| one.read.is_some()));
        assert!((reads.mean - 3.0).abs() < 1e-9 && (reads.p50 - 4.0).abs() < 0.01, "{reads:?}");
        assert_eq!(took([].iter()).mean, 0.0);
    }

    #[test]
    fn the_course_of_a_run_counts_from_its_start() {
        let all: Vec<_> = (0..120).map(|at| exchange(Some(Source::Cache), 1, 1 + at / 50)).collect();
        let points = course(&all);
        assert_eq!(points.iter().map(|point| point.requests).collect::<Vec<_>>(), [50, 100]);
        assert!((points[0].mean_ms - 1.0).abs() < 1e-9 && (points[1].mean_ms - 1.5).abs() < 1e-9);
    }

    #[test]
    fn failures_are_reported_with_the_answers() {
        let told = failure(2, 10, &BTreeMap::from([(200, 8), (502, 2)]));
        assert_eq!(told, "2 of 10 requests to the services failed; answers: 8 of 200, 2 of 502");
    }
}
