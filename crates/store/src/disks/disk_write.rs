//! Writes responses to a disk: while they arrive, or after a change.

use std::collections::HashMap;
use std::sync::Arc;

use http::StatusCode;
use larder_disk::{Disk, ObjectInfo, Writer};
use larder_semantics::fields::{Fields, HeadLines};
use larder_semantics::stored_head::StoredHead;
use larder_semantics::vary;
use parking_lot::Mutex;

use super::meta::{Meta, head_key, page_key, variant_key};
use super::{Disks, Drive, read};
use crate::body::SENDFILE_FROM;
use crate::head::Head;
use crate::{Body, Entry};

/// Bytes of a body that are passed to the writer at once.
const PIECE: usize = 256 << 10;

/// Bytes by which the head of an incomplete response may be longer: its `Content-Range` names the stored part.
const ROOM_FOR_RANGE: usize = 96;

/// A response that is being written to a disk. If it is dropped before it is finished, nothing is stored.
pub(crate) struct DiskWrite {
    writer: Writer,
    /// Bytes reserved for the head.
    meta_len: usize,
    /// Bytes of body that there is still room for.
    room: u64,
    /// The record to write in addition to the response: the fields by which responses to this URL vary.
    varies: Option<Note>,
}

/// A record without a body.
struct Note {
    disk: Arc<Disk>,
    key: Vec<u8>,
    meta: Vec<u8>,
    now: u32,
}

impl DiskWrite {
    /// Takes the next bytes of the body. Returns false if the response will not be stored.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> bool {
        match self.room.checked_sub(bytes.len() as u64) {
            Some(room) => {
                self.room = room;
                self.writer.write(bytes)
            }
            None => false,
        }
    }

    /// Returns the bytes that the disk has written so far, if many bytes wait to be written.
    pub(crate) fn behind(&self) -> Option<u64> {
        self.writer.is_behind().then(|| self.writer.written())
    }

    /// Whether the disk has stopped storing the response.
    pub(crate) fn is_given_up(&self) -> bool {
        self.writer.is_given_up()
    }

    /// Publishes the part of an incomplete response that has arrived, under the head `part`. Returns false if
    /// it is not stored.
    pub(crate) fn finish_early(self, part: &Head) -> bool {
        let mut meta = Meta::Response(part.stored_head(&part.fields.view().own())).encode();
        if meta.len() > self.meta_len {
            return false;
        }
        meta.resize(self.meta_len, 0);
        self.writer.finish_early(&meta) && self.varies.is_none_or(Note::write)
    }

    /// Publishes the complete response. Returns false if it is not stored.
    pub(crate) fn finish(self) -> bool {
        self.writer.finish() && self.varies.is_none_or(Note::write)
    }
}

impl Note {
    fn write(self) -> bool {
        let about = ObjectInfo { len: Some(0), stored: self.now, cost: 0 };
        self.disk.put(&self.key, &self.meta, about).is_some_and(Writer::finish)
    }
}

/// The place of a response on a disk.
struct Destination {
    key: Vec<u8>,
    varies: Option<Note>,
}

impl Disks {
    /// Begins to store the response to `key` with this head. Returns `None` if it is not stored.
    pub(crate) async fn begin(&self, key: &[u8], head: &Head) -> Option<DiskWrite> {
        let (drive, now) = (self.drive(key)?, head.freshness.received);
        let disk = drive.disk()?;
        let place = self.place(disk, key, &head.signature, now).await;
        let about = ObjectInfo { len: head.length, stored: now, cost: head.cost };
        begin_at(drive, disk, place, &Meta::Response(head.stored_head(&head.fields.view().own())), about)
    }

    /// Stores `entry` in place of the response on the disk. If its body is on the disk already, only the head
    /// is written. Content in memory without a signature is stored without waiting.
    pub(super) async fn keep(&self, entry: &Entry) {
        let Some(drive) = self.drive(entry.key()) else { return };
        let Some(disk) = drive.disk() else { return };
        let now = entry.freshness().received;
        let place = self.place(disk, entry.key(), entry.signature(), now).await;
        let serial = match (entry.body(), entry.body().record()) {
            // Under other selecting fields, the response has another place: the body is copied to there.
            (_, Some(record)) => {
                let found = read(disk, &place.key, now, 0).await.map(|found| found.serial);
                found.filter(|serial| *serial == record.serial())
            }
            (Body::Long(_), None) if place.varies.is_none() && content(entry) > 0 => {
                same_body(disk, &place.key, entry).await
            }
            _ => None,
        };
        if let Some(serial) = serial {
            let meta = Meta::Newer(serial, stored(entry, &entry.fields().own())).encode();
            Note { disk: Arc::clone(disk), key: head_key(&place.key), meta, now }.write();
            return;
        }
        let own = entry.fields().own();
        let meta = Meta::of(stored(entry, &own), entry.body());
        let Some(mut keeping) = begin_at(drive, disk, place, &meta, about(entry)) else { return };
        let len = content(entry);
        let mut at = 0;
        while at < len {
            let Ok(piece) = entry.body().load(at, PIECE).await else { return };
            at += piece.len() as u64;
            if !keeping.write(&piece) {
                return;
            }
        }
        keeping.finish();
    }
}

