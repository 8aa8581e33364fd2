//! The public interface of the store.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use larder_evict::Spec;
use parking_lot::Mutex;

use crate::engine::Engine;
use crate::event::{Event, OnEvent};
use crate::files::Files;
use crate::index::Index;
use crate::open_error::{LEAST, OpenError};
use crate::queue::{Command, Queue};
use crate::record::{ALIGN, MOST_KEY, MOST_META, Secret};
use crate::recovery::{self, Inventory};
use crate::shared::{DiskState, ScanRemovals, live_capacity};
use crate::snapshot::{self, Snapshot, SnapshotFault};
use crate::ticket::{NewObject, WriteTable};
use crate::usage::{Counts, Usage};
use crate::writer::Writer;

/// The limits of a segment's size where the store's size allows it, in bytes.
const SEGMENT: std::ops::RangeInclusive<u64> = (64 << 10)..=(1 << 30);
/// The number of segments in a store, unless that makes them too small or too large.
const SEGMENTS: u64 = 128;
const FEWEST_SEGMENTS: u64 = 16;
const MOST_SEGMENTS: u64 = 4096;
/// The interval of checks whether all records have been read.
const LOOK: Duration = Duration::from_millis(10);

/// The options of a store.
#[derive(Clone)]
pub struct Options {
    /// Bytes that all files may take, except the index snapshot and segments held by slow readers; at least 1 MiB.
    pub size: u64,
    /// The eviction policy.
    pub policy: Spec,
    /// The bytes at which a segment takes no more records; `None` for a 128th of the size.
    pub segment: Option<u64>,
    /// Bytes that may wait to be written.
    pub queue: usize,
    /// The time without writes after repeated errors.
    pub pause: Duration,
    /// The time that a verified body may be sent without being read while its file's stamp does not change,
    /// in whole seconds.
    pub trust: Duration,
    /// Receives failures.
    pub report: OnEvent,
}

impl Options {
    /// Returns options for a store of `size` bytes under `policy`, with 64 MiB of queue, pauses of 5 seconds
    /// and trust for a minute, and without reports.
    pub fn new(size: u64, policy: Spec) -> Self {
        let (queue, pause, trust) = (64 << 20, Duration::from_secs(5), Duration::from_secs(60));
        Self { size, policy, segment: None, queue, pause, trust, report: Arc::new(|_| {}) }
    }
}

/// The properties of an object that are known before its body arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Bytes of the body, if they are known: a body of another length is not stored.
    pub len: Option<u64>,
    /// The current time, in seconds since 1970.
    pub stored: u32,
    /// The cost of fetching it again, in microseconds; 0 where it is unknown.
    pub cost: u32,
}

