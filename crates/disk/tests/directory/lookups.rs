//! Lookups: with short bodies, without waiting, and the counters of each.

use std::sync::Arc;

use super::faults::{Faults, Memory};
use super::support::{Folder, about, body, leave_memory, store, until};
use larder_disk::{AtOnce, Disk, Options, StoredObject};

#[test]
fn a_body_that_is_short_enough_comes_along() {
    let folder = Folder::new();
    let disk = folder.open(4 << 20);
    for len in [0, 1, 900, 4096, 65_536, 65_537, 300_000] {
        store(&disk, b"k", &body(len, 1), 1);
        for whole in [0, 1, len as u64 / 2, len as u64, len as u64 + 1, u64::MAX] {
            let content = (len as u64 <= whole).then(|| body(len, 1));
            let found = disk.find(b"k", 1, whole).unwrap();
            assert_eq!((&*found.meta, found.body.len()), (&b"meta"[..], len as u64));
            assert!(found.content == content, "{whole} bytes asked for, {len} there");
            assert!(disk.peek(b"k", whole).unwrap().content == content);
        }
    }
}

#[test]
fn a_long_meta_does_not_keep_a_short_body_back() {
    let folder = Folder::new();
    let disk = folder.open(4 << 20);
    let mut writer = disk.put(b"k", &body(100_000, 2), about(5000, 1)).unwrap();
    assert!(writer.write(&body(5000, 1)) && writer.finish());
    disk.sync().unwrap();
    let found = disk.find(b"k", 1, 5000).unwrap();
    assert!(found.meta == body(100_000, 2) && found.content.unwrap() == body(5000, 1));
}

/// Finds an object without waiting. The system may drop pages at any time, so it is read until it stays in memory.
fn found_at_once(disk: &Disk, key: &[u8], whole: u64) -> StoredObject {
    let mut at_once = None;
    until("the object in memory", || {
        match disk.find_at_once(key, 1, whole) {
            AtOnce::Found(found) => at_once = Some(found),
            AtOnce::Waits => drop(disk.find(key, 1, whole).unwrap()),
            AtOnce::Absent => panic!("it is stored"),
        }
        at_once.is_some()
    });
    at_once.unwrap()
}

#[test]
fn only_bodies_in_memory_are_found_at_once() {
    let folder = Folder::within(env!("CARGO_TARGET_TMPDIR"));
    let disk = folder.open(4 << 20);
    store(&disk, b"k", &body(300_000, 1), 1);
    let found = found_at_once(&disk, b"k", 300_000);
    assert!(found.content.unwrap() == body(300_000, 1));
    until("all of it in memory", || {
        found_at_once(&disk, b"k", 300_000);
        found.body.is_at_hand(0..300_000)
    });
    assert!(found.body.is_at_hand(7..7));
    assert!(!found.body.is_at_hand(0..300_001), "there are no such bytes");
    assert!(matches!(disk.find_at_once(b"another", 1, 0), AtOnce::Absent));
    // The page with its head may still be on its way to the device, and stays in memory until then.
    until("the head to leave memory", || {
        leave_memory(&found.body);
        matches!(disk.find_at_once(b"k", 1, 0), AtOnce::Waits)
    });
    assert!(disk.find(b"k", 1, 300_000).unwrap().content.unwrap() == body(300_000, 1));
    assert!(found_at_once(&disk, b"k", 300_000).content.unwrap() == body(300_000, 1));
    let usage = disk.usage();
    assert_eq!((usage.misses, usage.corrupt), (1, 0));
}

#[test]
fn a_lookup_that_would_wait_counts_for_nothing() {
    let memory = Memory::new(1, Faults::default());
    let disk = Disk::open(Arc::new(memory.clone()), Options::new(4 << 20, "lru".parse().unwrap())).unwrap();
    store(&disk, b"k", &body(100, 1), 1);
    memory.set_faults(Faults { nothing_at_once: true, ..Faults::default() });
    assert!(matches!(disk.find_at_once(b"k", 9, 0), AtOnce::Waits));
    assert!(!disk.peek(b"k", 0).unwrap().body.is_at_hand(0..100));
    disk.list(&mut |listed| {
        assert_eq!(listed.used, 1);
        true
    });
    assert_eq!((disk.usage().hits, disk.usage().misses), (0, 0));
}

#[test]
fn damage_in_a_body_that_comes_along_is_a_miss() {
    for at_once in [true, false] {
        let folder = Folder::new();
        let disk = folder.open(4 << 20);
        store(&disk, b"k", &body(1000, 1), 1);
        let name = "0000000001.segment";
        let mut bytes = folder.read(name);
        bytes[128 + 500] ^= 1;
        folder.write(name, &bytes);
        match at_once {
            true => assert!(matches!(disk.find_at_once(b"k", 1, 1000), AtOnce::Absent)),
            false => assert!(disk.find(b"k", 1, 1000).is_none()),
        }
        let usage = disk.usage();
        assert_eq!((usage.corrupt, usage.objects, usage.hits, usage.misses), (1, 0, 0, 1));
    }
}

#[test]
fn an_object_keeps_its_serial_wherever_it_is() {
    let folder = Folder::new();
    let disk = folder.open(1 << 20);
    store(&disk, b"before", &body(100, 1), 1);
    store(&disk, b"k", &body(100, 1), 1);
    let (first, begin) = (disk.peek(b"k", 0).unwrap().serial, disk.peek(b"k", 0).unwrap().body.span().offset);
    let mut places = vec![];
    for n in 0..200_u8 {
        store(&disk, &[n, n], &body(20_000, n), 1);
        let found = disk.find(b"k", 1, 0).unwrap();
        assert_eq!(found.serial, first);
        places.push(found.body.span().offset);
    }
    assert!(places.iter().any(|&place| place != begin), "it was moved");
    disk.close().unwrap();
    let disk = folder.open(1 << 20);
    assert_eq!(disk.peek(b"k", 0).unwrap().serial, first);
    store(&disk, b"k", &body(100, 1), 1);
    assert!(disk.peek(b"k", 0).unwrap().serial > first, "this is another");
}

#[test]
fn a_touch_is_a_use_and_no_hit() {
    let folder = Folder::new();
    let disk = folder.open(1 << 20);
    store(&disk, b"kept", &body(20_000, 1), 1);
    for n in 0..100_u8 {
        disk.touch(b"kept", 5);
        disk.touch(b"none", 5);
        store(&disk, &[n], &body(20_000, n), 1);
    }
    assert!(disk.usage().evictions > 0);
    let mut used = None;
    disk.list(&mut |listed| {
        used = (listed.key == b"kept").then_some(listed.used);
        used.is_none()
    });
    assert_eq!(used, Some(5));
    assert_eq!((disk.usage().hits, disk.usage().misses), (0, 0));
}
