//! Sequences of operations on a shard, and the visible result of each.

use larder_evict::{AnyShard, By, Capacity, InsertResult, Object, Spec};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// The stored value: the number of the operation that stored it.
pub(crate) type Value = usize;

/// An operation on a shard.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Get(u64),
    Peek(u64),
    Insert { key: u64, size: u64 },
    Remove(u64),
    SetCapacity(u64),
    Clear,
}

pub(crate) fn ops() -> impl Strategy<Value = Vec<Op>> {
    // Few keys, so that they repeat; spread like hashes except for the low bits, so that some collide.
    let key = |n: u64| (n / 2).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (n % 2) << 40;
    ops_of((0..48).map(key).collect())
}

/// Operations on objects with these keys.
pub(crate) fn ops_of(keys: Vec<u64>) -> impl Strategy<Value = Vec<Op>> {
    let key = || select(keys.clone());
    let op = prop_oneof![
        40 => key().prop_map(Op::Get),
        4 => key().prop_map(Op::Peek),
        40 => (key(), prop_oneof![8 => 0..30_u64, 1 => 90..120_u64, 1 => Just(u64::MAX)])
            .prop_map(|(key, size)| Op::Insert { key, size }),
        8 => key().prop_map(Op::Remove),
        2 => (0..150_u64).prop_map(Op::SetCapacity),
        1 => Just(Op::Clear),
    ];
    vec(op, 0..300)
}

pub(crate) fn capacity() -> impl Strategy<Value = Capacity> {
    let entries = (0..24_u64).prop_map(|amount| Capacity { by: By::Entries, amount });
    let bytes = (0..150_u64).prop_map(|amount| Capacity { by: By::Bytes, amount });
    prop_oneof![entries, bytes]
}

/// The visible result of one operation.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) found: Option<Value>,
    pub(crate) inserted: Option<InsertResult<Value>>,
    pub(crate) dropped: Vec<Value>,
}

/// Applies `op` to a shard; `serial` is the value to insert.
pub(crate) fn apply(shard: &mut AnyShard<Value>, op: &Op, serial: Value) -> Answer {
    let mut answer = Answer::default();
    match *op {
        Op::Get(key) => answer.found = shard.get(key).copied(),
        Op::Peek(key) => answer.found = shard.peek(key).copied(),
        Op::Remove(key) => answer.found = shard.remove(key),
        Op::SetCapacity(amount) => shard.set_capacity(amount, &mut answer.dropped),
        Op::Clear => {
            shard.clear(&mut answer.dropped);
            answer.dropped.sort_unstable(); // the order is not guaranteed
        }
        Op::Insert { key, size } => {
            let object = Object { key, size, cost: 1 };
            answer.inserted = Some(shard.insert(object, serial, &mut answer.dropped));
        }
    }
    answer
}

pub(crate) fn run(spec: &Spec, capacity: Capacity, ops: &[Op]) -> Vec<Answer> {
    let mut shard = spec.build(capacity, 7);
    ops.iter().enumerate().map(|(serial, op)| apply(&mut shard, op, serial)).collect()
}
