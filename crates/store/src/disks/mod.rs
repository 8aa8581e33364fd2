//! The disk tier: responses that survive the process, in one directory or several.
//!
//! Responses are written to disks while they arrive. [`larder_disk`] stores the bytes; this module maps
//! responses to its records and finds them again ([`meta`]). Only calls that document it block
//! while a disk works; `async` ones wait on a separate thread.

mod disk_response;
mod disk_write;
mod drive;
mod inventory;
mod journal;
mod meta;
mod prune;
mod search;

use std::io;
use std::sync::Arc;

use larder_disk::{AtOnce, Disk, ObjectSummary, StoredObject};
use larder_semantics::freshness::Freshness;
use larder_semantics::stored_head::StoredHead;

pub(crate) use disk_response::DiskResponse;
pub(crate) use disk_write::DiskWrite;
pub use drive::{DiskTier, Drive, EventHandler};
pub use inventory::ResponseReader;
pub use larder_disk::{Event, OpenError, VerifyResult};
pub use prune::PruneTotals;

pub use crate::listed_response::{ListedResponse, Name, NoName};

use crate::body::SENDFILE_FROM;
use crate::body::record::elsewhere;
use crate::purges::JournalPurge;
use crate::tier::{PartUsage, PendingLookup, PendingOffer, Query, SignatureOf, Stamp};
use crate::{Entry, LinePool, Purges, Tier, TierName};
use disk_response::newer_head;
use meta::{Meta, page_key, variant_key};
use search::{Search, SearchStep};

/// All directories. Each key belongs to one of them, in proportion to their sizes.
#[derive(Default)]
pub struct Disks {
    drives: Box<[Drive]>,
    varying: disk_write::VaryingUrls,
    purges: Arc<Purges>,
    /// The pool of field lines of the responses that are found.
    lines: Arc<LinePool>,
}

impl Disks {
    /// Returns the directories of `tiers`, none of them open yet.
    pub fn new(tiers: &[DiskTier]) -> Self {
        let purges = Arc::default();
        let drives = tiers.iter().map(|tier| Drive::new(tier, &purges)).collect();
        Self { drives, purges, ..Self::default() }
    }

