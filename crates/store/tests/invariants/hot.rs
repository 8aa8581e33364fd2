//! Lookups of hot entries while they change: random operations of several threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use fastrand::Rng;
use larder_evict::{By, Capacity, Spec};
use larder_store::{Body, Budget, Disks, Entry, Memory, Resident, Store};

use super::{entry, seed, told};

const KEYS: usize = 3;
const WORKERS: usize = 3;
const CHANGES: u64 = 4_000;

fn key(n: usize) -> Vec<u8> {
    format!("http://h/{n}").into_bytes()
}

/// Looks keys up as a worker does, until `ended`: some replies are written at once, some later, and some never give their
/// entry back. `done` has the last change of each key that is acknowledged.
fn look_up(store: &Store, worker: usize, done: &[AtomicU64; KEYS], ended: &AtomicBool, mut rng: Rng) -> u64 {
    let mut replies: Vec<(u64, Entry)> = Vec::new();
    let mut hits = 0;
    while !ended.load(Ordering::Relaxed) {
        let n = rng.usize(..KEYS);
        let (key, before) = (key(n), done[n].load(Ordering::Acquire));
        let hash = store.memory.hash(&key);
        if let Some(Resident::One(found)) = store.memory.find_for(worker, &key, hash, 0)
            && let Some(found) = store.current(found)
        {
            let (version, _) = told(found.fields());
            assert!(found.key() == key && version >= before, "version {version} after {before}");
            hits += 1;
            replies.push((hash, found));
        }
        while replies.len() > 4 || !replies.is_empty() && rng.u8(..4) > 0 {
            let (hash, entry) = replies.swap_remove(rng.usize(..replies.len()));
            if rng.u8(..8) > 0 {
                store.memory.give_back(worker, hash, entry);
            }
        }
    }
    hits
}

#[test]
fn a_hit_after_a_change_never_finds_what_was_before() {
    let budget = Budget { workers: WORKERS, ..Capacity { by: By::Entries, amount: 1 << 17 }.into() };
    let store = Store::new(Memory::new(budget, &Spec::default(), 3), Disks::default());
    let (done, ended) = ([0; KEYS].map(AtomicU64::new), AtomicBool::new(false));
    let mut rng = seed();
    thread::scope(|scope| {
        let start = |worker| {
            let (rng, store, done, ended) = (rng.fork(), &store, &done, &ended);
            scope.spawn(move || look_up(store, worker, done, ended, rng))
        };
        let workers: Vec<_> = (0..WORKERS).map(start).collect();
        for change in 1..=CHANGES {
            let n = rng.usize(..KEYS);
            if rng.u8(..4) == 0 {
                store.remove(&key(n));
            } else {
                store.memory.put(entry(&key(n), b"", change, Body::Heap(Box::default())), None);
            }
            done[n].store(change, Ordering::Release);
            (0..rng.u8(..200)).for_each(|_| std::hint::spin_loop());
            if change % 16 == 0 {
                thread::yield_now();
            }
        }
        ended.store(true, Ordering::Relaxed);
        let hits: u64 = workers.into_iter().map(|worker| worker.join().expect("no panic")).sum();
        assert!(hits > 0);
    });
    assert_eq!(store.memory.validate(), Ok(()));
}
