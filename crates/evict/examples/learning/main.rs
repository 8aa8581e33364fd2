//! The misses that eviction could avoid if it knew future requests, and those that a learned model avoids.
//!
//! Run it with `cargo run --release -p larder-evict --example learning`; arguments are shares of all objects or bytes,
//! which replace the capacities. Each row is one use of future requests: to choose among the next victims of a base
//! policy, or among residents drawn at random, with or without the refusal of new objects. It is measured with the
//! later requests of the trace, the best that a model could know, or with trees that estimate them: fitted to the
//! whole trace before the replay, or online. Two rows choose between trees and `adaptive` afterwards, for each cell or
//! each twentieth of the trace: a guard that chooses the leader while it runs has less information. Other rows leave
//! out one group of the trees' features. Figures are misses as shares of those of the best policy in the registry,
//! chosen for each cell afterwards: the geometric mean over the capacities, and the worst.

mod cache;
mod trees;

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;

use cache::{Candidates, Judge, Missed, NEVER, PARTS, Place, replay};
use larder_evict::{By, Capacity, POLICIES, Policy, Replay, Request, Select, Shape, Spec};
use trees::Model;

/// A trace, with the future of each request.
pub(crate) struct Trace {
    name: &'static str,
    requests: Vec<Request>,
    /// By request: the number of the next one for the object.
    next: Vec<u32>,
    objects: usize,
    is_sized: bool,
    /// The sum of the sizes of all objects.
    bytes: u64,
}

const TRACES: [&str; 4] = ["adaptsize_web", "cache2k_web07", "cache2k_web12", "semicomplete_weblog"];

const SHARES: [f64; 6] = [0.005, 0.02, 0.05, 0.1, 0.2, 0.4];

/// Caches of fewer objects say nothing.
const LEAST_OBJECTS: f64 = 8.0;

const NEXT: Candidates = Candidates::Next(8);
const RANDOM: Candidates = Candidates::Random(64);

/// The places in which the future is used.
const FUTURE: [(&str, Place); 4] = [
    ("future: 8 next victims", Place { candidates: NEXT, admits: false, without: &[] }),
    (
        "future: first victim, admission",
        Place { candidates: Candidates::Next(1), admits: true, without: &[] },
    ),
    ("future: 8 next victims, admission", Place { candidates: NEXT, admits: true, without: &[] }),
    ("future: 64 random, admission", Place { candidates: RANDOM, admits: true, without: &[] }),
];

/// The groups of features that are left out, one at a time.
const GROUPS: [(&str, &[usize]); 4] =
    [("age", &[0]), ("intervals", &[1, 2, 3, 9]), ("counts", &[4, 6, 7, 8]), ("size", &[5])];

/// Reads a trace that ships.
fn read(name: &'static str) -> Result<Trace, Box<dyn Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces");
    let file = std::fs::File::open(path.join(format!("{name}.oracleGeneral.zst")))?;
    let bytes = zstd::decode_all(file)?;
    let (mut ids, mut requests) = (HashMap::new(), Vec::new());
    for record in bytes.as_chunks::<24>().0 {
        let object = u64::from_le_bytes(record[4..12].try_into()?);
        let size = u32::from_le_bytes(record[12..16].try_into()?).max(1);
        let unused = ids.len() as u32;
        requests.push((*ids.entry(object).or_insert(unused), u64::from(size)));
    }
    Ok(Trace::new(name, &requests))
}

impl Trace {
    /// Returns the trace of `requests`, each of a number and a size.
    fn new(name: &'static str, requests: &[(u32, u64)]) -> Self {
        let objects = requests.iter().map(|(id, _)| *id as usize + 1).max().unwrap_or(0);
        let (mut sizes, mut later) = (vec![0; objects], vec![NEVER; objects]);
        let mut next = vec![NEVER; requests.len()];
        for (at, &(id, size)) in requests.iter().enumerate().rev() {
            next[at] = std::mem::replace(&mut later[id as usize], at as u32);
            sizes[id as usize] = size;
        }
        let is_sized = requests.iter().any(|(_, size)| *size != 1);
        let request = |&(id, size): &(u32, u64)| Request { id, size, cost: 0, next: u64::MAX };
        let requests = requests.iter().map(request).collect();
        Self { name, requests, next, objects, is_sized, bytes: sizes.iter().sum() }
    }

    /// Returns the number of the part that has the request with this number.
    fn part(&self, at: usize) -> usize {
        at * PARTS / self.requests.len()
    }
}

/// Counts the misses of a policy of the registry: requests and bytes.
struct Misses<'a>(&'a Trace, u64);

impl Select for Misses<'_> {
    type Output = [Missed; 2];

    fn run<P: Policy>(self, params: P::Params) -> [Missed; 2] {
        let Self(trace, amount) = self;
        let by = if trace.is_sized { By::Bytes } else { By::Entries };
        let shape = Shape { objects: trace.objects as u32, sized: trace.is_sized, costed: false };
        let mut replay = Replay::<P>::new(Capacity { by, amount }, shape, params, 1);
        let mut missed = [[0; PARTS]; 2];
        for (at, request) in trace.requests.iter().enumerate() {
            if !replay.request(*request) {
                missed[0][trace.part(at)] += 1;
                missed[1][trace.part(at)] += request.size;
            }
        }
        missed
    }
}

