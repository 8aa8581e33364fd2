//! Entries of which a pack has everything. During an upgrade, a process needs only the place of such an entry.
//!
//! In the pack, a record of the fixed part precedes the variable part, which precedes the content. The numbers of a record:
//! the generation of purges (two), the four of the freshness and cost, the length of the variable part, that of the key and
//! the place of `Last-Modified`, status and length of the content; and in one: flags, marks, number of the shared lines, number
//! of the forms in other codings and whether another [variant follows](FOLLOWED). Behind the content, each form has a row: its
//! coding (1), whether it is there (1) and its length (2); the forms come behind the rows, the next variant behind the forms.
//! Another version may write other records. So an entry is left out only if its record is the one that it would get here.

use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use larder_semantics::coding::Coding;
use larder_semantics::freshness::Flags;
use triomphe::ThinArc;

use super::{Entry, EntryPrefix, PACKED, STATUS, bytes_of, numbers};
use crate::lines::PackLines;
use crate::{Body, CodedBody, Extent, PackedBody};

/// The bytes of a record.
pub(crate) const RECORD: usize = 40;
/// The place of the number of the shared lines among them.
const LINES_AT: usize = RECORD - 2;
/// That number for an entry without shared lines.
const NO_LINES: u8 = PackLines::MOST;
/// Another variant of the response follows. The bits below count the forms.
const FOLLOWED: u8 = 1 << 7;
/// The bytes of a row.
const ROW: usize = 4;

/// A place in a pack.
pub(crate) type Place<'p> = (&'p Arc<Extent>, u32);

impl Entry {
    /// Returns the record of this entry in a pack with these `lines`, which another variant follows if it `is_followed`.
    /// Without a number for its own lines, no process can use it.
    pub(crate) fn record(&self, lines: &PackLines, is_followed: bool) -> [u8; RECORD] {
        let shared = self.0.header.header.shared.as_ref();
        self.record_with(shared.and_then(|shared| lines.number(shared)).unwrap_or(NO_LINES), is_followed)
    }

    fn record_with(&self, lines: u8, is_followed: bool) -> [u8; RECORD] {
        let &EntryPrefix { received, lifetime, date, cost, key_len, modified_at, flags, marks, .. } =
            &self.0.header.header;
        let checked = self.checked().0;
        let forms = self.coded().map_or(0, |coded| coded.tried().len()) as u8;
        let pair = |low: u16, high: u16| u32::from(low) | u32::from(high) << 16;
        bytes_of([
            checked as u32,
            (checked >> 32) as u32,
            received,
            lifetime,
            date,
            cost,
            self.variable_part().len() as u32,
            pair(key_len, modified_at),
            // Content in a pack is shorter than this number can say.
            pair(self.status().as_u16(), self.body().len() as u16),
            u32::from_le_bytes([flags.bits(), marks, lines, forms | if is_followed { FOLLOWED } else { 0 }]),
        ])
    }

    /// Returns the rows of the forms.
    pub(crate) fn rows(&self) -> Vec<u8> {
        let forms = self.coded().map(CodedBody::tried).into_iter().flatten();
        let row = |(coding, form): (_, Option<&Body>)| -> [u8; ROW] {
            // A form in a pack is shorter than this number can say.
            let [low, high] = form.map_or(0, |form| form.len() as u16).to_le_bytes();
            [CodedBody::number(coding), form.is_some().into(), low, high]
        };
        forms.flat_map(row).collect()
    }

    /// Returns the place of the record of the first one, if a pack has everything of these variants of a response.
    pub(crate) fn recorded(variants: &[Self]) -> Option<Place<'_>> {
        let mut place: Option<(Place<'_>, u32)> = None;
        for (at, entry) in variants.iter().enumerate() {
            let [from, to] = entry.recorded_at(at + 1 < variants.len())?;
            let pack = entry.body().in_pack()?.pack();
            let first = match place {
                None => (pack, from),
                Some((first, end)) => {
                    Some(first).filter(|first| Arc::ptr_eq(first.0, pack) && end == from)?
                }
            };
            place = Some((first, to));
        }
        place.map(|(first, _)| first)
    }

