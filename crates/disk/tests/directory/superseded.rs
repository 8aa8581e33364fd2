//! When a newer object is not stored, the older one of its key is removed for good.

use std::sync::Arc;
use std::time::Duration;

use super::faults::{Faults, Memory};
use super::support::{self, about, body, store};
use larder_disk::{Disk, ObjectInfo, Options, Writer};

const SIZE: u64 = 4 << 20;

fn open(memory: &Memory) -> Disk {
    let mut options = Options::new(SIZE, "lru".parse().unwrap());
    (options.queue, options.pause) = (400_000, Duration::from_millis(1));
    let disk = Disk::open(Arc::new(memory.clone()), options).unwrap();
    support::until_known(&disk);
    disk
}

/// Ends all faults but crashes.
fn recover(memory: &Memory, disk: &Disk) {
    memory.set_faults(Faults::default());
    while disk.sync().is_err() {
        std::thread::yield_now();
    }
}

/// Fails to store an object.
type Fail = fn(&Memory, &Disk);

/// Stores an object, calls `fail` to fail at storing another in its place, and returns whether the older one
/// is found before and after a crash that leaves no index.
fn older_after(fail: impl FnOnce(&Memory, &Disk)) -> (bool, bool) {
    let memory = Memory::new(1, Faults::default());
    let disk = open(&memory);
    store(&disk, b"k", &body(1000, 1), 1);
    store(&disk, b"other", &body(1000, 1), 1);
    fail(&memory, &disk);
    recover(&memory, &disk);
    let is_there = |disk: &Disk| {
        assert!(disk.peek(b"other", 0).is_some());
        let found = disk.peek(b"k", 1000);
        found.is_some_and(|found| found.content.expect("no other is stored") == body(1000, 1))
    };
    let before = is_there(&disk);
    let crashed = memory.crash(0, Faults::default());
    drop(disk);
    assert!(!crashed.has("index.larder"));
    (before, is_there(&open(&crashed)))
}

fn put(disk: &Disk, len: Option<u64>) -> Writer {
    disk.put(b"k", b"", ObjectInfo { len, ..ObjectInfo::default() }).unwrap()
}

#[test]
fn an_object_that_cannot_be_stored_removes_the_older_one_for_good() {
    let none: [(&str, Fail); 7] = [
        ("longer than any may be", |_, disk| {
            assert!(disk.put(b"k", b"", about(disk.largest() + 1, 1)).is_none());
        }),
        ("meta too long", |_, disk| assert!(disk.put(b"k", &vec![0; (1 << 20) + 1], about(1, 1)).is_none())),
        ("longer than announced", |_, disk| assert!(!put(disk, Some(9)).write(&[0; 10]))),
        ("shorter than announced", |_, disk| {
            let mut writer = put(disk, Some(9));
            assert!(writer.write(&[0; 8]) && !writer.finish());
        }),
        ("longer than any may be, as it turns out", |_, disk| {
            let mut writer = put(disk, None);
            while writer.write(&[0; 100_000]) {
                disk.sync().unwrap();
            }
        }),
        ("full queue", |_, disk| {
            let mut writer = disk.put(b"k", &[0; 500_000], about(1, 1)).unwrap();
            assert!(writer.write(&[0]) && !writer.finish());
        }),
        ("refused: the store has become too small", |_, disk| {
            let mut writer = put(disk, None);
            for _ in 0..17 {
                assert!(writer.write(&[0; 50_000]));
                disk.sync().unwrap();
            }
            disk.set_size(1 << 20);
            assert!(writer.finish());
            disk.sync().unwrap();
            assert_eq!((disk.usage().refused, disk.usage().dropped), (1, 0));
        }),
    ];
    for (why, fail) in none {
        assert_eq!(older_after(fail), (false, false), "{why}");
    }
}

#[test]
fn a_failed_write_removes_the_older_object_for_good() {
    let failing = Faults { failing_writes: 1000, ..Faults::default() };
    for len in [1000, 300_000] {
        let gone = older_after(|memory, disk| {
            let mut writer = put(disk, None);
            memory.set_faults(failing);
            writer.write(&body(len, 2));
            writer.finish();
            let _ = disk.sync();
        });
        assert_eq!(gone, (false, false), "{len} bytes");
    }
    let gone = older_after(|memory, disk| {
        memory.set_faults(failing);
        while !disk.usage().paused {
            // Removals of another object fail until writing is paused.
            disk.remove(b"something else");
            let _ = disk.sync();
        }
        assert!(disk.put(b"k", b"", about(1000, 1)).is_none_or(|mut writer| {
            writer.write(&body(1000, 2));
            writer.finish();
            disk.sync().is_err()
        }));
    });
    assert_eq!(gone, (false, false), "paused");
}

#[test]
fn a_writer_that_is_dropped_leaves_the_older_one() {
    for len in [10, 300_000] {
        let kept = older_after(|_, disk| {
            let mut writer = put(disk, None);
            assert!(writer.write(&body(len, 2)));
            drop(writer);
        });
        assert_eq!(kept, (true, true), "{len} bytes");
    }
}

#[test]
fn an_older_one_on_its_way_in_goes_as_well() {
    let fails: [Fail; 2] = [
        |_, disk| assert!(disk.put(b"k", b"", about(disk.largest() + 1, 1)).is_none()),
        |_, disk| assert!(!put(disk, Some(9)).write(&[0; 10])),
    ];
    for fail in fails {
        let gone = older_after(|memory, disk| {
            disk.remove(b"k");
            let mut older = put(disk, None);
            assert!(older.write(&body(1000, 1)));
            fail(memory, disk);
            assert!(!older.finish());
        });
        assert_eq!(gone, (false, false));
    }
}

#[test]
fn a_newer_one_on_its_way_in_stays() {
    let memory = Memory::new(1, Faults::default());
    let disk = open(&memory);
    store(&disk, b"k", &body(1000, 1), 1);
    let (mut given_up, mut newer) = (put(&disk, Some(9)), put(&disk, Some(1000)));
    assert!(!given_up.write(&[0; 10]));
    assert!(newer.write(&body(1000, 2)) && newer.finish());
    disk.sync().unwrap();
    let is_there = |disk: &Disk| disk.peek(b"k", 1000).unwrap().content.unwrap() == body(1000, 2);
    assert!(is_there(&disk));
    let crashed = memory.crash(0, Faults::default());
    drop(disk);
    assert!(is_there(&open(&crashed)));
}
