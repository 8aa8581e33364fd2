//! Segment files: their headers, the number of their live bytes, and the list of them.
//!
//! A segment has one writer, which appends and never overwrites; its number is never reused. When a segment is freed, its
//! file is unlinked, and holders of the [`Segment`] can still read.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::files::{File, Files, read_all};
use crate::record::{self, FORMAT, Secret};
use crate::segment_checks::SegmentChecks;

/// Bytes before the first record: the header and its copy, so that a flipped bit does not hide the segment's removals.
pub(crate) const HEADER: u64 = 2 * COPY as u64;
const COPY: usize = 64;
const MAGIC: [u8; 8] = *b"LARDERSG";
const ENDING: &str = ".segment";

/// The header of a segment's file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Header {
    Ours(Secret),
    /// The format is a later one.
    Future(u32),
    Foreign,
}

pub(crate) fn encode_header(number: u32, secret: &Secret) -> [u8; HEADER as usize] {
    let mut both = [0; HEADER as usize];
    let (bytes, copy) = both.split_at_mut(COPY);
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&u32::from(FORMAT).to_le_bytes());
    bytes[12..16].copy_from_slice(&number.to_le_bytes());
    bytes[16..32].copy_from_slice(secret);
    let sum = record::sum(&bytes[..32], 0);
    bytes[32..40].copy_from_slice(&sum.to_le_bytes());
    copy.copy_from_slice(bytes);
    both
}

pub(crate) fn decode_header(bytes: &[u8], number: u32) -> Header {
    let mut copies = bytes.chunks_exact(COPY).take(2).map(|copy| decode_copy(copy, number));
    copies.find(|header| *header != Header::Foreign).unwrap_or(Header::Foreign)
}

fn decode_copy(bytes: &[u8], number: u32) -> Header {
    if bytes[..8] != MAGIC {
        return Header::Foreign;
    }
    if record::sum(&bytes[..32], 0) != record::number(bytes, 32) {
        return Header::Foreign;
    }
    let both = record::number(bytes, 8);
    match (both as u32, (both >> 32) as u32) {
        (format, _) if format > u32::from(FORMAT) => Header::Future(format),
        (format, named) if format == u32::from(FORMAT) && named == number => {
            let mut secret = Secret::default();
            secret.copy_from_slice(&bytes[16..32]);
            Header::Ours(secret)
        }
        _ => Header::Foreign,
    }
}

pub(crate) fn name(number: u32) -> String {
    format!("{number:010}{ENDING}")
}

/// Returns the number of the segment with this file name, if it is one.
pub(crate) fn number(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(ENDING)?;
    let is_plain = digits.len() == 10 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|&number| is_plain && number > 0)
}

pub(crate) struct Segment {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) file: Arc<dyn File>,
    /// Bytes that the file has, or will have after the write in progress.
    end: AtomicU64,
    /// Bytes of records with an index entry.
    live: AtomicU64,
    /// Bytes of marks of removals.
    pub(crate) marks: AtomicU64,
    /// The lowest serial of the objects in it, dead ones included.
    oldest: AtomicU64,
    /// Whether it takes no more records.
    pub(crate) sealed: AtomicBool,
    /// Whether all of its records have been read and added to the index where needed.
    pub(crate) known: AtomicBool,
    /// The bodies that were verified recently.
    pub(crate) checked: SegmentChecks,
    retired: AtomicBool,
    totals: Arc<Totals>,
}

/// Bytes of all segments.
#[derive(Default)]
struct Totals {
    /// The bytes of all segments, including freed ones that are still read.
    occupied: AtomicU64,
    /// The bytes of freed segments that are still read.
    held: AtomicU64,
}

impl Segment {
    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Counts the bytes up to `end` as taken.
    pub(crate) fn extend(&self, end: u64) {
        let before = self.end.fetch_max(end, Ordering::AcqRel);
        self.totals.occupied.fetch_add(end.saturating_sub(before), Ordering::Relaxed);
    }

    /// Counts no more bytes as taken than the file has, after a failed write behind `at`.
    pub(crate) fn shrink(&self, at: u64) {
        let Ok(size) = self.file.size() else { return };
        let before = self.end.fetch_min(size.max(at), Ordering::AcqRel);
        self.totals.occupied.fetch_sub(before.saturating_sub(size.max(at)), Ordering::Relaxed);
    }

    pub(crate) fn live(&self) -> u64 {
        self.live.load(Ordering::Relaxed)
    }