    /// Returns the range of this entry in its pack, if that has everything.
    fn recorded_at(&self, is_followed: bool) -> Option<[u32; 2]> {
        let prefix = &self.0.header.header;
        let packed = prefix.body.in_pack().filter(|_| self.is_packed())?;
        let before = RECORD + self.variable_part().len();
        let record = packed.before(before)?.first_chunk()?;
        let lines = || packed.pack().lines();
        let has_lines = || match &prefix.shared {
            Some(shared) => lines().has(record[LINES_AT], shared),
            None => record[LINES_AT] == NO_LINES,
        };
        if self.record_with(record[LINES_AT], is_followed) != *record || !has_lines() {
            return None;
        }
        let ([from, len], rows) = (packed.part(), self.rows());
        let mut end = from + len;
        if packed.pack().mapped()?.get(end as usize..)?.get(..rows.len())? != rows {
            return None;
        }
        end += rows.len() as u32;
        for (_, form) in self.coded().map(CodedBody::tried).into_iter().flatten() {
            let Some(form) = form else { continue };
            let form = form.in_pack().filter(|form| Arc::ptr_eq(form.pack(), packed.pack()))?;
            let [from, len] = form.part();
            end = (from == end).then_some(end + len)?;
        }
        Some([from - before as u32, end])
    }

    /// Returns the entries of which a pack has [everything](Self::recorded) at this place.
    pub(crate) fn of_records((pack, mut at): Place<'_>) -> Vec<Self> {
        let mut entries = Vec::with_capacity(1);
        loop {
            let (entry, end, is_followed) = Self::of_record(pack, at);
            entries.push(entry);
            if !is_followed {
                return entries;
            }
            at = end;
        }
    }

    /// Returns the entry at this place of `pack`, the place behind it, and whether another variant follows.
    fn of_record(pack: &Arc<Extent>, at: u32) -> (Self, u32, bool) {
        let [low, high, received, lifetime, date, cost, len, lengths, status, last] = record_at((pack, at));
        let [flags, marks, lines, forms] = last.to_le_bytes();
        let (count, is_followed) = (usize::from(forms & !FOLLOWED), forms & FOLLOWED != 0);
        let part = |from, len| {
            let packed = PackedBody::new(Arc::clone(pack), from, len);
            packed.map_or_else(Body::empty, Body::packed)
        };
        let (from, content) = (at + RECORD as u32 + len, status >> 16);
        let body = part(from, content);
        let rows = pack.mapped().and_then(|bytes| bytes.get((from + content) as usize..));
        let rows = rows.and_then(|bytes| bytes.as_chunks().0.get(..count)).unwrap_or_default();
        let mut end = from + content + (count * ROW) as u32;
        let forms = rows.iter().map(|&[coding, is_there, low, high]: &[u8; ROW]| {
            let len = u32::from(u16::from_le_bytes([low, high]));
            let form = (is_there != 0).then(|| part(end, len));
            end += len;
            (CodedBody::coding(coding).unwrap_or_default(), form)
        });
        let body = if count > 0 { Body::coded(CodedBody::new(body, forms.collect())) } else { body };
        let fixed = EntryPrefix {
            body,
            shared: pack.lines().get(lines),
            checked: AtomicU64::new(u64::from(low) | u64::from(high) << 32),
            received,
            lifetime,
            date,
            cost,
            key_len: lengths as u16,
            modified_at: (lengths >> 16) as u16,
            status: AtomicU16::new(status as u16 & STATUS | PACKED),
            flags: Flags::from_bits(flags),
            marks,
        };
        let entry = Self(ThinArc::from_header_and_slice(fixed, &len.to_le_bytes()));
        (entry, end, is_followed)
    }

    /// Whether the entry with its record at this place of a pack has this key.
    pub(crate) fn is_recorded_for(key: &[u8], place: Place<'_>) -> bool {
        let (pack, at) = place;
        let key_len = record_at(place)[7] as u16;
        let behind = pack.mapped().and_then(|bytes| bytes.get(at as usize + RECORD..));
        behind.is_some_and(|behind| usize::from(key_len) == key.len() && behind.starts_with(key))
    }

