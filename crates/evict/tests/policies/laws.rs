//! Laws that every policy in the registry obeys under any sequence of operations.

use std::collections::{BTreeMap, HashMap};

use crate::operations::{Answer, Op, Value, apply, capacity, ops, run};
use larder_evict::{
    AnyShard, Attributes, By, Capacity, FILTERS, InsertResult, Object, POLICIES, Policy, PolicyVisitor,
    Replay, Request, Shape, Spec, UnitAttributes, spread,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// Returns every policy, alone and behind the filter that interferes most with it; and every filter.
fn all_policies() -> impl Iterator<Item = Spec> {
    let names =
        POLICIES.iter().flat_map(|policy| [policy.name.to_owned(), format!("tinylfu+{}", policy.name)]);
    let names = names.chain(FILTERS.iter().map(|filter| format!("{}+lru", filter.name)));
    names
        .chain(["size:max=12+lru", "lecar:discount=0.3"].map(str::to_owned))
        .map(|name| Spec::parse(&name).expect("listed names"))
}

/// Whether the policy admits every object that there is room for.
fn takes_what_has_room(spec: &Spec) -> bool {
    spec.filter().is_none_or(|filter| filter == "tinylfu")
}

/// The expected state of a shard: the residents, and the reasons for removals.
struct Books {
    capacity: Capacity,
    resident: HashMap<u64, (u64, Value)>,
    evictions: u64,
    takes_what_has_room: bool,
}

impl Books {
    fn used(&self) -> u64 {
        self.resident.values().map(|&(size, _)| self.capacity.weigh(size)).sum()
    }

    fn fits(&self, size: u64) -> bool {
        self.capacity.weigh(size).checked_add(self.used()).is_some_and(|sum| sum <= self.capacity.amount)
    }

    /// Records that a value leaves. It must have been resident, and may leave only once.
    fn leave(&mut self, value: Value) {
        let key = self.resident.iter().find(|(_, resident)| resident.1 == value).map(|(&key, _)| key);
        self.resident.remove(&key.expect("what leaves is resident"));
    }

    fn enter(&mut self, op: &Op, serial: Value, answer: &Answer) {
        match *op {
            Op::Get(key) | Op::Peek(key) => {
                assert_eq!(answer.found, self.resident.get(&key).map(|&(_, value)| value));
            }
            Op::Remove(key) => {
                assert_eq!(answer.found, self.resident.remove(&key).map(|(_, value)| value));
            }
            Op::SetCapacity(amount) => {
                self.capacity.amount = amount;
                self.evict(&answer.dropped);
            }
            Op::Clear => {
                answer.dropped.iter().for_each(|&value| self.leave(value));
                assert!(self.resident.is_empty());
            }
            Op::Insert { key, size } => self.insert(key, size, serial, answer),
        }
    }

    fn insert(&mut self, key: u64, size: u64, serial: Value, answer: &Answer) {
        let replaced = self.resident.remove(&key).map(|(_, value)| value);
        let had_room = self.fits(size);
        let (left, victims) = answer.dropped.split_at(usize::from(replaced.is_some()));
        assert_eq!(left.first().copied(), replaced, "what is replaced leaves first");
        self.evict(victims);
        match answer.inserted.as_ref().expect("an insertion has an outcome") {
            InsertResult::Stored => {
                self.resident.insert(key, (size, serial));
                assert!(!had_room || victims.is_empty(), "evicted {victims:?} for no need");
            }
            InsertResult::TooLarge(value) => {
                assert_eq!(*value, serial);
                assert!(self.capacity.weigh(size) > self.capacity.amount && victims.is_empty());
            }
            InsertResult::Refused(value) => {
                assert_eq!(*value, serial);
                assert!(!had_room || !self.takes_what_has_room, "refused what fits beside the others");
            }
        }
    }

    fn evict(&mut self, victims: &[Value]) {
        victims.iter().for_each(|&value| self.leave(value));
        self.evictions += victims.len() as u64;
    }

    fn check(&self, shard: &AnyShard<Value>) {
        assert_eq!(shard.validate(), Ok(()));
        assert_eq!((shard.used(), shard.len()), (self.used(), self.resident.len()));
        assert_eq!((shard.capacity(), shard.evictions()), (self.capacity, self.evictions));
        assert!(shard.used() <= self.capacity.amount);
        let mut seen = HashMap::new();
        shard.for_each(&mut |key, &value| assert!(seen.insert(key, value).is_none()));
        let expected: HashMap<_, _> = self.resident.iter().map(|(&key, &(_, value))| (key, value)).collect();
        assert_eq!(seen, expected);
    }
}

proptest! {
    #[test]
    fn books_balance_after_every_operation(capacity in capacity(), ops in ops()) {
        for spec in all_policies() {
            let mut shard = spec.build(capacity, 7);
            let takes_what_has_room = takes_what_has_room(&spec);
            let mut books = Books { capacity, resident: HashMap::new(), evictions: 0, takes_what_has_room };
            for (serial, op) in ops.iter().enumerate() {
                let answer = apply(&mut shard, op, serial);
                books.enter(op, serial, &answer);
                books.check(&shard);
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_answers(capacity in capacity(), ops in ops()) {
        for spec in all_policies() {
            prop_assert_eq!(run(&spec, capacity, &ops), run(&spec, capacity, &ops));
        }
    }

    #[test]
    fn a_look_that_does_not_count_changes_nothing(capacity in capacity(), ops in ops()) {
        let (looks, acts): (Vec<_>, Vec<_>) = ops.into_iter().partition(|op| matches!(op, Op::Peek(_)));
        for spec in all_policies() {
            let mut shard = spec.build(capacity, 7);
            let expected = acts.iter().enumerate().map(|(serial, op)| {
                let answer = apply(&mut shard, op, serial);
                looks.iter().for_each(|look| drop(apply(&mut shard, look, serial)));
                answer
            });
            prop_assert_eq!(expected.collect::<Vec<_>>(), run(&spec, capacity, &acts));
        }
    }

    #[test]
    fn many_looks_at_once_count_as_one_after_the_other(capacity in capacity(), ops in ops(), count in 0..300_u32) {
        for spec in all_policies() {
            let (mut at_once, mut in_turn) = (spec.build(capacity, 7), spec.build(capacity, 7));
            for (serial, op) in ops.iter().enumerate() {
                if let Op::Get(key) = *op {
                    let found = (0..count).fold(false, |_, _| in_turn.get(key).is_some());
                    prop_assert_eq!(at_once.get_often(key, count), found || in_turn.peek(key).is_some());
                } else {
                    prop_assert_eq!(apply(&mut at_once, op, serial), apply(&mut in_turn, op, serial), "{}", spec);
                }
                prop_assert_eq!(at_once.validate(), Ok(()));
            }
        }
    }

    #[test]
    fn a_walk_meets_once_whatever_stays(
        capacity in capacity(), before in ops(), meanwhile in ops(), most in 1..9_u32
    ) {
        for spec in all_policies() {
            let mut shard = spec.build(capacity, 7);
            before.iter().enumerate().for_each(|(serial, op)| drop(apply(&mut shard, op, serial)));
            let mut stayed = contents(&shard);
            let (mut next, mut met) = (Some(0), BTreeMap::<_, usize>::new());
            let mut meanwhile = (before.len()..).zip(&meanwhile);
            while let Some(from) = next {
                next = shard.walk(from, most, &mut |key, &value| *met.entry((key, value)).or_default() += 1);
                if let Some((serial, op)) = meanwhile.next() {
                    apply(&mut shard, op, serial);
                }
                let now = contents(&shard);
                stayed.retain(|key, value| now.get(key) == Some(value));
            }
            for known in stayed {
                prop_assert_eq!(met.get(&known), Some(&1), "{}", spec);
            }
        }
    }
}

/// Sizes equal to the capacity, above the share of any queue, and of 0.
#[test]
fn only_policies_with_admission_refuse_a_size_that_fits() {
    const WEIGHS: [&str; 4] = ["adaptive", "gdsf", "tinylfu", "wtinylfu"];
    for policy in POLICIES.iter().filter(|policy| !policy.is_offline && !WEIGHS.contains(&policy.name)) {
        let spec = Spec::parse(policy.name).expect("a listed policy");
        let mut shard = spec.build(Capacity { by: By::Bytes, amount: 1_000 }, 7);
        for (key, size) in (0..500_u64).map(|n| (spread(n as u32 % 90), n * 7 % 100)) {
            let _stored = shard.insert(Object { key, size, cost: 1 }, 0, &mut Vec::new());
        }
        for size in [1_000, 0, 700, 0, 1_000, 301, 999, 0] {
            let object = Object { key: spread(100 + size as u32), size, cost: 1 };
            let found = shard.get(object.key).is_some();
            assert!(
                found || shard.insert(object, 1, &mut Vec::new()) == InsertResult::Stored,
                "{spec} {size}"
            );
            assert_eq!(shard.validate(), Ok(()), "{spec} {size}");
            assert!(shard.peek(object.key).is_some(), "{spec} {size}");
        }
    }
}

proptest! {
    #[test]
    fn a_new_policy_takes_over_the_contents(
        capacity in capacity(), ops in ops(), old in any::<Index>(), new in any::<Index>()
    ) {
        let specs: Vec<_> = all_policies().collect();
        let mut shard = old.get(&specs).build(capacity, 7);
        ops.iter().enumerate().for_each(|(serial, op)| drop(apply(&mut shard, op, serial)));
        let (stored, evictions) = (contents(&shard), shard.evictions());
        let heir = new.get(&specs).succeed(&mut shard, 8);
        prop_assert_eq!(heir.validate(), Ok(()));
        prop_assert_eq!((contents(&heir), heir.evictions(), heir.capacity()), (stored, evictions, shard.capacity()));
        prop_assert_eq!((shard.len(), shard.used(), shard.validate()), (0, 0, Ok(())));
    }

    #[test]
    fn a_new_policy_takes_over_the_eviction_order_of_the_old_one(ops in ops()) {
        let capacity = Capacity { by: By::Entries, amount: 20 };
        let mut shard = Spec::parse("lru").unwrap().build(capacity, 7);
        ops.iter().enumerate().for_each(|(serial, op)| drop(apply(&mut shard, op, serial)));
        let mut twin = Spec::parse("lru").unwrap().build(capacity, 7);
        ops.iter().enumerate().for_each(|(serial, op)| drop(apply(&mut twin, op, serial)));
        let (mut expected, mut left) = (Vec::new(), Vec::new());
        twin.set_capacity(0, &mut expected);
        Spec::parse("fifo").unwrap().succeed(&mut shard, 8).set_capacity(0, &mut left);
        prop_assert_eq!(left, expected);
    }
}

fn contents(shard: &AnyShard<Value>) -> BTreeMap<u64, Value> {
    let mut contents = BTreeMap::new();
    shard.for_each(&mut |key, &value| assert!(contents.insert(key, value).is_none()));
    contents
}

/// 24 bytes for key, size and cost, 8 for links, 6.4 to 12.9 for the index, and a share of the last chunk.
#[test]
fn a_queue_spends_few_bytes_an_object_however_long_it_runs() {
    const TABLE: u64 = 1 << 17;
    let just_full = TABLE * 7 / 8 * 8 / 9 - 1;
    for (policy, objects, most) in
        [("fifo", just_full, 40.0), ("lru", just_full, 40.0), ("lru", just_full + 300, 46.0)]
    {
        let capacity = Capacity { by: By::Entries, amount: objects };
        let mut shard = Spec::parse(policy).expect("a listed policy").build(capacity, 7);
        assert_eq!(shard.overhead_per_object(), 0.0);
        for n in 0..10 * objects {
            let key = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            shard.insert(Object { key, size: 1, cost: 1 }, n, &mut Vec::new());
        }
        let overhead = shard.overhead_per_object();
        assert_eq!(shard.len() as u64, objects);
        assert!((38.0..=most).contains(&overhead), "{policy} with {objects} objects: {overhead} bytes each");
    }
}

/// Replays a trace, checks every invariant after each request, and records the hits.
struct ReplayHits<'a> {
    capacity: Capacity,
    requests: &'a [Request],
}

impl PolicyVisitor for ReplayHits<'_> {
    type Output = (Vec<bool>, u64);

    fn run<P: Policy>(self, params: P::Params) -> Self::Output {
        let shape = Shape { objects: OBJECTS, sized: true, costed: true };
        self.replay(Replay::<P>::new(self.capacity, shape, params, 7))
    }
}

impl ReplayHits<'_> {
    fn replay<P: Policy, A: Attributes>(&self, mut replay: Replay<P, A>) -> (Vec<bool>, u64) {
        let hits = self.requests.iter().map(|&request| {
            let is_hit = replay.request(request);
            assert_eq!(replay.validate(), Ok(()));
            is_hit
        });
        (hits.collect(), replay.evictions())
    }
}

/// Replays requests that differ only in their objects, like [`ReplayHits`].
struct AlikeHits<'a>(ReplayHits<'a>);

