//! One stored response, compact: a reference is one word, and beyond key, field lines
//! ([`crate::lines`]) and content an entry costs some 100 bytes.

use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use larder_semantics::fields::Fields;
use larder_semantics::freshness::Freshness;
use larder_semantics::{groups, no_vary_search};
use triomphe::ThinArc;

use crate::Body;
use crate::lines::{Dates, Lines, LinesRef, Modified, SharedLines};
use crate::purges::Generation;

/// A stored response. Cloning it is one atomic increment.
#[derive(Clone, Debug)]
pub struct Entry(ThinArc<Fixed, u8>);

/// What an entry is besides its bytes; those are `key`, then `signature`, then the time and place of `Last-Modified` if
/// that is a number, then its own field lines.
#[derive(Debug)]
struct Fixed {
    body: Body,
    shared: Option<SharedLines>,
    /// No purge up to this generation reaches it.
    checked: AtomicU64,
    freshness: Freshness,
    cost: u32,
    status: StatusCode,
    /// Those of [`TAGGED`], [`SAYS_QUERIES`], [`DATED`] and [`MODIFIED`] that hold.
    marks: u8,
    key_len: u16,
    signature_len: u16,
}

/// It names groups or tags.
const TAGGED: u8 = 1;
/// It says which queries it answers.
const SAYS_QUERIES: u8 = 2;
/// Its `Date` is no line: the freshness knows it.
const DATED: u8 = 4;
/// Its `Last-Modified` is no line.
const MODIFIED: u8 = 8;

/// The parts of a new entry.
#[derive(Debug)]
pub struct Parts<'a> {
    /// The cache key (`larder_semantics::key`), at most 65,535 bytes.
    pub key: &'a [u8],
    /// The request fields it was selected by (`larder_semantics::vary`); empty without `Vary`.
    pub signature: &'a [u8],
    /// The status code.
    pub status: StatusCode,
    /// When it was received and how long it is good for.
    pub freshness: Freshness,
    /// What fetching it took, in microseconds: what a policy may weigh.
    pub cost: u32,
    /// No purge up to then reaches it: in force before the request was sent that fetched or validated it.
    pub born: Generation,
    /// Its field lines, from [`crate::Memory::keep`].
    pub fields: &'a Lines,
    /// Its content.
    pub body: Body,
}

/// Bytes of field lines that an entry may have. Each hit copies them into its client's buffer, and each 304 may add some.
pub const LONGEST_HEAD: usize = 64 << 10;

impl Entry {
    /// Whether key, signature and field lines are short enough for an entry.
    pub(crate) fn has_room(key: &[u8], signature: &[u8], fields: &LinesRef<'_>) -> bool {
        key.len().max(signature.len()) <= usize::from(u16::MAX) && fields.len() <= LONGEST_HEAD
    }

    /// Assembles an entry; `None` when key or signature are longer than 65,535 bytes, or the field lines longer than
    /// [`LONGEST_HEAD`].
    pub fn new(parts: Parts<'_>) -> Option<Self> {
        let (lines, freshness) = (parts.fields.view(), parts.freshness);
        if !Self::has_room(parts.key, parts.signature, &lines) {
            return None;
        }
        let Dates { date, modified } = parts.fields.dates;
        let marks = [
            (TAGGED, groups::is_tagged(&lines)),
            (SAYS_QUERIES, lines.contains(no_vary_search::FIELD)),
            (DATED, date == Some(freshness.date)),
            (MODIFIED, modified.is_some()),
        ];
        let marks = marks.iter().filter(|(_, holds)| *holds).fold(0, |marks, (mark, _)| marks | mark);
        let fixed = Fixed {
            body: parts.body,
            shared: parts.fields.shared.clone(),
            checked: AtomicU64::new(parts.born.0),
            freshness,
            cost: parts.cost,
            status: parts.status,
            marks,
            key_len: parts.key.len().try_into().ok()?,
            signature_len: parts.signature.len().try_into().ok()?,
        };
        let modified = modified.map(Modified::to_bytes);
        let modified = modified.as_ref().map_or(&[][..], |bytes| &bytes[..]);
        let date = if marks & DATED == 0 { lines.date_line() } else { &[] };
        let bytes = [parts.key, parts.signature, modified, &parts.fields.own, date].concat();
        Some(Self(ThinArc::from_header_and_slice(fixed, &bytes)))
    }

