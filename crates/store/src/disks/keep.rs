//! Writing responses to a disk: while they arrive, or after a change.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::StatusCode;
use larder_disk::{About, Disk, Writer};
use larder_semantics::fields::{Fields, HeadLines};
use larder_semantics::vary;

use super::meta::{self, Meta, head_key, page_key, variant_key};
use super::{Disks, Drive, read};
use crate::body::SENDFILE_FROM;
use crate::head::Head;
use crate::{Body, Entry, Storage as At};

/// Bytes of a body that are handed over at once.
const PIECE: usize = 256 << 10;

/// Bytes by which the head of what broke off may be longer: it says which part it is.
const ROOM_FOR_RANGE: usize = 96;

/// A response on its way onto a disk. Dropped before it is finished, it leaves nothing.
pub(crate) struct Keeping {
    writer: Writer,
    /// Bytes that the head has to take.
    meta_len: usize,
    /// Bytes of body that there is still room for.
    room: u64,
    /// What has to be said besides: by which fields responses to this URL vary.
    varies: Option<Note>,
}

/// A record without a body.
struct Note {
    disk: Arc<Disk>,
    key: Vec<u8>,
    meta: Vec<u8>,
    now: u32,
}

impl Keeping {
    /// Takes the next bytes of the body; false when the response will not be stored.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> bool {
        match self.room.checked_sub(bytes.len() as u64) {
            Some(room) => {
                self.room = room;
                self.writer.write(bytes)
            }
            None => false,
        }
    }

    /// Bytes that the disk has written so far, if much waits to be written.
    pub(crate) fn behind(&self) -> Option<u64> {
        self.writer.is_behind().then(|| self.writer.written())
    }

    /// Whether the disk has given it up.
    pub(crate) fn is_given_up(&self) -> bool {
        self.writer.is_given_up()
    }

    /// Publishes what has come of a response that broke off, under the head `part` has for that; false when it is not
    /// stored.
    pub(crate) fn finish_early(self, part: &Head) -> bool {
        let mut meta = Meta::Response(record_of(part, &part.fields.view().own())).encode();
        if meta.len() > self.meta_len {
            return false;
        }
        meta.resize(self.meta_len, 0);
        self.writer.finish_early(&meta) && self.varies.is_none_or(Note::write)
    }

    /// Publishes the response, which is whole; false when it is not stored.
    pub(crate) fn finish(self) -> bool {
        self.writer.finish() && self.varies.is_none_or(Note::write)
    }
}

impl Note {
    fn write(self) -> bool {
        let about = About { len: Some(0), stored: self.now, cost: 0 };
        self.disk.put(&self.key, &self.meta, about).is_some_and(Writer::finish)
    }
}

/// Where a response belongs.
struct Destination {
    key: Vec<u8>,
    varies: Option<Note>,
}

impl Disks {
    /// Begins to store the response to `key` with this head. `None` if it is not to be stored.
    pub(crate) async fn begin(&self, key: &[u8], head: &Head) -> Option<Keeping> {
        let (drive, now) = (self.drive(key)?, head.freshness.received);
        let disk = drive.disk()?;
        let place = self.place(disk, key, &head.signature, now).await;
        let about = About { len: head.length, stored: now, cost: head.cost };
        begin_at(drive, disk, place, record_of(head, &head.fields.view().own()), about)
    }

    /// Stores `entry`, a response whose head has changed or that was put together, if that can be done without
    /// waiting. False if [`keep`](Self::keep) has to do it.
    pub(crate) fn keep_at_once(&self, entry: &Entry) -> bool {
        let At::Heap(content) = entry.body().place() else { return false };
        if !entry.signature().is_empty() {
            return false;
        }
        let Some(drive) = self.drive(entry.key()) else { return true };
        let Some(disk) = drive.disk() else { return true };
        let place = Destination { key: page_key(entry.key()), varies: None };
        if let Some(mut keeping) =
            begin_at(drive, disk, place, record_of_entry(entry, &entry.fields().own()), about(entry))
            && keeping.write(content)
        {
            keeping.finish();
        }
        true
    }

