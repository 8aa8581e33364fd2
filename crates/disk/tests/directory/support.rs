//! A store in a temporary folder, and bodies for it.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{fs, thread};

use larder_disk::{Body, Directory, Disk, Event, ObjectInfo, OpenError, Options};
use rustix::fs::{Advice, fadvise};

/// The time after which a test has failed. It is long, because machines that run tests can be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A folder that is removed with this value, and the events of the store in it.
pub(crate) struct Folder {
    folder: tempfile::TempDir,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), events: Arc::default() }
    }

    /// Creates the folder within `path`, which is on a disk even where temporary files are not.
    pub(crate) fn within(path: &str) -> Self {
        Self { folder: tempfile::tempdir_in(path).unwrap(), events: Arc::default() }
    }

    pub(crate) fn open(&self, size: u64) -> Disk {
        self.open_with(size, |_| {})
    }

    pub(crate) fn open_with(&self, size: u64, change: impl FnOnce(&mut Options)) -> Disk {
        let mut options = self.options(size);
        change(&mut options);
        Disk::open(Arc::new(Directory::open(self.path()).unwrap()), options).unwrap()
    }

    pub(crate) fn try_open(&self, size: u64) -> Result<Disk, OpenError> {
        Disk::open(Arc::new(Directory::open(self.path())?), self.options(size))
    }

    fn options(&self, size: u64) -> Options {
        let events = Arc::clone(&self.events);
        let report = Arc::new(move |event| events.lock().unwrap().push(event));
        Options { report, ..Options::new(size, "lru".parse().unwrap()) }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap().clone()
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path().join(name)).unwrap()
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path().join(name), bytes).unwrap();
    }

    pub(crate) fn remove(&self, name: &str) {
        fs::remove_file(self.path().join(name)).unwrap();
    }
}

/// Returns the properties of an object before its body arrives.
pub(crate) fn about(len: u64, stored: u32) -> ObjectInfo {
    ObjectInfo { len: Some(len), stored, cost: 0 }
}

/// Returns bytes that differ from place to place and from seed to seed.
pub(crate) fn body(len: usize, seed: u8) -> Vec<u8> {
    fastrand::Rng::with_seed(u64::from(seed)).fill_vec(len)
}

trait FillVec {
    fn fill_vec(self, len: usize) -> Vec<u8>;
}

impl FillVec for fastrand::Rng {
    fn fill_vec(mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.fill(&mut bytes);
        bytes
    }
}

pub(crate) fn text(n: usize) -> String {
    format!("http://example.org/{n}")
}

/// Stores an object and waits until it is written.
pub(crate) fn store(disk: &Disk, key: &[u8], body: &[u8], now: u32) {
    let mut writer = disk.put(key, b"meta", about(body.len() as u64, now)).unwrap();
    assert!(writer.write(body) && writer.finish());
    disk.sync().unwrap();
}

/// Polls `is_so` until it holds. A failure names `what` was awaited.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain: {what}");
        thread::yield_now();
    }
}

/// Drops the pages of `body` from memory. The system may need some of them for a moment.
pub(crate) fn leave_memory(body: &Body) {
    until("pages that leave memory", || {
        fadvise(body.span().file.unwrap(), 0, None, Advice::DontNeed).unwrap();
        !body.is_at_hand(0..body.len())
    });
}

/// Waits until a scan in the background has ended.
pub(crate) fn until_known(disk: &Disk) {
    until("the end of the scan", || !disk.is_scanning());
}
