//! The store without faults: it returns objects as they were stored, also after a restart.

use super::support::{self, Folder, about, body, text};
use larder_disk::{Directory, Event, ObjectInfo, OpenError};

#[test]
fn a_stored_object_is_found_with_its_content_and_metadata() {
    let folder = Folder::new();
    let disk = folder.open(4 << 20);
    for len in [0, 1, 63, 64, 65_535, 65_536, 65_537, 262_143, 262_144, 900_000] {
        let key = format!("object of {len}");
        let mut writer =
            disk.put(key.as_bytes(), b"head", ObjectInfo { cost: 7, ..about(len as u64, 50) }).unwrap();
        body(len, 1).chunks(100_000).for_each(|piece| assert!(writer.write(piece)));
        assert!(writer.finish());
        disk.sync().unwrap();
        let found = disk.find(key.as_bytes(), 60, 0).unwrap();
        assert_eq!((found.meta.as_slice(), found.stored, found.cost), (&b"head"[..], 50, 7));
        assert_eq!(found.body.read(0..len as u64).unwrap(), body(len, 1), "{len}");
        found.body.verify().unwrap();
        assert!(found.body.is_verified());
    }
    assert!(disk.find(b"another", 60, 0).is_none());
    disk.validate().unwrap();
}

#[test]
fn any_range_of_a_body_is_read_alone() {
    let folder = Folder::new();
    let disk = folder.open(4 << 20);
    support::store(&disk, b"long", &body(300_000, 3), 1);
    let found = disk.find(b"long", 1, 0).unwrap();
    for range in
        [0..0, 0..1, 65_535..65_537, 65_536..131_072, 100..299_999, 299_999..300_000, 300_000..300_000]
    {
        let expected = &body(300_000, 3)[range.start as usize..range.end as usize];
        assert_eq!(found.body.read(range.clone()).unwrap(), expected, "{range:?}");
    }
    assert!(found.body.read(0..300_001).is_err());
    assert!(disk.find(b"long", 1, 0).is_some(), "a range that does not exist is no damage");
}

#[test]
fn a_body_may_go_out_from_its_file() {
    use std::os::unix::fs::FileExt;
    let folder = Folder::new();
    let disk = folder.open(4 << 20);
    support::store(&disk, b"k", &body(70_000, 3), 1);
    let found = disk.find(b"k", 1, 0).unwrap();
    disk.clear();
    disk.sync().unwrap();
    let span = found.body.span();
    let mut read = vec![0; span.len as usize];
    span.file.unwrap().read_exact_at(&mut read, span.offset).unwrap();
    assert_eq!(read, body(70_000, 3), "also when the object has gone");
}

#[test]
fn an_object_that_is_not_finished_leaves_nothing() {
    let folder = Folder::new();
    let disk = folder.open(4 << 20);
    for len in [10, 600_000] {
        let mut writer = disk.put(b"k", b"", about(len, 1)).unwrap();
        assert!(writer.write(&body(len as usize - 1, 1)));
        drop(writer);
        let mut writer = disk.put(b"k", b"", about(len, 1)).unwrap();
        assert!(writer.write(&body(len as usize - 1, 1)));
        assert!(!writer.finish(), "a byte is missing");
        let mut writer = disk.put(b"k", b"", about(len, 1)).unwrap();
        assert!(!writer.write(&body(len as usize + 1, 1)), "a byte too many");
        disk.sync().unwrap();
        assert!(disk.find(b"k", 1, 0).is_none());
    }
    assert_eq!(disk.usage().dropped, 4);
    disk.validate().unwrap();
}

