//! Comparison with the miss ratios that libCacheSim measured on the shipped traces (`traces/README.md`).

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use larder_evict::{Capacity, Spec};
use larder_lab::subject::Subject;
use larder_lab::sweep::Plan;
use larder_lab::trace::{Options, read};

/// The fourth digit: the effect of rounding and of one request more or less.
const EXACT: f64 = 0.000_1;

/// The fifth digit.
const ROUNDING: f64 = 0.000_01;

/// The maximum by which this crate may miss more than libCacheSim; if it is [`EXACT`], also the maximum by which it may
/// miss less.
struct Row {
    ours: &'static str,
    theirs: &'static str,
    tolerance: f64,
    /// The same for the missed bytes.
    bytes: f64,
    /// Whether objects larger than a queue are compared, too: libCacheSim silently refuses them, which lowers the miss
    /// ratio of the objects and raises that of the bytes; this crate stores them. The log has many.
    large: bool,
}

const fn row(ours: &'static str, theirs: &'static str, tolerance: f64) -> Row {
    Row { ours, theirs, tolerance, bytes: tolerance, large: true }
}

const fn refusing(ours: &'static str, theirs: &'static str, tolerance: f64) -> Row {
    Row { large: false, ..row(ours, theirs, tolerance) }
}

impl Row {
    const fn in_bytes(self, bytes: f64) -> Self {
        Self { bytes, ..self }
    }
}

/// The trace whose objects can be larger than a queue.
const LARGE: &str = "semicomplete_weblog";

const TABLE: &[Row] = &[
    row("fifo", "FIFO", EXACT),
    row("lru", "LRU", EXACT),
    row("clock", "Clock", EXACT),
    row("sieve", "SIEVE", EXACT),
    row("lfu", "LFU", EXACT),
    row("belady", "Belady", EXACT),
    // libCacheSim evicts for a new object even if that leaves again before there is room for it; this crate spares
    // those victims, which is a little better.
    row("gdsf", "GDSF", ROUNDING),
    row("arc", "ARC", 0.01).in_bytes(0.03),
    row("hyperbolic", "Hyperbolic", 0.01),
    // libCacheSim discounts a regret by the size of the cache in bytes, and so hardly at all.
    row("lecar:discount=1", "LeCaR", 0.01),
    // libCacheSim's LHD learns nothing on such short traces, and misses more.
    row("lhd", "LHD", 0.01),
    row("beladysize", "BeladySize", 0.01),
    // libCacheSim evicts any of the largest.
    row("maxs", "Size", ROUNDING),
    // The results depend on chance or on ties.
    row("rand", "Random", 0.02).in_bytes(0.03),
    // libCacheSim raises a hit by the lowest existing frequency, this crate by one.
    row("lfuda", "LFUDA", 0.03),
    // Frequencies are estimates, from different sketches.
    row("wtinylfu:adaptive=false", "W-TinyLFU", 0.012).in_bytes(0.021),
    refusing("s3fifo", "S3-FIFO", 0.01),
    refusing("slru", "SLRU", 0.01),
    refusing("2q", "TwoQ", 0.01),
    refusing("lirs", "LIRS", 0.015),
];

fn traces() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces")
}

/// Returns the reference by trace: libCacheSim's policy, the cache's size, and the miss ratios of requests and bytes.
fn reference() -> BTreeMap<String, Vec<(String, u64, [f64; 2])>> {
    let text = std::fs::read_to_string(traces().join("reference_miss_ratios.csv")).expect("it ships");
    let mut rows: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let fields: Vec<_> = line.split(',').collect();
        let ratios = [fields[3], fields[4]].map(|ratio| ratio.parse().expect("a ratio"));
        let row = (fields[1].to_owned(), fields[2].parse().expect("a size"), ratios);
        rows.entry(fields[0].to_owned()).or_default().push(row);
    }
    rows
}

#[test]
fn miss_ratios_agree_with_another_simulator() {
    let mut compared = 0;
    let mut wrong = Vec::new();
    for (name, rows) in reference() {
        let file = traces().join(format!("{name}.oracleGeneral.zst"));
        let (trace, _) = read(&file, &Options::default()).unwrap();
        let subject = Subject::whole(&name, trace);
        for row in TABLE.iter().filter(|row| row.large || name != LARGE) {
            let spec = Spec::parse(row.ours).unwrap();
            let plan = Plan { specs: vec![spec], warmup: 0.0, seed: 1, threads: NonZeroUsize::MIN };
            for (_, amount, expected) in rows.iter().filter(|cell| cell.0 == row.theirs) {
                let capacity = Capacity { by: subject.usual_unit(), amount: *amount };
                let cell = &plan.run(&subject, &[capacity], &|_| true)[0];
                let ours = [1.0 - cell.hit_ratio, 1.0 - cell.byte_hit_ratio];
                let units = [("requests", row.tolerance), ("bytes", row.bytes)];
                for ((unit, tolerance), (ours, expected)) in
                    units.into_iter().zip(ours.into_iter().zip(expected))
                {
                    let excess = ours - expected;
                    compared += 1;
                    if excess > tolerance || tolerance == EXACT && excess < -EXACT {
                        let Row { ours: policy, theirs, .. } = row;
                        wrong.push(format!(
                            "{name}: {policy} at {amount} misses {ours:.5} of the {unit}, {theirs} {expected:.5}"
                        ));
                    }
                }
            }
        }
    }
    assert!(compared >= 16 * TABLE.len(), "only {compared} pairs compared");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_docs_say_which_policies_are_compared_and_how_closely() {
    let page = include_str!("../../../../docs/internals/policies.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let told = rows.filter_map(|(name, rest)| {
        let tolerances: Vec<_> = rest.split('|').skip(1).take(2).map(|it| it.trim().to_owned()).collect();
        (tolerances[0] != "-").then_some((name, tolerances))
    });
    let name = |row: &Row| row.ours.split(':').next().expect("a name");
    let compared =
        TABLE.iter().map(|row| (name(row), [row.tolerance, row.bytes].map(|it| it.to_string()).to_vec()));
    assert_eq!(told.collect::<BTreeMap<_, _>>(), compared.collect());
}
