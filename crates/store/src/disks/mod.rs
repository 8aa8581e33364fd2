//! The disk tier: responses that outlive the process, in one directory or several.
//!
//! What is stored is written here while it arrives; [`larder_disk`] keeps the bytes, here is how a response
//! becomes a record of them and is found again ([`meta`]). No call waits for a disk, but for those that say so
//! and those that are `async`, which wait on a thread of their own.

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

/// A body that is checked as a whole before the first byte of it leaves. A longer one is checked as it goes.
const CHECKED_FIRST: u64 = 4 << 20;

/// All directories. Each key belongs to one of them, in proportion to their sizes.
#[derive(Default)]
pub struct Disks {
    drives: Box<[Drive]>,
    varying: keep::Varying,
    purges: Arc<Purges>,
}

/// What looking without waiting came to.
pub enum Glance {
    /// This response.
    Entry(Entry),
    /// Nothing is stored.
    Absent,
    /// That cannot be said without waiting.
    Waits,
}

impl Disks {
    /// The directories of `tiers`, none of them in use yet.
    pub fn new(tiers: &[DiskTier]) -> Self {
        let purges = Arc::default();
        let drives = tiers.iter().map(|tier| Drive::new(tier, &purges)).collect();
        Self { drives, varying: keep::Varying::default(), purges }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.drives.is_empty()
    }

    /// All of them.
    pub fn drives(&self) -> &[Drive] {
        &self.drives
    }

    /// What has been purged of what they hold.
    pub(crate) fn purges(&self) -> &Arc<Purges> {
        &self.purges
    }

    /// Writes purges down that are in force, for those directories that are in use.
    pub(crate) fn write_down(&self, rules: &[Written]) {
        self.drives.iter().for_each(|drive| drive.write_down(rules));
    }

    /// Makes all purges durable that were ordered so far. Waits for the disks.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub fn sync_purges(&self) -> io::Result<()> {
        all(self.drives.iter().map(Drive::sync_purges))
    }

    /// Those in use.
    fn in_use(&self) -> impl Iterator<Item = &Arc<Disk>> {
        self.drives.iter().filter_map(Drive::disk)
    }

    /// Puts what a reload says of a directory in force. Directories come and go with the process only.
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

    /// Whether a response to `key` with a body of `length` bytes may be stored, as far as one can know.
    pub(crate) fn takes(&self, key: &[u8], length: Option<u64>) -> bool {
        self.drive(key).is_some_and(|drive| length.unwrap_or(1) <= drive.largest())
    }

    /// Whether the directory for `key` is written to at the moment.
    pub(crate) fn is_writing(&self, key: &[u8]) -> bool {
        self.drive(key).and_then(Drive::disk).is_some_and(|disk| disk.is_writing())
    }

    /// What is stored for a request with these fields, which counts as a use at `now` (UNIX seconds). A long
    /// body that has yet to be checked waits.
    pub(crate) fn glance(&self, key: &[u8], request: &impl Fields, lines: &LinePool, now: u32) -> Glance {
        let Some(disk) = self.drive(key).and_then(Drive::disk) else { return Glance::Absent };
        let mut search = Search::new(key);
        loop {
            let found = match disk.find_at_once(&search.wanted, now, SENDFILE_FROM - 1) {
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

    /// What is stored for a request with these fields, without counting as anything. Waits for the disk.
    pub(crate) fn look(&self, key: &[u8], request: &impl Fields, lines: &LinePool) -> Option<Entry> {
        let disk = self.drive(key).and_then(Drive::disk)?;
        let mut search = Search::new(key);
        loop {
            let found = disk.peek(&search.wanted, SENDFILE_FROM - 1);
            if let SearchStep::Done(entry) = search.take(found, |varies| vary::again(varies, request), lines)
            {
                return entry;
            }
        }
    }

    /// What is stored under `key` with the signature that `signature` makes of another variant's.
    pub(crate) async fn find(
        &self,
        key: &[u8],
        signature: impl Fn(&[u8]) -> Vec<u8>,
        lines: &LinePool,
        now: u32,
    ) -> Option<Entry> {
        let disk = self.drive(key)?.disk()?;
        let mut search = Search::new(key);
        let entry = loop {
            let found = read(disk, &search.wanted, now, SENDFILE_FROM - 1).await;
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

    /// Counts as a use of `entry`, which was found elsewhere, at `now` (UNIX seconds).
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

    /// Forgets all that is stored under `key`, and what is being stored.
    pub(crate) fn remove(&self, key: &[u8]) {
        self.varying.forget(key);
        if let Some(disk) = self.drive(key).and_then(Drive::disk) {
            disk.remove(&page_key(key));
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        self.varying.forget_all();
        self.in_use().for_each(|disk| disk.clear());
    }

    /// As [`Store::prune`](crate::Store::prune) says; counts in `pruned`.
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

    /// Makes what is stored durable. Waits for the disks.
    ///
    /// # Errors
    /// The first of the operating system's; the others are synced all the same.
    pub fn sync(&self) -> io::Result<()> {
        all(self.in_use().map(|disk| disk.sync()).chain([self.sync_purges()]))
    }

    /// Writes down what is where, for the next start. Waits for the disks.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub fn snapshot(&self) -> io::Result<()> {
        let known = self.in_use().filter(|disk| !disk.is_scanning());
        all(known.map(|disk| disk.snapshot()))
    }
}

/// The first error, when all has been done.
fn all(outcomes: impl Iterator<Item = io::Result<()>>) -> io::Result<()> {
    let errors: Vec<_> = outcomes.filter_map(Result::err).collect();
    errors.into_iter().next().map_or(Ok(()), Err)
}

/// Whether a record is of no use any more. A long body may have a newer head than its own.
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

/// Reads the record of `key`: at once, or on a thread that may wait.
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

/// Does what waits for a disk on a thread that has nothing else to do.
async fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)
}
