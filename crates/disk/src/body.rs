//! A found object: its metadata, and a body that is read from its segment and verified during the read.
//! [`open`](crate::open) finds it.

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::{fs, io};

use parking_lot::Mutex;

use crate::files::{Stamp, read_all};
use crate::index::Location;
use crate::record::{self, BLOCK, RecordPrefix};
use crate::segment::Segment;
use crate::segment_checks::Check;
use crate::shared::DiskState;

/// The least bytes that enter memory together.
const PAGE: u64 = 4096;

/// An object at the time of the lookup. It can be read while this value exists, even after it is removed.
pub struct StoredObject {
    /// The caller's metadata beside the body.
    pub meta: Vec<u8>,
    /// The time at which it was stored, in seconds since 1970.
    pub stored: u32,
    /// The cost of fetching it again, in microseconds.
    pub cost: u32,
    /// The serial number, unique in the directory: a later object of the same key has another one.
    pub serial: u64,
    /// The whole body, verified, if it is not longer than the lookup's limit.
    pub content: Option<Vec<u8>>,
    /// The content.
    pub body: Body,
}

/// The content of an object.
pub struct Body {
    shared: Arc<DiskState>,
    segment: Arc<Segment>,
    location: Location,
    pub(crate) fixed: RecordPrefix,
    /// The table of block sums, read at its first use.
    table: OnceLock<Arc<[u8]>>,
    state: Mutex<State>,
}

/// The state of the body's verification.
#[derive(Default)]
struct State {
    /// The last check that verified all bytes.
    check: Option<Check>,
    /// A check in progress, and the number of bytes verified so far from the start.
    reading: Option<Box<(CheckStart, u64)>>,
}

#[derive(Clone, Copy)]
struct CheckStart {
    check: Check,
    /// Whether every later change of the file would change its stamp. If not, other readers may not rely on the check.
    is_settled: bool,
}

/// The bytes differ from the written ones, or cannot be read; the object has been removed from the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stored object is damaged")]
pub struct Damage;

/// The location of a body in a file. The file's bytes there never change while a [`Body`] or [`StoredObject`] of it,
/// or the file itself, is held.
pub struct Span<'a> {
    /// The file; `None` if the store does not use real files.
    pub file: Option<&'a fs::File>,
    /// The offset of the body's first byte.
    pub offset: u64,
    /// The length of the body in bytes.
    pub len: u64,
}

impl Body {
    /// Creates the body of the record at `location`. `seek_check` says whether to look for a recent verification.
    pub(crate) fn new(
        shared: Arc<DiskState>,
        segment: Arc<Segment>,
        location: Location,
        fixed: RecordPrefix,
        seek_check: bool,
    ) -> Self {
        let check = seek_check.then(|| segment.checked.get(location.unit())).flatten();
        let state = Mutex::new(State { check, reading: None });
        Self { shared, segment, location, fixed, table: OnceLock::new(), state }
    }

    /// Returns the bytes in the body.
    pub fn len(&self) -> u64 {
        self.fixed.body
    }

    /// Whether the body is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the whole body was verified recently, and its file has not changed since according to its size and
    /// times: then its [`Span`] may be sent by `sendfile` without being read. Takes one call to the operating system.
    pub fn is_verified(&self) -> bool {
        if self.is_empty() {
            return true;
        }
        let check = self.state.lock().check;
        check.is_some_and(|check| {
            !self.shared.is_expired(check.second) && self.stamp().is_ok_and(|stamp| stamp == check.stamp)
        })
    }

    /// Checks that the file is still long enough. Reads no bytes.
    ///
    /// # Errors
    /// [`Damage`] when the file was cut short.
    pub fn is_there(&self) -> Result<(), Damage> {
        let end = self.offset() + self.len() + self.fixed.table();
        match self.segment.file.size() {
            Ok(size) if size < end => Err(self.damaged("the file was cut short")),
            Ok(_) => Ok(()),
            Err(error) => Err(self.damaged(&format!("cannot read: {error}"))),
        }
    }

