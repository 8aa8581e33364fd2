//! A body on a disk, as the content of an entry.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;

/// Bodies up to this length are checked as a whole before the first byte is sent. Longer ones are checked
/// while they are sent.
const CHECKED_FIRST: u64 = 4 << 20;

/// A record that was found ready is sent without a second check for this time: a check costs some system calls.
const LATELY: Duration = Duration::from_millis(2);

/// A body in a segment of a disk. Its bytes stay there while this value exists.
pub struct Record {
    body: larder_disk::Body,
    serial: u64,
    /// The time at which it was found ready.
    ready: OnceLock<Instant>,
}

impl Record {
    pub(crate) fn new(body: larder_disk::Body, serial: u64) -> Self {
        Self { body, serial, ready: OnceLock::new() }
    }

    /// Returns the bytes of content.
    pub fn len(&self) -> u64 {
        self.body.len()
    }

    /// Whether there is no content.
    pub fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    /// Returns the serial number, which is unique among the records of its disk.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// Whether it may be sent without waiting: its bytes are verified, and those that are checked before the first
    /// byte is sent are in memory.
    pub(crate) fn is_ready(&self) -> bool {
        let is_ready = self.body.is_verified() && self.body.is_at_hand(0..self.len().min(CHECKED_FIRST));
        if is_ready {
            self.ready.get_or_init(Instant::now);
        }
        is_ready
    }

    /// Returns the file and the offset of byte `range.start`, for `sendfile`, if the bytes are verified and
    /// sending them will not wait for the disk.
    pub fn at_hand(&self, range: Range<u64>) -> Option<(&File, u64)> {
        let is_whole = range == (0..self.len());
        let was_just_ready = || self.ready.get().is_some_and(|since| since.elapsed() < LATELY);
        let is_ready = || self.body.is_verified() && self.body.is_at_hand(range.clone());
        if !(is_whole && was_just_ready() || is_ready()) {
            return None;
        }
        let span = self.body.span();
        Some((span.file?, span.offset + range.start))
    }

    /// Reads the bytes of `range`. Blocks while the disk reads.
    ///
    /// # Errors
    /// `InvalidData` when they differ from the written bytes; then the object has been removed from the disk.
    pub fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        self.body.read(range).map(Bytes::from).map_err(damaged)
    }

    /// Reads the bytes of `range` without blocking the thread.
    ///
    /// # Errors
    /// The same as for [`read`](Self::read).
    pub async fn load(self: &Arc<Self>, range: Range<u64>) -> io::Result<Bytes> {
        let record = Arc::clone(self);
        elsewhere(move || record.read(range)).await?
    }

    /// Checks that it can be sent, as far as possible before the first byte is sent: reads all of it, or for
    /// a long record checks that its file is long enough. Does not block the thread.
    pub(crate) async fn check(self: &Arc<Self>) -> io::Result<()> {
        if self.len() > CHECKED_FIRST {
            return self.body.is_there().map_err(damaged);
        }
        if self.is_ready() {
            return Ok(());
        }
        let record = Arc::clone(self);
        elsewhere(move || record.body.verify().map_err(damaged)).await?
    }
}

/// Runs `work`, which blocks while a disk works, on a thread for blocking work.
pub(crate) async fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)
}

fn damaged(error: larder_disk::Damage) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record").field("serial", &self.serial).field("len", &self.len()).finish()
    }
}
