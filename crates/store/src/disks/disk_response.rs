//! A response in a record of a disk, whose head may be newer than the record.

use larder_disk::{Disk, ObjectSummary};
use larder_semantics::stored_head::StoredHead;

use super::meta::{Meta, cache_key, head_key, page_key, variant_number};
use crate::LinesRef;
use crate::body::SENDFILE_FROM;

pub(crate) struct DiskResponse<'d> {
    disk: &'d Disk,
    listed: &'d ObjectSummary,
    /// Its head, with the cache key, as it was stored first.
    pub(crate) head: StoredHead<'d>,
    /// Bytes that it takes on the disk.
    pub(crate) size: u64,
    /// Bytes of content, in slices or not.
    pub(crate) len: u64,
}

impl<'d> DiskResponse<'d> {
    /// Returns `None` if the record is not a response.
    pub(super) fn of(disk: &'d Disk, listed: &'d ObjectSummary) -> Option<Self> {
        let key = cache_key(&listed.key)?;
        let (head, sliced) = Meta::decode(&listed.meta)?.response()?;
        let len = sliced.map_or(listed.len, |sliced| sliced.len());
        Some(Self { disk, listed, head: StoredHead { key, ..head }, size: listed.size, len })
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

/// Whether a request can find the response in the record of this key. A variant is found only through the
/// URL's record.
pub(super) fn is_found(disk: &Disk, key: &[u8]) -> bool {
    let Some(number) = variant_number(key) else { return true };
    let page = cache_key(key).and_then(|key| disk.peek(&page_key(key), 0));
    page.is_some_and(
        |page| matches!(Meta::decode(&page.meta), Some(Meta::Varies(current, _)) if current == number),
    )
}

/// Applies `read` to the newer head of a record, if there is one.
pub(super) fn newer_head<T>(
    disk: &Disk,
    key: &[u8],
    serial: u64,
    len: u64,
    read: impl FnOnce(&StoredHead<'_>) -> T,
) -> Option<T> {
    if len < SENDFILE_FROM {
        return None;
    }
    let found = disk.peek(&head_key(key), 0)?;
    match Meta::decode(&found.meta)? {
        Meta::Newer(of, head) if of == serial => Some(read(&head)),
        _ => None,
    }
}
