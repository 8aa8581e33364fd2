//! Removes expired, unused or purged responses from the disks. This does not count as use, and gives way to everything
//! else.

use std::sync::Arc;

use larder_disk::{Disk, Listed};

use super::Disks;
use super::inventory::{is_found, newer_head};
use super::meta::{Meta, cache_key, page_key};
use crate::LinesRef;

/// A response as it lies on a disk.
pub(crate) struct Lying<'d> {
    disk: &'d Arc<Disk>,
    listed: &'d Listed,
    /// Received with the response itself.
    received: u32,
    /// Its cache key.
    pub(crate) key: &'d [u8],
    /// What it is selected by.
    pub(crate) signature: &'d [u8],
    /// Its field lines.
    pub(crate) fields: LinesRef<'d>,
    /// Bytes that it takes.
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

    /// When it was last received or validated, in seconds since 1970.
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
    /// Shows every response to `dies`, at most `rate` a second, and forgets those of which it says true. Goes on for
    /// as long as `go_on` says so.
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

    /// Shows the response to `key`, if there is one. False if there may be several, which have to be looked for.
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