    /// Returns these disks, whose responses share the lines of `lines`.
    pub(crate) fn with_lines(self, lines: &Arc<LinePool>) -> Self {
        Self { lines: Arc::clone(lines), ..self }
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

    /// Searches with `read`, which reads a record.
    fn search(
        &self,
        key: &[u8],
        signature: SignatureOf<'_>,
        read: impl Fn(&Disk, &[u8]) -> AtOnce,
    ) -> AtOnce<Entry> {
        let search = self.drive(key).and_then(|drive| Search::new(drive, key));
        let Some(mut search) = search else { return AtOnce::Absent };
        loop {
            let found = match read(search.disk, &search.wanted) {
                AtOnce::Found(found) => Some(found),
                AtOnce::Absent => None,
                AtOnce::Waits => return AtOnce::Waits,
            };
            if let SearchStep::Done(entry) = search.take(found, signature, &self.lines) {
                return entry.map_or(AtOnce::Absent, AtOnce::Found);
            }
        }
    }

    async fn find_waiting(&self, Query { key, signature, now, .. }: Query<'_>) -> Option<Entry> {
        let mut search = Search::new(self.drive(key)?, key)?;
        let entry = loop {
            let found = read(search.disk, &search.wanted, now, SENDFILE_FROM - 1).await;
            match search.take(found, signature, &self.lines) {
                SearchStep::Look => {}
                SearchStep::Done(entry) => break entry?,
            }
        };
        match entry.body().record() {
            Some(record) => record.check().await.ok().map(|()| entry),
            None => Some(entry),
        }
    }

    /// Implements [`Store::prune`](crate::Store::prune) for the disks; counts in `pruned`.
    pub(crate) fn prune(
        &self,
        is_spent: &dyn Fn(&Freshness) -> bool,
        unused: Option<u32>,
        rate: u64,
        go_on: &mut dyn FnMut() -> bool,
        pruned: &mut PruneTotals,
    ) {
        for disk in self.in_use() {
            if let Some(since) = unused {
                pruned.unused += disk.prune_unused(since).objects;
            }
            let dies = &mut |listed: &ObjectSummary| is_outdated(disk, listed, is_spent);
            let there = disk.prune(rate, dies, go_on);
            pruned.looked += there.looked;
            pruned.spent += there.objects;
        }
    }

    /// Returns the number of records, which are responses and what belongs to them.
    pub fn records(&self) -> u64 {
        self.in_use().map(|disk| disk.usage().objects).sum()
    }

    /// Makes all stored responses durable. Blocks while the disks sync.
    ///
    /// # Errors
    /// The operating system's first error; the other directories are synced nevertheless.
    pub fn sync(&self) -> io::Result<()> {
        all(self.in_use().map(|disk| disk.sync()).chain([self.sync_purges()]))
    }

    /// Leaves all directories to another process, as [`Drive::disk`] shows from now on. Blocks while the disks write.
    ///
    /// # Errors
    /// The same as for [`sync`](Self::sync).
    pub fn release(&self) -> io::Result<()> {
        all(self.drives.iter().map(Drive::release))
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

impl Tier for Disks {
    fn name(&self) -> TierName {
        TierName::Disk
    }

    /// Returns [`AtOnce::Waits`] also for a long body that has yet to be checked.
    fn find_at_once(&self, key: &[u8], signature: SignatureOf<'_>, now: u32) -> AtOnce<Entry> {
        let read = |disk: &Disk, key: &[u8]| disk.find_at_once(key, now, SENDFILE_FROM - 1);
        match self.search(key, signature, read) {
            AtOnce::Found(entry) if entry.body().record().is_some_and(|record| !record.is_ready()) => {
                AtOnce::Waits
            }
            found => found,
        }
    }

    fn find<'t>(&'t self, query: Query<'t>) -> PendingLookup<'t> {
        Box::pin(self.find_waiting(query))
    }

    fn explain(&self, key: &[u8], signature: SignatureOf<'_>) -> Option<Entry> {
        let read =
            |disk: &Disk, key: &[u8]| disk.peek(key, SENDFILE_FROM - 1).map_or(AtOnce::Absent, AtOnce::Found);
        self.search(key, signature, read).found()
    }

    fn offer(self: Arc<Self>, entry: &Entry, _: Option<&Stamp>) -> Option<PendingOffer> {
        let entry = entry.clone();
        Some(Box::pin(async move { self.keep(&entry).await }))
    }

    fn touch(&self, entry: &Entry, now: u32) {
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

    fn forget(&self, key: &[u8], _signature: &[u8]) {
        self.varying.forget(key);
        if let Some(disk) = self.drive(key).and_then(Drive::disk) {
            disk.remove(&page_key(key));
        }
    }

    fn purge(&self, rules: &[JournalPurge]) {
        self.drives.iter().for_each(|drive| drive.write_down(rules));
    }

    fn clear(&self) {
        self.varying.forget_all();
        self.in_use().for_each(|disk| disk.clear());
    }

    /// If responses under `key` vary, the disks are searched for the variants.
    fn list<'d>(&'d self, key: Option<&[u8]>, see: &mut dyn FnMut(ListedResponse<'d>) -> bool) {
        self.list_directories(key, see);
    }

    fn usage(&self) -> Vec<PartUsage> {
        self.drives.iter().map(Drive::usage).collect()
    }
}

/// Consumes all outcomes, and returns the first error.
fn all(outcomes: impl Iterator<Item = io::Result<()>>) -> io::Result<()> {
    let errors: Vec<_> = outcomes.filter_map(Result::err).collect();
    errors.into_iter().next().map_or(Ok(()), Err)
}

/// Whether a record is spent.
fn is_outdated(disk: &Arc<Disk>, listed: &ObjectSummary, is_spent: &dyn Fn(&Freshness) -> bool) -> bool {
    match Meta::decode(&listed.meta) {
        Some(Meta::Response(head) | Meta::Sliced(_, head)) => {
            let is_spent = |head: &StoredHead<'_>| is_spent(&head.freshness);
            is_spent(&head)
                && newer_head(disk, &listed.key, listed.serial, listed.len, is_spent).unwrap_or(true)
        }
        Some(Meta::Newer(_, head)) => is_spent(&head.freshness),
        Some(Meta::Varies(..)) => false,
        None => true,
    }
}

/// Reads the record of `key`: at once, or on a thread that may block.
async fn read(disk: &Arc<Disk>, key: &[u8], now: u32, whole: u64) -> Option<StoredObject> {
    match disk.find_at_once(key, now, whole) {
        AtOnce::Found(found) => Some(found),
        AtOnce::Absent => None,
        AtOnce::Waits => {
            let (disk, key) = (Arc::clone(disk), key.to_vec());
            elsewhere(move || disk.find(&key, now, whole)).await.ok().flatten()
        }
    }
}
