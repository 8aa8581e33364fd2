//! The memory tier in an upgrade: the successor has what the earlier process had, and nothing that was purged.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use http::header::HeaderName;
use larder_evict::By;
use larder_semantics::coding::Coding;
use larder_semantics::key;
use larder_semantics::purge::{Effect, Scope};
use larder_store::body::body_of;
use larder_store::handover::{MemoryImport, MemoryOffer, Piece};
use larder_store::memory::KeyUsage;
use proptest::prelude::*;

use super::purges::key_of;
use super::*;

const MIB: u64 = 1 << 20;

struct Process {
    store: Arc<Store>,
    fills: Arc<Fills>,
}

/// What was sent: memory files and slices, in order.
#[derive(Default)]
struct Sent {
    files: Vec<(u32, OwnedFd)>,
    slices: Vec<Vec<u8>>,
}

impl Sent {
    fn take(&mut self, piece: Piece<'_>) {
        match piece {
            Piece::File(number, file) => self.files.push((number, file)),
            Piece::Slice(bytes) => self.slices.push(bytes.to_vec()),
        }
    }
}

impl Process {
    fn new(bytes: u64, policy: &str) -> Self {
        let capacity = Capacity { by: By::Bytes, amount: bytes };
        let memory = Memory::new(capacity, &Spec::parse(policy).expect("a policy"), 3);
        let store = Arc::new(Store::new(memory, Disks::default()));
        let fills = Fills::new(Arc::clone(&store), Arena::new().expect("memory files"), u64::MAX);
        Self { store, fills: Arc::new(fills) }
    }

    fn put(&self, key: &[u8], signature: &[u8], version: u64, len: u64) -> Entry {
        let bytes = content(key, version, 0, len);
        let body = body_of(bytes, |len| self.fills.arena().extent(Some(len))).expect("memory");
        let entry = entry(key, signature, version, body);
        self.store.memory.put(entry.clone(), None);
        entry
    }

    /// Returns whether a response with this version is stored.
    fn has(&self, key: &[u8], version: u64) -> bool {
        let found = find(&self.store.memory, key);
        let current = found
            .iter()
            .flat_map(|found| found.variants())
            .filter_map(|entry| self.store.current(entry.clone()));
        let mut genuine = current.inspect(|entry| assert_genuine(entry, key));
        genuine.any(|entry| told(entry.fields()).0 == version)
    }

    fn keys(&self) -> BTreeSet<Vec<u8>> {
        let mut keys = BTreeSet::new();
        self.store.memory.list(&mut |resident, _| _ = keys.insert(resident.variants()[0].key().to_vec()));
        keys
    }

    fn send(&self) -> (MemoryOffer, Sent) {
        let (mut offer, mut sent) = (MemoryOffer::new(&self.fills), Sent::default());
        offer
            .send(&mut |piece| {
                sent.take(piece);
                Ok(())
            })
            .expect("no error");
        (offer, sent)
    }

    fn take(&self, sent: Sent) -> MemoryImport {
        let mut import = MemoryImport::new(&self.fills);
        take_more(&mut import, sent);
        import
    }

    fn validate(&self) {
        assert_eq!(self.store.memory.validate(), Ok(()));
    }
}

fn take_more(import: &mut MemoryImport, sent: Sent) {
    sent.files.into_iter().for_each(|(number, file)| import.file(number, file).expect("a memory file"));
    sent.slices.iter().for_each(|slice| import.slice(slice, &|_| false).expect("a slice"));
}

fn changes(offer: &mut MemoryOffer) -> Sent {
    let mut sent = Sent::default();
    offer
        .send_changes(&mut |piece| {
            sent.take(piece);
            Ok(())
        })
        .expect("no error");
    sent
}

