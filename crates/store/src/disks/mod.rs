//! The disk tier: responses that survive the process, in one directory or several.
//!
//! Responses are written to disks while they arrive. [`larder_disk`] stores the bytes; this module maps
//! responses to its records and finds them again ([`meta`]). Only the calls whose documentation says so block
//! while a disk works; `async` ones wait on a separate thread.

mod drive;
mod inventory;
mod journal;
mod keep;
mod meta;
mod prune;
mod record;
mod search;

use std::io;
use std::sync::Arc;

use larder_disk::{AtOnce, Disk, Found, Listed};
use larder_semantics::fields::Fields;
use larder_semantics::freshness::Freshness;
use larder_semantics::vary;

pub use drive::{DiskTier, Drive, Tell};
pub use inventory::{Held, Name, NoName, Stored};
pub(crate) use keep::Keeping;
pub use larder_disk::{Event, OpenError, Verified};
pub(crate) use prune::Lying;
pub use record::Record;

use crate::body::SENDFILE_FROM;
use crate::purges::Written;
use crate::{Entry, LinePool, Pruned, Purges};
use meta::{Meta, page_key, variant_key};
use search::{Search, SearchStep};

/// Bodies up to this length are checked as a whole before the first byte is sent. Longer ones are checked
/// while they are sent.
const CHECKED_FIRST: u64 = 4 << 20;

/// All directories. Each key belongs to one of them, in proportion to their sizes.
#[derive(Default)]
pub struct Disks {
    drives: Box<[Drive]>,
    varying: keep::Varying,
    purges: Arc<Purges>,
}

/// The result of a lookup without waiting.
pub enum Glance {
    /// The response that was found.
    Entry(Entry),
    /// No response is stored.
    Absent,
    /// The lookup has to wait for the disk.
    Waits,
}

impl Disks {
    /// Returns the directories of `tiers`, none of them open yet.
    pub fn new(tiers: &[DiskTier]) -> Self {
        let purges = Arc::default();
        let drives = tiers.iter().map(|tier| Drive::new(tier, &purges)).collect();
        Self { drives, varying: keep::Varying::default(), purges }
    }

    /// Whether there are no directories.
    pub fn is_empty(&self) -> bool {
        self.drives.is_empty()
    }

    /// Returns all directories.
    pub fn drives(&self) -> &[Drive] {
        &self.drives
    }

    /// Returns the purges in force.
    pub(crate) fn purges(&self) -> &Arc<Purges> {
        &self.purges
    }

    /// Appends purges that are in force to the journals of the open directories.
    pub(crate) fn write_down(&self, rules: &[Written]) {
        self.drives.iter().for_each(|drive| drive.write_down(rules));
    }

    /// Makes all purges ordered so far durable. Blocks while the disks sync.
    ///
    /// # Errors
    /// The same as for [`sync`](Self::sync).
    pub fn sync_purges(&self) -> io::Result<()> {
        all(self.drives.iter().map(Drive::sync_purges))
    }

    /// Iterates over the open directories.
    fn in_use(&self) -> impl Iterator<Item = &Arc<Disk>> {
        self.drives.iter().filter_map(Drive::disk)
    }

    /// Applies a reload's values to the directories. Directories are added and removed only at the start of
    /// the process.
    pub fn change(&self, tiers: &[DiskTier]) {
        for drive in &self.drives {
            if let Some(tier) = tiers.iter().find(|tier| tier.path == drive.path()) {
                drive.change(tier);
            }
        }
    }

    fn drive(&self, key: &[u8]) -> Option<&Drive> {
        match &*self.drives {
            [] => None,
            [one] => Some(one),
            many => many.iter().max_by(|one, other| one.claim(key).total_cmp(&other.claim(key))),
        }
    }

    /// Whether a response to `key` with a body of `length` bytes may be stored, as far as is known.
    pub(crate) fn takes(&self, key: &[u8], length: Option<u64>) -> bool {
        self.drive(key).is_some_and(|drive| length.unwrap_or(1) <= drive.largest())
    }

    /// Whether the directory for `key` is written to at the moment.
    pub(crate) fn is_writing(&self, key: &[u8]) -> bool {
        self.drive(key).and_then(Drive::disk).is_some_and(|disk| disk.is_writing())
    }

    /// Finds the stored response to a request with these fields, and counts that as a use at `now` (UNIX
    /// seconds). Returns [`Glance::Waits`] also for a long body that has yet to be checked.
    pub(crate) fn glance(&self, key: &[u8], request: &impl Fields, lines: &LinePool, now: u32) -> Glance {
        let search = self.drive(key).and_then(|drive| Search::new(drive, key));
        let Some(mut search) = search else { return Glance::Absent };
        loop {
            let found = match search.disk.find_at_once(&search.wanted, now, SENDFILE_FROM - 1) {
                AtOnce::Found(found) => Some(found),
                AtOnce::Absent => None,
                AtOnce::Waits => return Glance::Waits,
            };
            match search.take(found, |varies| vary::again(varies, request), lines) {
                SearchStep::Look => {}
                SearchStep::Done(None) => return Glance::Absent,
                SearchStep::Done(Some(entry)) => match entry.body().record() {
                    Some(record) if !record.is_ready() => return Glance::Waits,
                    _ => return Glance::Entry(entry),
                },
            }
        }
    }

