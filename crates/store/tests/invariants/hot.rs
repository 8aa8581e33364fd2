//! Lookups of hot entries while they change: random operations of several threads.

use std::array;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use fastrand::Rng;
use http::StatusCode;
use larder_evict::{By, Capacity, Spec};
use larder_semantics::freshness::Freshness;
use larder_semantics::purge::{Effect, Scope};
use larder_store::arena::Arena;
use larder_store::entry::Parts;
use larder_store::{Body, Budget, Disks, Entry, Fills, Memory, Store};

use super::{fields, seed, told};

const URLS: usize = 4;
const WORKERS: usize = 3;
const CHANGES: u64 = 4_000;
const VARIANTS: [&[u8]; 2] = [b"a", b"b"];
/// The beginning of all keys but the first, whose responses stay.
const PURGED: &[u8] = b"http://h/purged/";

struct Url {
    key: Vec<u8>,
    hash: u64,
    /// The least version of each variant that a lookup may find: what is acknowledged, or was found already.
    least: [AtomicU64; VARIANTS.len()],
}

/// Returns the URLs of the test. The last two have the same place in a table of 64.
fn urls(memory: &Memory) -> [Url; URLS] {
    let url = |key: Vec<u8>| Url { hash: memory.hash(&key), key, least: Default::default() };
    let purged = |n: u32| url([PURGED, n.to_string().as_bytes()].concat());
    let last = purged(1);
    let beside = (2..).map(purged).find(|url| url.hash % 64 == last.hash % 64).expect("some hash");
    [url(b"http://h/kept".to_vec()), purged(0), beside, last]
}

fn put(store: &Store, url: &Url, variant: usize, version: u64) {
    let entry = Entry::new(Parts {
        key: &url.key,
        signature: VARIANTS[variant],
        status: StatusCode::OK,
        freshness: Freshness::default(),
        cost: 0,
        born: store.purges.now(),
        fields: &fields(version, 0),
        body: Body::Heap(Box::default()),
    });
    assert!(store.memory.put(entry.expect("a short key"), None));
    url.least[variant].fetch_max(version, Ordering::AcqRel);
}

/// Looks URLs up as a worker does, until `ended`: some replies are written at once, some later, and some never give their
/// entry back. Returns the number of lookups of the first URL.
fn look_up(store: &Store, worker: usize, urls: &[Url; URLS], ended: &AtomicBool, mut rng: Rng) -> u64 {
    let (mut replies, mut lookups): (Vec<(u64, Entry)>, _) = (Vec::new(), [0; URLS]);
    while !ended.load(Ordering::Relaxed) {
        let (n, variant) = (rng.usize(..URLS), rng.usize(..VARIANTS.len()));
        let Url { key, hash, least } = &urls[n];
        let before = least[variant].load(Ordering::Acquire);
        let selects = |entry: &Entry| entry.signature() == VARIANTS[variant];
        let found = store.memory.find_for(worker, (key, *hash), 0, selects);
        lookups[n] += 1;
        if let Some(found) = found.and_then(|found| store.current(found)) {
            let (version, _) = told(found.fields());
            assert!(found.key() == key && version >= before, "version {version} after {before}");
            least[variant].fetch_max(version, Ordering::AcqRel);
            replies.push((*hash, found));
        }
        while replies.len() > 4 || !replies.is_empty() && rng.u8(..4) > 0 {
            let (hash, entry) = replies.swap_remove(rng.usize(..replies.len()));
            if rng.u8(..8) > 0 {
                store.memory.give_back(worker, hash, entry);
            }
        }
    }
    lookups[0]
}

#[test]
fn a_hit_after_a_change_never_finds_what_was_before() {
    let budget = Budget { workers: WORKERS, ..Capacity { by: By::Entries, amount: 1 << 17 }.into() };
    let store = Arc::new(Store::new(Memory::new(budget, &Spec::default(), 3), Disks::default()));
    let fills = Fills::new(Arc::clone(&store), Arena::new().expect("memory files"), 1);
    let (urls, ended, mut rng) = (urls(&store.memory), AtomicBool::new(false), seed());
    (0..VARIANTS.len()).for_each(|variant| put(&store, &urls[0], variant, 0));
    let lookups: u64 = thread::scope(|scope| {
        let workers: [_; WORKERS] = array::from_fn(|worker| {
            let (rng, store, urls, ended) = (rng.fork(), &store, &urls, &ended);
            scope.spawn(move || look_up(store, worker, urls, ended, rng))
        });
        for change in 1..=CHANGES {
            let n = rng.usize(..URLS);
            let gone = match rng.u8(..8) {
                0 if n > 0 => {
                    store.remove(&urls[n].key);
                    &urls[n..=n]
                }
                1 => {
                    fills.order(&[Scope::Prefix(PURGED.to_vec())], Effect::Remove, 0);
                    &urls[1..]
                }
                _ => {
                    put(&store, &urls[n], rng.usize(..VARIANTS.len()), change);
                    &[]
                }
            };
            gone.iter()
                .flat_map(|url| &url.least)
                .for_each(|least| _ = least.fetch_max(change, Ordering::AcqRel));
            (0..rng.u8(..200)).for_each(|_| std::hint::spin_loop());
            if change % 16 == 0 {
                thread::yield_now();
            }
        }
        ended.store(true, Ordering::Relaxed);
        workers.into_iter().map(|worker| worker.join().expect("no panic")).sum()
    });
    let counted = store.memory.used(&urls[0].key).map(|(_, usage)| u64::from(usage.hits));
    assert!(lookups > 0 && counted == Some(lookups), "{counted:?} of {lookups} lookups are counted");
    assert_eq!(store.memory.validate(), Ok(()));
}
