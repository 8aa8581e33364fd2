//! Entries of which a pack has everything. During an upgrade, a process needs only the place of such an entry.
//!
//! In the pack, a record of the fixed part precedes the variable part, which precedes the content. The numbers of a record:
//! the generation of purges (two), the four of the freshness and cost, the length of the variable part, that of the key and
//! the place of `Last-Modified`, status and length of the content; and in one: flags, marks, number of the shared lines.
//! Another version may write other records. So an entry is left out only if its record is the one that it would get here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use larder_semantics::freshness::Flags;
use triomphe::ThinArc;

use super::{Entry, EntryPrefix, PACKED, STATUS, bytes_of, numbers};
use crate::lines::PackLines;
use crate::{Body, Extent, PackedBody};

/// The bytes of a record.
pub(crate) const RECORD: usize = 40;
/// The place of the number of the shared lines among them.
const LINES_AT: usize = RECORD - 2;
/// That number for an entry without shared lines.
const NO_LINES: u8 = PackLines::MOST;

impl Entry {
    /// Returns the record of this entry in a pack with these `lines`. Without a number for its own, no process can use it.
    pub(crate) fn record(&self, lines: &PackLines) -> [u8; RECORD] {
        let shared = self.0.header.header.shared.as_ref();
        self.record_with(shared.and_then(|shared| lines.number(shared)).unwrap_or(NO_LINES))
    }

    fn record_with(&self, lines: u8) -> [u8; RECORD] {
        let &EntryPrefix { received, lifetime, date, cost, key_len, modified_at, flags, marks, .. } =
            &self.0.header.header;
        let checked = self.checked().0;
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
            u32::from_le_bytes([flags.bits(), marks, lines, 0]),
        ])
    }

    /// Returns the pack that has everything of this entry, and the place of the record.
    pub(crate) fn recorded(&self) -> Option<(&Arc<Extent>, u32)> {
        let prefix = &self.0.header.header;
        let packed = prefix.body.in_pack().filter(|_| self.is_packed() && self.coded().is_none())?;
        let before = RECORD + self.variable_part().len();
        let record = packed.before(before)?.first_chunk()?;
        let lines = || packed.pack().lines();
        let has_lines = || match &prefix.shared {
            Some(shared) => lines().has(record[LINES_AT], shared),
            None => record[LINES_AT] == NO_LINES,
        };
        let is_it = self.record_with(record[LINES_AT]) == *record && has_lines();
        is_it.then(|| (packed.pack(), packed.part()[0] - before as u32))
    }

    /// Returns the entry whose record is at this place of `pack`: one that was [`recorded`](Self::recorded).
    pub(crate) fn of_record(pack: &Arc<Extent>, at: u32) -> Self {
        let record = pack.mapped().and_then(|bytes| bytes.get(at as usize..)?.first_chunk());
        let record: [u8; RECORD] = *record.unwrap_or(&[0; RECORD]);
        let [low, high, received, lifetime, date, cost, len, lengths, status, last] = numbers(record);
        let [flags, marks, lines, _] = last.to_le_bytes();
        let body = PackedBody::new(Arc::clone(pack), at + RECORD as u32 + len, status >> 16);
        let fixed = EntryPrefix {
            body: body.map_or_else(Body::empty, Body::packed),
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
        Self(ThinArc::from_header_and_slice(fixed, &len.to_le_bytes()))
    }

    /// Whether both are the same entry, or equal but for the generation of purges and at the same place in a pack: who looks
    /// up a record gets an entry of their own.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        fn place(entry: &Entry) -> Option<(*const Extent, [u32; 2])> {
            let packed = entry.body().in_pack().filter(|_| entry.coded().is_none())?;
            Some((Arc::as_ptr(packed.pack()), packed.part()))
        }
        self.is(other)
            || place(self).is_some()
                && place(self) == place(other)
                && self.stored_head(&self.fields().own()) == other.stored_head(&other.fields().own())
    }

    /// Whether a pack has the variable part.
    #[inline]
    pub(super) fn is_packed(&self) -> bool {
        self.0.header.header.status.load(Ordering::Relaxed) & PACKED != 0
    }
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

    #[test]
    fn an_entry_is_read_from_its_own_record_alone() {
        let (pool, arena) = (LinePool::default(), Arena::new().unwrap());
        let [alone, .., shared] = [(); 4].map(|()| lines(&pool, b"s"));
        let [.., other] = [(); 4].map(|()| lines(&pool, b"t"));
        assert!(alone.shared.is_none() && shared.shared.is_some() && other.shared.is_some());
        let content = &b"content"[..];
        for (fields, others) in [(&alone, [&shared, &other]), (&shared, [&alone, &other])] {
            let plain = entry(fields, Body::Heap(content.into()));
            let (table, head) = (PackLines::default(), plain.variable_part());
            let record = plain.record(&table);
            let packed = |record: [u8; RECORD], fields| {
                let pack = arena.extent(None).unwrap();
                pack.append(&[b"other", &record[..], head, content].concat()).unwrap();
                let from = 5 + RECORD + head.len();
                entry(fields, Body::packed(PackedBody::new(pack.into(), from as u32, 7).unwrap()))
            };
            let own = packed(record, fields);
            let (pack, at) = own.recorded().expect("the pack has everything");
            let read = [(); 2].map(|()| Entry::of_record(pack, at));
            for read in &read {
                assert_eq!(read.stored_head(&read.fields().own()), plain.stored_head(&plain.fields().own()));
                assert_eq!((read.checked(), read.charge(), at), (plain.checked(), plain.charge(), 5));
                assert!(read.is_same(&own) && !read.is(&own) && !read.is_same(&plain));
            }
            assert!(
                read[0].is_same(&read[1])
                    && !read[0].aged(read[0].freshness().invalid(), plain.checked()).unwrap().is_same(&own)
            );
            assert!(read[0].with_form(None, None).unwrap().recorded().is_none(), "the pack lacks the form");
            let is_recorded = |fields| entry(fields, own.body().duplicate()).recorded().is_some();
            assert!(is_recorded(fields) && !others.into_iter().any(is_recorded), "other lines");
            for at in 0..RECORD {
                let mut changed = record;
                changed[at] ^= 1;
                assert_eq!(
                    packed(changed, fields).recorded().is_some(),
                    fields.shared.is_some() && at == LINES_AT,
                    "byte {at}"
                );
            }
        }
    }
}