    pub(crate) fn enliven(&self, bytes: u64) {
        self.live.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn release(&self, bytes: u64) {
        self.live.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns the most bytes that the cleaner would have to move.
    pub(crate) fn kept(&self) -> u64 {
        self.live() + self.marks.load(Ordering::Relaxed)
    }

    pub(crate) fn oldest(&self) -> u64 {
        self.oldest.load(Ordering::Relaxed)
    }

    /// Records that it contains an object with `serial`.
    pub(crate) fn holds(&self, serial: u64) {
        self.oldest.fetch_min(serial, Ordering::Relaxed);
    }

    pub(crate) fn is_sealed(&self) -> bool {
        self.sealed.load(Ordering::Acquire)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.totals.occupied.fetch_sub(self.end(), Ordering::Relaxed);
        if *self.retired.get_mut() {
            self.totals.held.fetch_sub(self.end(), Ordering::Relaxed);
        }
    }
}

#[derive(Default)]
pub(crate) struct Segments {
    by_number: RwLock<HashMap<u32, Arc<Segment>>>,
    totals: Arc<Totals>,
}

impl Segments {
    /// Adds the segment in `file`, which has `end` bytes.
    pub(crate) fn add(&self, number: u32, file: Arc<dyn File>, end: u64) -> Arc<Segment> {
        let segment = Arc::new(Segment {
            number,
            name: name(number),
            file,
            end: AtomicU64::new(0),
            live: AtomicU64::new(0),
            marks: AtomicU64::new(0),
            oldest: AtomicU64::new(u64::MAX),
            sealed: AtomicBool::new(false),
            known: AtomicBool::new(true),
            checked: SegmentChecks::default(),
            retired: AtomicBool::new(false),
            totals: Arc::clone(&self.totals),
        });
        segment.extend(end);
        let mut segments = self.by_number.write();
        segments.insert(number, Arc::clone(&segment));
        segment
    }

    pub(crate) fn get(&self, number: u32) -> Option<Arc<Segment>> {
        self.by_number.read().get(&number).cloned()
    }

    /// Returns all segments, in the order of their numbers.
    pub(crate) fn all(&self) -> Vec<Arc<Segment>> {
        let segments = self.by_number.read();
        let mut all: Vec<_> = segments.values().cloned().collect();
        drop(segments);
        all.sort_unstable_by_key(|segment| segment.number);
        all
    }

    /// Unlinks a segment's file and removes the segment. Fails when the file cannot be unlinked; then the segment stays
    /// in the list, since the next start finds it.
    pub(crate) fn retire(&self, segment: &Segment, files: &dyn Files) -> io::Result<()> {
        match files.remove(&segment.name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.by_number.write().remove(&segment.number);
        if !segment.retired.swap(true, Ordering::Relaxed) {
            self.totals.held.fetch_add(segment.end(), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns the bytes of all segments, including freed ones that are still read.
    pub(crate) fn occupied(&self) -> u64 {
        self.totals.occupied.load(Ordering::Relaxed)
    }

    /// Returns the bytes of freed segments that are still read.
    pub(crate) fn held(&self) -> u64 {
        self.totals.held.load(Ordering::Relaxed)
    }
}

/// Reads the header of `file`. A file too short for a header is incomplete and has no records.
pub(crate) fn read_header(file: &dyn File, number: u32) -> io::Result<Header> {
    let mut bytes = [0; HEADER as usize];
    match read_all(file, &mut bytes, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Header::Foreign),
        other => other.map(|()| decode_header(&bytes, number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_numbers_and_back() {
        for (text, expected) in [
            ("0000000001.segment", Some(1)),
            ("4294967295.segment", Some(u32::MAX)),
            ("4294967296.segment", None),
            ("0000000000.segment", None),
            ("1.segment", None),
            ("+000000001.segment", None),
            ("0000000001.segment.bak", None),
            ("index.larder", None),
        ] {
            assert_eq!(number(text), expected, "{text}");
        }
        assert_eq!(number(&name(77)), Some(77));
    }

    #[test]
    fn headers_are_distinguished() {
        let ours = encode_header(5, &[7; 16]);
        assert_eq!(decode_header(&ours, 5), Header::Ours([7; 16]));
        assert_eq!(decode_header(&ours, 6), Header::Foreign);
        assert_eq!(decode_header(&ours[..63], 5), Header::Foreign);
        let mut later = ours;
        later[8] = 9;
        assert_eq!(decode_header(&later, 5), Header::Ours([7; 16]), "the copy is right");
        assert_eq!(decode_header(&later[..64], 5), Header::Foreign, "the sum is wrong");
        let sum = record::sum(&later[..32], 0);
        later[32..40].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(decode_header(&later, 5), Header::Future(9));
    }
}
