//! Tests of the memory tier alone.

use std::sync::Arc;
use std::thread;

use fastrand::Rng;
use larder_evict::{By, Capacity, Spec};
use larder_semantics::coding::Coding;
use larder_store::{Arena, Body, Budget, Counts, Entry, Memory};

use super::{assert_genuine, content, entry, find, store};

const KEYS: u64 = 40;

fn key(n: u64) -> Vec<u8> {
    format!("http://h/{n}").into_bytes()
}

/// Returns a body of random length, in the heap or in a memory file.
fn body(rng: &mut Rng, arena: &Arena, key: &[u8], version: u64) -> Body {
    if rng.u8(..16) > 0 {
        return Body::Heap(content(key, version, 0, rng.u64(..6_000)).into());
    }
    let bytes = content(key, version, 0, rng.u64(..100_000));
    let extent = arena.extent(rng.bool().then_some(bytes.len() as u64)).expect("numbers");
    extent.append(&bytes).expect("room");
    Body::file(Arc::new(extent))
}

/// Adds a form of a random shorter length, or the note that there is none.
fn add_form(memory: &Memory, rng: &mut Rng, stored: &Entry) {
    let coding = Coding::ALL[rng.usize(..Coding::ALL.len())];
    let form = Some(rng.u64(..stored.body().len().max(1))).filter(|len| *len < stored.body().len());
    let form = form.map(|len| Body::Heap(vec![7; len as usize].into()));
    let is_kept = memory.add_form(stored, coding, form);
    let after = memory.peek(stored.key(), memory.hash(stored.key()));
    let variants = after.iter().flat_map(|resident| resident.variants());
    for entry in variants.filter(|entry| is_kept && entry.signature() == stored.signature()) {
        assert_genuine(entry, stored.key());
    }
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
            9 if rng.bool() => {
                let stored = memory.peek(&key, hash);
                if let Some(stored) = stored.as_ref().and_then(|resident| rng.choice(resident.variants())) {
                    add_form(memory, &mut rng, stored);
                }
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

#[test]
fn a_capacity_of_content_counts_content_alone() {
    let capacity = Capacity { by: By::Bytes, amount: 1_000 };
    let budget = Budget { counts: Counts::Content, ..capacity.into() };
    let memory = Memory::new(budget, &Spec::parse("lru").expect("it is one"), 3);
    let put = |n: u64, len: usize| memory.put(entry(&key(n), b"", 0, Body::Heap(vec![1; len].into())), None);
    let stored = || (1..9).filter(|n| find(&memory, &key(*n)).is_some()).collect::<Vec<_>>();
    assert!(put(1, 400) && put(2, 300) && put(3, 300));
    assert_eq!((stored(), memory.usage().content), (vec![1, 2, 3], 1_000));
    // Heads and bookkeeping are counted separately.
    assert!(memory.usage().bytes > 1_000 + 3 * 96, "{:?}", memory.usage());
    assert!(put(4, 1));
    assert_eq!((stored(), memory.usage().content), (vec![2, 3, 4], 601));
    assert!(!put(5, 1_001) && put(6, 1_000));
    assert_eq!((stored(), memory.usage().content), (vec![6], 1_000));
    // An empty page has the size of one byte.
    assert!(put(7, 0));
    assert_eq!((stored(), memory.usage().objects), (vec![7], 1));
    assert_eq!((memory.prune(&mut |_, _| true), memory.validate()), (1, Ok(())));
    assert_eq!((memory.usage().bytes, memory.usage().content), (0, 0));
}

#[test]
fn a_pruned_response_is_no_longer_stored_in_memory() {
    let capacity = Capacity { by: By::Bytes, amount: 1 << 20 };
    let memory = Memory::new(capacity, &Spec::default(), 3);
    let put = |n: u64| memory.put(entry(&key(n), b"", 0, Body::Heap(vec![1; 100].into())), None);
    assert!((0..10).all(put));
    let mut met = 0;
    memory.prune(&mut |_, _| {
        met += 1;
        met <= 4
    });
    assert_eq!((memory.usage().objects, memory.usage().content), (6, 600));
}

#[test]
fn a_response_fetched_again_keeps_its_use_count_in_the_policy() {
    let capacity = Capacity { by: By::Entries, amount: 2 };
    let memory = Memory::new(capacity, &Spec::parse("lfu").expect("it is one"), 3);
    let put = |n: u64, version| memory.put(entry(&key(n), b"", version, Body::Heap([].into())), None);
    let find = |n: u64| memory.find(&key(n), memory.hash(&key(n)), 0).is_some();
    assert!(put(1, 1) && find(1) && find(1));
    assert!(put(2, 1) && find(2));
    assert!(put(1, 2) && put(3, 1));
    assert_eq!([1, 2, 3].map(find), [true, false, true]);
}

/// The residents fill several slices in each of several shards.
#[test]
fn listing_meets_each_resident_once_and_pruning_spares_replaced_ones() {
    const MANY: u64 = 5_000;
    let store = store(Capacity { by: By::Entries, amount: 1 << 18 }, 0).0;
    let put = |n: u64, version| store.memory.put(entry(&key(n), b"", version, Body::Heap([].into())), None);
    assert!((0..MANY).all(|n| put(n, 0)));
    let mut met = vec![0; MANY as usize];
    let number = |entry: &Entry| -> u64 {
        let (_, number) = std::str::from_utf8(entry.key()).unwrap().rsplit_once('/').unwrap();
        number.parse().unwrap()
    };
    store.memory.list(&mut |resident, _| met[number(&resident.variants()[0]) as usize] += 1);
    assert!(met.iter().all(|times| *times == 1));
    let looked = store.memory.prune(&mut |variants, _| {
        let number = number(&variants[0]);
        // The resident is replaced before it is removed.
        if number % 4 == 0 {
            put(number, 1);
        }
        number % 2 == 0
    });
    let left = (0..MANY).filter(|n| find(&store.memory, &key(*n)).is_some());
    assert!(left.eq((0..MANY).filter(|n| n % 4 != 2)));
    assert!(looked >= MANY);
    assert_eq!(store.memory.validate(), Ok(()));
}

#[test]
fn forms_are_charged_and_go_with_their_response() {
    let capacity = Capacity { by: By::Bytes, amount: 400_000 };
    let memory = Memory::new(capacity, &Spec::parse("lru").expect("it is one"), 3);
    let of_len = |version, len| entry(&key(1), b"", version, Body::Heap(vec![1; len].into()));
    let stored = || find(&memory, &key(1)).expect("stored").variants()[0].clone();
    let form = |len| Some(Body::Heap(vec![2; len].into()));
    assert!(memory.put(of_len(0, 50_000), None));
    let (plain, bytes) = (stored(), memory.usage().bytes);
    assert!(memory.add_form(&plain, Coding::Gzip, form(20_000)));
    let coded = stored();
    assert!((20_000..21_500).contains(&(memory.usage().bytes - bytes)) && coded.charge() > plain.charge());
    assert!(
        coded.coded().is_some_and(|coded| coded.form(Coding::Gzip).is_some_and(|form| form.len() == 20_000))
    );
    assert_eq!((coded.body().len(), memory.usage().content), (50_000, 70_000));
    assert!(!memory.add_form(&plain, Coding::Brotli, form(1)), "it is not stored any more as it was");
    assert!(memory.add_form(&coded, Coding::Brotli, None), "the note that there is no use in it");
    let noted = stored();
    let tried = |coding| noted.coded().is_some_and(|coded| coded.is_tried(coding));
    assert_eq!(Coding::ALL.map(tried), [false, true, true]);
    // More bytes than a single response may have.
    assert!(memory.put(of_len(1, 160_000), None));
    let large = stored();
    assert!(large.coded().is_none() && !memory.add_form(&large, Coding::Gzip, form(100_000)));
    assert!(stored().coded().is_none());
    assert_eq!((memory.validate(), memory.usage().content), (Ok(()), 160_000));
    memory.remove(&key(1));
    assert_eq!((memory.usage().bytes, memory.usage().content), (0, 0));
}

#[test]
fn uses_are_counted_since_the_latest_response_and_in_all() {
    let memory = Memory::new(Capacity { by: By::Entries, amount: 10 }, &Spec::default(), 3);
    let key = key(1);
    let put = |version| {
        let body = Body::Heap(content(&key, version, 0, 10).into());
        memory.put(entry(&key, b"", version, body), None)
    };
    let uses = || memory.used(&key).map(|(_, used)| (used.hits, used.lately));
    assert!(put(1) && uses() == Some((0, 0)));
    for _ in 0..3 {
        assert!(find(&memory, &key).is_some() && memory.peek(&key, memory.hash(&key)).is_some());
    }
    assert_eq!(uses(), Some((3, 3)), "a look is no use");
    assert!(put(2));
    assert_eq!(uses(), Some((3, 0)));
    assert!(find(&memory, &key).is_some());
    assert_eq!(uses(), Some((4, 1)));
}
