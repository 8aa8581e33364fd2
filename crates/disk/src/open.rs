//! Reads the record at a location of the index: its head, and with it a short body.

use std::sync::Arc;

use crate::body::{Body, StoredObject};
use crate::files::{File, read_all};
use crate::index::ObjectLocation;
use crate::record::{FIXED, RecordKind, RecordPrefix};
use crate::segment::Segment;
use crate::shared::DiskState;

/// Bytes read first for the head of a record.
const GUESS: u64 = 1024;

/// The way to read a record.
#[derive(Clone, Copy)]
pub(crate) struct ReadMode {
    /// The most bytes of a body that is read with the head.
    pub(crate) whole: u64,
    /// Whether to read only bytes in memory, without waiting for the disk.
    pub(crate) at_once: bool,
}

impl ReadMode {
    /// The head alone, waiting for the disk if necessary.
    pub(crate) const HEAD: Self = Self { whole: 0, at_once: false };

    /// Returns the bytes that are read first of a record of `len` bytes: all, if its body is certainly short enough.
    fn first(self, len: u64) -> u64 {
        if len <= self.whole { len } else { GUESS }
    }

    /// Reads until `bytes` has `to` of the bytes from `at` on.
    fn fill(self, file: &dyn File, bytes: &mut Vec<u8>, at: u64, to: u64) -> Result<(), ReadFailure> {
        let there = bytes.len();
        if to <= there as u64 {
            return Ok(());
        }
        bytes.resize(to as usize, 0);
        let (missing, at) = (&mut bytes[there..], at + there as u64);
        if !self.at_once {
            return read_all(file, missing, at)
                .map_err(|error| ReadFailure::Damaged(format!("cannot read: {error}")));
        }
        // A reader that may wait determines other errors.
        match file.read_at_once(missing, at) {
            Ok(read) if read == missing.len() => Ok(()),
            _ => Err(ReadFailure::Waits),
        }
    }
}

/// The result of opening a record.
pub(crate) enum OpenResult {
    Found(Record),
    /// The record differs from the written one; it is removed.
    Damaged,
    /// The segment was removed: the index has a newer location by now, or the object is lost.
    Moved,
    /// The record is not in memory.
    Waits,
}

/// The reason why a record was not read.
enum ReadFailure {
    Waits,
    Damaged(String),
}

impl From<&str> for ReadFailure {
    fn from(why: &str) -> Self {
        Self::Damaged(why.into())
    }
}

/// A record that was read and verified at least up to its body.
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

    pub(crate) fn into_found(self) -> StoredObject {
        let meta = self.meta().to_vec();
        let Self { mut bytes, has_content, body } = self;
        let RecordPrefix { stored, cost, serial, .. } = body.fixed;
        let content = has_content.then(|| {
            let head = body.fixed.head() as usize;
            bytes.truncate(head + body.len() as usize);
            bytes.drain(..head);
            bytes
        });
        StoredObject { meta, stored, cost, serial, content, body }
    }
}

/// Opens the record at the location in `place`.
pub(crate) fn open(
    shared: &Arc<DiskState>,
    hash: u64,
    place: &ObjectLocation,
    reading: ReadMode,
) -> OpenResult {
    let location = place.location();
    let Some(segment) = shared.segments.get(location.segment.get()) else { return OpenResult::Moved };
    match read(shared, hash, place, &segment, reading) {
        Ok((fixed, bytes)) => {
            let has_content = fixed.body <= reading.whole;
            let body = Body::new(Arc::clone(shared), segment, location, fixed, !has_content);
            OpenResult::Found(Record { bytes, has_content, body })
        }
        Err(ReadFailure::Damaged(why)) => {
            shared.damaged(hash, location, &segment, &why);
            OpenResult::Damaged
        }
        Err(ReadFailure::Waits) => OpenResult::Waits,
    }
}

fn read(
    shared: &DiskState,
    hash: u64,
    place: &ObjectLocation,
    segment: &Segment,
    reading: ReadMode,
) -> Result<(RecordPrefix, Vec<u8>), ReadFailure> {
    let (file, at, mut bytes) = (&*segment.file, place.location().at(), Vec::new());
    reading.fill(file, &mut bytes, at, reading.first(place.len()).min(place.len()))?;
    let fixed = RecordPrefix::decode(&bytes, &shared.secret).ok_or("no record here")?;
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