#[test]
fn several_long_objects_are_written_at_once() {
    let folder = Folder::new();
    let disk = folder.open(32 << 20);
    let mut writers: Vec<_> = (0..8_u8)
        .map(|n| (n, disk.put(&[n], b"", ObjectInfo { stored: 1, ..ObjectInfo::default() }).unwrap()))
        .collect();
    for piece in body(700_000, 5).chunks(50_000) {
        writers.iter_mut().for_each(|(_, writer)| assert!(writer.write(piece)));
    }
    writers.into_iter().for_each(|(_, writer)| assert!(writer.finish()));
    disk.sync().unwrap();
    for n in 0..8 {
        assert_eq!(disk.find(&[n], 1, 0).unwrap().body.read(0..700_000).unwrap(), body(700_000, 5));
    }
    disk.validate().unwrap();
}

#[test]
fn an_object_of_half_the_size_fits_into_a_full_store() {
    for policy in ["fifo", "sieve", "adaptive"] {
        let folder = Folder::new();
        let disk = folder.open_with(8 << 20, |options| options.policy = policy.parse().unwrap());
        let put = |key: u16, body: &[u8]| support::store(&disk, &key.to_le_bytes(), body, 1);
        (0..100).for_each(|key| put(key, &body(80_000, 1)));
        let large = body(disk.largest() as usize - 4096, 9);
        assert!(large.len() > 4_000_000, "{policy}: {}", large.len());
        for key in 1000..1003 {
            put(key, &large);
            let found = disk.find(&key.to_le_bytes(), 1, 0).unwrap_or_else(|| panic!("{policy}: {key}"));
            assert!(found.body.read(0..large.len() as u64).unwrap() == large, "{policy}");
        }
        disk.validate().unwrap_or_else(|error| panic!("{policy}: {error}"));
    }
}

#[test]
fn an_object_removed_during_its_write_is_not_published() {
    let folder = Folder::new();
    let disk = folder.open(4 << 20);
    for len in [100, 600_000] {
        let mut writer = disk.put(b"k", b"", about(len, 1)).unwrap();
        assert!(writer.write(&body(len as usize / 2, 1)));
        disk.remove(b"k");
        assert!(!writer.write(&body(len as usize / 2, 1)));
        assert!(!writer.finish());
        let mut writer = disk.put(b"k", b"", about(len, 1)).unwrap();
        assert!(writer.write(&body(len as usize, 1)));
        assert!(writer.finish());
        disk.remove(b"k");
        disk.sync().unwrap();
        assert!(disk.find(b"k", 1, 0).is_none(), "finished, and removed while it waited to be written");
    }
}

#[test]
fn a_writer_that_outlives_its_store_stores_nothing() {
    let folder = Folder::new();
    let disk = folder.open(4 << 20);
    let mut writer = disk.put(b"k", b"", about(4, 1)).unwrap();
    drop(disk);
    assert!(writer.write(b"body"));
    assert!(!writer.finish());
}

#[test]
fn a_full_queue_drops_and_counts() {
    let folder = Folder::new();
    let disk = folder.open_with(4 << 20, |options| options.queue = 1000);
    let mut writer = disk.put(b"k", b"", ObjectInfo::default()).unwrap();
    assert!(writer.write(&[0; 2000]));
    assert!(!writer.finish());
    assert_eq!((disk.usage().dropped, disk.usage().queued), (1, 0));
}

#[test]
fn an_object_too_large_to_store_is_refused_at_once() {
    let folder = Folder::new();
    let disk = folder.open(4 << 20);
    assert!(disk.put(&vec![0; 65_536], b"", about(1, 1)).is_none());
    assert!(disk.put(b"k", &vec![0; (1 << 20) + 1], about(1, 1)).is_none());
    assert!(disk.put(b"k", b"", about(disk.largest() + 1, 1)).is_none());
    let mut endless = disk.put(b"k", b"", ObjectInfo::default()).unwrap();
    let taken = (0..100).take_while(|_| endless.write(&[0; 100_000])).count();
    assert!((5..50).contains(&taken), "{taken} pieces");
    assert_eq!(disk.usage().dropped, 4);
}

