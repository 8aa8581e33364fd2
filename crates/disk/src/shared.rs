//! State that the callers of a store share with its writing thread.

use std::collections::HashSet;
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use siphasher::sip::SipHasher13;

use crate::event::{Event, OnEvent};
use crate::files::Files;
use crate::index::{Index, Location};
use crate::queue::{MOST_REMOVALS, Queue};
use crate::record::Secret;
use crate::segment::{Segment, Segments};
use crate::ticket::WriteTable;
use crate::usage::Counts;

/// The part of the size that live records may take; the rest makes cleaning cheap.
const LIVE_SHARE: (u64, u64) = (4, 5);
/// The divisor for the part of the size that one object may take.
const LARGEST_SHARE: u64 = 2;

pub(crate) struct DiskState {
    pub(crate) files: Arc<dyn Files>,
    pub(crate) secret: Secret,
    pub(crate) index: Index,
    pub(crate) segments: Arc<Segments>,
    pub(crate) queue: Queue,
    pub(crate) counts: Counts,
    pub(crate) writing: Arc<WriteTable>,
    pub(crate) late: Mutex<ScanRemovals>,
    pub(crate) report: OnEvent,
    pub(crate) is_paused: AtomicBool,
    /// Whether the disk had no space for the last object.
    pub(crate) is_full: AtomicBool,
    /// Bytes that all files may take.
    pub(crate) size: AtomicU64,
    /// The bytes at which a segment takes no more records.
    pub(crate) segment: u64,
    /// The bytes of the largest number of segments, in case a disk grows that was smaller than the store.
    pub(crate) most: u64,
    pub(crate) opened: Instant,
    /// The seconds that a verified body may be sent without being read.
    pub(crate) trust: u32,
}

/// Removals during a scan, which the scan must respect.
#[derive(Default)]
pub(crate) enum ScanRemovals {
    /// No scan is running.
    #[default]
    Known,
    /// The hashes removed since the scan began.
    Scanning(HashSet<u64>),
    /// Everything was removed.
    Cleared,
}

/// Returns the bytes of live records in a store of `size` bytes.
pub(crate) fn live_capacity(size: u64) -> u64 {
    size / LIVE_SHARE.1 * LIVE_SHARE.0
}

impl DiskState {
    /// Returns the hash of `key` in this directory, the same after a restart.
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.secret);
        hasher.write(key);
        hasher.finish()
    }

    pub(crate) fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    /// Returns the bytes that segments may take if the disk has room for them.
    pub(crate) fn limit(&self) -> u64 {
        self.size().saturating_sub(self.segment).min(self.most)
    }

    /// Returns the seconds since the store was opened.
    pub(crate) fn second(&self) -> u32 {
        u32::try_from(self.opened.elapsed().as_secs()).unwrap_or(u32::MAX)
    }

    /// Whether a check in `second` has expired.
    pub(crate) fn is_expired(&self, second: u32) -> bool {
        self.second().saturating_sub(second) >= self.trust
    }

    /// Returns the bytes of the longest record.
    pub(crate) fn largest(&self) -> u64 {
        (self.size() / LARGEST_SHARE).min(self.index.largest())
    }

    pub(crate) fn late(&self) -> MutexGuard<'_, ScanRemovals> {
        self.late.lock()
    }

    pub(crate) fn tell(&self, event: Event) {
        (self.report)(event);
    }

    /// Removes the object of `hash`. Prevents a running scan from adding it, and objects in progress with a
    /// ticket below `before` from being published. The caller writes the mark.
    pub(crate) fn take_out(&self, hash: u64, before: u64) {
        self.writing.cancel(hash, before);
        let mut late = self.late();
        match &mut *late {
            ScanRemovals::Scanning(removed) if removed.len() < MOST_REMOVALS => _ = removed.insert(hash),
            ScanRemovals::Scanning(_) => *late = ScanRemovals::Cleared,
            ScanRemovals::Known | ScanRemovals::Cleared => {}
        }
        drop(late);
        self.index.remove(hash);
    }

    /// Queues the mark for the removed object of `hash`; removes everything if more removals wait than there
    /// is room for.
    pub(crate) fn remove(&self, hash: u64) {
        if !self.queue.remove(hash) {
            self.tell(Event::Overrun);
            self.clear();
        }
    }

    /// Removes everything.
    pub(crate) fn clear(&self) {
        self.writing.cancel_all();
        let mut late = self.late();
        if !matches!(*late, ScanRemovals::Known) {
            *late = ScanRemovals::Cleared;
        }
        drop(late);
        self.index.clear();
        self.queue.clear();
    }

    /// Removes the objects before the one of `hash` that is given up, with the ticket `given_up`, since they
    /// are out of date. Returns true if there were any, or may have been.
    pub(crate) fn supersede(&self, hash: u64, given_up: u64) -> bool {
        let is_unknown = !matches!(*self.late(), ScanRemovals::Known);
        let may_be = is_unknown || self.index.has(hash) || self.writing.has(hash, given_up);
        if may_be {
            self.take_out(hash, given_up);
        }
        may_be
    }

    /// Removes the damaged record at `location`. Reports it if it was still in the index.
    pub(crate) fn damaged(&self, hash: u64, location: Location, segment: &Segment, why: &str) {
        if self.index.remove_at(hash, location) {
            self.counts.corrupt.add(1);
            self.tell(Event::Damaged { name: segment.name.clone(), at: location.at(), why: why.into() });
        }
    }
}