/// Hands everything from one process to another.
fn hand_over(from: &Process, to: &Process) {
    let (mut offer, sent) = from.send();
    let mut import = to.take(sent);
    take_more(&mut import, changes(&mut offer));
    offer.give(true);
    import.complete();
    drop(offer);
    from.store.memory.clear();
    import.predecessor_ended();
}

/// Returns everything that a client or an administrator can see of the responses under `key`.
fn view(memory: &Memory, key: &[u8]) -> Option<(Vec<impl PartialEq + std::fmt::Debug + use<>>, KeyUsage)> {
    let (resident, used) = memory.used(key)?;
    let of_one = |entry: &Entry| {
        let forms: Vec<_> = entry.coded().into_iter().flat_map(|coded| coded.forms()).collect();
        let forms: Vec<_> = forms
            .iter()
            .map(|(coding, body)| (*coding, body.copy(0, usize::MAX).expect("it can be read")))
            .collect();
        let body = entry.body().copy(0, usize::MAX).expect("it can be read");
        (entry.signature().to_vec(), entry.status(), entry.freshness(), entry.fields().to_map(), body, forms)
    };
    Some((resident.variants().iter().map(of_one).collect(), used))
}

fn key(number: u32) -> Vec<u8> {
    key_of("http", "site.test", &format!("/{number}"))
}

