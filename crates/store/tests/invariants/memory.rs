//! The memory tier alone.

use std::sync::Arc;
use std::thread;

use fastrand::Rng;
use larder_evict::{By, Capacity};
use larder_store::{Arena, Body, Memory};

use super::{assert_genuine, content, entry, find, store};

const KEYS: u64 = 40;

fn key(n: u64) -> Vec<u8> {
    format!("http://h/{n}").into_bytes()
}

/// A body of any size, in the heap or in a memory file.
fn body(rng: &mut Rng, arena: &Arena, key: &[u8], version: u64) -> Body {
    if rng.u8(..16) > 0 {
        return Body::Heap(content(key, version, 0, rng.u64(..6_000)).into());
    }
    let bytes = content(key, version, 0, rng.u64(..100_000));
    let extent = arena.extent(rng.bool().then_some(bytes.len() as u64)).expect("numbers");
    extent.append(&bytes).expect("room");
    Body::File(Arc::new(extent))
}

fn work(memory: &Memory, arena: &Arena, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    for version in 0..3_000 {
        let key = key(rng.u64(..KEYS));
        let hash = memory.hash(&key);
        match rng.u8(..10) {
            0..5 => {
                let found = if rng.bool() { find(memory, &key) } else { memory.peek(&key, hash) };
                let variants = found.iter().flat_map(|resident| resident.variants());
                variants.for_each(|entry| assert_genuine(entry, &key));
            }
            5..9 => {
                let signature = [b"", b"a".as_slice(), b"b", b"c", b"d"][rng.usize(..5)];
                memory.put(entry(&key, signature, version, body(&mut rng, arena, &key, version)), None);
                let variants = memory.peek(&key, hash).map_or(0, |resident| resident.variants().len());
                assert!(variants <= 3, "{variants} variants");
            }
            _ => {
                memory.remove(&key);
            }
        }
        if version % 50 == 0 {
            assert_eq!(memory.validate(), Ok(()));
        }
        let (usage, capacity) = (memory.usage(), memory.capacity());
        let used = if capacity.by == By::Bytes { usage.bytes } else { usage.objects };
        assert!(used <= capacity.amount, "{used} of {capacity:?}");
    }
}

fn threads_agree(capacity: Capacity) {
    let (store, arena) = (store(capacity, 0).0, Arena::new().expect("memory files"));
    let memory = &store.memory;
    thread::scope(|scope| {
        for seed in 0..4 {
            let arena = &arena;
            scope.spawn(move || work(memory, arena, seed));
        }
    });
    assert_eq!(memory.validate(), Ok(()));
    assert!(memory.usage().evictions > 0, "the test is too small: {:?}", memory.usage());
    for n in 0..KEYS {
        memory.remove(&key(n));
    }
    assert_eq!((memory.usage().objects, memory.usage().bytes, arena.held()), (0, 0, 0));
}

#[test]
fn threads_agree_on_what_is_stored_in_bytes() {
    threads_agree(Capacity { by: By::Bytes, amount: 150_000 });
}

#[test]
fn threads_agree_on_what_is_stored_in_entries() {
    threads_agree(Capacity { by: By::Entries, amount: 20 });
}
