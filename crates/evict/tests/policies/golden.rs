//! The exact misses of every policy and filter on the shipped traces, as listed in `golden.txt`.
//!
//! The counts come from this crate: they detect changes, and do not prove correctness. `laws.rs` compares with naive
//! models, and `crates/lab/tests/traces/reference.rs` with another simulator.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use larder_evict::{By, Capacity, FILTERS, POLICIES, Policy, PolicyVisitor, Replay, Request, Shape, Spec};

/// The traces, and two capacities for each: about 1% and 10% of the total of all objects. They are in bytes if sizes
/// differ, otherwise in objects. `traces/reference_miss_ratios.csv` has most of them, too.
const TRACES: [(&str, [u64; 2]); 4] = [
    ("adaptsize_web", [2_788_542, 27_885_423]),
    ("cache2k_web07", [204, 2_048]),
    ("cache2k_web12", [137, 1_375]),
    ("semicomplete_weblog", [5_612_777, 56_127_776]),
];

const HEADER: &str = "\
# Misses of every policy and filter on the shipped traces (traces/README.md), by capacity: bytes, or objects where all
# have one size. To write this file again after a change that is meant to change counts:
# cargo test -p larder-evict --test policies -- --ignored write_golden_counts
";

struct Trace {
    name: &'static str,
    capacities: [Capacity; 2],
    shape: Shape,
    requests: Vec<Request>,
}

/// Misses by policy, in the order of the columns.
type Rows = BTreeMap<String, Vec<u64>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/policies/golden.txt")
}

fn read(name: &'static str, amounts: [u64; 2]) -> Trace {
    let file =
        std::fs::File::open(root().join(format!("traces/{name}.oracleGeneral.zst"))).expect("it ships");
    let bytes = zstd::decode_all(file).expect("it is whole");
    let mut ids = HashMap::new();
    let requests = bytes.as_chunks::<24>().0.iter().map(|record| {
        let object = u64::from_le_bytes(record[4..12].try_into().expect("a field"));
        let size = u32::from_le_bytes(record[12..16].try_into().expect("a field"));
        let next = i64::from_le_bytes(record[16..].try_into().expect("a field"));
        let unused = ids.len() as u32;
        let id = *ids.entry(object).or_insert(unused);
        Request { id, size: size.into(), cost: 0, next: u64::try_from(next).unwrap_or(u64::MAX) }
    });
    let requests: Vec<_> = requests.collect();
    let sized = requests.iter().any(|request| request.size != 1);
    let by = if sized { By::Bytes } else { By::Entries };
    let shape = Shape { objects: ids.len() as u32, sized, costed: false };
    Trace { name, capacities: amounts.map(|amount| Capacity { by, amount }), shape, requests }
}

struct Misses<'a> {
    trace: &'a Trace,
    capacity: Capacity,
}

impl PolicyVisitor for Misses<'_> {
    type Output = u64;

    fn run<P: Policy>(self, params: P::Params) -> u64 {
        let mut replay = Replay::<P>::new(self.capacity, self.trace.shape, params, 1);
        self.trace.requests.len() as u64 - replay.requests(self.trace.requests.iter().copied())
    }
}

/// Returns every policy, and every filter in front of LRU.
fn specs() -> impl Iterator<Item = String> {
    let filters = FILTERS.iter().map(|filter| format!("{}+lru", filter.name));
    POLICIES.iter().map(|policy| policy.name.to_owned()).chain(filters)
}

fn columns(traces: &[Trace]) -> impl Iterator<Item = (&Trace, Capacity)> {
    traces.iter().flat_map(|trace| trace.capacities.map(|capacity| (trace, capacity)))
}

/// Replays all traces under every policy; a second thread runs half of the policies.
fn count(traces: &[Trace]) -> Rows {
    let row = |spec: &String| {
        let misses = |(trace, capacity)| {
            Spec::parse(spec).expect("a listed policy").select(Misses { trace, capacity })
        };
        (spec.clone(), columns(traces).map(misses).collect())
    };
    let specs: Vec<_> = specs().collect();
    let rows = |odd: usize| -> Rows { specs.iter().skip(odd).step_by(2).map(row).collect() };
    std::thread::scope(|scope| {
        let others = scope.spawn(|| rows(1));
        let mut all = rows(0);
        all.append(&mut others.join().expect("no panic"));
        all
    })
}

/// Returns the text of the file.
fn table(traces: &[Trace], rows: &Rows) -> String {
    let line = |name: &str, cells: &[String]| {
        let cells: String = cells.iter().map(|cell| format!("  {cell:>19}")).collect();
        format!("{name:<14}{cells}\n")
    };
    let names: Vec<_> = columns(traces).map(|(trace, _)| trace.name.to_owned()).collect();
    let amounts: Vec<_> = columns(traces).map(|(_, capacity)| capacity.amount.to_string()).collect();
    let mut text = HEADER.to_owned() + &line("# trace", &names) + &line("# capacity", &amounts);
    for (spec, misses) in rows {
        text += &line(spec, &misses.iter().map(u64::to_string).collect::<Vec<_>>());
    }
    text
}

/// Parses the rows of the file's text.
fn stored(text: &str) -> Rows {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let spec = words.next().expect("a row begins with a policy");
        (spec.to_owned(), words.map(|word| word.parse().expect("a count")).collect())
    };
    lines.map(row).collect()
}

/// Returns the errors in the stored counts, one line each.
fn complaints(stored: &Rows, counted: &Rows) -> Vec<String> {
    let missing = counted.keys().filter(|spec| !stored.contains_key(*spec));
    let mut complaints: Vec<_> = missing.map(|spec| format!("'{spec}' has no golden counts")).collect();
    for (spec, golden) in stored {
        match counted.get(spec) {
            None => complaints.push(format!("'{spec}' has golden counts and is not in the registry")),
            Some(counts) if counts != golden => {
                complaints.push(format!("'{spec}' misses {counts:?}, and golden are {golden:?}"));
            }
            Some(_) => {}
        }
    }
    complaints
}

#[test]
fn every_policy_misses_as_often_as_its_golden_counts_say() {
    let traces = TRACES.map(|(name, amounts)| read(name, amounts));
    let text = std::fs::read_to_string(file()).unwrap();
    let counted = count(&traces);
    let complaints = complaints(&stored(&text), &counted);
    assert!(complaints.is_empty(), "\n{}\ngolden.txt says how to write it again", complaints.join("\n"));
    assert_eq!(text, table(&traces, &counted), "golden.txt was not written by this test");
}

#[test]
fn a_policy_without_golden_counts_is_named() {
    let counted = Rows::from([("fifo".to_owned(), vec![7, 5]), ("lru".to_owned(), vec![6, 4])]);
    assert_eq!(complaints(&counted, &counted), [""; 0]);
    let mut stored = counted.clone();
    stored.remove("lru");
    assert_eq!(complaints(&stored, &counted), ["'lru' has no golden counts"]);
    stored.insert("lru".to_owned(), vec![6, 3]);
    stored.insert("old".to_owned(), vec![1, 1]);
    assert_eq!(
        complaints(&stored, &counted),
        ["'lru' misses [6, 4], and golden are [6, 3]", "'old' has golden counts and is not in the registry"]
    );
}

#[test]
#[ignore = "writes golden.txt again"]
fn write_golden_counts() {
    let traces = TRACES.map(|(name, amounts)| read(name, amounts));
    std::fs::write(file(), table(&traces, &count(&traces))).unwrap();
}