    /// Finds the stored response to a request with these fields, without counting a use. Blocks while the disk reads.
    pub(crate) fn look(&self, key: &[u8], request: &impl Fields, lines: &LinePool) -> Option<Entry> {
        let mut search = Search::new(self.drive(key)?, key)?;
        loop {
            let found = search.disk.peek(&search.wanted, SENDFILE_FROM - 1);
            if let SearchStep::Done(entry) = search.take(found, |varies| vary::again(varies, request), lines)
            {
                return entry;
            }
        }
    }

    /// Finds the response stored under `key` whose signature `signature` derives from that of another variant.
    pub(crate) async fn find(
        &self,
        key: &[u8],
        signature: impl Fn(&[u8]) -> Vec<u8>,
        lines: &LinePool,
        now: u32,
    ) -> Option<Entry> {
        let mut search = Search::new(self.drive(key)?, key)?;
        let entry = loop {
            let found = read(search.disk, &search.wanted, now, SENDFILE_FROM - 1).await;
            match search.take(found, &signature, lines) {
                SearchStep::Look => {}
                SearchStep::Done(entry) => break entry?,
            }
        };
        match entry.body().record() {
            Some(record) => record.check().await.ok().map(|()| entry),
            None => Some(entry),
        }
    }

    /// Counts a use of `entry`, which was found in another tier, at `now` (UNIX seconds).
    pub fn touch(&self, entry: &Entry, now: u32) {
        let Some(disk) = self.drive(entry.key()).and_then(Drive::disk) else { return };
        let page = page_key(entry.key());
        if entry.signature().is_empty() {
            return disk.touch(&page, now);
        }
        let AtOnce::Found(found) = disk.find_at_once(&page, now, 0) else { return };
        if let Some(Meta::Varies(number, _)) = Meta::decode(&found.meta) {
            disk.touch(&variant_key(entry.key(), number, entry.signature()), now);
        }
    }

    /// Removes all responses stored under `key`, and those being stored.
    pub(crate) fn remove(&self, key: &[u8]) {
        self.varying.forget(key);
        if let Some(disk) = self.drive(key).and_then(Drive::disk) {
            disk.remove(&page_key(key));
        }
    }

    /// Removes everything.
    pub(crate) fn clear(&self) {
        self.varying.forget_all();
        self.in_use().for_each(|disk| disk.clear());
    }

    /// Implements [`Store::prune`](crate::Store::prune) for the disks; counts in `pruned`.
    pub(crate) fn prune(
        &self,
        is_spent: &dyn Fn(&Freshness) -> bool,
        unused: Option<u32>,
        rate: u64,
        go_on: &mut dyn FnMut() -> bool,
        pruned: &mut Pruned,
    ) {
        for disk in self.in_use() {
            if let Some(since) = unused {
                pruned.unused += disk.prune_unused(since).objects;
            }
            let dies = &mut |listed: &Listed| is_outdated(disk, listed, is_spent);
            let there = disk.prune(rate, dies, go_on);
            pruned.looked += there.looked;
            pruned.spent += there.objects;
        }
    }

    /// Makes all stored responses durable. Blocks while the disks sync.
    ///
    /// # Errors
    /// The operating system's first error; the other directories are synced nevertheless.
    pub fn sync(&self) -> io::Result<()> {
        all(self.in_use().map(|disk| disk.sync()).chain([self.sync_purges()]))
    }

    /// Writes snapshots of the indexes for the next start. Blocks while the disks write.
    ///
    /// # Errors
    /// The same as for [`sync`](Self::sync).
    pub fn snapshot(&self) -> io::Result<()> {
        let known = self.in_use().filter(|disk| !disk.is_scanning());
        all(known.map(|disk| disk.snapshot()))
    }
}

/// Consumes all outcomes, and returns the first error.
fn all(outcomes: impl Iterator<Item = io::Result<()>>) -> io::Result<()> {
    let errors: Vec<_> = outcomes.filter_map(Result::err).collect();
    errors.into_iter().next().map_or(Ok(()), Err)
}

/// Whether a record is spent. A long body may have a newer head in another record.
fn is_outdated(disk: &Disk, listed: &Listed, is_spent: &dyn Fn(&Freshness) -> bool) -> bool {
    match Meta::decode(&listed.meta) {
        Some(Meta::Response(head)) => {
            let newer = || disk.peek(&meta::head_key(&listed.key), 0);
            is_spent(&head.freshness)
                && (listed.len < SENDFILE_FROM
                    || newer().is_none_or(|newer| match Meta::decode(&newer.meta) {
                        Some(Meta::Newer(_, head)) => is_spent(&head.freshness),
                        _ => true,
                    }))
        }
        Some(Meta::Newer(_, head)) => is_spent(&head.freshness),
        Some(Meta::Varies(..)) => false,
        None => true,
    }
}

/// Reads the record of `key`: at once, or on a thread that may block.
async fn read(disk: &Arc<Disk>, key: &[u8], now: u32, whole: u64) -> Option<Found> {
    match disk.find_at_once(key, now, whole) {
        AtOnce::Found(found) => Some(found),
        AtOnce::Absent => None,
        AtOnce::Waits => {
            let (disk, key) = (Arc::clone(disk), key.to_vec());
            elsewhere(move || disk.find(&key, now, whole)).await.ok().flatten()
        }
    }
}

/// Runs `work`, which blocks while a disk works, on a thread for blocking work.
async fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)
}
