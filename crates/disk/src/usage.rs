//! Counters of the running store, which [`crate::Disk::usage`] returns.

use std::sync::atomic::{AtomicU64, Ordering};

/// Figures of a store at one moment; counters start when it is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Bytes that all files may take.
    pub size: u64,
    /// Bytes that the segments take, including freed ones that are still read.
    pub occupied: u64,
    /// Bytes of the records of objects that lookups find.
    pub live: u64,
    /// Bytes of records without an index entry, and of marks of removals.
    pub dead: u64,
    /// Objects that lookups find.
    pub objects: u64,
    /// Number of segment files.
    pub segments: u64,
    /// Lookups that found their object.
    pub hits: u64,
    /// Lookups that did not find an object.
    pub misses: u64,
    /// Objects stored.
    pub stored: u64,
    /// Objects that the policy refused, before they were written where their size was known.
    pub refused: u64,
    /// Objects that were not stored because the queue was full, there was no room, or writes fail.
    pub dropped: u64,
    /// Objects evicted for lack of room.
    pub evictions: u64,
    /// Damaged records, which were removed.
    pub corrupt: u64,
    /// Writes that failed.
    pub write_errors: u64,
    /// Bytes waiting to be written.
    pub queued: u64,
    /// Bytes of all records of objects stored.
    pub accepted_bytes: u64,
    /// Bytes written to segments: stored, moved by the cleaner, or lost to an object that was given up.
    pub written_bytes: u64,
    /// Bytes of memory of the index.
    pub memory: u64,
    /// Whether records are still being read after a start without a good snapshot.
    pub scanning: bool,
    /// Whether writes have stopped after repeated errors.
    pub paused: bool,
    /// Whether the disk had no space for the last object.
    pub full: bool,
}

impl Usage {
    /// Returns the bytes written for each byte of an object stored; 1 is the least. 0 before any object was stored.
    pub fn write_amplification(&self) -> f64 {
        match self.accepted_bytes {
            0 => 0.0,
            accepted => self.written_bytes as f64 / accepted as f64,
        }
    }
}

/// A counter that any thread increases.
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

/// All counters of a store.
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
