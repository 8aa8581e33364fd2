//! How long operations of the memory tier have the lock of a shard: `cargo bench -p larder-store --bench holds`.
//!
//! Prints for each operation, as a line of JSON, the mean time in nanoseconds, and how many groups of operations took on
//! average less than 32, 64, 128 ns and so on. The times include what an operation does before and after it has the lock, and
//! nobody else wants it: they are upper limits of what it is held for.

use std::hint::black_box;
use std::time::{Duration, Instant};

use http::{HeaderMap, StatusCode, header};
use larder_evict::{By, Capacity, Spec};
use larder_semantics::freshness::Freshness;
use larder_store::entry::Parts;
use larder_store::{Body, Budget, Entry, Generation, Memory};

/// The stored responses: more than the processor's caches hold.
const URLS: u64 = 200_000;
/// The operations that are timed together, since a look at the clock takes about as long as one.
const GROUP: u64 = 16;
const GROUPS: u64 = 20_000;
/// The upper limits of the buckets, as powers of two; the last bucket has the rest.
const POWERS: std::ops::RangeInclusive<u32> = 5..=11;
/// The uses of a hot entry that are counted at once.
const BATCH: u64 = 64;

fn key(n: u64) -> Vec<u8> {
    format!("http://site.test/a-page-of-some-length/{n}").into_bytes()
}

fn entry(memory: &Memory, key: &[u8]) -> Entry {
    let fields =
        HeaderMap::from_iter([(header::CONTENT_TYPE, header::HeaderValue::from_static("text/html"))]);
    let (signature, status, freshness) = (&b""[..], StatusCode::OK, Freshness::default());
    let (fields, born) = (memory.keep(&fields, 0), Generation::default());
    let body = Body::Heap(vec![1; 1024].into());
    Entry::new(Parts { key, signature, status, freshness, cost: 0, born, fields: &fields, body })
        .expect("a short key")
}

/// Times `operate` in groups, each of `of` operations in sequence, and prints the result.
fn time(operation: &str, of: u64, mut operate: impl FnMut(u64)) {
    let (mut counts, mut sum) = (vec![0_u64; POWERS.count() + 1], Duration::ZERO);
    for group in 0..GROUPS {
        let begun = Instant::now();
        (0..of).for_each(|n| operate(group * of + n));
        let took = begun.elapsed();
        sum += took;
        let each = took.as_nanos() as u64 / of;
        counts[POWERS.take_while(|power| each >= 1 << power).count()] += 1;
    }
    let mean = sum.as_nanos() as f64 / (GROUPS * of) as f64;
    println!("{{\"operation\": \"{operation}\", \"mean\": {mean:.1}, \"counts\": {counts:?}}}");
}

fn main() {
    let capacity = Capacity { by: By::Entries, amount: URLS };
    let memory = Memory::new(Budget { workers: 2, ..capacity.into() }, &Spec::default(), 3);
    let keys: Vec<(Vec<u8>, u64)> =
        (0..2 * URLS).map(key).map(|key| (key.clone(), memory.hash(&key))).collect();
    for (key, _) in keys.iter().take(URLS as usize) {
        memory.put(entry(&memory, key), None);
    }
    let scattered = |n: u64| &keys[(n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) as usize % URLS as usize];
    time("find", GROUP, |n| {
        let (key, hash) = scattered(n);
        black_box(memory.find(key, *hash, 1));
    });
    let (hot, hash) = &keys[0];
    time("find, one URL", GROUP, |_| _ = black_box(memory.find(hot, *hash, 1)));
    time("64 uses", 1, |_| (0..BATCH).for_each(|_| _ = black_box(memory.find(hot, *hash, 1))));
    let mut new: Vec<_> = keys[URLS as usize..].iter().take((GROUPS * 8) as usize).collect();
    let mut entries: Vec<_> = new.drain(..).map(|(key, _)| entry(&memory, key)).collect();
    time("put", 8, |_| _ = entries.pop().map(|entry| memory.put(entry, None)));
    time("hot hit", GROUP, |_| {
        if let Some(entry) = memory.find_for(0, (hot, *hash), 1, |_| true) {
            memory.give_back(0, *hash, entry);
        }
    });
}