#[test]
fn a_restart_finds_the_stored_objects() {
    let folder = Folder::new();
    let disk = folder.open(4 << 20);
    for n in 0..100 {
        support::store(&disk, text(n).as_bytes(), &body(3000 + n, n as u8), 10);
    }
    assert!(disk.find(text(7).as_bytes(), 99, 0).is_some());
    disk.close().unwrap();
    let disk = folder.open(4 << 20);
    assert!(!disk.is_scanning());
    for n in 0..100 {
        let found = disk.peek(text(n).as_bytes(), 0).unwrap();
        assert!(!found.body.is_verified());
        assert_eq!(found.body.read(0..found.body.len()).unwrap(), body(3000 + n, n as u8));
    }
    let mut listed = Vec::new();
    disk.list(&mut |object| {
        listed.push((object.key, object.len, object.stored, object.used));
        true
    });
    listed.sort();
    let used = |n| if n == 7 { 99 } else { 10 };
    let mut expected: Vec<_> =
        (0..100).map(|n| (text(n).into_bytes(), 3000 + n as u64, 10, used(n))).collect();
    expected.sort();
    assert_eq!(listed, expected);
    disk.validate().unwrap();
}

#[test]
fn the_order_of_use_survives_a_restart() {
    let folder = Folder::new();
    let disk = folder.open(4 << 20);
    for n in 0..40 {
        support::store(&disk, text(n).as_bytes(), &body(50_000, n as u8), n as u32);
    }
    for n in (0..20).rev() {
        assert!(disk.find(text(n).as_bytes(), 100 - n as u32, 0).is_some());
    }
    disk.close().unwrap();
    let disk = folder.open(4 << 20);
    // Room for some 66: the least recently used are evicted first.
    for n in 40..90 {
        support::store(&disk, text(n).as_bytes(), &body(50_000, n as u8), 200);
    }
    let known: Vec<_> = (0..40).filter(|&n| disk.peek(text(n).as_bytes(), 0).is_some()).collect();
    assert!((5..20).contains(&known.len()), "{known:?}");
    assert_eq!(known, (0..known.len()).collect::<Vec<_>>(), "the others were used before");
}

#[test]
fn removals_survive_with_and_without_a_snapshot() {
    for has_snapshot in [true, false] {
        let folder = Folder::new();
        let disk = folder.open(4 << 20);
        for n in 0..10 {
            support::store(&disk, text(n).as_bytes(), &body(100, 1), 1);
            support::store(&disk, text(n).as_bytes(), &body(100, 2), 1);
        }
        disk.snapshot().unwrap();
        for n in 0..5 {
            disk.remove(text(n).as_bytes());
        }
        support::store(&disk, text(0).as_bytes(), &body(100, 3), 1);
        disk.sync().unwrap();
        drop(disk);
        if !has_snapshot {
            folder.remove("index.larder");
        }
        let disk = folder.open(4 << 20);
        support::until_known(&disk);
        for n in 0..10 {
            let found = disk.peek(text(n).as_bytes(), 0).map(|found| found.body.read(0..100).unwrap());
            let expected = match n {
                0 => Some(3),
                1..5 => None,
                _ => Some(2),
            };
            assert_eq!(found, expected.map(|seed| body(100, seed)), "{n}, snapshot: {has_snapshot}");
        }
    }
}

#[test]
fn a_cleared_store_stays_empty() {
    let folder = Folder::new();
    let disk = folder.open(4 << 20);
    support::store(&disk, b"before", &body(70_000, 1), 1);
    disk.snapshot().unwrap();
    disk.clear();
    disk.sync().unwrap();
    support::store(&disk, b"after", &body(100, 1), 1);
    assert!(disk.usage().occupied < 10_000);
    drop(disk);
    let disk = folder.open(4 << 20);
    assert!(disk.peek(b"before", 0).is_none() && disk.peek(b"after", 0).is_some());
}

