//! One directory of the disk tier. It may become available late: until then, the proxy serves without it.

use std::hash::Hasher;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::UNIX_EPOCH;

use larder_disk::{Directory, Disk, Event, OpenError, Options, Usage};
use larder_evict::Spec;
use parking_lot::Mutex;
use siphasher::sip::SipHasher13;

use super::journal::{self, Journal};
use crate::Purges;
use crate::purges::JournalPurge;
use crate::tier::PartUsage;

/// The configuration of a directory of the disk tier.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskTier {
    /// The path; the directory is created if it does not exist.
    pub path: PathBuf,
    /// Bytes that its files may take; at least 1 MiB.
    pub size: u64,
    /// The eviction policy, perhaps behind an admission filter.
    pub policy: Spec,
    /// The largest body stored, in bytes; `None`: limited only by the directory.
    pub max_object: Option<u64>,
}

impl DiskTier {
    /// Returns the configuration for `path` with 10 GiB under SIEVE, which takes little memory for each
    /// object and seldom moves one.
    pub fn at(path: PathBuf) -> Self {
        let policy = Spec::parse("sieve").unwrap_or_default();
        Self { path, size: 10 << 30, policy, max_object: None }
    }
}

/// Receives failures, with the directory that they occurred in.
pub type EventHandler = Arc<dyn Fn(&Path, Event) + Send + Sync>;

/// A directory, opened or not yet opened.
pub struct Drive {
    path: PathBuf,
    /// A hash of the path, for the assignment of keys to drives.
    seed: u64,
    size: AtomicU64,
    max_object: AtomicU64,
    policy: Mutex<Spec>,
    disk: OnceLock<Arc<Disk>>,
    /// Whether another process may use the directory now.
    is_released: AtomicBool,
    purges: Arc<Purges>,
    journal: OnceLock<(Journal, EventHandler)>,
    journal_errors: AtomicU64,
    /// Whether it was reported that the journal cannot be written.
    is_told: AtomicBool,
    /// Whether it was reported that another version of Larder has stored responses here.
    is_told_of_other_version: AtomicBool,
    trouble: Arc<Mutex<Option<String>>>,
}

