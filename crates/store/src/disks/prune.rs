//! Removes expired, unused or purged responses from the disks. This does not count as a use, and yields to all other
//! work.

use larder_disk::{Disk, ObjectSummary};
use larder_semantics::stored_head::StoredHead;

use super::Disks;
use super::inventory::{is_found, newer_head};
use super::meta::{Meta, cache_key, page_key};
use crate::LinesRef;

/// The result of pruning the tiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneTotals {
    /// Objects examined.
    pub looked: u64,
    /// Objects removed because they were spent.
    pub spent: u64,
    /// Objects removed because there was no request for them for a long time.
    pub unused: u64,
}

/// A response on a disk.
pub(crate) struct DiskResponse<'d> {
    disk: &'d Disk,
    listed: &'d ObjectSummary,
    /// Its head, with the cache key, as it was stored first.
    pub(crate) head: StoredHead<'d>,
    /// Bytes that it takes on the disk.
    pub(crate) size: u64,
}

impl<'d> DiskResponse<'d> {
    /// Returns `None` if the record is not a response.
    pub(super) fn of(disk: &'d Disk, listed: &'d ObjectSummary) -> Option<Self> {
        let key = cache_key(&listed.key)?;
        let Some(Meta::Response(head)) = Meta::decode(&listed.meta) else { return None };
        Some(Self { disk, listed, head: StoredHead { key, ..head }, size: listed.size })
    }

    /// Applies `read` to its head: to the newer one, if there is one.
    pub(super) fn newest<T>(&self, read: impl Fn(&StoredHead<'_>) -> T) -> T {
        let ObjectSummary { key, serial, len, .. } = self.listed;
        newer_head(self.disk, key, *serial, *len, &read).unwrap_or_else(|| read(&self.head))
    }

    /// Returns the time at which it was last received or validated, in seconds since 1970.
    pub(crate) fn received(&self) -> u32 {
        self.newest(|head| head.freshness.received)
    }

    /// Returns the field lines.
    pub(crate) fn fields(&self) -> LinesRef<'d> {
        LinesRef::written(self.head.shared, self.head.own)
    }

    /// Whether a request can find it.
    pub(crate) fn is_found(&self) -> bool {
        is_found(self.disk, &self.listed.key)
    }
}

impl Disks {
    /// Passes every response to `dies`, at most `rate` a second, and removes those for which it returns true.
    /// Continues while `go_on` returns true.
    pub(crate) fn remove_purged(
        &self,
        rate: u64,
        go_on: &mut dyn FnMut() -> bool,
        dies: &mut dyn FnMut(&DiskResponse<'_>) -> bool,
    ) {
        for disk in self.in_use() {
            let dies = &mut |listed: &ObjectSummary| {
                DiskResponse::of(disk, listed).is_some_and(|response| dies(&response))
            };
            disk.prune(rate, dies, go_on);
        }
    }

    /// Passes the response to `key`, if there is one, to `see`. Returns false if responses to `key` vary:
    /// then the caller has to search for them.
    pub(crate) fn page(&self, key: &[u8], see: &mut dyn FnMut(&DiskResponse<'_>)) -> bool {
        let mut is_all = true;
        for disk in self.in_use() {
            let Some(listed) = disk.listed(&page_key(key)) else { continue };
            match DiskResponse::of(disk, &listed) {
                Some(response) => see(&response),
                None => is_all = false,
            }
        }
        is_all
    }
}