impl Disks {
    /// Returns the place of a response with this signature: beside the variants by the same fields, if there are any.
    async fn place(&self, disk: &Arc<Disk>, key: &[u8], signature: &[u8], now: u32) -> Destination {
        let page = page_key(key);
        if signature.is_empty() {
            return Destination { key: page, varies: None };
        }
        if let Some(found) = read(disk, &page, now, 0).await
            && let Some(Meta::Varies(number, other)) = Meta::decode(&found.meta)
            && vary::same_fields(signature, other)
        {
            return Destination { key: variant_key(key, number, signature), varies: None };
        }
        let number = self.varying.number(key, signature);
        let varies =
            Note { disk: Arc::clone(disk), key: page, meta: Meta::Varies(number, signature).encode(), now };
        Destination { key: variant_key(key, number, signature), varies: Some(varies) }
    }
}

/// URLs whose responses have begun to vary, while their records on the disk may not say so yet: variants that
/// arrive at the same time get the same number. If a URL is dropped from this table, its variants become
/// unreachable and are fetched again.
#[derive(Default)]
pub(super) struct VaryingUrls(Mutex<Numbers>);

/// For each cache key: the number, and a signature of the fields.
type Numbers = HashMap<Box<[u8]>, (u64, Box<[u8]>)>;

impl VaryingUrls {
    /// The most URLs in the table.
    const MOST: usize = 1 << 10;

    /// Returns the number of the variants of `key` that vary by the fields of `signature`.
    fn number(&self, key: &[u8], signature: &[u8]) -> u64 {
        let mut known = self.0.lock();
        if let Some((number, other)) = known.get(key)
            && vary::same_fields(signature, other)
        {
            return *number;
        }
        if known.len() >= Self::MOST {
            known.clear();
        }
        let number = fastrand::u64(..);
        known.insert(key.into(), (number, signature.into()));
        number
    }

    /// Removes the number of `key`, so that it is not used again.
    pub(super) fn forget(&self, key: &[u8]) {
        self.0.lock().remove(key);
    }

    /// Removes all numbers, so that none of them is used again.
    pub(super) fn forget_all(&self) {
        self.0.lock().clear();
    }
}

fn begin_at(
    drive: &Drive,
    disk: &Disk,
    place: Destination,
    meta: &Meta<'_>,
    about: ObjectInfo,
) -> Option<DiskWrite> {
    let room = drive.largest();
    if about.len.unwrap_or(0) > room {
        // The stored record is outdated.
        disk.remove(&place.key);
        return None;
    }
    let is_whole = matches!(meta, Meta::Response(head) if head.status == StatusCode::OK);
    let may_break_off = is_whole && about.len.is_some_and(|len| len >= SENDFILE_FROM);
    let mut meta = meta.encode();
    if may_break_off {
        meta.resize(meta.len() + ROOM_FOR_RANGE, 0);
    }
    let writer = disk.put(&place.key, &meta, about)?;
    Some(DiskWrite { writer, meta_len: meta.len(), room, varies: place.varies })
}

/// Finds the record with the same body as `entry`, and returns its serial.
async fn same_body(disk: &Arc<Disk>, key: &[u8], entry: &Entry) -> Option<u64> {
    let found = read(disk, key, entry.freshness().received, 0).await?;
    let Some(Meta::Response(head)) = Meta::decode(&found.meta) else { return None };
    let (stored, ours) = (HeadLines(head.own), entry.fields());
    let same = |name| stored.first(name) == ours.first(name);
    let has_validator = ["etag", "last-modified"].into_iter().any(|name| ours.contains(name));
    let is_same = has_validator
        && head.status == entry.status()
        && found.body.len() == entry.body().len()
        && same("etag")
        && same("last-modified");
    is_same.then_some(found.serial)
}

/// Returns the bytes of content in the record of `entry`: slices are records of their own.
fn content(entry: &Entry) -> u64 {
    if entry.body().slices().is_some() { 0 } else { entry.body().len() }
}

fn about(entry: &Entry) -> ObjectInfo {
    ObjectInfo { len: Some(content(entry)), stored: entry.freshness().received, cost: entry.cost() }
}

/// Returns the head of `entry` for a record, whose key has the cache key.
fn stored<'e>(entry: &'e Entry, own: &'e [u8]) -> StoredHead<'e> {
    StoredHead { key: &[], ..entry.stored_head(own) }
}
