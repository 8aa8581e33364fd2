//! A body that lies on a disk, as an entry holds it.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::elsewhere;

/// A body in a segment of a disk. Its bytes are there for as long as this is held.
pub struct Record {
    body: larder_disk::Body,
    serial: u64,
    is_verified: AtomicBool,
}

impl Record {
    pub(super) fn new(body: larder_disk::Body, serial: u64) -> Self {
        let is_verified = AtomicBool::new(body.is_verified());
        Self { body, serial, is_verified }
    }

    /// Bytes of content.
    pub fn len(&self) -> u64 {
        self.body.len()
    }

    /// True without content.
    pub fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    /// What tells this record from all others of its disk.
    pub(super) fn serial(&self) -> u64 {
        self.serial
    }

    /// Whether all of it is known to be what was written.
    pub fn is_verified(&self) -> bool {
        self.is_verified.load(Ordering::Relaxed)
    }

    /// The file and the offset of byte `range.start`, for `sendfile`: if the bytes are known to be what
    /// was written, and sending them will not wait for the disk.
    pub fn at_hand(&self, range: Range<u64>) -> Option<(&File, u64)> {
        if !self.is_verified() || !self.body.is_at_hand(range.clone()) {
            return None;
        }
        let span = self.body.span();
        Some((span.file?, span.offset + range.start))
    }

    /// The bytes of `range`. Waits for the disk.
    ///
    /// # Errors
    /// `InvalidData` when they are not what was written; then the object is gone from the disk.
    pub fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        self.body.read(range).map(Bytes::from).map_err(damaged)
    }

    /// The bytes of `range`, without holding others up.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn load(self: &Arc<Self>, range: Range<u64>) -> io::Result<Bytes> {
        let record = Arc::clone(self);
        elsewhere(move || record.read(range)).await?
    }

    /// Reads all of it, so that it may leave by `sendfile` from now on. Waits for the disk.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn verify(&self) -> io::Result<()> {
        if !self.is_verified() {
            self.body.clone().verify().map_err(damaged)?;
            self.is_verified.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The same as [`verify`](Self::verify), without holding others up.
    ///
    /// # Errors
    /// As there.
    pub async fn check(self: &Arc<Self>) -> io::Result<()> {
        let record = Arc::clone(self);
        elsewhere(move || record.verify()).await?
    }
}

fn damaged(error: larder_disk::Damaged) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record").field("serial", &self.serial).field("len", &self.len()).finish()
    }
}
