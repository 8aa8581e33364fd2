//! Counters of the running store, which [`crate::Disk::usage`] returns.

use std::sync::atomic::{AtomicU64, Ordering};

/// Figures of a store at one moment; counts are those since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Bytes that all files may take.
    pub size: u64,
    /// Bytes that the segments take, those still read after they were given up included.
    pub occupied: u64,
    /// Bytes of the records of objects that can be found.
    pub live: u64,
    /// Bytes of records that nothing leads to any more, and of marks for what was removed.
    pub dead: u64,
    /// Objects that can be found.
    pub objects: u64,
    /// Segment files.
    pub segments: u64,
    /// Lookups that found their object.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Objects stored.
    pub stored: u64,
    /// Objects that the policy refused, before they were written where their size was known.
    pub refused: u64,
    /// Objects that were not stored because the queue was full, there was no room, or writes fail.
    pub dropped: u64,
    /// Objects evicted for lack of room.
    pub evictions: u64,
    /// Records that were not what was written, and are gone.
    pub corrupt: u64,
    /// Writes that failed.
    pub write_errors: u64,
    /// Bytes that wait to be written.
    pub queued: u64,
    /// Bytes of all records of objects stored.
    pub accepted_bytes: u64,
    /// Bytes written to segments: stored, moved by the cleaner, or lost to an object that was given up.
    pub written_bytes: u64,
    /// Bytes of memory that the index takes.
    pub memory: u64,
    /// Whether records are still being read after a start without a good snapshot.
    pub scanning: bool,
    /// Whether writes have stopped after repeated errors.
    pub paused: bool,
    /// Whether the disk had no space for what was to be stored last.
    pub full: bool,
}

impl Usage {
    /// Bytes written for each byte of an object stored; 1 is the least. 0 before anything was stored.
    pub fn write_amplification(&self) -> f64 {
        match self.accepted_bytes {
            0 => 0.0,
            accepted => self.written_bytes as f64 / accepted as f64,
        }
    }
}

/// A count that any thread adds to.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// All counts of a store.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) hits: Count,
    pub(crate) misses: Count,
    pub(crate) stored: Count,
    pub(crate) refused: Count,
    pub(crate) dropped: Count,
    pub(crate) corrupt: Count,
    pub(crate) write_errors: Count,
    pub(crate) accepted_bytes: Count,
    pub(crate) written_bytes: Count,
}