    /// Returns the location of the body.
    pub fn span(&self) -> Span<'_> {
        Span { file: self.segment.file.as_file(), offset: self.offset(), len: self.len() }
    }

    /// Reads the bytes of `range`, which must end at the body's end or before, and checks them block by block.
    /// Allocates as many bytes as the range has. A body read from its beginning to its end counts as verified.
    ///
    /// # Errors
    /// [`Damage`] when the bytes differ from the written ones, or do not exist.
    pub fn read(&self, range: Range<u64>) -> Result<Vec<u8>, Damage> {
        if range.start > range.end || range.end > self.len() {
            return Err(Damage);
        }
        let begun = self.go_on_at(range.start);
        let mut read = Vec::with_capacity((range.end - range.start) as usize);
        let mut block = Vec::new();
        let first = range.start / BLOCK;
        for n in first..range.end.div_ceil(BLOCK).max(first) {
            self.read_block(n, &mut block)?;
            let start = range.start.saturating_sub(n * BLOCK) as usize;
            let end = (range.end - n * BLOCK).min(BLOCK) as usize;
            read.extend_from_slice(&block[start..end]);
        }
        if let Some(begun) = begun {
            self.read_up_to(range.end, begun);
        }
        Ok(read)
    }

    /// Whether the bytes of `range` seem to be in memory, so that reading or sending them does not wait for
    /// the disk. Checks the bytes at the start, the middle and the end, and the table of sums if it is needed
    /// for verification. Returns false where this cannot be determined. Bytes that have left memory no longer
    /// count as verified, since they would be read from the disk again.
    pub fn is_at_hand(&self, range: Range<u64>) -> bool {
        if range.start >= range.end || range.end > self.len() {
            return range.start == range.end;
        }
        let (mut start, mut end, mut table) = (range.start, range.end, None);
        if !self.is_verified() {
            (start, end) = (start / BLOCK * BLOCK, end.next_multiple_of(BLOCK).min(self.len()));
            table = Some([self.len(), self.len() + self.fixed.table() - 1])
                .filter(|_| self.table.get().is_none());
        }
        let body = [start, start + (end - start) / 2, end - 1];
        let mut last = None;
        body.into_iter()
            .chain(table.into_iter().flatten())
            .map(|at| self.offset() + at)
            .all(|at| last.replace(at / PAGE) == Some(at / PAGE) || self.is_byte_at_hand(at))
    }

    fn is_byte_at_hand(&self, at: u64) -> bool {
        let read = self.segment.file.read_at_once(&mut [0], at);
        if matches!(&read, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
            *self.state.lock() = State::default();
            self.segment.checked.forget(self.location.unit());
        }
        matches!(read, Ok(1))
    }

    /// Reads the whole body unless it [is verified](Self::is_verified), so that it may be sent without being read.
    ///
    /// # Errors
    /// [`Damage`] when the bytes differ from the written ones.
    pub fn verify(&self) -> Result<(), Damage> {
        if self.is_verified() {
            return Ok(());
        }
        let begun = self.begin();
        self.read_through(&mut |_| true)?;
        if let Some(begun) = begun {
            self.end(begun);
        }
        Ok(())
    }

    /// Reads the whole body while `go_on` returns true; `go_on` receives the bytes of each block. Returns
    /// false if `go_on` stopped it.
    pub(crate) fn read_through(&self, go_on: &mut dyn FnMut(u64) -> bool) -> Result<bool, Damage> {
        let mut block = Vec::new();
        for n in 0..self.len().div_ceil(BLOCK) {
            self.read_block(n, &mut block)?;
            if !go_on(block.len() as u64) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes the file's stamp before a check of all bytes; returns `None` where the stamp is not available.
    fn begin(&self) -> Option<CheckStart> {
        let second = self.shared.second();
        let stamp = self.stamp().ok()?;
        Some(CheckStart { check: Check { stamp, second }, is_settled: stamp.is_settled() })
    }

    /// Records that all bytes are verified, if the file has not changed since the check began.
    fn end(&self, begun: CheckStart) {
        let check = begun.check;
        if !self.stamp().is_ok_and(|stamp| stamp == check.stamp) {
            return;
        }
        self.state.lock().check = Some(check);
        if begun.is_settled {
            let oldest = check.second.saturating_sub(self.shared.trust);
            self.segment.checked.note(self.location.unit(), check, oldest);
        }
    }

    /// Returns the check that a read from `start` on continues, if all bytes before it have been read.
    fn go_on_at(&self, start: u64) -> Option<CheckStart> {
        if start == 0 {
            return self.begin();
        }
        let state = self.state.lock();
        let (begun, up_to) = **state.reading.as_ref()?;
        (up_to == start).then_some(begun)
    }

    /// Records that the bytes up to `end` were verified since `begun`.
    fn read_up_to(&self, end: u64, begun: CheckStart) {
        let is_whole = end == self.len();
        self.state.lock().reading = (!is_whole).then(|| Box::new((begun, end)));
        if is_whole {
            self.end(begun);
        }
    }

    fn stamp(&self) -> io::Result<Stamp> {
        self.segment.file.stamp()
    }

    fn offset(&self) -> u64 {
        self.location.at() + self.fixed.head()
    }

    fn read_block(&self, n: u64, block: &mut Vec<u8>) -> Result<(), Damage> {
        let table = self.table()?;
        block.resize((self.len() - n * BLOCK).min(BLOCK) as usize, 0);
        if let Err(error) = read_all(&*self.segment.file, block, self.offset() + n * BLOCK) {
            return Err(self.damaged(&format!("cannot read: {error}")));
        }
        if !record::is_block(block, n, self.fixed.serial, table) {
            return Err(self.damaged("body has a wrong checksum"));
        }
        Ok(())
    }

    fn table(&self) -> Result<&[u8], Damage> {
        if self.table.get().is_none() {
            let mut table = vec![0; self.fixed.table() as usize];
            if let Err(error) = read_all(&*self.segment.file, &mut table, self.offset() + self.len()) {
                return Err(self.damaged(&format!("cannot read: {error}")));
            }
            if record::sum(&table, self.fixed.serial) != self.fixed.sums {
                return Err(self.damaged("checksums are damaged"));
            }
            let _ = self.table.set(table.into());
        }
        Ok(self.table.get().map_or(&[], |table| table))
    }

    fn damaged(&self, why: &str) -> Damage {
        self.shared.damaged(self.fixed.hash, self.location, &self.segment, why);
        Damage
    }
}