    /// Whether both are the same entry, or equal but for the generation of purges and at the same place in a pack: who looks
    /// up a record gets an entry of their own.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        type Place = Option<(*const Extent, [u32; 2])>;
        fn places(entry: &Entry) -> Option<Vec<(Option<Coding>, Place)>> {
            let forms = entry.coded().map(CodedBody::tried).into_iter().flatten();
            let place = |(coding, body): (_, Option<&Body>)| {
                let packed = body.map(|body| body.in_pack().ok_or(())).transpose().ok()?;
                Some((coding, packed.map(|packed| (Arc::as_ptr(packed.pack()), packed.part()))))
            };
            iter::once((None, Some(entry.body()))).chain(forms).map(place).collect()
        }
        self.is(other)
            || places(self).is_some_and(|own| Some(own) == places(other))
                && self.stored_head(&self.fields().own()) == other.stored_head(&other.fields().own())
    }

    /// Whether a pack has the variable part.
    #[inline]
    pub(super) fn is_packed(&self) -> bool {
        self.0.header.header.status.load(Ordering::Relaxed) & PACKED != 0
    }
}

/// Returns the numbers of the record at this place.
fn record_at((pack, at): Place<'_>) -> [u32; RECORD / 4] {
    let record = pack.mapped().and_then(|bytes| bytes.get(at as usize..)?.first_chunk());
    let record: [u8; RECORD] = *record.unwrap_or(&[0; RECORD]);
    numbers(record)
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use larder_semantics::freshness::Freshness;

    use super::*;
    use crate::entry::Parts;
    use crate::lines::LinePool;
    use crate::{Arena, Generation, Lines};

    fn entry(fields: &Lines, body: Body) -> Entry {
        let (key, signature, status) = (&b"http://site.test/"[..], &b"br"[..], StatusCode::NOT_FOUND);
        let flags = Flags::VALIDATOR;
        let freshness = Freshness {
            received: 9,
            initial_age: 8,
            lifetime: 7,
            date: 6,
            stale_if_error: 5,
            flags,
            ..Freshness::default()
        };
        Entry::new(Parts {
            key,
            signature,
            status,
            freshness,
            cost: 4,
            born: Generation(1 << 40),
            fields,
            body,
        })
        .unwrap()
    }

    /// Returns lines that several responses share, if they are not the first ones.
    fn lines(pool: &LinePool, server: &[u8]) -> Lines {
        let fields = [
            (&b"server"[..], server),
            (b"etag", b"\"1\""),
            (b"last-modified", b"Thu, 01 Jan 1970 00:00:00 GMT"),
        ];
        pool.keep_lines(fields.into_iter(), 6)
    }

    /// Returns the variants with everything in a pack, behind five bytes; the byte at `damaged` is another one there.
    fn packed(variants: &[Entry], damaged: Option<usize>) -> Vec<Entry> {
        let (lines, mut bytes, mut places) = (PackLines::default(), b"other".to_vec(), Vec::new());
        for (at, entry) in variants.iter().enumerate() {
            bytes.extend(entry.record(&lines, at + 1 < variants.len()));
            bytes.extend(entry.variable_part());
            entry.moved(&mut |body| {
                places.push(bytes.len() as u32);
                bytes.extend(body.copy(0, usize::MAX).unwrap());
                let rows = if std::ptr::eq(body, entry.body()) { entry.rows() } else { Vec::new() };
                bytes.extend(rows);
                None
            });
        }
        damaged.into_iter().for_each(|at| bytes[at] ^= 1);
        let pack = Arena::new().unwrap().extent(None).unwrap();
        pack.append(&bytes).unwrap();
        pack.set_lines(lines);
        let (pack, mut places) = (Arc::new(pack), places.into_iter());
        let mut place = |body: &Body| PackedBody::new(Arc::clone(&pack), places.next()?, body.len() as u32);
        let moved = |entry: &Entry| entry.moved(&mut |body| place(body).map(Body::packed)).unwrap();
        variants.iter().map(moved).collect()
    }

    /// Returns two variants with these fields, the first one with two forms and a third one that was tried.
    fn variants(fields: &Lines) -> [Entry; 2] {
        let form = |bytes: &[u8]| Some(Body::Heap(bytes.into()));
        let [entry, other] = [(); 2].map(|()| entry(fields, Body::Heap(b"content"[..].into())));
        let first = entry.with_form(Some(Coding::Gzip), form(b"coded")).unwrap();
        let first = first.with_form(Some(Coding::Brotli), None).unwrap();
        [first.with_form(None, form(b"longer content")).unwrap(), other]
    }

    #[test]
    fn variants_are_read_from_their_own_records_alone() {
        let pool = LinePool::default();
        let [alone, .., shared] = [(); 4].map(|()| lines(&pool, b"s"));
        assert!(alone.shared.is_none() && shared.shared.is_some());
        for fields in [&alone, &shared] {
            let plain = variants(fields);
            let own = packed(&plain, None);
            let (pack, at) = Entry::recorded(&own).expect("the pack has everything");
            let read = [(); 2].map(|()| Entry::of_records((pack, at)));
            for read in &read {
                assert_eq!((read.len(), at), (2, 5));
                for ((read, own), plain) in read.iter().zip(&own).zip(&plain) {
                    assert_eq!(
                        read.stored_head(&read.fields().own()),
                        plain.stored_head(&plain.fields().own())
                    );
                    assert_eq!((read.checked(), read.charge()), (plain.checked(), plain.charge()));
                    let forms = |entry: &Entry| -> Vec<_> {
                        let copy = |body: &Body| body.copy(0, usize::MAX).unwrap();
                        let tried = entry.coded().map(CodedBody::tried).into_iter().flatten();
                        let own = (None, Some(copy(entry.body())));
                        tried.map(|(coding, form)| (coding, form.map(copy))).chain([own]).collect()
                    };
                    assert_eq!(forms(read), forms(plain));
                    assert!(read.is_same(own) && !read.is(own) && !read.is_same(plain));
                }
            }
            let aged = read[0][0].aged(read[0][0].freshness().invalid(), plain[0].checked()).unwrap();
            assert!(read[0][0].is_same(&read[1][0]) && !aged.is_same(&own[0]));
            let form = own[1].with_form(None, None).unwrap();
            assert!(!form.is_same(&own[1]) && Entry::recorded(&[form]).is_none(), "the pack lacks the form");
            assert!(Entry::recorded(&own[..1]).is_none(), "its record says that another one follows");
            assert!(Entry::recorded(&[own[1].clone(), own[0].clone()]).is_none());
            assert!(Entry::recorded(&own[1..]).is_some() && Entry::recorded(&plain).is_none());
        }
    }

    #[test]
    fn a_damaged_record_is_no_record() {
        let pool = LinePool::default();
        let [alone, .., shared] = [(); 4].map(|()| lines(&pool, b"s"));
        let [.., other] = [(); 4].map(|()| lines(&pool, b"t"));
        for (fields, others) in [(&alone, [&shared, &other]), (&shared, [&alone, &other])] {
            let plain = variants(fields);
            let own = packed(&plain, None);
            let [(_, from), (_, to)] = [&own[..], &own[1..]].map(|own| Entry::recorded(own).unwrap());
            let lines = [from, to].map(|record| record as usize + LINES_AT);
            let mut contents = Vec::new();
            own[0].moved(&mut |body| {
                let [from, len] = body.in_pack().unwrap().part().map(|number| number as usize);
                contents.push(from..from + len);
                None
            });
            for at in from as usize..to as usize + RECORD {
                let is_content = contents.iter().any(|content| content.contains(&at));
                let is_recorded = Entry::recorded(&packed(&plain, Some(at))).is_some();
                assert_eq!(
                    is_recorded,
                    is_content || fields.shared.is_some() && lines.contains(&at),
                    "byte {at}"
                );
            }
            let with = |fields| entry(fields, own[1].body().duplicate());
            assert!(Entry::recorded(&[with(fields)]).is_some());
            assert!(others.into_iter().all(|other| Entry::recorded(&[with(other)]).is_none()), "other lines");
        }
    }
}
