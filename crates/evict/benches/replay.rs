//! Millions of requests that each policy replays per second, on one core. Run with
//! `cargo bench -p larder-evict --bench replay`, or with the names of some policies after `--`.
//!
//! A million requests without sizes for 100,000 objects, with popularity by Zipf's law with exponent 1, at three
//! capacities: 1%, 10% and 50% of the objects. LRU hits with about half, three quarters and nine tenths of the requests
//! there. The share of hits follows each speed; `bytes` is the metadata for each object at 10%. The requests are
//! replayed several times, and the best time of every slice counts, so that other work on the machine has little
//! effect.

use std::hint::black_box;
use std::time::{Duration, Instant};

use larder_evict::{By, Capacity, POLICIES, Policy, PolicyVisitor, Replay, Request, Spec, UnitAttributes};

const OBJECTS: u32 = 100_000;
const REQUESTS: u32 = 1_000_000;
const RUNS: u32 = 15;
const SLICE: usize = 10_000;

fn main() {
    let names: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let ids = zipf();
    println!("policy            at 1%          at 10%          at 50%   bytes");
    for policy in POLICIES.iter().filter(|policy| !policy.is_offline) {
        if !names.is_empty() && !names.iter().any(|name| name == policy.name) {
            continue;
        }
        let spec = Spec::parse(policy.name).expect("listed policies parse");
        let [small, medium, large] = [100, 10, 2].map(|part| {
            let capacity = Capacity { by: By::Entries, amount: u64::from(OBJECTS / part) };
            spec.select(Run { ids: &ids, capacity })
        });
        print!("{:<10}", policy.name);
        for speed in [&small, &medium, &large] {
            print!("{:>8.1} {:>5.1}%", speed.millions, speed.hit_share * 100.0);
        }
        println!("{:>8.1}", medium.bytes);
    }
}

struct Speed {
    /// Requests a second, in millions.
    millions: f64,
    hit_share: f64,
    /// Bytes of metadata for each object.
    bytes: f64,
}

struct Run<'a> {
    ids: &'a [u32],
    capacity: Capacity,
}

impl PolicyVisitor for Run<'_> {
    type Output = Speed;

    fn run<P: Policy>(self, params: P::Params) -> Speed {
        let mut best = vec![Duration::MAX; self.ids.len().div_ceil(SLICE)];
        let mut speed = Speed { millions: 0.0, hit_share: 0.0, bytes: 0.0 };
        for _ in 0..RUNS {
            let mut replay = Replay::<P, UnitAttributes>::of_alike(self.capacity, OBJECTS, params.clone(), 1);
            let mut hits = 0;
            for (slice, best) in self.ids.chunks(SLICE).zip(&mut best) {
                let start = Instant::now();
                hits += black_box(drive(&mut replay, black_box(slice)));
                *best = start.elapsed().min(*best);
            }
            speed.hit_share = hits as f64 / f64::from(REQUESTS);
            speed.bytes = replay.metadata_bytes() as f64 / replay.len().max(1) as f64;
        }
        let total: Duration = best.into_iter().sum();
        speed.millions = f64::from(REQUESTS) / total.as_secs_f64() / 1e6;
        speed
    }
}

#[inline(never)]
fn drive<P: Policy>(replay: &mut Replay<P, UnitAttributes>, ids: &[u32]) -> u64 {
    replay.requests(ids.iter().map(|&id| Request { id, size: 1, cost: 0, next: u64::MAX }))
}

/// Returns the requests; objects are numbered in the order of their first request, as in a trace.
fn zipf() -> Vec<u32> {
    let cumulated: Vec<f64> = (1..=OBJECTS)
        .scan(0.0, |sum, rank| {
            *sum += 1.0 / f64::from(rank);
            Some(*sum)
        })
        .collect();
    let total = cumulated[cumulated.len() - 1];
    let mut numbers = vec![u32::MAX; OBJECTS as usize];
    let mut seen = 0;
    let mut state = 1_u64;
    let request = |_| {
        let share = (xorshift(&mut state) >> 11) as f64 / (1_u64 << 53) as f64;
        let rank = cumulated.partition_point(|&sum| sum <= share * total).min(OBJECTS as usize - 1);
        if numbers[rank] == u32::MAX {
            numbers[rank] = seen;
            seen += 1;
        }
        numbers[rank]
    };
    (0..REQUESTS).map(request).collect()
}

fn xorshift(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}
