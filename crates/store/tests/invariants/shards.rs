//! Shards that follow workers, and capacity that follows need.

use std::sync::Arc;

use larder_evict::{AnyShard, By, Capacity, Object, Spec};
use larder_store::{Arena, Body, Budget, Memory};

use super::{entry, find};

const MIB: u64 = 1 << 20;

/// Returns a tier of 256 MiB with 64 shards, whose shares are 3.5 MiB.
fn memory() -> Memory {
    let capacity = Capacity { by: By::Bytes, amount: 256 * MIB };
    Memory::new(Budget { workers: 16, ..capacity.into() }, &Spec::parse("lru").expect("it is one"), 3)
}

fn key(n: u64) -> Vec<u8> {
    format!("http://h/{n}").into_bytes()
}

/// Stores a response of this length; returns whether it is there.
fn put(memory: &Memory, arena: &Arena, n: u64, length: u64) -> bool {
    let extent = arena.extent(Some(length)).expect("numbers");
    let piece = vec![1; MIB as usize];
    for at in (0..length).step_by(MIB as usize) {
        extent.append(&piece[..MIB.min(length - at) as usize]).expect("room");
    }
    memory.put(entry(&key(n), b"", 0, Body::file(Arc::new(extent))), None);
    find(memory, &key(n)).is_some()
}

fn small(memory: &Memory, numbers: std::ops::Range<u64>) {
    for n in numbers {
        memory.put(entry(&key(n), b"", 0, Body::Heap(vec![1; 20_000].into())), None);
    }
}

#[test]
fn a_response_larger_than_a_share_is_stored_beside_small_ones() {
    let (memory, arena) = (memory(), Arena::new().expect("memory files"));
    small(&memory, 0..3_200);
    let before = memory.usage();
    assert!(put(&memory, &arena, 10_000, 110 * MIB), "today's limit is {}", memory.largest());
    assert!(before.objects == 3_200 && memory.usage().objects == 3_201, "{:?}", memory.usage());
    small(&memory, 3_200..12_000);
    // Each of 64 shards has room for a few responses less than on average.
    let (usage, most) = (memory.usage(), 114 * MIB / 20_300);
    assert!(usage.objects > most * 9 / 10 && usage.bytes <= 224 * MIB, "{usage:?}");
    assert_eq!(memory.validate(), Ok(()));
    memory.remove(&key(10_000));
    small(&memory, 12_000..26_000);
    assert!(memory.usage().bytes > 224 * MIB * 9 / 10, "{:?}", memory.usage());
    assert_eq!(memory.validate(), Ok(()));
}

#[test]
fn large_responses_replace_each_other_and_leave_room_for_small_ones() {
    let (memory, arena) = (memory(), Arena::new().expect("memory files"));
    small(&memory, 0..2_000);
    for n in 0..20 {
        assert!(put(&memory, &arena, 10_000 + n, 24 * MIB), "{n}: {:?}", memory.usage());
        assert!(memory.usage().bytes <= 224 * MIB, "{:?}", memory.usage());
        assert_eq!(memory.validate(), Ok(()));
    }
    let large = (0..20).filter(|n| memory.peek(&key(10_000 + n), memory.hash(&key(10_000 + n))).is_some());
    assert!(large.count() >= 6 && memory.usage().objects > 500, "{:?}", memory.usage());
    memory.make_room(200 * MIB);
    assert_eq!(memory.validate(), Ok(()));
    memory.clear();
    assert_eq!((memory.usage().objects, arena.held(), memory.validate()), (0, 0, Ok(())));
}

/// Counts the hits of requests whose popularity falls with their rank (Zipf, exponent 1).
fn hits(mut request: impl FnMut(u64) -> bool) -> usize {
    let mut rng = fastrand::Rng::with_seed(1);
    (0..100_000).filter(|_| request((200_000_f64.powf(rng.f64())) as u64)).count()
}

/// Looks `key` up in a simulated shard, and stores it after a miss.
fn simulate(shard: &mut AnyShard<()>, key: u64) -> bool {
    let is_hit = shard.get(key).is_some();
    if !is_hit {
        shard.insert(Object { key, size: 1, cost: 0 }, (), &mut Vec::new());
    }
    is_hit
}

#[test]
fn one_shard_hits_as_in_a_simulation_and_many_nearly_so() {
    let capacity = Capacity { by: By::Entries, amount: 1 << 13 };
    let spec = Spec::parse("lru").expect("it is one");
    let mut whole = spec.build(capacity, 1);
    let simulated = hits(|n| simulate(&mut whole, n));

    let memory = Memory::new(capacity, &spec, 3);
    let live = hits(|n| {
        let is_hit = find(&memory, &key(n)).is_some();
        if !is_hit {
            memory.put(entry(&key(n), b"", 0, Body::Heap(Box::default())), None);
        }
        is_hit
    });
    assert_eq!(live, simulated);

    let part = Capacity { amount: capacity.amount / 64, ..capacity };
    let mut parts: Vec<_> = (0..64).map(|_| spec.build(part, 1)).collect();
    let many = hits(|n| simulate(&mut parts[memory.hash(&key(n)) as usize % 64], n));
    let difference = simulated.abs_diff(many);
    assert!(difference * 200 < simulated, "{simulated} hits with one shard, {many} with 64");
}
