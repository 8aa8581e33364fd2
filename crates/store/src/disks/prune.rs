//! Removes expired, unused or purged responses from the disks. This does not count as a use, and yields to all other
//! work.

use larder_disk::ObjectSummary;

use super::Disks;
use super::disk_response::DiskResponse;
use super::meta::page_key;

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