/// Returns the fewest misses of the policies in the registry, and the misses of `adaptive` for that objective.
fn fewest(trace: &Trace, amount: u64, counts_bytes: bool) -> Result<(u64, Missed), Box<dyn Error>> {
    let misses = |spec: &str| -> Result<Missed, Box<dyn Error>> {
        Ok(Spec::parse(spec)?.select(Misses(trace, amount))[usize::from(counts_bytes)])
    };
    let adaptive = misses(if counts_bytes { "adaptive:objective=bytes" } else { "adaptive" })?;
    let mut fewest = sum(&adaptive);
    for policy in POLICIES.iter().filter(|policy| !policy.is_offline) {
        fewest = fewest.min(sum(&misses(policy.name)?));
    }
    Ok((fewest, adaptive))
}

fn sum(missed: &Missed) -> u64 {
    missed.iter().sum()
}

/// Returns the misses of trees that are fitted online, and of trees that are fitted to the whole trace before.
fn trees(trace: &Trace, amount: u64, counts_bytes: bool, place: Place) -> [Missed; 2] {
    let run = |judge| replay(trace, amount, counts_bytes, place, judge);
    let (online, mut samples) = run(Judge::Online);
    // Which objects are resident depends on the model: the second one is fitted to the residents of the first.
    let first = Model::fit(&samples);
    samples.extend(run(Judge::Given(&first)).1);
    [online, run(Judge::Given(&Model::fit(&samples))).0]
}

/// The rows of the table, each with misses as shares of those of the best policy.
type Ratios = Vec<(String, Vec<f64>)>;

/// Measures one cell: one capacity for one objective.
fn measure(trace: &Trace, amount: u64, counts_bytes: bool) -> Result<Ratios, Box<dyn Error>> {
    let (fewest, adaptive) = fewest(trace, amount, counts_bytes)?;
    let mut rows = Vec::new();
    let mut push =
        |name: &str, missed: u64| rows.push((name.to_owned(), vec![missed as f64 / fewest as f64]));
    push("adaptive", sum(&adaptive));
    for (name, place) in FUTURE {
        push(name, sum(&replay(trace, amount, counts_bytes, place, Judge::Future).0));
    }
    let run =
        |candidates, without| trees(trace, amount, counts_bytes, Place { candidates, admits: true, without });
    push("trees, fitted before: 8 next, admission", sum(&run(NEXT, &[])[1]));
    let [online, before] = run(RANDOM, &[]);
    push("trees, fitted before: 64 random, admission", sum(&before));
    push("trees, online: 64 random, admission", sum(&online));
    push("  or adaptive, the better in each cell", sum(&online).min(sum(&adaptive)));
    let better = online.iter().zip(&adaptive).map(|(trees, adaptive)| *trees.min(adaptive));
    push("  or adaptive, the better in each part", better.sum());
    for (group, without) in GROUPS {
        let [online, before] = run(RANDOM, without);
        push(&format!("trees without {group}, fitted before"), sum(&before));
        push(&format!("trees without {group}, online"), sum(&online));
    }
    Ok(rows)
}

fn mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

/// Appends the cells of `more` to the rows.
fn extend(all: &mut Ratios, more: Ratios) {
    match all.is_empty() {
        true => *all = more,
        false => all.iter_mut().zip(more).for_each(|(all, more)| all.1.extend(more.1)),
    }
}

fn compare(trace: &Trace, shares: &[f64], counts_bytes: bool) -> Result<Ratios, Box<dyn Error>> {
    let mut ratios = Vec::new();
    for share in shares.iter().filter(|&share| share * trace.objects as f64 >= LEAST_OBJECTS) {
        extend(&mut ratios, measure(trace, (trace.bytes as f64 * share) as u64, counts_bytes)?);
    }
    Ok(ratios)
}

fn show(traces: &str, what: &str, ratios: &Ratios) {
    println!("\n{traces}: {what} x the best policy of the cell: mean, worst");
    for (name, ratios) in ratios {
        let worst = ratios.iter().copied().fold(0.0, f64::max);
        println!("  {name:<44} {:>6.3} {worst:>6.3}", mean(ratios));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let shares: Vec<f64> = std::env::args().skip(1).map(|word| word.parse()).collect::<Result<_, _>>()?;
    let shares = if shares.is_empty() { &SHARES[..] } else { &shares };
    let shipped = TRACES.iter().map(|name| read(name)).collect::<Result<Vec<_>, _>>()?;
    for (what, counts_bytes) in [("misses", false), ("missed bytes", true)] {
        let mut all = Vec::new();
        for trace in shipped.iter().filter(|trace| trace.is_sized || !counts_bytes) {
            let ratios = compare(trace, shares, counts_bytes)?;
            show(trace.name, what, &ratios);
            extend(&mut all, ratios);
        }
        show("shipped traces", what, &all);
    }
    Ok(())
}