/// A store of objects in one directory. Any thread may call all methods at any time.
///
/// When it is dropped, it finishes the waiting writes; [`close`](Self::close) makes the next start quick as
/// well. The directory stays locked until all objects found in it are dropped, too.
pub struct Disk {
    pub(crate) shared: Arc<DiskState>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Disk {
    /// Opens the store in `files`, which may be empty. With a good snapshot all objects are known at once;
    /// without one, they become known when all records have been read in the background.
    ///
    /// # Errors
    /// An [`OpenError`], which names the required change. Files of other programs and damaged records are not errors:
    /// the former are ignored, the latter removed, and both are reported.
    pub fn open(files: Arc<dyn Files>, options: Options) -> Result<Self, OpenError> {
        let Options { size, policy, segment, queue, pause, trust, report } = options;
        if size < LEAST {
            return Err(OpenError::TooSmall { size });
        }
        let Inventory { segments, secret, next_segment, foreign } = recovery::take_inventory(&*files)?;
        let secret = secret.unwrap_or_else(new_secret);
        let index = Index::new(live_capacity(size), &policy, Arc::clone(&segments));
        let old = segments.all();
        let loaded = recovery::load(&*files, &index, &segments, &secret);
        // On a small disk, a segment sized for a large store would be a large part of the capacity.
        let whole = files.space().map_or(0, |space| space.whole);
        let room = if whole > 0 { size.min(whole.max(LEAST)) } else { size };
        let segment = segment.unwrap_or(room / SEGMENTS).clamp(*SEGMENT.start(), *SEGMENT.end());
        let segment = segment.clamp(room / MOST_SEGMENTS, room / FEWEST_SEGMENTS) / ALIGN * ALIGN;
        let shared = Arc::new(DiskState {
            files,
            secret,
            index,
            segments,
            queue: Queue::new(queue),
            counts: Counts::default(),
            writing: Arc::<WriteTable>::default(),
            late: Mutex::default(),
            report,
            is_paused: AtomicBool::new(false),
            is_full: AtomicBool::new(false),
            size: AtomicU64::new(size),
            segment,
            most: if room < size { segment * MOST_SEGMENTS } else { u64::MAX },
            opened: Instant::now(),
            trust: u32::try_from(trust.as_secs()).unwrap_or(u32::MAX),
        });
        foreign.into_iter().for_each(|name| shared.tell(Event::Foreign { name }));
        let mut disk = Self { shared: Arc::clone(&shared), threads: Mutex::default() };
        let next_segment = match loaded {
            Ok(next) => next_segment.max(next),
            Err(SnapshotFault::Future(format)) => {
                return Err(OpenError::Future { name: snapshot::NAME.into(), format });
            }
            Err(_) if old.is_empty() => next_segment,
            Err(why) => {
                shared.tell(Event::NoSnapshot { why: why.to_string() });
                recovery::begin_scan(&shared);
                let shared = Arc::clone(&shared);
                disk.spawn("disk scan", move || recovery::scan_all(&shared, &old))?;
                next_segment
            }
        };
        let engine = Engine::new(shared, next_segment, pause);
        disk.spawn("disk writer", move || engine.run())?;
        disk.shared.queue.add(Command::Fit);
        Ok(disk)
    }

    fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), OpenError> {
        let spawned = thread::Builder::new().name(name.into()).spawn(run);
        let thread = spawned.map_err(|error| OpenError::io(format!("cannot start the {name}"), error))?;
        self.threads.get_mut().push(thread);
        Ok(())
    }

    /// Begins to write an object, which replaces the object of its key. Returns `None` if it cannot be stored: its key
    /// is longer than 65,535 bytes, its meta than 1 MiB, the whole than [`largest`](Self::largest), or writing is
    /// paused. The older object is still removed, since it is out of date.
    pub fn put(&self, key: &[u8], meta: &[u8], about: ObjectInfo) -> Option<Writer> {
        let fits = key.len() <= MOST_KEY
            && meta.len() <= MOST_META
            && about.len.unwrap_or(0) <= self.largest()
            && !self.shared.is_paused.load(Ordering::Relaxed);
        let hash = self.shared.hash(key);
        if !fits {
            self.shared.counts.dropped.add(1);
            if self.shared.supersede(hash, WriteTable::ALL) {
                self.shared.remove(hash);
            }
            return None;
        }
        let ObjectInfo { len: expected, stored, cost } = about;
        let ticket = self.shared.writing.enter(NewObject { hash, key, meta, expected, stored, cost });
        Some(Writer::new(Arc::clone(&self.shared), ticket))
    }

    /// Whether objects are written at the moment: the disk is not full, and its writes succeed.
    pub fn is_writing(&self) -> bool {
        !self.shared.is_paused.load(Ordering::Relaxed) && !self.shared.is_full.load(Ordering::Relaxed)
    }

    /// Removes the object of `key`, including objects that are being written. It stays removed after a crash of the
    /// process once the queue has been written, and after a crash of the machine that follows a [`sync`](Self::sync).
    pub fn remove(&self, key: &[u8]) {
        let hash = self.shared.hash(key);
        self.shared.take_out(hash, WriteTable::ALL);
        self.shared.remove(hash);
    }

    /// Removes everything, with the guarantees of [`remove`](Self::remove).
    pub fn clear(&self) {
        self.shared.clear();
    }

