//! After a crash, and while its disk fails, a store returns the written bytes or no object.
//!
//! Each run has a seed: it chooses the operations, the moment of the crash, and the disk's state after it.
//! The message of a failed run contains its seed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::faults::{Faults, Memory};
use larder_disk::{Disk, ObjectInfo, Options};

const SIZE: u64 = 2 << 20;
const KEYS: u8 = 12;

fn open(memory: &Memory) -> Disk {
    let mut options = Options::new(SIZE, "lru".parse().unwrap());
    options.pause = Duration::from_millis(1);
    let disk = Disk::open(Arc::new(memory.clone()), options).unwrap();
    while disk.is_scanning() {
        std::thread::yield_now();
    }
    disk
}

/// Returns the body of `key` in its `version`, which the body contains.
fn body(key: u8, version: u32) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(u64::from(version) << 8 | u64::from(key));
    let len = match random.u8(..10) {
        0 => random.usize(4..400_000),
        1..4 => random.usize(4..70_000),
        _ => random.usize(4..3000),
    };
    let mut body = vec![0; len];
    random.fill(&mut body);
    body[..4].copy_from_slice(&version.to_le_bytes());
    body
}

/// Returns the version of the object that is found, and asserts that its bytes are the written ones.
fn found(disk: &Disk, key: u8, seed: u64) -> Option<u32> {
    let found = disk.find(&[key], 1, 0)?;
    let bytes = found.body.read(0..found.body.len()).ok()?;
    let version = u32::from_le_bytes(bytes[..4].try_into().unwrap());
    assert!(bytes == body(key, version) && found.meta == [key; 9], "seed {seed}: wrong bytes of {key}");
    Some(version)
}

/// The expected state of a key after a crash.
#[derive(Clone, Copy, Default)]
struct Expected {
    /// Versions up to this were removed durably.
    removed: u32,
    /// The version that must be found.
    version: Option<u32>,
    /// The last version that was removed, durably or not.
    removing: Option<u32>,
}

struct Run {
    seed: u64,
    random: fastrand::Rng,
    expected: HashMap<u8, Expected>,
    version: u32,
    /// Whether there are no faults but crashes, and no evictions: then synced objects have to be found.
    loses_nothing: bool,
}

impl Run {
    fn new(seed: u64, loses_nothing: bool) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self { seed, random, expected: HashMap::new(), version: 0, loses_nothing }
    }

    fn step(&mut self, disk: &Disk) {
        let key = self.random.u8(..KEYS);
        match self.random.u8(..20) {
            0..10 => self.put(disk, key),
            10..12 => {
                disk.remove(&[key]);
                let expected = self.expected.entry(key).or_default();
                (expected.removing, expected.version) = (Some(self.version), None);
                assert_eq!(found(disk, key, self.seed), None, "seed {}: removed", self.seed);
            }
            12..17 => drop(found(disk, key, self.seed)),
            17 | 18 => self.sync(disk),
            _ => drop(disk.snapshot()),
        }
    }

    fn put(&mut self, disk: &Disk, key: u8) {
        self.version += 1;
        self.expected.entry(key).or_default().version = None;
        let body = body(key, self.version);
        let len = self.random.bool().then_some(body.len() as u64);
        let Some(mut writer) = disk.put(&[key], &[key; 9], ObjectInfo { len, stored: 1, cost: 0 }) else {
            return;
        };
        for piece in body.chunks(50_000) {
            writer.write(piece);
        }
        if self.random.u8(..8) > 0 {
            writer.finish();
        }
    }

    fn sync(&mut self, disk: &Disk) {
        if disk.sync().is_err() {
            return;
        }
        for key in 0..KEYS {
            let version = found(disk, key, self.seed);
            let expected = self.expected.entry(key).or_default();
            expected.removed = expected.removing.take().unwrap_or(expected.removed);
            assert!(version.is_none_or(|version| version > expected.removed), "seed {}: back", self.seed);
            expected.version = version;
        }
    }

    /// Checks the objects after a crash.
    fn check(&mut self, disk: &Disk, has_flips: bool) {
        self.loses_nothing &= disk.usage().evictions == 0 && !has_flips;
        for key in 0..KEYS {
            let version = found(disk, key, self.seed);
            let expected = self.expected.entry(key).or_default();
            let is_back = version.is_some_and(|version| version <= expected.removed);
            assert!(!is_back, "seed {}: {version:?} of {key} is back", self.seed);
            if self.loses_nothing && expected.version.is_some() {
                assert_eq!(version, expected.version, "seed {}: key {key} was synced", self.seed);
            }
            // An object that did not survive this crash need not exist after the next.
            expected.version = None;
            expected.removing = None;
        }
        if !has_flips {
            disk.validate().unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
        }
    }
}

/// Runs through `crashes` crashes.
fn live(seed: u64, crashes: usize, flips: usize, faults: Faults) {
    let loses_nothing = flips == 0 && faults.failing_writes + faults.failing_reads == 0;
    let mut run = Run::new(seed, loses_nothing && faults.room.is_none());
    let mut memory = Memory::new(seed, Faults::default());
    for _ in 0..crashes {
        let crash_after = Some(memory.changes() + run.random.u64(1..300));
        let disk = open(&memory);
        memory.set_faults(Faults { crash_after, ..faults });
        for _ in 0..run.random.u32(20..120) {
            run.step(&disk);
        }
        run.loses_nothing &= disk.usage().evictions == 0;
        // The machine stops while the store still works.
        let after = memory.crash(flips, Faults::default());
        memory.set_faults(Faults { crash_after: Some(0), ..faults });
        drop(disk);
        memory = after;
        let disk = open(&memory);
        run.check(&disk, flips > 0);
        drop(disk);
    }
}

