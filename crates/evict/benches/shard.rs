//! What a shard costs under each policy: nanoseconds per operation on a million objects, bytes per object, and
//! the longest that one insertion takes. Run with `cargo bench -p larder-evict`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use larder_evict::{AnyShard, By, Capacity, Object, POLICIES, Spec};

const OBJECTS: u64 = 1_000_000;
const OPERATIONS: usize = 4_000_000;

fn main() {
    let uniform: Vec<u64> = (0..OPERATIONS).scan(1, |state, _| Some(key(next(state) % OBJECTS))).collect();
    let skewed: Vec<u64> = (0..OPERATIONS).scan(2, |state, _| Some(key(skew(next(state))))).collect();
    println!(
        "{OBJECTS} objects; ns per operation, bytes per object beyond the value, ms of the longest insertion"
    );
    println!("{:<10}{:>10}{:>10}{:>10}{:>8}{:>10}", "policy", "hit", "hot hit", "churn", "bytes", "longest");
    for policy in POLICIES {
        let spec = Spec::parse(policy.name).expect("listed policies parse");
        let mut shard = spec.build::<u64>(Capacity { by: By::Entries, amount: OBJECTS }, 1);
        let mut dropped = Vec::with_capacity(1);
        let filling = (0..OBJECTS).map(|n| insert(&mut *shard, n, &mut dropped)).max();
        let hit = nanoseconds(&uniform, |&key| {
            black_box(shard.get(key));
        });
        let hot = nanoseconds(&skewed, |&key| {
            black_box(shard.get(key));
        });
        let fresh: Vec<u64> = (OBJECTS..2 * OBJECTS).collect();
        let churn = nanoseconds(&fresh, |&n| insert_untimed(&mut *shard, n, &mut dropped));
        let churning = (2 * OBJECTS..4 * OBJECTS).map(|n| insert(&mut *shard, n, &mut dropped)).max();
        let longest = filling.max(churning).unwrap_or_default().as_secs_f64() * 1e3;
        let bytes = shard.overhead_per_object();
        println!("{:<10}{hit:>10.1}{hot:>10.1}{churn:>10.1}{bytes:>8.1}{longest:>10.2}", policy.name);
    }
}

fn nanoseconds<T>(inputs: &[T], mut operation: impl FnMut(&T)) -> f64 {
    let start = Instant::now();
    inputs.iter().for_each(&mut operation);
    start.elapsed().as_secs_f64() * 1e9 / inputs.len() as f64
}

fn insert(shard: &mut dyn AnyShard<u64>, n: u64, dropped: &mut Vec<u64>) -> Duration {
    let start = Instant::now();
    insert_untimed(shard, n, dropped);
    start.elapsed()
}

fn insert_untimed(shard: &mut dyn AnyShard<u64>, n: u64, dropped: &mut Vec<u64>) {
    shard.insert(Object { key: key(n), size: 1, cost: 1 }, n, dropped);
    dropped.clear();
}

/// The key of object `n`: well spread, as the keyed hash of a real one is.
fn key(n: u64) -> u64 {
    let z = (n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z ^ (z >> 31)
}

fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// From evenly spread to skewed about as web requests are: every power of two is asked for equally often.
fn skew(random: u64) -> u64 {
    let top = OBJECTS.ilog2();
    random % (1 << (1 + (random >> 40) as u32 % top))
}
