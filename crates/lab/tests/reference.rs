//! Miss ratios beside those that libCacheSim measured on the traces that are shipped with the project
//! (`traces/README.md`).

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use larder_evict::{Capacity, Spec};
use larder_lab::sweep::{Plan, Subject};
use larder_lab::trace::{Options, read};

/// The fourth digit: what rounding and one request more or less amount to.
const EXACT: f64 = 0.000_1;

/// Our spec, their name, and by how much our object miss ratio may be higher; where they are [`EXACT`]ly defined,
/// it may not be lower by more either.
const TABLE: &[(&str, &str, f64)] = &[("fifo", "FIFO", EXACT), ("lru", "LRU", EXACT)];

fn traces() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces")
}

/// By trace: their policy, the cache's size, and the miss ratio.
fn reference() -> BTreeMap<String, Vec<(String, u64, f64)>> {
    let text = std::fs::read_to_string(traces().join("reference_miss_ratios.csv")).unwrap();
    let mut rows: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let fields: Vec<_> = line.split(',').collect();
        let row = (fields[1].to_owned(), fields[2].parse().unwrap(), fields[3].parse().unwrap());
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
        for &(policy, theirs, tolerance) in TABLE {
            let spec = Spec::parse(policy).unwrap();
            let plan = Plan { specs: vec![spec], warmup: 0.0, seed: 1, threads: NonZeroUsize::MIN };
            for (_, amount, expected) in rows.iter().filter(|row| row.0 == theirs) {
                let capacity = Capacity { by: subject.usual_unit(), amount: *amount };
                let ours = 1.0 - plan.run(&subject, &[capacity], &|_| true)[0].hit_ratio;
                let excess = ours - expected;
                compared += 1;
                if excess > tolerance || tolerance == EXACT && excess < -tolerance {
                    wrong.push(format!(
                        "{name}: {policy} at {amount} misses {ours:.5}, {theirs} {expected:.5}"
                    ));
                }
            }
        }
    }
    assert!(compared >= 12 * TABLE.len() - 4, "only {compared} pairs compared");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