#[test]
fn synced_records_survive_crashes_and_removed_ones_do_not_return() {
    (0..150).for_each(|seed| live(seed, 3, 0, Faults::default()));
}

#[test]
fn flipped_bits_are_never_served() {
    (1000..1080).for_each(|seed| live(seed, 2, 1, Faults::default()));
}

#[test]
fn a_disk_that_fails_now_and_then_loses_objects_and_nothing_else() {
    let faults = Faults { failing_writes: 30, failing_reads: 10, ..Faults::default() };
    (2000..2060).for_each(|seed| live(seed, 2, 0, faults));
}

#[test]
fn a_disk_that_other_files_fill_keeps_its_contents_right() {
    let faults = Faults { room: Some(1 << 20), ..Faults::default() };
    (3000..3030).for_each(|seed| live(seed, 2, 0, faults));
}

#[test]
fn a_full_disk_still_takes_new_objects() {
    let memory = Memory::new(1, Faults { room: Some(1 << 20), ..Faults::default() });
    let disk = open(&memory);
    let mut newest = 0;
    for version in 0..400 {
        let mut writer = None;
        while writer.is_none() {
            writer = disk.put(&version_key(version), b"", ObjectInfo::default());
        }
        let mut writer = writer.unwrap();
        writer.write(&[version as u8; 20_000]);
        writer.finish();
        let _ = disk.sync();
        newest += u32::from(disk.find(&version_key(version), 1, 0).is_some());
    }
    assert!(newest > 300, "{newest} of 400 were stored: {:?}", disk.usage());
    disk.validate().unwrap();
}

fn version_key(version: u32) -> [u8; 4] {
    version.to_le_bytes()
}

#[test]
fn writing_stops_for_a_while_after_repeated_errors_and_then_goes_on() {
    let memory = Memory::new(1, Faults::default());
    let disk = open(&memory);
    memory.set_faults(Faults { failing_writes: 1000, ..Faults::default() });
    let mut was_paused = false;
    for version in 0..20 {
        if let Some(mut writer) = disk.put(&version_key(version), b"", ObjectInfo::default()) {
            writer.write(b"body");
            writer.finish();
        }
        // If all writes failed, there is nothing to make durable.
        let _ = disk.sync();
        was_paused |= disk.usage().paused;
    }
    assert!(was_paused && disk.usage().write_errors >= 3 && disk.usage().objects == 0);
    memory.set_faults(Faults::default());
    let mut is_stored = false;
    while !is_stored {
        if let Some(mut writer) = disk.put(b"k", b"", ObjectInfo::default()) {
            writer.write(b"body");
            is_stored = writer.finish() && disk.sync().is_ok() && disk.find(b"k", 1, 0).is_some();
        }
    }
}

#[test]
fn a_damaged_record_is_a_miss_and_is_reported_once() {
    let (sender, events) = std::sync::mpsc::channel();
    let memory = Memory::new(1, Faults::default());
    let mut options = Options::new(SIZE, "lru".parse().unwrap());
    options.report = Arc::new(move |event| drop(sender.send(event)));
    let disk = Disk::open(Arc::new(memory.clone()), options).unwrap();
    for key in 0..3 {
        let mut writer = disk.put(&[key], b"", ObjectInfo::default()).unwrap();
        assert!(writer.write(&[key; 1000]) && writer.finish());
        disk.sync().unwrap();
    }
    // Records begin at 128, 1216 and 2304; a bit of the first body and one of the second head flip, and the
    // third is cut.
    memory.change("0000000001.segment", |bytes| {
        bytes[128 + 100] ^= 1;
        bytes[1216 + 20] ^= 1;
        bytes.truncate(2304 + 500);
    });
    for _ in 0..2 {
        assert!(disk.find(&[0], 1, 0).is_none_or(|found| found.body.read(0..1000).is_err()));
        assert!(disk.find(&[1], 1, 0).is_none());
        assert!(disk.find(&[2], 1, 0).is_none_or(|found| found.body.read(0..1000).is_err()));
    }
    assert_eq!((events.try_iter().count(), disk.usage().corrupt, disk.usage().objects), (3, 3, 0));
    disk.validate().unwrap();
}

#[test]
fn a_check_of_everything_finds_what_is_damaged() {
    let memory = Memory::new(1, Faults::default());
    let disk = open(&memory);
    for key in 0..10 {
        let mut writer = disk.put(&[key], b"", ObjectInfo::default()).unwrap();
        assert!(writer.write(&[key; 1000]) && writer.finish());
    }
    disk.sync().unwrap();
    memory.change("0000000001.segment", |bytes| bytes[128 + 1088 * 4 + 100] ^= 1);
    let verified = disk.verify(u64::MAX, &mut |_| true);
    assert_eq!((verified.objects, verified.bytes, verified.corrupt), (9, 9000, 1));
    assert!(disk.find(&[4], 1, 0).is_none());
    assert_eq!(disk.verify(u64::MAX, &mut |_| false).objects, 0);
}
