//! Reads the record at a location of the index: its head, and with it a short body.

use std::sync::Arc;

use crate::body::{Body, Found};
use crate::files::{File, read_all};
use crate::index::ObjectLocation;
use crate::record::{FIXED, Fixed, RecordKind};
use crate::segment::Segment;
use crate::shared::Shared;

/// Bytes read at first for the head of a record.
const GUESS: u64 = 1024;

/// How a record is read.
#[derive(Clone, Copy)]
pub(crate) struct Reading {
    /// Bytes of the longest body that comes along.
    pub(crate) whole: u64,
    /// Not to wait for the disk.
    pub(crate) at_once: bool,
}

impl Reading {
    /// The head alone, even if the disk takes its time.
    pub(crate) const HEAD: Self = Self { whole: 0, at_once: false };

    /// Bytes of a record of `len` bytes that are read at first: all, if its body is short enough for sure.
    fn first(self, len: u64) -> u64 {
        if len <= self.whole { len } else { GUESS }
    }

    /// Reads on until `bytes` has `to` of the bytes from `at` on.
    fn fill(self, file: &dyn File, bytes: &mut Vec<u8>, at: u64, to: u64) -> Result<(), Unread> {
        let there = bytes.len();
        if to <= there as u64 {
            return Ok(());
        }
        bytes.resize(to as usize, 0);
        let (missing, at) = (&mut bytes[there..], at + there as u64);
        if !self.at_once {
            return read_all(file, missing, at)
                .map_err(|error| Unread::Damaged(format!("cannot read: {error}")));
        }
        // Whatever else is the matter, a reader with time finds out.
        match file.read_at_once(missing, at) {
            Ok(read) if read == missing.len() => Ok(()),
            _ => Err(Unread::Waits),
        }
    }
}

/// What looking at a record came to.
pub(crate) enum Opened {
    Found(Record),
    /// The record is not what was written; it is gone.
    Damaged,
    /// The segment has gone: the index knows better by now, or the object is lost.
    Moved,
    /// It is not in memory.
    Waits,
}

/// Why a record was not read.
enum Unread {
    Waits,
    Damaged(String),
}

impl From<&str> for Unread {
    fn from(why: &str) -> Self {
        Self::Damaged(why.into())
    }
}

/// A record that was read up to its body at least, and is what was written so far.
pub(crate) struct Record {
    bytes: Vec<u8>,
    has_content: bool,
    pub(crate) body: Body,
}

impl Record {
    pub(crate) fn key(&self) -> &[u8] {
        &self.bytes[FIXED..][..usize::from(self.body.fixed.key)]
    }

    pub(crate) fn meta(&self) -> &[u8] {
        &self.bytes[..self.body.fixed.head() as usize][FIXED + usize::from(self.body.fixed.key)..]
    }

    pub(crate) fn into_found(self) -> Found {
        let meta = self.meta().to_vec();
        let Self { mut bytes, has_content, body } = self;
        let Fixed { stored, cost, serial, .. } = body.fixed;
        let content = has_content.then(|| {
            let head = body.fixed.head() as usize;
            bytes.truncate(head + body.len() as usize);
            bytes.drain(..head);
            bytes
        });
        Found { meta, stored, cost, serial, content, body }
    }
}

/// Opens the record that `place` leads to.
pub(crate) fn open(shared: &Arc<Shared>, hash: u64, place: &ObjectLocation, reading: Reading) -> Opened {
    let location = place.location();
    let Some(segment) = shared.segments.get(location.segment.get()) else { return Opened::Moved };
    match read(shared, hash, place, &segment, reading) {
        Ok((fixed, bytes)) => {
            let has_content = fixed.body <= reading.whole;
            let body = Body::new(Arc::clone(shared), segment, location, fixed, !has_content);
            Opened::Found(Record { bytes, has_content, body })
        }
        Err(Unread::Damaged(why)) => {
            shared.damaged(hash, location, &segment, &why);
            Opened::Damaged
        }
        Err(Unread::Waits) => Opened::Waits,
    }
}

fn read(
    shared: &Shared,
    hash: u64,
    place: &ObjectLocation,
    segment: &Segment,
    reading: Reading,
) -> Result<(Fixed, Vec<u8>), Unread> {
    let (file, at, mut bytes) = (&*segment.file, place.location().at(), Vec::new());
    reading.fill(file, &mut bytes, at, reading.first(place.len()).min(place.len()))?;
    let fixed = Fixed::decode(&bytes, &shared.secret).ok_or("no record here")?;
    if fixed.kind != RecordKind::Object || fixed.hash != hash || fixed.len() != place.len() {
        return Err("another record is here".into());
    }
    let has_content = fixed.body <= reading.whole;
    reading.fill(file, &mut bytes, at, if has_content { fixed.len() } else { fixed.head() })?;
    let (head, behind) = bytes.split_at(fixed.head() as usize);
    fixed.names(&head[FIXED..]).ok_or("key or meta has a wrong checksum")?;
    if has_content {
        let (body, rest) = behind.split_at(fixed.body as usize);
        if !fixed.is_body(body, &rest[..fixed.table() as usize]) {
            return Err("body has a wrong checksum".into());
        }
    }
    Ok((fixed, bytes))
}
