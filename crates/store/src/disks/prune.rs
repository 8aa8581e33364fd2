//! Removes expired, unused or purged responses from the disks. This does not count as a use, and yields to all other
//! work.

use std::sync::Arc;

use larder_disk::{Disk, Listed};

use super::Disks;
use super::inventory::{is_found, newer_head};
use super::meta::{Meta, cache_key, page_key};
use crate::LinesRef;

/// A response on a disk.
pub(crate) struct Lying<'d> {
    disk: &'d Arc<Disk>,
    listed: &'d Listed,
    /// The time at which the response itself was received.
    received: u32,
    /// The cache key.
    pub(crate) key: &'d [u8],
    /// The signature of the request fields that select it.
    pub(crate) signature: &'d [u8],
    /// The field lines.
    pub(crate) fields: LinesRef<'d>,
    /// Bytes that it takes on the disk.
    pub(crate) size: u64,
}

impl<'d> Lying<'d> {
    fn of(disk: &'d Arc<Disk>, listed: &'d Listed) -> Option<Self> {
        let key = cache_key(&listed.key)?;
        let Some(Meta::Response(head)) = Meta::decode(&listed.meta) else { return None };
        let fields = LinesRef::written(head.shared, head.own);
        let (signature, received, size) = (head.signature, head.freshness.received, listed.size);
        Some(Self { disk, listed, received, key, signature, fields, size })
    }

    /// Returns the time at which it was last received or validated, in seconds since 1970.
    pub(crate) fn received(&self) -> u32 {
        let Listed { key, serial, len, .. } = self.listed;
        newer_head(self.disk, key, *serial, *len, |head| head.freshness.received).unwrap_or(self.received)
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
        dies: &mut dyn FnMut(&Lying<'_>) -> bool,
    ) {
        for disk in self.in_use() {
            let dies = &mut |listed: &Listed| Lying::of(disk, listed).is_some_and(|lying| dies(&lying));
            disk.prune(rate, dies, go_on);
        }
    }

    /// Passes the response to `key`, if there is one, to `see`. Returns false if responses to `key` vary:
    /// then the caller has to search for them.
    pub(crate) fn page(&self, key: &[u8], see: &mut dyn FnMut(&Lying<'_>)) -> bool {
        let mut is_all = true;
        for disk in self.in_use() {
            let Some(listed) = disk.listed(&page_key(key)) else { continue };
            match Lying::of(disk, &listed) {
                Some(lying) => see(&lying),
                None => is_all = false,
            }
        }
        is_all
    }
}
