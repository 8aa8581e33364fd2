//! The cost of cleaning: bytes written for each byte stored, with a full store.

use std::sync::Arc;

use super::faults::{Faults, Memory};
use larder_disk::{Disk, ObjectInfo, Options, Usage};

const SIZE: u64 = 16 << 20;

fn open(memory: &Memory, policy: &str) -> Disk {
    Disk::open(Arc::new(memory.clone()), Options::new(SIZE, policy.parse().unwrap())).unwrap()
}

fn put(disk: &Disk, key: u64, len: usize) {
    let about = ObjectInfo { len: Some(len as u64), ..ObjectInfo::default() };
    let mut writer = disk.put(&key.to_le_bytes(), b"", about).unwrap();
    assert!(writer.write(&vec![key as u8; len]) && writer.finish());
}

/// Requests objects of some kilobytes with the distribution of a web cache, popular ones far more often, and
/// stores missing ones, until six times the size was stored.
fn serve(policy: &str) -> Usage {
    let memory = Memory::new(1, Faults::default());
    let disk = open(&memory, policy);
    let mut random = fastrand::Rng::with_seed(1);
    for now in 0.. {
        // Zipf's law with exponent 0.9 over 20,000 objects, by the inverse of its integral.
        let rank = (random.f64() * (20_000_f64.powf(0.1) - 1.0) + 1.0).powf(10.0) as u64;
        let len = 1000 + fastrand::Rng::with_seed(rank).usize(..12_000);
        match disk.find(&rank.to_le_bytes(), now, 0) {
            Some(found) => assert_eq!(found.body.len(), len as u64),
            None => put(&disk, rank, len),
        }
        if now % 64 == 0 {
            disk.sync().unwrap();
            if disk.usage().accepted_bytes > 6 * SIZE {
                break;
            }
        }
    }
    disk.validate().unwrap();
    let usage = disk.usage();
    assert!(usage.occupied <= SIZE && usage.dropped == 0 && usage.corrupt == 0, "{policy}: {usage:?}");
    assert!(usage.live > SIZE * 7 / 10, "{policy} keeps only {} bytes", usage.live);
    usage
}

#[test]
fn fifo_hardly_moves_anything() {
    let amplification = serve("fifo").write_amplification();
    assert!(amplification <= 1.05, "{amplification}");
}

#[test]
fn lru_moves_less_than_half_a_byte_for_each_byte_stored() {
    let amplification = serve("lru").write_amplification();
    assert!(amplification <= 1.5, "{amplification}");
}

#[test]
fn removal_marks_are_dropped_once_no_record_needs_them() {
    let memory = Memory::new(1, Faults::default());
    let disk = open(&memory, "fifo");
    for key in 0..200_000_u64 {
        disk.remove(&key.to_le_bytes());
        if key % 100 == 0 {
            put(&disk, 1 << 40 | key, 5000);
            disk.sync().unwrap();
        }
    }
    let usage = disk.usage();
    assert!(usage.occupied <= SIZE && usage.objects > 500, "{usage:?}");
    disk.validate().unwrap();
}

#[test]
fn many_starts_do_not_leave_many_segments() {
    let memory = Memory::new(1, Faults::default());
    for key in 0..400 {
        let disk = open(&memory, "lru");
        put(&disk, key, 1000);
        disk.close().unwrap();
    }
    let disk = open(&memory, "lru");
    assert!(disk.usage().segments < 300, "{}", disk.usage().segments);
    assert!((0..400_u64).all(|key| disk.find(&key.to_le_bytes(), 1, 0).is_some()));
}