    /// Waits until all objects finished or removed before are written and durable.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn sync(&self) -> io::Result<()> {
        self.ask(Command::Sync)?
    }

    /// Waits until the index is written for the next start. That start then reads only the later objects, so
    /// that a snapshot every few minutes keeps starts short.
    ///
    /// # Errors
    /// The operating system's error; `WouldBlock` while records are still being read and not all objects are known.
    pub fn snapshot(&self) -> io::Result<()> {
        if self.is_scanning() {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "records are still being read"));
        }
        let mut snapshot: Snapshot = self.ask(Command::Capture)?;
        snapshot.write(&*self.shared.files)
    }

    /// Writes the queue, makes it durable, and writes the snapshot.
    ///
    /// # Errors
    /// The operating system's error; the store is closed nevertheless.
    pub fn close(self) -> io::Result<()> {
        let synced = self.sync();
        if self.is_scanning() { synced } else { synced.and(self.snapshot()) }
    }

    /// Ends all writes, and lets another process open the store, though objects that were found here may still be read:
    /// the files stay open. Writes the queue and the snapshot before. Later objects are not stored.
    ///
    /// # Errors
    /// The operating system's error; the store is released nevertheless.
    pub fn release(&self) -> io::Result<()> {
        self.shared.is_paused.store(true, Ordering::Relaxed);
        let written = self.sync().and_then(|()| if self.is_scanning() { Ok(()) } else { self.snapshot() });
        self.stop();
        self.shared.files.unlock();
        written
    }

    /// Ends the threads, and waits for them.
    fn stop(&self) {
        if self.is_scanning() {
            *self.shared.late() = ScanRemovals::Cleared;
        }
        self.shared.queue.add(Command::Stop);
        for thread in self.threads.lock().drain(..) {
            // The thread itself has reported a panic.
            let _ = thread.join();
        }
    }

    fn ask<T>(&self, command: impl FnOnce(mpsc::Sender<T>) -> Command) -> io::Result<T> {
        let (sender, answer) = mpsc::channel();
        self.shared.queue.add(command(sender));
        answer.recv().map_err(|_| io::Error::other("the disk writer has stopped"))
    }

    /// Whether records are still being read after a start without a good snapshot.
    pub fn is_scanning(&self) -> bool {
        !matches!(*self.shared.late(), ScanRemovals::Known)
    }

    /// Waits until all records have been read, so that all stored objects can be found.
    pub fn wait_until_known(&self) {
        while self.is_scanning() {
            thread::sleep(LOOK);
        }
    }

    /// Returns the bytes of the longest body that is stored.
    pub fn largest(&self) -> u64 {
        self.shared.largest()
    }

    /// Changes the bytes that all files may take, at least 1 MiB. Objects beyond the new size are evicted.
    pub fn set_size(&self, size: u64) {
        let size = size.max(LEAST).max(self.shared.segment * FEWEST_SEGMENTS);
        self.shared.size.store(size, Ordering::Relaxed);
        self.shared.index.set_capacity(live_capacity(size));
        self.shared.queue.add(Command::Fit);
    }

    /// Changes the policy. No object is evicted.
    pub fn set_policy(&self, policy: &Spec) {
        self.shared.index.set_policy(policy);
    }

    /// Returns the current figures.
    pub fn usage(&self) -> Usage {
        let (shared, counts) = (&self.shared, &self.shared.counts);
        let index = shared.index.usage();
        let occupied = shared.segments.occupied();
        Usage {
            size: shared.size(),
            occupied,
            live: index.record_bytes,
            dead: occupied.saturating_sub(index.record_bytes + shared.segments.held()),
            objects: index.objects,
            segments: shared.segments.all().len() as u64,
            hits: counts.hits.get(),
            misses: counts.misses.get(),
            stored: counts.stored.get(),
            refused: counts.refused.get(),
            dropped: counts.dropped.get(),
            evictions: index.evictions,
            corrupt: counts.corrupt.get(),
            write_errors: counts.write_errors.get(),
            queued: shared.queue.bytes() as u64,
            accepted_bytes: counts.accepted_bytes.get(),
            written_bytes: counts.written_bytes.get(),
            memory: index.memory,
            scanning: self.is_scanning(),
            paused: shared.is_paused.load(Ordering::Relaxed),
            full: shared.is_full.load(Ordering::Relaxed),
        }
    }

    /// Checks the index, and that segments count the bytes of its objects; only valid while no writes are in progress.
    ///
    /// # Errors
    /// The violated invariant, for tests and fuzzing.
    pub fn validate(&self) -> Result<(), String> {
        self.shared.index.validate()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.stop();
    }
}

fn new_secret() -> Secret {
    let random = RandomState::new();
    let halves = [random.hash_one(0_u8), random.hash_one(1_u8)];
    let mut secret = Secret::default();
    for (bytes, half) in secret.chunks_exact_mut(8).zip(halves) {
        bytes.copy_from_slice(&half.to_le_bytes());
    }
    secret
}
