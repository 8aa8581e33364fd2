//! Any sequence of operations on a shard, under any policy, preserves every invariant.

#![no_main]

use arbitrary::Arbitrary;
use larder_evict::{AnyShard, By, Capacity, Object, POLICIES, Spec};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    policy: usize,
    by_bytes: bool,
    amount: u16,
    seed: u64,
    ops: Vec<Op>,
}

#[derive(Arbitrary, Debug)]
enum Op {
    Get(u8),
    Peek(u8),
    Insert { key: u8, size: u64, cost: u32 },
    InsertSmall { key: u8, size: u8 },
    Remove(u8),
    SetCapacity(u16),
    Clear,
}

fn apply(shard: &mut AnyShard<u8>, op: Op, dropped: &mut Vec<u8>) {
    match op {
        Op::Get(key) => assert!(shard.get(key.into()).is_none_or(|&value| value == key)),
        Op::Peek(key) => assert!(shard.peek(key.into()).is_none_or(|&value| value == key)),
        Op::Remove(key) => assert!(shard.remove(key.into()).is_none_or(|value| value == key)),
        Op::SetCapacity(amount) => shard.set_capacity(amount.into(), dropped),
        Op::Clear => shard.clear(dropped),
        Op::Insert { key, size, cost } => {
            shard.insert(Object { key: key.into(), size, cost }, key, dropped);
        }
        Op::InsertSmall { key, size } => {
            shard.insert(Object { key: key.into(), size: size.into(), cost: 0 }, key, dropped);
        }
    }
}

fuzz_target!(|input: Input| {
    let by = if input.by_bytes { By::Bytes } else { By::Entries };
    let capacity = Capacity { by, amount: input.amount.into() };
    let policy = POLICIES[input.policy % POLICIES.len()].name;
    let mut shard = Spec::parse(policy).expect("a listed policy").build(capacity, input.seed);
    let mut dropped = Vec::new();
    for op in input.ops {
        apply(&mut shard, op, &mut dropped);
        assert_eq!(shard.validate(), Ok(()));
        assert!(shard.used() <= shard.capacity().amount);
    }
});
