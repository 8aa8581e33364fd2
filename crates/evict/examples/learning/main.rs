//! The misses that eviction could avoid if it knew future requests, and those that a learned model avoids.
//!
//! Run it with `cargo run --release -p larder-evict --example learning`; arguments are shares of all objects or bytes,
//! which replace the capacities. Each row is one use of future requests: to choose among the next victims of a base
//! policy, or among residents drawn at random, with or without the refusal of new objects. It is measured with the
//! later requests of the trace, the best that a model could know, or with trees that estimate them: fitted to the
//! whole trace before the replay, or online. Figures are misses as shares of those of the best policy in the registry,
//! chosen for each cell afterwards: the geometric mean over the capacities, and the worst.

mod cache;
mod trees;

use std::collections::HashMap;
use std::error::Error;
use std::path::Path;

use cache::{Candidates, Judge, NEVER, Place, replay};
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

enum Foresight {
    Future,
    FittedBefore,
    FittedOnline,
}

const WAYS: [(&str, Place, Foresight); 7] = {
    const NEXT: Candidates = Candidates::Next(8);
    const RANDOM: Candidates = Candidates::Random(64);
    [
        ("future: 8 next victims", Place { candidates: NEXT, admits: false }, Foresight::Future),
        (
            "future: first victim, admission",
            Place { candidates: Candidates::Next(1), admits: true },
            Foresight::Future,
        ),
        ("future: 8 next victims, admission", Place { candidates: NEXT, admits: true }, Foresight::Future),
        ("future: 64 random, admission", Place { candidates: RANDOM, admits: true }, Foresight::Future),
        (
            "trees, fitted before: 8 next, admission",
            Place { candidates: NEXT, admits: true },
            Foresight::FittedBefore,
        ),
        (
            "trees, fitted before: 64 random, admission",
            Place { candidates: RANDOM, admits: true },
            Foresight::FittedBefore,
        ),
        (
            "trees, online: 64 random, admission",
            Place { candidates: RANDOM, admits: true },
            Foresight::FittedOnline,
        ),
    ]
};

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
}

/// Counts the misses of a policy of the registry: requests and bytes.
struct Misses<'a>(&'a Trace, u64);

impl Select for Misses<'_> {
    type Output = [u64; 2];

    fn run<P: Policy>(self, params: P::Params) -> [u64; 2] {
        let Self(trace, amount) = self;
        let by = if trace.is_sized { By::Bytes } else { By::Entries };
        let shape = Shape { objects: trace.objects as u32, sized: trace.is_sized, costed: false };
        let mut replay = Replay::<P>::new(Capacity { by, amount }, shape, params, 1);
        let mut missed = [0; 2];
        for request in &trace.requests {
            if !replay.request(*request) {
                missed[0] += 1;
                missed[1] += request.size;
            }
        }
        missed
    }
}

/// Returns the fewest misses of the policies in the registry, and the misses of `adaptive` for that objective.
fn fewest(trace: &Trace, amount: u64, counts_bytes: bool) -> Result<[u64; 2], Box<dyn Error>> {
    let misses = |spec: &str| -> Result<u64, Box<dyn Error>> {
        Ok(Spec::parse(spec)?.select(Misses(trace, amount))[usize::from(counts_bytes)])
    };
    let adaptive = misses(if counts_bytes { "adaptive:objective=bytes" } else { "adaptive" })?;
    let mut fewest = adaptive;
    for policy in POLICIES.iter().filter(|policy| !policy.is_offline) {
        fewest = fewest.min(misses(policy.name)?);
    }
    Ok([fewest, adaptive])
}

fn foresee(trace: &Trace, amount: u64, counts_bytes: bool, place: Place, foresight: &Foresight) -> u64 {
    let run = |judge| replay(trace, amount, counts_bytes, place, judge);
    match foresight {
        Foresight::Future => run(Judge::Future).0,
        Foresight::FittedOnline => run(Judge::Online).0,
        Foresight::FittedBefore => {
            // Which objects are resident depends on the model: the second one is fitted to the residents of the first.
            let mut samples = run(Judge::Online).1;
            let first = Model::fit(&samples);
            samples.extend(replay(trace, amount, counts_bytes, place, Judge::Given(&first)).1);
            run(Judge::Given(&Model::fit(&samples))).0
        }
    }
}

fn mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

/// The misses of `adaptive` and of each way, as shares of those of the best policy: one for each capacity.
type Ratios = Vec<Vec<f64>>;

fn compare(trace: &Trace, shares: &[f64], counts_bytes: bool) -> Result<Ratios, Box<dyn Error>> {
    let mut ratios = vec![Vec::new(); WAYS.len() + 1];
    for share in shares.iter().filter(|&share| share * trace.objects as f64 >= LEAST_OBJECTS) {
        let amount = (trace.bytes as f64 * share) as u64;
        let [fewest, adaptive] = fewest(trace, amount, counts_bytes)?;
        let ways =
            WAYS.iter().map(|(_, place, foresight)| foresee(trace, amount, counts_bytes, *place, foresight));
        for (ratios, missed) in ratios.iter_mut().zip(std::iter::once(adaptive).chain(ways)) {
            ratios.push(missed as f64 / fewest as f64);
        }
    }
    Ok(ratios)
}

fn show(traces: &str, what: &str, ratios: &Ratios) {
    println!("\n{traces}: {what} x the best policy of the cell: mean, worst");
    let names = std::iter::once("adaptive").chain(WAYS.iter().map(|(name, ..)| *name));
    for (name, ratios) in names.zip(ratios) {
        let worst = ratios.iter().copied().fold(0.0, f64::max);
        println!("  {name:<44} {:>6.3} {worst:>6.3}", mean(ratios));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let shares: Vec<f64> = std::env::args().skip(1).map(|word| word.parse()).collect::<Result<_, _>>()?;
    let shares = if shares.is_empty() { &SHARES[..] } else { &shares };
    let shipped = TRACES.iter().map(|name| read(name)).collect::<Result<Vec<_>, _>>()?;
    for (what, counts_bytes) in [("misses", false), ("missed bytes", true)] {
        let mut all = vec![Vec::new(); WAYS.len() + 1];
        for trace in shipped.iter().filter(|trace| trace.is_sized || !counts_bytes) {
            let ratios = compare(trace, shares, counts_bytes)?;
            show(trace.name, what, &ratios);
            all.iter_mut().zip(ratios).for_each(|(all, ratios)| all.extend(ratios));
        }
        show("shipped traces", what, &all);
    }
    Ok(())
}
