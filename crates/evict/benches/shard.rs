//! The cost of shard operations under each policy, for a shard that fits in the processor's caches and for one that
//! does not. Run with `cargo bench -p larder-evict`.
//!
//! `even` and `skewed` are hits on keys with these distributions, `churn` is an insertion that evicts, all in
//! nanoseconds; `bytes` is the memory for each object in addition to its value; `longest` is the slowest single
//! insertion, in milliseconds.

use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

use larder_evict::{AnyShard, By, Capacity, Object, POLICIES, Spec};

const OPERATIONS: u64 = 4_000_000;

fn main() {
    println!("policy       objects      even    skewed     churn   bytes  longest");
    for policy in POLICIES {
        let spec = Spec::parse(policy.name).expect("listed policies parse");
        measure(&spec, 1 << 16);
        measure(&spec, 1_000_000);
    }
}

fn measure(spec: &Spec, objects: u64) {
    let even: Vec<u64> = (0..OPERATIONS).map(|n| key(key(n) % objects)).collect();
    let skewed: Vec<u64> = (0..OPERATIONS).map(|n| key(skew(key(n), objects))).collect();
    let fresh: Vec<u64> = (objects..objects + OPERATIONS).collect();
    let mut shard = spec.build::<u64>(Capacity { by: By::Entries, amount: objects }, 1);

    let fill_longest = longest(0..objects, |n| insert(&mut shard, n));
    let even = nanoseconds(&even, |key| {
        black_box(shard.get(key));
    });
    let skewed = nanoseconds(&skewed, |key| {
        black_box(shard.get(key));
    });
    let churn = nanoseconds(&fresh, |n| insert(&mut shard, n));
    let churn_longest = longest(0..objects, |n| insert(&mut shard, n));

    let longest = fill_longest.max(churn_longest).as_secs_f64() * 1e3;
    let bytes = shard.overhead_per_object();
    println!(
        "{:<10}{objects:>10}{even:>10.1}{skewed:>10.1}{churn:>10.1}{bytes:>8.1}{longest:>9.2}",
        spec.name()
    );
}

fn nanoseconds(inputs: &[u64], mut operation: impl FnMut(u64)) -> f64 {
    let start = Instant::now();
    inputs.iter().for_each(|&input| operation(input));
    start.elapsed().as_secs_f64() * 1e9 / inputs.len() as f64
}

fn longest(inputs: Range<u64>, mut operation: impl FnMut(u64)) -> Duration {
    let timed = inputs.map(|input| {
        let start = Instant::now();
        operation(input);
        start.elapsed()
    });
    timed.max().unwrap_or_default()
}

fn insert(shard: &mut AnyShard<u64>, n: u64) {
    let mut dropped = Vec::new();
    black_box(shard.insert(Object { key: key(n), size: 1, cost: 1 }, n, &mut dropped));
}

/// Returns the key of object `n`, well spread like the keyed hash of a real key.
fn key(n: u64) -> u64 {
    let z = (n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z ^ (z >> 31)
}

/// Returns an object from 0 to `objects`, with about the skew of web requests: each power of two is an equally likely
/// bound.
fn skew(random: u64, objects: u64) -> u64 {
    random % (2 << ((random >> 40) % u64::from(objects.ilog2())))
}