impl PolicyVisitor for AlikeHits<'_> {
    type Output = (Vec<bool>, u64);

    fn run<P: Policy>(self, params: P::Params) -> Self::Output {
        let empty = |params| Replay::<P, UnitAttributes>::of_alike(self.0.capacity, OBJECTS, params, 7);
        let (hits, evictions) = self.0.replay(empty(params.clone()));
        let mut in_a_row = empty(params);
        let count = in_a_row.requests(self.0.requests.iter().copied());
        assert_eq!(count, hits.iter().filter(|&&is_hit| is_hit).count() as u64);
        assert_eq!((in_a_row.validate(), in_a_row.evictions()), (Ok(()), evictions));
        (hits, evictions)
    }
}

const OBJECTS: u32 = 48;

/// The largest sizes exceed 32 bits.
fn requests() -> impl Strategy<Value = Vec<Request>> {
    let size = prop_oneof![16 => 0..30_u64, 2 => 90..200_u64, 1 => (1_u64 << 32) - 2..(1 << 32) + 2];
    let request = (0..OBJECTS, size, 1..9_u32);
    vec(request.prop_map(|(id, size, cost)| Request { id, size, cost, next: u64::MAX }), 0..400)
}

/// Returns which requests hit in a shard, and the number of evictions.
fn serve(spec: &Spec, capacity: Capacity, requests: &[Request]) -> (Vec<bool>, u64) {
    let mut shard = spec.build(capacity, 7);
    let hits = requests.iter().map(|&Request { id, size, cost, .. }| {
        let key = spread(id);
        let is_hit = shard.get(key).is_some();
        if !is_hit {
            let _stored = shard.insert(Object { key, size, cost }, 0_usize, &mut Vec::new());
        }
        is_hit
    });
    (hits.collect(), shard.evictions())
}

proptest! {
    #[test]
    fn a_replay_counts_the_hits_that_a_shard_serves(capacity in capacity(), requests in requests()) {
        let alike: Vec<_> = requests.iter().map(|request| Request { size: 1, cost: 0, ..*request }).collect();
        for spec in all_policies() {
            let simulated = spec.select(ReplayHits { capacity, requests: &requests });
            prop_assert_eq!(simulated, serve(&spec, capacity, &requests), "{}", spec);
            let simulated = spec.select(AlikeHits(ReplayHits { capacity, requests: &requests }));
            prop_assert_eq!(simulated, serve(&spec, capacity, &alike), "{}, all alike", spec);
        }
    }
}
