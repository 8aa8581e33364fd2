//! Segments that are overwritten or cut short while the store is open: verified bodies are verified again.
//!
//! `LARDER_SEED` repeats the choices of a run.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::support::{Folder, body, leave_memory, store, text, until};
use fastrand::Rng;
use larder_disk::{Directory, Disk, File, Files, Options, Stamp};

const OBJECTS: usize = 12;
const ROUNDS: usize = 8;

/// A directory on a file system without stamps.
struct Silent {
    directory: Directory,
    /// Whether the file system also hides which bytes are in memory.
    is_blind: bool,
}

struct SilentFile {
    file: Arc<dyn File>,
    is_blind: bool,
}

impl Silent {
    fn file(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(SilentFile { file, is_blind: self.is_blind })
    }
}

impl Files for Silent {
    fn list(&self) -> io::Result<Vec<String>> {
        self.directory.list()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.file(self.directory.open(name)?))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.file(self.directory.create(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.directory.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.directory.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.directory.sync()
    }
}

impl File for SilentFile {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        self.file.read_at(into, at)
    }

    fn read_at_once(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        if self.is_blind { self.file.read_at(into, at) } else { self.file.read_at_once(into, at) }
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        self.file.write_at(bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn stamp(&self) -> io::Result<Stamp> {
        Ok(Stamp { size: 0, modified: 1, changed: 1 })
    }

    fn as_file(&self) -> Option<&std::fs::File> {
        self.file.as_file()
    }
}

fn silent(folder: &Folder, is_blind: bool, trust: Duration) -> Disk {
    let options = Options { trust, ..Options::new(64 << 20, "lru".parse().unwrap()) };
    let directory = Directory::open(folder.path()).unwrap();
    Disk::open(Arc::new(Silent { directory, is_blind }), options).unwrap()
}

/// The way in which an object was sent.
enum Sent {
    /// From the file, without being read.
    Unread(Vec<u8>),
    /// Read and verified.
    Read(Vec<u8>),
    /// Not sent: it is damaged, or removed.
    Missing,
}

/// Sends an object as a server does.
fn send(disk: &Disk, key: &[u8]) -> Sent {
    let Some(found) = disk.find(key, 1, 0) else { return Sent::Missing };
    if found.body.verify().is_err() {
        return Sent::Missing;
    }
    if found.body.is_verified() && found.body.is_at_hand(0..found.body.len()) {
        let span = found.body.span();
        let mut bytes = vec![0; span.len as usize];
        let whole = span.file.unwrap().read_exact_at(&mut bytes, span.offset);
        // An incomplete response counts as a wrong one.
        return Sent::Unread(if whole.is_ok() { bytes } else { Vec::new() });
    }
    match found.body.read(0..found.body.len()) {
        Ok(bytes) => Sent::Read(bytes),
        Err(_) => Sent::Missing,
    }
}

fn content(n: usize) -> Vec<u8> {
    body(64_000 + n * 30_000, n as u8)
}

/// Waits until the object counts as verified for other readers than the one that verified it.
fn until_verified(disk: &Disk, key: &[u8]) {
    until("a verified object", || {
        disk.find(key, 1, 0).unwrap().body.verify().unwrap();
        disk.find(key, 1, 0).unwrap().body.is_verified()
    });
}

/// Overwrites a part of a segment, or cuts one short.
fn spoil(folder: &Folder, rng: &mut Rng) {
    let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut segments: Vec<_> =
        names.filter(|path| path.extension().is_some_and(|end| end == "segment")).collect();
    segments.sort();
    let file = OpenOptions::new().write(true).open(&segments[rng.usize(..segments.len())]).unwrap();
    let size = file.metadata().unwrap().len();
    let at = rng.u64(..size.max(1));
    if rng.u8(..4) == 0 {
        return file.set_len(at).unwrap();
    }
    let len = rng.u64(1..500_000).min(size - at) as usize;
    file.write_all_at(&body(len, rng.u8(..)), at).unwrap();
}

/// The results of a run.
#[derive(Debug, Default)]
struct Tally {
    unread: u64,
    read: u64,
    missing: u64,
    wrong: u64,
}

/// Requests objects while segments are damaged between the requests.
fn run(disk: &Disk, folder: &Folder, seed: u64) -> Tally {
    let (mut rng, mut tally) = (Rng::with_seed(seed), Tally::default());
    let ask = |n: usize, tally: &mut Tally| {
        let (sent, count) = match send(disk, text(n).as_bytes()) {
            Sent::Unread(bytes) => (bytes, &mut tally.unread),
            Sent::Read(bytes) => (bytes, &mut tally.read),
            Sent::Missing => return tally.missing += 1,
        };
        *count += 1;
        tally.wrong += u64::from(sent != content(n));
    };
    for _ in 0..ROUNDS {
        for n in 0..OBJECTS {
            let is_there =
                disk.find(text(n).as_bytes(), 1, 0).is_some_and(|found| found.body.verify().is_ok());
            if !is_there {
                store(disk, text(n).as_bytes(), &content(n), 1);
            }
        }
        (0..OBJECTS).for_each(|n| until_verified(disk, text(n).as_bytes()));
        (0..OBJECTS).for_each(|n| ask(n, &mut tally));
        for _ in 0..rng.usize(1..4) {
            spoil(folder, &mut rng);
            (0..OBJECTS).for_each(|_| ask(rng.usize(..OBJECTS), &mut tally));
        }
    }
    println!("{tally:?}");
    tally
}

fn seed() -> u64 {
    let seed = std::env::var("LARDER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!("LARDER_SEED={seed}");
    seed
}

#[test]
fn a_changed_segment_is_verified_before_its_bodies_are_sent_again() {
    let (folder, seed) = (Folder::within(env!("CARGO_TARGET_TMPDIR")), seed());
    let disk = folder.open(64 << 20);
    let tally = run(&disk, &folder, seed);
    assert_eq!(tally.wrong, 0, "seed {seed}: {tally:?}");
    // Objects requested before the change of their round, and still in memory, are sent unread.
    assert!(tally.unread > 0 && tally.missing > 0, "seed {seed}: {tally:?}");
}

/// Stores an object, waits until it is verified, and changes one byte in the middle of it.
fn overwrite(folder: &Folder, disk: &Disk) {
    store(disk, b"k", &content(3), 1);
    until_verified(disk, b"k");
    let (begin, middle) = (disk.find(b"k", 1, 0).unwrap().body.span().offset, content(3).len() / 2);
    let file = OpenOptions::new().write(true).open(folder.path().join("0000000001.segment")).unwrap();
    file.write_all_at(&[!content(3)[middle]], begin + middle as u64).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn one_changed_byte_is_found_at_once() {
    let folder = Folder::within(env!("CARGO_TARGET_TMPDIR"));
    let disk = folder.open(64 << 20);
    overwrite(&folder, &disk);
    assert!(matches!(send(&disk, b"k"), Sent::Missing));
    assert_eq!(disk.usage().corrupt, 1);
}

#[test]
fn unseen_overwrites_serve_wrong_bytes_no_longer_than_the_trust_lasts() {
    let folder = Folder::within(env!("CARGO_TARGET_TMPDIR"));
    let trust = Duration::from_secs(1);
    let disk = silent(&folder, true, trust);
    overwrite(&folder, &disk);
    let changed = Instant::now();
    let mut wrong = 0;
    loop {
        let age = changed.elapsed();
        match send(&disk, b"k") {
            Sent::Missing => break,
            Sent::Unread(bytes) | Sent::Read(bytes) => {
                assert!(bytes != content(3) && age < trust, "{age:?}");
                wrong += 1;
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
    println!("{wrong} wrong answers");
    assert_eq!(disk.usage().corrupt, 1);
}

#[test]
fn where_changes_do_not_show_the_checker_finds_wrong_bytes() {
    let folder = Folder::within(env!("CARGO_TARGET_TMPDIR"));
    let disk = silent(&folder, true, Duration::from_secs(3600));
    overwrite(&folder, &disk);
    assert!(matches!(send(&disk, b"k"), Sent::Unread(bytes) if bytes != content(3)));
}

#[test]
fn a_body_that_has_left_the_page_cache_is_verified_again() {
    let folder = Folder::within(env!("CARGO_TARGET_TMPDIR"));
    let disk = silent(&folder, false, Duration::from_secs(3600));
    overwrite(&folder, &disk);
    let found = disk.find(b"k", 1, 0).unwrap();
    leave_memory(&found.body);
    // The look that found it gone may have begun to read it again, so only what follows from the look is certain.
    assert!(!found.body.is_verified());
    assert!(matches!(send(&disk, b"k"), Sent::Missing));
}

#[test]
fn a_body_read_from_its_beginning_to_its_end_counts_as_verified() {
    let folder = Folder::within(env!("CARGO_TARGET_TMPDIR"));
    let disk = folder.open(64 << 20);
    store(&disk, b"k", &content(3), 1);
    let len = content(3).len() as u64;
    let is_verified = || disk.find(b"k", 1, 0).unwrap().body.is_verified();
    until("a verified object", || {
        let body = disk.find(b"k", 1, 0).unwrap().body;
        assert!([0..1000, 1000..70_000, 70_000..len].into_iter().all(|range| body.read(range).is_ok()));
        is_verified()
    });
    store(&disk, b"other", b"x", 1);
    assert!(!is_verified(), "its segment has changed");
    let body = disk.find(b"k", 1, 0).unwrap().body;
    assert!(body.read(1000..len).is_ok() && !body.is_verified(), "not all of it was read");
}

#[test]
fn a_file_that_was_cut_short_is_noticed_without_reading() {
    let folder = Folder::new();
    let disk = folder.open(64 << 20);
    store(&disk, b"k", &content(3), 1);
    let found = disk.find(b"k", 1, 0).unwrap();
    assert!(found.body.is_there().is_ok());
    let file = OpenOptions::new().write(true).open(folder.path().join("0000000001.segment")).unwrap();
    file.set_len(found.body.span().offset + content(3).len() as u64 - 1).unwrap();
    assert!(found.body.is_there().is_err() && disk.find(b"k", 1, 0).is_none());
    assert_eq!(disk.usage().corrupt, 1);
}