#[derive(Clone, Debug)]
enum Step {
    Put { key: u32, signature: u8, version: u64, len: u64 },
    Use(u32, u32),
    Compress(u32, u64),
    Remove(u32),
    Spoil(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let len = prop_oneof![4 => 0..3_000_u64, 1 => (64 << 10)..(200_u64 << 10)];
    let step = prop_oneof![
        4 => (0..40_u32, 0..3_u8, 0..9_u64, len)
            .prop_map(|(key, signature, version, len)| Step::Put { key, signature, version, len }),
        2 => (0..40_u32, any::<u32>()).prop_map(|(key, now)| Step::Use(key, now)),
        1 => (0..40_u32, 1..500_u64).prop_map(|(key, len)| Step::Compress(key, len)),
        1 => (0..40_u32).prop_map(Step::Remove),
        1 => (0..40_u32).prop_map(Step::Spoil),
    ];
    prop::collection::vec(step, 0..80)
}

fn take_steps(process: &Process, steps: &[Step]) {
    let memory = &process.store.memory;
    for step in steps {
        match *step {
            Step::Put { key: number, signature, version, len } => {
                process.put(&key(number), &b"abc"[..usize::from(signature)], version, len);
            }
            Step::Use(number, now) => {
                let key = key(number);
                memory.find(&key, memory.hash(&key), now);
            }
            Step::Compress(number, len) => {
                let found = find(memory, &key(number));
                if let Some(entry) = found.as_ref().and_then(|found| found.variants().first()) {
                    let form =
                        Some(Body::Heap(vec![7; len as usize].into())).filter(|_| len < entry.body().len());
                    memory.add_form(entry, Coding::Gzip, form);
                }
            }
            Step::Remove(number) => _ = process.fills.purge(&key(number)),
            Step::Spoil(number) => process.fills.spoil(&key(number), |_| true),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_successor_answers_as_the_earlier_process_did(before in steps(), during in steps()) {
        let (old, new) = (Process::new(64 * MIB, "lru"), Process::new(64 * MIB, "adaptive"));
        take_steps(&old, &before);
        let (mut offer, sent) = old.send();
        take_steps(&old, &during);
        let mut import = new.take(sent);
        take_more(&mut import, changes(&mut offer));
        let taken = import.complete();
        new.validate();
        let usage = |process: &Process| process.store.memory.usage();
        prop_assert_eq!((usage(&new).objects, usage(&new).content), (usage(&old).objects, usage(&old).content));
        prop_assert_eq!(taken.objects, usage(&old).objects);
        let all: Vec<_> = (0..40).map(key).collect();
        for key in &all {
            // Uses alone are no change.
            let (found, expected) = (view(&new.store.memory, key), view(&old.store.memory, key));
            prop_assert_eq!(found.map(|found| found.0), expected.map(|expected| expected.0));
        }
        offer.give(true);
        let views: Vec<_> = all.iter().map(|key| view(&new.store.memory, key)).collect();
        drop((offer, old));
        import.predecessor_ended();
        prop_assert_eq!(&all.iter().map(|key| view(&new.store.memory, key)).collect::<Vec<_>>(), &views);
        new.store.memory.unpack();
        prop_assert_eq!(all.iter().map(|key| view(&new.store.memory, key)).collect::<Vec<_>>(), views);
        new.validate();
    }

    #[test]
    fn packed_responses_change_as_others_and_survive_a_failed_upgrade(
        before in steps(), during in prop::collection::vec((steps(), 0..40_u32, prop::sample::select(Effect::ALL.to_vec())), 0..5),
    ) {
        let (packed, plain) = (Process::new(64 * MIB, "lru"), Process::new(64 * MIB, "lru"));
        let all: Vec<_> = (0..40).map(key).collect();
        let views = |process: &Process| all.iter().map(|key| view(&process.store.memory, key)).collect::<Vec<_>>();
        [&packed, &plain].into_iter().for_each(|process| take_steps(process, &before));
        let (offer, sent) = packed.send();
        for (steps, purged, effect) in &during {
            for process in [&packed, &plain] {
                process.fills.order(&[Scope::Url(key(*purged))], *effect, 10);
                take_steps(process, steps);
                all.iter().for_each(|key| _ = process.has(key, 0));
            }
            prop_assert_eq!(views(&packed), views(&plain));
        }
        drop((offer, sent));
        packed.store.memory.unpack();
        prop_assert_eq!(views(&packed), views(&plain));
        prop_assert_eq!(packed.store.memory.usage(), plain.store.memory.usage());
        prop_assert_eq!(packed.fills.arena().held(), plain.fills.arena().held());
        packed.validate();
    }

    #[test]
    fn damaged_slices_cause_no_panic_and_leave_the_tier_valid(
        before in steps(), damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let (old, new) = (Process::new(64 * MIB, "lru"), Process::new(64 * MIB, "lru"));
        take_steps(&old, &before);
        let (_offer, sent) = old.send();
        let mut import = MemoryImport::new(&new.fills);
        sent.files.into_iter().for_each(|(number, file)| import.file(number, file).unwrap());
        for mut slice in sent.slices {
            for (at, byte) in &damage {
                let at = at.index(slice.len());
                slice[at] ^= byte;
            }
            if import.slice(&slice, &|_| false).is_err() {
                prop_assert_eq!(new.store.memory.usage().objects, 0, "a slice is taken as a whole or not at all");
            }
        }
        import.complete();
        new.validate();
        let keys = RefCell::new(Vec::new());
        new.store.memory.list(&mut |resident, _| keys.borrow_mut().push(resident.variants()[0].key().to_vec()));
        keys.borrow().iter().for_each(|key| _ = view(&new.store.memory, key));
    }
}

#[test]
fn a_successor_with_less_memory_takes_the_responses_used_last() {
    let (old, new) = (Process::new(64 * MIB, "lru"), Process::new(4 * MIB, "lru"));
    for number in 0..200_u32 {
        // In an order that is not that of their uses.
        old.put(&key(number * 77 % 200), b"", 1, 40_000);
    }
    for number in 0..200_u32 {
        let key = key(number);
        old.store.memory.find(&key, old.store.memory.hash(&key), 1_000 + number);
    }
    hand_over(&old, &new);
    new.validate();
    let kept = new.keys();
    assert!((50..150).contains(&kept.len()), "{} kept", kept.len());
    for number in 0..200 {
        let is_kept = number as usize >= 200 - kept.len();
        assert_eq!(kept.contains(&key(number)), is_kept, "{number} of {}", kept.len());
    }
}

#[test]
fn every_response_is_kept_under_another_policy_and_with_other_shards() {
    for (policy, mib) in
        [("lru", 64), ("adaptive", 1_024), ("s3fifo", 300), ("tinylfu+lru", 64), ("secondhit+lru", 4_096)]
    {
        let (old, new) = (Process::new(600 * MIB, "adaptive"), Process::new(mib * MIB, policy));
        (0..100).for_each(|number| _ = old.put(&key(number), b"", 1, 5_000));
        let keys = old.keys();
        hand_over(&old, &new);
        new.validate();
        assert_eq!(new.keys(), keys, "{policy} with {mib} MiB");
        assert!((0..100).all(|number| new.has(&key(number), 1)), "{policy}");
    }
}

#[test]
fn changes_during_the_copy_hold_in_the_successor() {
    let (old, new) = (Process::new(64 * MIB, "lru"), Process::new(64 * MIB, "lru"));
    let (gone, changed, spoilt, swept, tagged) = (key(1), key(2), key(3), key(4), key(5));
    for key in [&gone, &changed, &spoilt, &swept, &tagged] {
        old.put(key, b"", 1, 100_000);
    }
    let (mut offer, sent) = old.send();
    let mut import = new.take(sent);
    old.fills.purge(&gone);
    old.put(&changed, b"", 2, 90_000);
    old.fills.spoil(&spoilt, |_| true);
    old.fills.order(&[Scope::Url(swept.clone())], Effect::Remove, 10);
    take_more(&mut import, changes(&mut offer));
    new.store.purges.restore_copy(&old.store.purges.copy().1).expect("a copy");
    offer.give(true);
    import.complete();
    assert!(!new.has(&gone, 1) && !new.has(&swept, 1));
    assert!(new.has(&changed, 2) && !new.has(&changed, 1) && new.has(&tagged, 1));
    let spoilt = find(&new.store.memory, &spoilt).expect("it stays");
    assert_eq!(spoilt.variants()[0].freshness(), entry(b"", b"", 0, Body::empty()).freshness().invalid());
}

#[test]
fn purges_after_the_cut_hold_for_late_responses_too() {
    let (old, new) = (Process::new(64 * MIB, "lru"), Process::new(64 * MIB, "lru"));
    let (gone, late, refetched, own, ordered) = (key(1), key(2), key(3), key(4), key(5));
    [&gone, &refetched, &ordered].into_iter().for_each(|key| _ = old.put(key, b"", 1, 100));
    let (mut offer, sent) = old.send();
    let mut import = new.take(sent);
    let (purged, copy) = old.store.purges.copy();
    new.store.purges.restore_copy(&copy).expect("a copy");
    offer.give(true);
    import.complete();
    // The last requests of the earlier process.
    old.fills.purge(&gone);
    old.put(&late, b"", 1, 100_000);
    old.put(&refetched, b"", 2, 100);
    old.fills.purge(&refetched);
    old.put(&refetched, b"", 3, 100);
    old.put(&own, b"", 1, 100);
    old.fills.order(&[Scope::Url(ordered.clone())], Effect::Remove, 10);
    // Requests of the successor meanwhile.
    new.fills.purge(&own);
    take_more(&mut import, changes(&mut offer));
    new.fills.order_copied(&old.store.purges.copy_since(purged).1).expect("a copy");
    assert!(!new.has(&gone, 1) && !new.has(&ordered, 1));
    assert!(new.has(&late, 1), "it need not be fetched again");
    assert!((1..=3).all(|version| !new.has(&refetched, version)), "it was purged in between");
    assert!(!new.has(&own, 1), "a purge of the successor is later");
    new.validate();
}

#[test]
fn purges_of_the_successor_hold_in_the_earlier_process_too() {
    let (old, new) = (Process::new(64 * MIB, "lru"), Process::new(64 * MIB, "lru"));
    (0..4).for_each(|number| _ = old.put(&key(number), b"", 1, 100));
    let (mut offer, sent) = old.send();
    let mut import = new.take(sent);
    let (purged, copy) = old.store.purges.copy();
    new.store.purges.restore_copy(&copy).expect("a copy");
    offer.give(true);
    import.complete();
    new.fills.purge(&key(0));
    new.fills.order(&[Scope::Url(key(1))], Effect::Remove, 10);
    old.fills.remove_likewise(&new.fills.removals()).expect("a slice");
    let of_new = new.store.purges.copy_since(purged);
    old.fills.order_copied(&of_new.1).expect("a copy");
    let stored = |process: &Process| [0, 1, 2, 3].map(|number| process.has(&key(number), 1));
    assert_eq!(stored(&old), [false, false, true, true]);
    // They do not return to where they came from: there, a later response may be stored.
    new.put(&key(0), b"", 1, 100);
    take_more(&mut import, changes(&mut offer));
    let (_, back) = old.store.purges.copy_since(purged);
    new.fills.order_copied(&back).expect("a copy");
    assert_eq!((new.store.purges.now(), stored(&new)), (of_new.0, [true, false, true, true]));
}

#[test]
fn an_offer_that_fails_changes_nothing() {
    let old = Process::new(64 * MIB, "lru");
    (0..10).for_each(|number| _ = old.put(&key(number), b"", 1, 100_000));
    let (offer, _) = old.send();
    old.fills.purge(&key(1));
    assert_eq!(old.fills.arena().held(), 1_000_000, "the successor may still read it");
    drop(offer);
    assert_eq!(old.fills.arena().held(), 900_000);
    assert!((2..10).all(|number| old.has(&key(number), 1)));
    old.validate();
}

/// The process of the test below, which a function without a state changes.
static PACKING: OnceLock<Process> = OnceLock::new();

#[test]
fn packing_goes_on_after_responses_that_large_ones_replace() {
    let process = PACKING.get_or_init(|| Process::new(64 * MIB, "lru"));
    let (numbers, len) = (0..8_000, 3_000);
    numbers.clone().for_each(|number| _ = process.put(&key(number), b"", 1, len));
    // Called between two packs, and at the end.
    process.store.memory.set_trim(|| {
        let process = PACKING.get().expect("it is set");
        (0..8_000).step_by(100).for_each(|number| _ = process.put(&key(number), b"", 2, 70_000));
    });
    drop(process.send());
    let packed = numbers.clone().filter(|number| number % 100 > 0).count() as u64 * len;
    let held = process.fills.arena().held();
    assert!(held > packed + 80 * 70_000, "{held} held");
    assert!(numbers.into_iter().all(|number| process.has(&key(number), 1 + u64::from(number % 100 == 0))));
    process.validate();
}

#[test]
fn groups_of_copied_responses_can_be_invalidated() {
    let (old, new) = (Process::new(64 * MIB, "lru"), Process::new(64 * MIB, "lru"));
    let name = HeaderName::from_static("cache-groups");
    let fields: HeaderMap = [(name, HeaderValue::from_static("\"g\""))].into_iter().collect();
    let fields = LinePool::default().keep(&fields, 0);
    let (status, born, freshness) = (StatusCode::OK, Generation::default(), Freshness::default());
    let key = key_of("http", "site.test", "/");
    let parts = Parts {
        key: &key,
        signature: b"",
        status,
        freshness,
        cost: 0,
        born,
        fields: &fields,
        body: Body::empty(),
    };
    old.store.memory.put(Entry::new(parts).expect("a short key"), None);
    hand_over(&old, &new);
    let group = Scope::Group { origin: key::origin(&key).expect("a key").to_vec(), name: "g".to_owned() };
    new.fills.order(&[group], Effect::Invalid, 10);
    let found = find(&new.store.memory, &key).expect("it stays");
    assert!(new.store.reach(&found.variants()[0]).is_some());
}
