//! Sweeps: their results equal those of a cache, for whole and sampled traces, and they find anomalies.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use larder_evict::{By, Capacity, Object, POLICIES, Spec, spread};
use larder_lab::anomaly::anomalies;
use larder_lab::curve::Curve;
use larder_lab::subject::{Size, Subject};
use larder_lab::sweep::{Cell, Plan};
use larder_lab::trace::{Builder, Options, Record, Trace, read};

fn plan(policies: &[&str], threads: usize) -> Plan {
    Plan {
        specs: policies.iter().map(|text| Spec::parse(text).expect("a listed policy")).collect(),
        warmup: 0.0,
        seed: 7,
        threads: NonZeroUsize::new(threads).expect("some threads"),
    }
}

fn entries(amounts: &[u64]) -> Vec<Capacity> {
    amounts.iter().map(|&amount| Capacity { by: By::Entries, amount }).collect()
}

fn bytes(amounts: &[u64]) -> Vec<Capacity> {
    amounts.iter().map(|&amount| Capacity { by: By::Bytes, amount }).collect()
}

fn trace(requests: impl IntoIterator<Item = (u64, u64)>) -> Trace {
    let mut builder = Builder::default();
    for (key, size) in requests {
        builder.push_number(Record { key, time: 0, size, cost: 0 }).expect("few requests");
    }
    builder.finish()
}

/// Some objects are requested far more often than others; an object always has the same size.
fn skewed(requests: usize, objects: u64, sized: bool) -> Trace {
    let mut random = fastrand::Rng::with_seed(3);
    let mut object = || random.u64(0..objects) * random.u64(0..objects) / objects;
    trace((0..requests).map(|_| {
        let key = object();
        (key, if sized { 1 + spread(key as u32) % 1_000 } else { 1 })
    }))
}

fn shipped(name: &str, sample: f64) -> Subject {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
    let path = path.join(format!("{name}.oracleGeneral.zst"));
    let (trace, reading) = read(&path, &Options { sample, ..Options::default() }).expect("it ships");
    Subject { name: name.into(), trace, sample, requests: reading.requests }
}

fn online() -> Vec<&'static str> {
    POLICIES.iter().filter(|policy| !policy.is_offline).map(|policy| policy.name).collect()
}

/// Returns hits, bytes of hits and evictions of the live cache.
fn served(spec: &Spec, capacity: Capacity, trace: &Trace) -> (u64, u64, u64) {
    let mut shard = spec.build(capacity, 7);
    let (mut hits, mut found) = (0, 0);
    for (at, &id) in trace.ids().iter().enumerate() {
        let object = Object { key: spread(id), size: trace.size(at), cost: 0 };
        match shard.get(object.key) {
            Some(()) => (hits, found) = (hits + 1, found + object.size),
            None => drop(shard.insert(object, (), &mut Vec::new())),
        }
    }
    (hits, found, shard.evictions())
}

#[test]
fn a_sweep_counts_the_hits_and_evictions_that_a_shard_serves() {
    for (sized, capacities) in [(false, entries(&[1, 50, 300])), (true, bytes(&[900, 20_000, 150_000]))] {
        let subject = Subject::whole("skewed", skewed(20_000, 1_000, sized));
        let asked: u64 = (0..subject.trace.len()).map(|at| subject.trace.size(at)).sum();
        for cell in plan(&online(), 2).run(&subject, &capacities, &|_| true) {
            let (hits, found, evictions) = served(&cell.spec, cell.capacity, &subject.trace);
            let byte_hit_ratio = found as f64 / asked as f64;
            assert_eq!(
                (cell.requests, cell.hits, cell.byte_hit_ratio, cell.evictions),
                (20_000, hits, byte_hit_ratio, evictions),
                "{} in {:?}",
                cell.spec,
                cell.capacity
            );
        }
    }
}

#[test]
fn equal_sizes_count_as_whole_objects() {
    let requests = || skewed(5_000, 200, false).ids().to_vec();
    let by_one = Subject::whole("one", trace(requests().iter().map(|&id| (id.into(), 1))));
    let by_page = Subject::whole("page", trace(requests().iter().map(|&id| (id.into(), 4_096))));
    let plan = plan(&["lru"], 1);
    let ones = plan.run(&by_one, &entries(&[50]), &|_| true);
    let pages = plan.run(&by_page, &bytes(&[50 * 4_096 + 4_095]), &|_| true);
    assert_eq!((ones[0].hits, ones[0].evictions), (pages[0].hits, pages[0].evictions));
    assert_eq!(pages[0].byte_hit_ratio, pages[0].hit_ratio);
}

#[test]
fn cells_come_in_order_whatever_the_threads() {
    let subject = Subject::whole("skewed", skewed(20_000, 1_000, true));
    let capacities = bytes(&[1_000, 100_000, 10_000]);
    let summary = |threads| {
        let cells = plan(&online(), threads).run(&subject, &capacities, &|_| true);
        cells.iter().map(|cell| (cell.capacity, cell.spec.to_string(), cell.hits)).collect::<Vec<_>>()
    };
    let alone = summary(1);
    assert_eq!(alone, summary(3));
    assert!(alone.iter().map(|cell| cell.0).eq(capacities.iter().flat_map(|&c| vec![c; online().len()])));
}

#[test]
fn a_warm_up_is_not_counted() {
    let subject = Subject::whole("loop", trace((0..100).map(|at| (at % 10, 1))));
    let run = |warmup| Plan { warmup, ..plan(&["lru"], 1) }.run(&subject, &entries(&[10]), &|_| true);
    let [cold, warm] = [0.0, 0.1].map(|warmup| run(warmup).remove(0));
    assert_eq!((cold.requests, cold.hits), (100, 90));
    assert_eq!((warm.requests, warm.hits, warm.hit_ratio), (90, 90, 1.0));
}