#[test]
fn a_directory_has_one_user() {
    let folder = Folder::new();
    let _disk = folder.open(4 << 20);
    let error = Directory::open(folder.path()).unwrap_err();
    let pid = std::process::id();
    assert!(matches!(error, OpenError::InUse { pid: Some(user), .. } if user == pid), "{error}");
    assert_eq!(error.to_string(), format!("{} is in use by process {pid}", folder.path().display()));
}

#[test]
fn a_released_directory_has_another_user_while_found_objects_are_read() {
    let folder = Folder::new();
    let first = folder.open(4 << 20);
    support::store(&first, b"k", &body(300_000, 1), 1);
    let found = first.find(b"k", 1, 0).unwrap();
    first.release().unwrap();
    let second = folder.open(4 << 20);
    assert!(!second.is_scanning(), "all that was stored is known");
    assert!(first.put(b"l", b"meta", about(1, 1)).is_none(), "the first writes no more");
    second.clear();
    second.sync().unwrap();
    assert_eq!(found.body.read(0..300_000).unwrap(), body(300_000, 1));
    support::store(&second, b"l", &body(10, 2), 1);
    drop((first, found));
    second.close().unwrap();
    assert!(folder.open(4 << 20).find(b"l", 1, 0).is_some());
}

#[test]
fn a_directory_without_a_cache_is_named_with_the_cause() {
    let folder = Folder::new();
    let absent = folder.path().join("absent");
    for (path, why) in
        [(folder.path(), "it has no file larder.lock"), (absent.as_path(), "there is no such directory")]
    {
        let error = Directory::must_exist(path).unwrap_err();
        assert_eq!(error.to_string(), format!("no disk cache is in {}: {why}", path.display()));
    }
}

#[test]
fn foreign_files_are_left_alone() {
    let folder = Folder::new();
    let ours = b"not a segment, whatever its name says";
    folder.write("0000000003.segment", ours);
    folder.write("notes.txt", ours);
    folder.write("index.larder", ours);
    let disk = folder.open(4 << 20);
    support::store(&disk, b"k", &body(100, 1), 1);
    assert!(disk.find(b"k", 1, 0).is_some());
    assert_eq!(folder.events(), [Event::Foreign { name: "0000000003.segment".into() }]);
    drop(disk);
    assert_eq!(folder.read("0000000003.segment"), ours);
    assert_eq!(folder.read("notes.txt"), ours);
}

#[test]
fn a_later_format_is_one_clear_error() {
    let folder = Folder::new();
    let disk = folder.open(4 << 20);
    support::store(&disk, b"k", &body(100, 1), 1);
    disk.close().unwrap();
    let name = "0000000001.segment";
    let before = folder.read(name);
    let mut later = before.clone();
    later[8] = 2;
    let sum = twox_hash::XxHash3_64::oneshot(&later[..32]);
    later[32..40].copy_from_slice(&sum.to_le_bytes());
    folder.write(name, &later);
    let error = folder.try_open(4 << 20).err().unwrap().to_string();
    assert_eq!(error, format!("{name} has format 2, and this version reads up to format 1"));
    assert_eq!(folder.read(name), later);
}

#[test]
fn size_and_policy_change_while_it_runs() {
    let folder = Folder::new();
    let disk = folder.open(8 << 20);
    for n in 0..100 {
        support::store(&disk, text(n).as_bytes(), &body(60_000, n as u8), 1);
    }
    disk.set_policy(&"fifo".parse().unwrap());
    disk.set_size(2 << 20);
    disk.sync().unwrap();
    let usage = disk.usage();
    assert!(usage.occupied <= 2 << 20 && usage.objects > 5, "{usage:?}");
    for n in 0..100 {
        if let Some(found) = disk.find(text(n).as_bytes(), 2, 0) {
            assert_eq!(found.body.read(0..60_000).unwrap(), body(60_000, n as u8));
        }
    }
    disk.validate().unwrap();
}
