//! A store is a map that loses no entry as long as there is room, for any operations and any number of restarts.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::faults::{Faults, Memory};
use larder_disk::{AtOnce, Disk, ObjectInfo, Options};
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Put {
        key: u8,
        seed: u8,
        len: usize,
    },
    Abandon {
        key: u8,
        len: usize,
    },
    Remove(u8),
    Find {
        key: u8,
        whole: u64,
    },
    Clear,
    Snapshot,
    /// Closes or drops the store, then opens it with or without the snapshot.
    Reopen {
        close: bool,
        forget: bool,
    },
    SetPolicy(&'static str),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = || 0..10_u8;
    let len = || prop_oneof![4 => 0..2000_usize, 1 => 60_000..70_000_usize, 1 => 250_000..300_000_usize];
    let op = prop_oneof![
        20 => (key(), any::<u8>(), len()).prop_map(|(key, seed, len)| Op::Put { key, seed, len }),
        3 => (key(), len()).prop_map(|(key, len)| Op::Abandon { key, len }),
        6 => key().prop_map(Op::Remove),
        10 => (key(), prop_oneof![0..3000_u64, Just(u64::MAX)]).prop_map(|(key, whole)| Op::Find { key, whole }),
        1 => Just(Op::Clear),
        3 => Just(Op::Snapshot),
        3 => (any::<bool>(), any::<bool>()).prop_map(|(close, forget)| Op::Reopen { close, forget }),
        1 => prop_oneof![Just("fifo"), Just("sieve"), Just("adaptive")].prop_map(Op::SetPolicy),
    ];
    vec(op, 0..60)
}

fn open(memory: &Memory) -> Disk {
    let disk = Disk::open(Arc::new(memory.clone()), Options::new(64 << 20, "lru".parse().unwrap())).unwrap();
    while disk.is_scanning() {
        std::thread::yield_now();
    }
    disk
}

fn body(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ seed).collect()
}

type Model = BTreeMap<u8, (u8, usize)>;

fn check(disk: &Disk, model: &Model) {
    for key in 0..10 {
        let found = disk.peek(&[key], 0).map(|found| found.body.read(0..found.body.len()).unwrap());
        assert!(found == model.get(&key).map(|&(seed, len)| body(seed, len)), "key {key}");
    }
    let mut listed = BTreeMap::new();
    disk.list(&mut |object| listed.insert(object.key[0], object.len as usize).is_none());
    assert_eq!(listed, model.iter().map(|(&key, &(_, len))| (key, len)).collect());
    assert_eq!(disk.usage().objects, model.len() as u64);
    disk.validate().unwrap();
}

/// A lookup has the same result with and without waiting, and counts once.
fn find(disk: &Disk, model: &Model, key: u8, whole: u64) {
    let before = disk.usage();
    let found = match disk.find_at_once(&[key], 1, whole) {
        AtOnce::Found(found) => Some(found),
        AtOnce::Absent => None,
        AtOnce::Waits => disk.find(&[key], 1, whole),
    };
    let expected = model.get(&key).map(|&(seed, len)| body(seed, len));
    let is_short = expected.as_ref().is_some_and(|body| body.len() as u64 <= whole);
    let after = disk.usage();
    let (hits, misses) = (after.hits - before.hits, after.misses - before.misses);
    assert_eq!((hits, misses), if expected.is_some() { (1, 0) } else { (0, 1) });
    assert_eq!(found.as_ref().map(|found| found.body.len()), expected.as_ref().map(|body| body.len() as u64));
    assert!(
        found.and_then(|found| found.content) == expected.filter(|_| is_short),
        "key {key}, whole {whole}"
    );
}

fn apply(disk: Disk, memory: &Memory, model: &mut Model, op: &Op) -> Disk {
    match *op {
        Op::Put { key, seed, len } => {
            let about = ObjectInfo { len: (seed % 2 == 0).then_some(len as u64), ..ObjectInfo::default() };
            let mut writer = disk.put(&[key], b"", about).unwrap();
            assert!(writer.write(&body(seed, len)) && writer.finish());
            model.insert(key, (seed, len));
        }
        Op::Abandon { key, len } => {
            let mut writer = disk.put(&[key], b"", ObjectInfo::default()).unwrap();
            assert!(writer.write(&body(0, len)));
        }
        Op::Remove(key) => {
            disk.remove(&[key]);
            model.remove(&key);
        }
        Op::Find { key, whole } => find(&disk, model, key, whole),
        Op::Clear => {
            disk.clear();
            model.clear();
        }
        Op::Snapshot => disk.snapshot().unwrap(),
        Op::SetPolicy(policy) => disk.set_policy(&policy.parse().unwrap()),
        Op::Reopen { close, forget } => {
            match close {
                true => disk.close().unwrap(),
                false => drop(disk),
            }
            if forget && memory.has("index.larder") {
                memory.change("index.larder", |bytes| bytes[0] ^= 1);
            }
            return open(memory);
        }
    }
    disk
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn a_store_is_a_map(ops in ops()) {
        let memory = Memory::new(1, Faults::default());
        let (mut disk, mut model) = (open(&memory), Model::new());
        for op in &ops {
            disk = apply(disk, &memory, &mut model, op);
            disk.sync().unwrap();
            check(&disk, &model);
        }
    }
}