impl Drive {
    pub(super) fn new(tier: &DiskTier, purges: &Arc<Purges>) -> Self {
        let mut path = SipHasher13::new();
        path.write(tier.path.as_os_str().as_encoded_bytes());
        Self {
            path: tier.path.clone(),
            seed: path.finish(),
            size: AtomicU64::new(tier.size),
            max_object: AtomicU64::new(tier.max_object.unwrap_or(u64::MAX)),
            policy: Mutex::new(tier.policy.clone()),
            disk: OnceLock::new(),
            is_released: AtomicBool::new(false),
            purges: Arc::clone(purges),
            journal: OnceLock::new(),
            journal_errors: AtomicU64::new(0),
            is_told: AtomicBool::new(false),
            is_told_of_other_version: AtomicBool::new(false),
            trouble: Arc::default(),
        }
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the store in the directory, from its opening to its release.
    pub fn disk(&self) -> Option<&Arc<Disk>> {
        self.disk.get().filter(|_| !self.is_released.load(Ordering::Acquire))
    }

    /// Leaves the directory to another process: writes what waits, and then nothing more. Blocks while the disk works.
    /// Errors: the operating system's error; the directory is released nevertheless.
    pub(super) fn release(&self) -> io::Result<()> {
        let synced = self.sync_purges();
        self.is_released.store(true, Ordering::Release);
        synced.and(self.disk.get().map_or(Ok(()), |disk| disk.release()))
    }

    /// Returns its use. Its trouble is the error of the last attempt to open it; once it is open, the last failed write.
    pub(super) fn usage(&self) -> PartUsage {
        PartUsage {
            name: self.path.display().to_string(),
            policy: self.policy.lock().to_string(),
            trouble: self.trouble.lock().clone(),
            figures: self.disk().map(|disk| {
                let usage = disk.usage();
                let journal_errors = self.journal_errors.load(Ordering::Relaxed);
                Usage { write_errors: usage.write_errors + journal_errors, ..usage }
            }),
        }
    }

    /// Opens the directory, unless it is open already.
    ///
    /// # Errors
    /// The reason why it cannot be opened; the caller may try again.
    pub fn open(&self, tell: &EventHandler) -> Result<(), OpenError> {
        if self.disk.get().is_some() {
            return Ok(());
        }
        let opened = self.try_open(tell);
        *self.trouble.lock() = opened.as_ref().err().map(ToString::to_string);
        let disk = opened?;
        disk.set_size(self.size.load(Ordering::Relaxed));
        // The purges are restored before any response can be found.
        self.take_purges_over(tell);
        // Only one thread opens. The directory's lock would have refused a second one.
        let _ = self.disk.set(Arc::new(disk));
        Ok(())
    }

    /// Puts in force the purges that are recorded in the directory.
    fn take_purges_over(&self, tell: &EventHandler) {
        let now = UNIX_EPOCH.elapsed().map_or(u32::MAX, |since| since.as_secs() as u32);
        let (journal, read) = Journal::open(&self.path, &self.purges, now);
        if let Err(error) = read {
            self.journal_errors.fetch_add(1, Ordering::Relaxed);
            let why = format!("{error}; all responses stored before are validated before use");
            tell(&self.path, Event::Damaged { name: journal::NAME.to_owned(), at: 0, why });
        }
        let _ = self.journal.set((journal, Arc::clone(tell)));
    }

    /// Appends purges that are in force to the journal.
    pub(super) fn write_down(&self, rules: &[JournalPurge]) {
        if let Some((journal, tell)) = self.journal() {
            // `told` has reported the failure.
            let _ = self.report(tell, journal.append(rules, &self.purges));
        }
    }

    /// Makes the journal durable.
    pub(super) fn sync_purges(&self) -> io::Result<()> {
        let Some((journal, tell)) = self.journal() else { return Ok(()) };
        self.report(tell, journal.sync(&self.purges))
    }

    fn journal(&self) -> Option<&(Journal, EventHandler)> {
        self.journal.get().filter(|_| !self.is_released.load(Ordering::Acquire))
    }

    fn report(&self, tell: &EventHandler, written: io::Result<()>) -> io::Result<()> {
        let was_told = self.is_told.swap(written.is_err(), Ordering::Relaxed);
        if let Err(error) = &written {
            self.journal_errors.fetch_add(1, Ordering::Relaxed);
            if !was_told {
                let name = journal::NAME.to_owned();
                tell(&self.path, Event::WriteFailed { name, why: error.to_string() });
            }
        }
        written
    }

    /// Reports, the first time, that a response was found which another version of Larder has stored.
    pub(super) fn tell_of_other_version(&self) {
        if let Some((_, tell)) = self.journal.get()
            && !self.is_told_of_other_version.swap(true, Ordering::Relaxed)
        {
            tell(&self.path, Event::OtherVersion);
        }
    }

    fn try_open(&self, tell: &EventHandler) -> Result<Disk, OpenError> {
        let files = Arc::new(Directory::open(&self.path)?);
        let (tell, path, trouble) = (Arc::clone(tell), self.path.clone(), Arc::clone(&self.trouble));
        let policy = self.policy.lock().clone();
        let options = Options::new(self.size.load(Ordering::Relaxed), policy);
        let report = move |event| {
            match &event {
                Event::WriteFailed { .. } => *trouble.lock() = Some(event.to_string()),
                Event::Resumed => *trouble.lock() = None,
                _ => {}
            }
            tell(&path, event);
        };
        Disk::open(files, Options { report: Arc::new(report), ..options })
    }

    /// Applies the values of a reload; the path does not change.
    pub(super) fn change(&self, tier: &DiskTier) {
        self.max_object.store(tier.max_object.unwrap_or(u64::MAX), Ordering::Relaxed);
        let is_resized = self.size.swap(tier.size, Ordering::Relaxed) != tier.size;
        let is_new_policy = std::mem::replace(&mut *self.policy.lock(), tier.policy.clone()) != tier.policy;
        let Some(disk) = self.disk() else { return };
        if is_resized {
            disk.set_size(tier.size);
        }
        if is_new_policy {
            disk.set_policy(&tier.policy);
        }
    }

    /// Returns the bytes of the longest body that the directory takes at the moment.
    pub(super) fn largest(&self) -> u64 {
        self.disk().map_or(0, |disk| disk.largest().min(self.max_object.load(Ordering::Relaxed)))
    }

    /// Returns the score of this drive for `key`; the key belongs to the drive with the highest score.
    /// Weighted rendezvous hashing: drives of equal size get equal shares, and adding or removing a drive
    /// moves only the keys of its share.
    pub(super) fn claim(&self, key: &[u8]) -> f64 {
        let hash = SipHasher13::new_with_keys(self.seed, 0).hash(key);
        let even = (hash >> 11) as f64 / (1_u64 << 53) as f64;
        let weight = self.size.load(Ordering::Relaxed) as f64;
        -weight / even.max(f64::MIN_POSITIVE).ln()
    }
}
