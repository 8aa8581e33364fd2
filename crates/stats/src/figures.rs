//! The counters of a recorder.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Figures of a recorder at one moment; counters start when it is opened.
///
/// Each recorded request is written, dropped or queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Requests that [`crate::Recorder::record`] was called for.
    pub recorded: u64,
    /// Requests waiting to be written.
    pub queued: u64,
    /// Requests that are in the database.
    pub written: u64,
    /// Rows of these requests in the database.
    pub rows: u64,
    /// Requests that are in no row: the queue was full, or the database refused them.
    pub dropped: u64,
    /// Attempts to write that failed.
    pub failed: u64,
    /// Snapshots of the cache's contents written to the database, each in place of the one before.
    pub snapshots: u64,
    /// Whether the last attempt to reach the database succeeded.
    pub is_connected: bool,
}

/// The counters of the writing thread.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) written: AtomicU64,
    pub(crate) rows: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) snapshots: AtomicU64,
    pub(crate) is_connected: AtomicBool,
}

impl Counters {
    /// Returns all figures; `recorded` and `refused` are the requests received, and those of them that found
    /// no room at once.
    pub(crate) fn figures(&self, recorded: u64, refused: u64) -> Figures {
        let written = self.written.load(Relaxed);
        let dropped = self.dropped.load(Relaxed) + refused;
        Figures {
            recorded,
            queued: recorded.saturating_sub(written + dropped),
            written,
            rows: self.rows.load(Relaxed),
            dropped,
            failed: self.failed.load(Relaxed),
            snapshots: self.snapshots.load(Relaxed),
            is_connected: self.is_connected.load(Relaxed),
        }
    }
}
