//! Removals before the policy evicts.

use std::time::{Duration, Instant};

use super::support::{Folder, body, store, text};
use larder_disk::{Disk, PruneResult};

const MOST: u64 = u64::MAX;

fn filled(folder: &Folder) -> Disk {
    let disk = folder.open(4 << 20);
    for n in 0..20 {
        store(&disk, text(n).as_bytes(), &body(100 * n, 1), n as u32);
    }
    disk
}

fn left(disk: &Disk) -> Vec<usize> {
    (0..20).filter(|&n| disk.peek(text(n).as_bytes(), 0).is_some()).collect()
}

#[test]
fn pruning_removes_the_chosen_objects_and_keeps_the_rest() {
    let folder = Folder::new();
    let disk = filled(&folder);
    let before = disk.usage();
    let mut dies = |listed: &larder_disk::ObjectSummary| {
        assert_eq!((listed.len, &*listed.meta), (u64::from(listed.stored) * 100, &b"meta"[..]));
        listed.stored.is_multiple_of(2)
    };
    let pruned = disk.prune(MOST, &mut dies, &mut || true);
    let after = disk.usage();
    assert_eq!((pruned.looked, pruned.objects, pruned.bytes), (20, 10, before.live - after.live));
    assert_eq!(left(&disk), (0..20).filter(|n| n % 2 == 1).collect::<Vec<_>>());
    assert_eq!(
        disk.prune(MOST, &mut dies, &mut || true),
        PruneResult { looked: 10, ..PruneResult::default() }
    );
    disk.validate().unwrap();
}

#[test]
fn pruning_takes_its_time_and_ends_when_it_is_told_to() {
    let folder = Folder::new();
    let disk = filled(&folder);
    let (begin, mut turns) = (Instant::now(), 0);
    let pruned = disk.prune(200, &mut |_| true, &mut || {
        turns += 1;
        turns <= 10
    });
    assert_eq!((pruned.looked, pruned.objects, left(&disk).len()), (10, 10, 10));
    assert!(begin.elapsed() >= Duration::from_millis(50), "{:?}", begin.elapsed());
}

#[test]
fn pruning_unused_objects_removes_those_not_used_for_long() {
    let folder = Folder::new();
    let disk = filled(&folder);
    disk.touch(text(3).as_bytes(), 50);
    assert!(disk.find(text(4).as_bytes(), 51, 0).is_some());
    let before = disk.usage();
    let pruned = disk.prune_unused(10);
    assert_eq!((pruned.looked, pruned.objects), (20, 8));
    assert_eq!(pruned.bytes, before.live - disk.usage().live);
    assert_eq!(left(&disk), [3, 4].into_iter().chain(10..20).collect::<Vec<_>>());
    disk.close().unwrap();
    assert_eq!(left(&folder.open(4 << 20)).len(), 12);
}