    /// Stores `entry` in place of what there is of it. Where the body is on the disk already only the head is
    /// written.
    pub(crate) async fn keep(&self, entry: &Entry) {
        let Some(drive) = self.drive(entry.key()) else { return };
        let Some(disk) = drive.disk() else { return };
        let now = entry.freshness().received;
        let place = self.place(disk, entry.key(), entry.signature(), now).await;
        let serial = match (entry.body(), entry.body().record()) {
            (_, Some(record)) => Some(record.serial()),
            (Body::Long(_), None) if place.varies.is_none() => same_body(disk, &place.key, entry).await,
            _ => None,
        };
        if let Some(serial) = serial {
            let meta = Meta::Newer(serial, record_of_entry(entry, &entry.fields().own())).encode();
            Note { disk: Arc::clone(disk), key: head_key(&place.key), meta, now }.write();
            return;
        }
        let len = entry.body().len();
        let keeping =
            begin_at(drive, disk, place, record_of_entry(entry, &entry.fields().own()), about(entry));
        let Some(mut keeping) = keeping else { return };
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
    /// Where a response with this signature belongs: beside those that vary by the same fields, if there are any.
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

/// URLs whose responses have begun to vary, which their records may not say yet: variants that come at the same
/// time belong together. One that was forgotten costs its variants, which are fetched again.
#[derive(Default)]
pub(super) struct Varying(Mutex<Numbers>);

/// By cache key: the number, and a signature of the fields.
type Numbers = HashMap<Box<[u8]>, (u64, Box<[u8]>)>;

impl Varying {
    /// As many URLs as are remembered.
    const MOST: usize = 1 << 10;

    /// The number of the variants of `key` that vary by the fields of `signature`.
    fn number(&self, key: &[u8], signature: &[u8]) -> u64 {
        let mut known = self.lock();
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

    /// Lets the number of `key` never be given again.
    pub(super) fn forget(&self, key: &[u8]) {
        self.lock().remove(key);
    }

    /// Lets no number be given again.
    pub(super) fn forget_all(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Numbers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn begin_at(
    drive: &Drive,
    disk: &Disk,
    place: Destination,
    head: meta::Head<'_>,
    about: About,
) -> Option<Keeping> {
    let room = drive.largest();
    if about.len.unwrap_or(0) > room {
        // What is there is of the past.
        disk.remove(&place.key);
        return None;
    }
    let may_break_off = head.status == StatusCode::OK && about.len.is_some_and(|len| len >= SENDFILE_FROM);
    let mut meta = Meta::Response(head).encode();
    if may_break_off {
        meta.resize(meta.len() + ROOM_FOR_RANGE, 0);
    }
    let writer = disk.put(&place.key, &meta, about)?;
    Some(Keeping { writer, meta_len: meta.len(), room, varies: place.varies })
}

/// The record of the body that `entry` has as well, by its serial.
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

fn about(entry: &Entry) -> About {
    About { len: Some(entry.body().len()), stored: entry.freshness().received, cost: entry.cost() }
}

/// What a disk keeps of `head`, whose own lines are `own`.
fn record_of<'h>(head: &'h Head, own: &'h [u8]) -> meta::Head<'h> {
    meta::Head {
        status: head.status,
        freshness: head.freshness,
        signature: &head.signature,
        shared: head.fields.view().shared(),
        own,
    }
}

/// The same of `entry`.
fn record_of_entry<'e>(entry: &'e Entry, own: &'e [u8]) -> meta::Head<'e> {
    meta::Head {
        status: entry.status(),
        freshness: entry.freshness(),
        signature: entry.signature(),
        shared: entry.fields().shared(),
        own,
    }
}