#[test]
fn a_stopped_sweep_returns_the_cells_that_are_done() {
    let subject = Subject::whole("skewed", skewed(1_000, 100, false));
    let calls = AtomicUsize::new(0);
    let twice = |_| calls.fetch_add(1, Ordering::Relaxed) < 2;
    let cells = plan(&["lru"], 1).run(&subject, &entries(&[10, 20, 30, 40]), &twice);
    assert_eq!(cells.iter().map(|cell| cell.capacity.amount).collect::<Vec<_>>(), [10, 20]);
}

#[test]
fn capacities_that_tell_nothing_are_refused() {
    let sized = Subject::whole("web", trace([(1, 10), (2, 20), (1, 10), (3, 70)]));
    let table = [
        (Size::Share(0.5), By::Bytes, Ok(50)),
        (Size::Units(100), By::Bytes, Ok(100)),
        (Size::Bytes(64), By::Bytes, Ok(64)),
        (Size::Share(1.0), By::Entries, Ok(3)),
        (Size::Units(0), By::Bytes, Err("web: a capacity of 0 keeps nothing")),
        (Size::Share(0.001), By::Bytes, Err("web: 0.1% of its 100 bytes is a capacity of 0")),
        (Size::Units(101), By::Bytes, Ok(100)),
        (Size::Units(4), By::Entries, Ok(3)),
        (
            Size::Bytes(64),
            By::Entries,
            Err(
                "web: a capacity of 64 bytes, but entries are counted; write it without a unit, or use --by bytes",
            ),
        ),
    ];
    for (size, by, expected) in table {
        let capacity = sized.capacity(size, by);
        let amount = capacity.as_ref().map(|capacity| capacity.amount).map_err(ToString::to_string);
        assert_eq!(amount, expected.map_err(str::to_owned), "{size:?}");
    }
}

#[test]
fn beladys_anomaly_is_found_in_the_first_published_example() {
    let subject = Subject::whole("belady", trace([1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5].map(|key| (key, 1))));
    let cells = plan(&["fifo", "lru"], 1).run(&subject, &entries(&[1, 2, 3, 4, 5]), &|_| true);
    let found: Vec<_> = anomalies(&cells).iter().map(ToString::to_string).collect();
    let expected = "belady: fifo misses more with more room (Belady's anomaly): 9 with 3 entries, 10 with 4";
    assert_eq!(found, [expected]);
}

#[test]
fn lru_in_one_pass_is_lru_at_every_size() {
    let subject = Subject::whole("skewed", skewed(20_000, 90, false));
    for warmup in [0.0, 0.3] {
        let curve = Curve::lru(&subject, By::Entries, warmup);
        let amounts: Vec<_> = curve.points.iter().map(|point| point.capacity).collect();
        let cells = Plan { warmup, ..plan(&["lru"], 1) }.run(&subject, &entries(&amounts), &|_| true);
        assert!(amounts.len() > 50, "{amounts:?}");
        for (cell, point) in cells.iter().zip(&curve.points) {
            let difference = (cell.hit_ratio - point.hit_ratio).abs();
            assert!(difference < 1e-9, "{} entries: off by {difference}", point.capacity);
        }
    }
}

#[test]
fn lru_in_one_pass_is_near_where_sizes_differ() {
    let subject = shipped("adaptsize_web", 1.0);
    let curve = Curve::lru(&subject, By::Bytes, 0.0);
    let amounts: Vec<_> = curve.points.iter().map(|point| point.capacity).step_by(60).collect();
    let cells = plan(&["lru"], 2).run(&subject, &bytes(&amounts), &|_| true);
    let points = curve.points.iter().step_by(60);
    for (cell, point) in cells.iter().zip(points).filter(|(cell, _)| cell.capacity.amount > 1 << 20) {
        let difference = (cell.hit_ratio - point.hit_ratio).abs();
        assert!(difference < 0.01, "{} bytes: off by {difference}", point.capacity);
    }
}

/// A sample's error covers the misses that it counts; the scaled-down cache, which holds whole objects, adds a little.
#[test]
fn a_sample_is_off_by_little_more_than_its_error() {
    let (whole, sample) = (shipped("cache2k_web12", 1.0), shipped("cache2k_web12", 0.1));
    let capacities = entries(&[1_375, 4_126]);
    let plan = plan(&["fifo", "lru", "sieve"], 2);
    let run = |subject: &Subject| plan.run(subject, &capacities, &|_| true);
    for (exact, estimate) in run(&whole).iter().zip(run(&sample)) {
        let error = estimate.error.unwrap();
        let off = (exact.hit_ratio - estimate.hit_ratio).abs();
        assert!((0.001..0.05).contains(&error), "{}: error {error}", estimate.spec);
        assert!(off < error + 0.02, "{} in {:?}: off by {off}", estimate.spec, estimate.capacity);
        assert_eq!((exact.requests, exact.error), (estimate.requests, None));
    }
}

#[test]
fn a_sweep_without_requests_is_all_noughts() {
    let subject = Subject::whole("none", Trace::default());
    let cells: Vec<Cell> = plan(&["lru"], 1).run(&subject, &entries(&[1]), &|_| true);
    assert_eq!((cells[0].requests, cells[0].hit_ratio, cells[0].byte_hit_ratio), (0, 0.0, 0.0));
    assert!(Curve::lru(&subject, By::Entries, 0.0).points.is_empty());
}