    /// The same content under another head: what a 304 or a HEAD leaves behind
    /// (RFC 9111 sections 3.2 and 4.3.5).
    pub fn refreshed(&self, fields: &Lines, freshness: Freshness, born: Generation) -> Option<Self> {
        let (key, signature) = (self.key(), self.signature());
        let (status, cost, body) = (self.status(), self.cost(), self.body().duplicate());
        Self::new(Parts { key, signature, status, freshness, cost, born, fields, body })
    }

    /// The same response as a purge leaves it, that no purge up to `checked` reaches further.
    pub(crate) fn aged(&self, freshness: Freshness, checked: Generation) -> Self {
        let old = &self.0.header.header;
        let checked = AtomicU64::new(checked.0);
        let (body, shared) = (old.body.duplicate(), old.shared.clone());
        let freshness = Freshness { date: old.freshness.date, ..freshness };
        let fixed = Fixed { body, shared, checked, freshness, ..*old };
        Self(ThinArc::from_header_and_slice(fixed, &self.0.slice))
    }

    /// Whether both are one and the same.
    pub(crate) fn is(&self, other: &Self) -> bool {
        std::ptr::eq(&self.0.header, &other.0.header)
    }

    /// No purge up to this generation reaches it.
    pub fn checked(&self) -> Generation {
        Generation(self.0.header.header.checked.load(Ordering::Relaxed))
    }

    /// Notes that no purge up to `generation` reaches it.
    pub(crate) fn note_checked(&self, generation: Generation) {
        self.0.header.header.checked.store(generation.0, Ordering::Relaxed);
    }

    /// Its fields, if they name groups or tags.
    pub(crate) fn tagged(&self) -> Option<LinesRef<'_>> {
        self.has(TAGGED).then(|| self.fields())
    }

    /// Whether it says which queries it answers (`No-Vary-Search`).
    pub(crate) fn says_queries(&self) -> bool {
        self.has(SAYS_QUERIES)
    }

    /// The cache key.
    pub fn key(&self) -> &[u8] {
        &self.0.slice[..self.key_len()]
    }

    /// The selecting request fields; empty when the response does not vary.
    pub fn signature(&self) -> &[u8] {
        &self.0.slice[self.key_len()..][..usize::from(self.0.header.header.signature_len)]
    }

    /// The stored field lines.
    pub fn fields(&self) -> LinesRef<'_> {
        let Fixed { shared, freshness, signature_len, .. } = &self.0.header.header;
        let rest = &self.0.slice[self.key_len() + usize::from(*signature_len)..];
        let (modified, own) = match rest.split_first_chunk() {
            Some((bytes, own)) if self.has(MODIFIED) => (Some(Modified::from_bytes(*bytes)), own),
            _ => (None, rest),
        };
        let date = self.has(DATED).then_some(freshness.date);
        LinesRef::of(shared.as_ref(), own, Dates { date, modified })
    }

    /// The stored status code.
    pub fn status(&self) -> StatusCode {
        self.0.header.header.status
    }

    /// Age and lifetime.
    pub fn freshness(&self) -> &Freshness {
        &self.0.header.header.freshness
    }

    /// What fetching it took, in microseconds.
    pub fn cost(&self) -> u32 {
        self.0.header.header.cost
    }

    /// The content.
    pub fn body(&self) -> &Body {
        &self.0.header.header.body
    }

    /// Bytes of memory held, allocator rounding included, without the cache's own bookkeeping and the shared lines,
    /// which their pool counts.
    pub fn charge(&self) -> u64 {
        const COUNTS: usize = 2 * size_of::<usize>();
        self.body().charge() + allocated(COUNTS + size_of::<Fixed>() + self.0.slice.len()) as u64
    }

    fn has(&self, mark: u8) -> bool {
        self.0.header.header.marks & mark != 0
    }

    fn key_len(&self) -> usize {
        usize::from(self.0.header.header.key_len)
    }
}

/// What an allocator of four size classes a doubling (jemalloc, mimalloc) hands out for `size` bytes.
pub(crate) fn allocated(size: usize) -> usize {
    match size {
        0 => 0,
        1..=128 => size.next_multiple_of(16),
        _ => size.next_multiple_of(size.next_power_of_two() >> 3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_up_to_the_classes_of_the_allocator() {
        let classes = [(0, 0), (1, 16), (128, 128), (129, 160), (257, 320), (1024, 1024), (1025, 1280)];
        for (size, class) in classes {
            assert_eq!(allocated(size), class, "{size} bytes");
        }
    }

    #[test]
    fn an_entry_is_small() {
        assert_eq!(size_of::<Entry>(), 8);
        assert_eq!(size_of::<Body>(), 24);
        assert!(size_of::<Fixed>() <= 80, "{}", size_of::<Fixed>());
    }
}
