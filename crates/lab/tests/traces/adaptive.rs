//! The benefit of `adaptive` on the shipped traces: fewer misses than any other policy on average, and no more than LRU
//! on any trace.
//!
//! Run with `--nocapture` to see the table: the percentage by which each policy misses less than FIFO.

use std::path::Path;

use larder_evict::{By, Capacity, POLICIES, Policy, PolicyVisitor, Replay, Spec};
use larder_lab::trace::{Options, Trace, read};

/// Traces, the capacities of the reference measurements, and others between them. In bytes, or in objects if the trace
/// has no sizes.
const TRACES: [(&str, &[u64], &[u64]); 4] = [
    ("adaptsize_web", &[278_854, 2_788_542, 27_885_423, 83_656_269], &[900_000, 9_000_000, 50_000_000]),
    ("cache2k_web12", &[13, 137, 1_375, 4_126], &[1, 40, 450, 2_400]),
    (
        "semicomplete_weblog",
        &[561_277, 5_612_777, 56_127_776, 168_383_328],
        &[1_800_000, 18_000_000, 100_000_000],
    ),
    ("cache2k_web07", &[], &[20, 204, 700, 2_048, 6_145]),
];

/// Missed requests, and missed bytes.
type Misses = [u64; 2];

struct Count<'a> {
    trace: &'a Trace,
    capacity: Capacity,
}

impl PolicyVisitor for Count<'_> {
    type Output = Misses;

    fn run<P: Policy>(self, params: P::Params) -> Misses {
        let mut replay = Replay::<P>::new(self.capacity, self.trace.shape(), params, 1);
        let missed = (0..self.trace.len()).filter(|&at| !replay.request(self.trace.request(at)));
        missed.fold([0, 0], |[requests, bytes], at| [requests + 1, bytes + self.trace.size(at)])
    }
}

fn shipped(name: &str) -> Trace {
    let file = format!("../../traces/{name}.oracleGeneral.zst");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    read(&path, &Options::default()).expect("a trace that ships").0
}

fn misses(trace: &Trace, amount: u64, spec: &str) -> Misses {
    let capacity = Capacity { by: By::Bytes, amount };
    Spec::parse(spec).expect("a valid spec").select(Count { trace, capacity })
}

/// Returns the percentage by which `misses` are less than `others`.
fn percent_less(misses: u64, others: u64) -> f64 {
    100.0 * (1.0 - misses as f64 / others as f64)
}

#[test]
fn no_other_policy_misses_less_on_average() {
    const OBJECTIVES: [&str; 2] = ["adaptive", "adaptive:objective=bytes"];
    let online = POLICIES.iter().filter(|policy| !policy.is_offline).map(|policy| policy.name);
    let specs: Vec<_> = online.filter(|&name| name != "adaptive").chain(OBJECTIVES).collect();
    // By policy, then by counted unit: each pair's improvement over FIFO.
    let mut gains = vec![[Vec::new(), Vec::new()]; specs.len()];
    for (name, sizes, _) in TRACES {
        let trace = shipped(name);
        for &amount in sizes {
            let fifo = misses(&trace, amount, "fifo");
            for (spec, gains) in specs.iter().zip(&mut gains) {
                let missed = misses(&trace, amount, spec);
                (0..2).for_each(|unit| gains[unit].push(percent_less(missed[unit], fifo[unit])));
            }
        }
    }
    for (unit, adaptive) in OBJECTIVES.into_iter().enumerate() {
        println!("{}", ["missed requests", "missed bytes"][unit]);
        let mut means = Vec::new();
        for (&spec, gains) in specs.iter().zip(&gains) {
            let gains = &gains[unit];
            let mean = gains.iter().sum::<f64>() / gains.len() as f64;
            let row: String = gains.iter().map(|gain| format!("{gain:7.1}")).collect();
            println!("{spec:25}{mean:7.1} :{row}");
            means.push((spec, mean));
        }
        let best = means.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("policies");
        assert_eq!(best.0, adaptive, "{best:?}");
    }
}

#[test]
fn nowhere_misses_more_than_lru_by_a_percent() {
    for (name, sizes, between) in TRACES {
        let trace = shipped(name);
        for &amount in sizes.iter().chain(between) {
            let lru = misses(&trace, amount, "lru");
            for (unit, spec) in ["adaptive", "adaptive:objective=bytes"].into_iter().enumerate() {
                let gain = percent_less(misses(&trace, amount, spec)[unit], lru[unit]);
                assert!(gain > -1.0, "{spec} on {name} in {amount}: {gain:.2}%");
            }
        }
    }
}

#[test]
fn probation_costs_no_cell_half_a_percent() {
    for (name, sizes, between) in TRACES {
        let trace = shipped(name);
        for &amount in sizes.iter().chain(between) {
            for (unit, objective) in ["requests", "bytes"].into_iter().enumerate() {
                let of = |probation| format!("adaptive:objective={objective},probation={probation}");
                let [with, without] =
                    [true, false].map(|probation| misses(&trace, amount, &of(probation))[unit]);
                let gain = percent_less(with, without);
                assert!(gain > -0.5, "{objective} on {name} in {amount}: {gain:.2}%");
            }
        }
    }
}
