//! One stored response, compact: a reference is one word, and an entry costs 72 bytes beyond its key, field
//! lines ([`crate::lines`]) and content.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use http::StatusCode;
use larder_semantics::coding::{Coding, CodingTerms};
use larder_semantics::fields::Fields;
use larder_semantics::freshness::{Flags, Freshness};
use larder_semantics::stored_head::StoredHead;
use larder_semantics::{groups, no_vary_search};
use triomphe::ThinArc;

use crate::charge::allocated;
use crate::lines::{Dates, LastModified, Lines, LinesRef, SharedLines};
use crate::purges::Generation;
use crate::{Body, CodedBody};

mod packed;

pub(crate) use packed::RECORD;

/// A stored response. Cloning it is one atomic increment.
#[derive(Clone, Debug)]
pub struct Entry(ThinArc<EntryPrefix, u8>);

/// The fixed part of an entry. The variable part consists of, in this order: the key; [`RareFields`], if the entry
/// is [`MARKED_RARE`]; the time of `Last-Modified`, if it is stored as a number; the length of the signature
/// and the signature, if there is one; the field lines that are not shared. If the entry is [`PACKED`], a pack has these
/// bytes, right before those of the content, and the entry their number. It may have the fixed part, too ([`packed`]).
#[derive(Debug)]
struct EntryPrefix {
    body: Body,
    shared: Option<SharedLines>,
    /// The latest generation up to which no purge reaches the entry.
    checked: AtomicU64,
    received: u32,
    lifetime: u32,
    date: u32,
    cost: u32,
    key_len: u16,
    /// The place of the line `Last-Modified` among the entry's unshared lines.
    modified_at: u16,
    /// The status, above it the [`CodingTerms`] once they have been read from the fields ([`READ`]), and [`PACKED`].
    status: AtomicU16,
    flags: Flags,
    marks: u8,
}

/// The bits of the status.
const STATUS: u16 = 0x3ff;
/// The shift of the bits of [`CodingTerms`].
const TERMS_SHIFT: u32 = 10;
/// The coding terms have been read.
const READ: u16 = 1 << 14;
/// The variable part is in a pack.
const PACKED: u16 = 1 << 15;

/// The response names groups or tags.
const TAGGED: u8 = 1;
/// The response has a `No-Vary-Search` field.
const SAYS_QUERIES: u8 = 2;
/// `Date` is not stored as a line: the freshness has it.
const DATED: u8 = 4;
/// `Last-Modified` is not stored as a line.
const MODIFIED: u8 = 8;
/// The entry has a signature.
const SELECTED: u8 = 16;
/// The freshness has values that most responses lack.
const MARKED_RARE: u8 = 32;
/// The highest bits count the seconds by which the initial age exceeds the ordinary one. Even a fast response
/// takes a second if the clock advances meanwhile, and must not need a larger entry for that.
const DELAY_SHIFT: u32 = 6;
const LONGEST_DELAY: u32 = 3;

/// The parts of a freshness that most responses lack: `initial_age`, `stale_while_revalidate`, `stale_if_error`.
type RareFields = [u32; 3];

/// The parts of an entry in the form in which it stores them.
struct RawParts<'e> {
    body: Body,
    shared: Option<SharedLines>,
    checked: Generation,
    freshness: Freshness,
    cost: u32,
    status: StatusCode,
    /// The marks among [`TAGGED`], [`SAYS_QUERIES`] and [`DATED`] that hold; and [`MARKED_RARE`], if the
    /// entry must have room for [`RareFields`] with any freshness.
    marks: u8,
    key: &'e [u8],
    signature: &'e [u8],
    modified: Option<LastModified>,
    /// The unshared lines, in two consecutive parts.
    own: [&'e [u8]; 2],
}

/// The part of an entry behind its key.
struct Tail<'e> {
    rare: Option<[u8; size_of::<RareFields>()]>,
    modified: Option<u32>,
    signature: &'e [u8],
    own: &'e [u8],
}

/// The parts of a new entry.
#[derive(Debug)]
pub struct Parts<'a> {
    /// The cache key (`larder_semantics::key`), at most 65,535 bytes.
    pub key: &'a [u8],
    /// The request fields that select the response (`larder_semantics::vary`); empty without `Vary`.
    pub signature: &'a [u8],
    /// The status code.
    pub status: StatusCode,
    /// The time at which it was received, and its lifetime.
    pub freshness: Freshness,
    /// The cost of fetching it, in microseconds, which a policy may weigh.
    pub cost: u32,
    /// The generation in force before the request was sent that fetched or validated it; no purge up to then
    /// reaches it.
    pub born: Generation,
    /// The field lines, from [`crate::Memory::keep`].
    pub fields: &'a Lines,
    /// The content.
    pub body: Body,
}

/// The most bytes of field lines of an entry. Each hit copies them into its client's buffer, and each 304 may
/// add some.
pub const LONGEST_HEAD: usize = 64 << 10;

impl Entry {
    /// Whether key, signature and field lines are short enough for an entry.
    pub(crate) fn has_room(key: &[u8], signature: &[u8], fields: &LinesRef<'_>) -> bool {
        key.len().max(signature.len()) <= usize::from(u16::MAX) && fields.size() <= LONGEST_HEAD
    }

    /// Assembles an entry. Returns `None` when key or signature are longer than 65,535 bytes, or the field
    /// lines longer than [`LONGEST_HEAD`].
    pub fn new(parts: Parts<'_>) -> Option<Self> {
        let (lines, freshness) = (parts.fields.view(), parts.freshness);
        if !Self::has_room(parts.key, parts.signature, &lines) {
            return None;
        }
        let Dates { date, modified } = parts.fields.dates;
        let special = parts.fields.special();
        let marks = [
            (TAGGED, groups::is_tagged(&special)),
            (SAYS_QUERIES, special.contains(no_vary_search::FIELD)),
            (DATED, date == Some(freshness.date)),
        ];
        let marks = marks.iter().filter(|(_, holds)| *holds).fold(0, |marks, (mark, _)| marks | mark);
        let date = if marks & DATED == 0 { lines.date_line() } else { &[] };
        Self::assemble(RawParts {
            body: parts.body,
            shared: parts.fields.shared.clone(),
            checked: parts.born,
            freshness,
            cost: parts.cost,
            status: parts.status,
            marks,
            key: parts.key,
            signature: parts.signature,
            modified,
            own: [&parts.fields.own, date],
        })
    }

    /// Returns `None` if key or signature are too long.
    fn assemble(raw: RawParts<'_>) -> Option<Self> {
        let RawParts { key, signature, freshness, modified, .. } = raw;
        let signature_len = u16::try_from(signature.len()).ok()?.to_le_bytes();
        let delay = delay(&freshness);
        let rare = rare(&freshness, raw.marks & MARKED_RARE != 0 || delay.is_none()).map(bytes_of::<3, 12>);
        let time = modified.map(|modified| modified.time.to_le_bytes());
        let marks = [
            (MODIFIED, modified.is_some()),
            (SELECTED, !signature.is_empty()),
            (MARKED_RARE, rare.is_some()),
        ];
        let set = marks.iter().filter(|(_, holds)| *holds);
        let signature_len = if signature.is_empty() { &[][..] } else { &signature_len[..] };
        let rare = rare.as_ref().map_or(&[][..], |bytes| &bytes[..]);
        let time = time.as_ref().map_or(&[][..], |bytes| &bytes[..]);
        let [own, more] = raw.own;
        let bytes = [key, rare, time, signature_len, signature, own, more].concat();
        let in_pack = raw.body.in_pack().and_then(|packed| packed.before(bytes.len()));
        let is_packed = in_pack.is_some_and(|before| before == bytes);
        let (packed, count) = (if is_packed { PACKED } else { 0 }, (bytes.len() as u32).to_le_bytes());
        let fixed = EntryPrefix {
            body: raw.body,
            shared: raw.shared,
            checked: AtomicU64::new(raw.checked.0),
            received: freshness.received,
            lifetime: freshness.lifetime,
            date: freshness.date,
            cost: raw.cost,
            key_len: key.len().try_into().ok()?,
            modified_at: modified.map_or(0, |modified| modified.at),
            status: AtomicU16::new(raw.status.as_u16() | packed),
            flags: freshness.flags,
            marks: set.fold(raw.marks, |marks, (mark, _)| marks | mark) | delay.unwrap_or(0) << DELAY_SHIFT,
        };
        let own = if is_packed { &count[..] } else { &bytes };
        Some(Self(ThinArc::from_header_and_slice(fixed, own)))
    }

    /// Returns an entry with the same content under another head, as a 304 or a response to HEAD updates it
    /// (RFC 9111 sections 3.2 and 4.3.5). Its signature follows from the new `fields`.
    pub fn refreshed(
        &self,
        signature: &[u8],
        fields: &Lines,
        freshness: Freshness,
        born: Generation,
    ) -> Option<Self> {
        let (key, status, cost) = (self.key(), self.status(), self.cost());
        // The content is the same, and so are its other forms, unless the new head invalidates them.
        let body = match self.coding_terms() == CodingTerms::of(status, &fields.view()) {
            true => self.0.header.header.body.duplicate(),
            false => self.body().duplicate(),
        };
        Self::new(Parts { key, signature, status, freshness, cost, born, fields, body })
    }

    /// Returns the same response with the freshness that a purge leaves; no purge up to `checked` reaches it further.
    pub(crate) fn aged(&self, freshness: Freshness, checked: Generation) -> Option<Self> {
        self.again(self.0.header.header.body.duplicate(), freshness, checked)
    }

    /// Returns the same response with one more form of its content, or with the note that a form in this coding is not
    /// worth storing.
    pub(crate) fn with_form(&self, coding: Option<Coding>, form: Option<Body>) -> Option<Self> {
        let coded = CodedBody::with(self.body().duplicate(), self.coded(), coding, form);
        self.again(Body::coded(coded), self.freshness(), self.checked())
    }

    /// Returns the same response after `change` has replaced the storage of its content or of other forms; `None` if all
    /// stay.
    pub(crate) fn moved(&self, change: &mut dyn FnMut(&Body) -> Option<Body>) -> Option<Self> {
        let body = self.0.header.header.body.moved(change)?;
        self.again(body, self.freshness(), self.checked())
    }

    fn again(&self, body: Body, freshness: Freshness, checked: Generation) -> Option<Self> {
        let (old, tail) = (&self.0.header.header, self.tail());
        Self::assemble(RawParts {
            body,
            shared: old.shared.clone(),
            checked,
            freshness: Freshness { date: old.date, ..freshness },
            cost: old.cost,
            status: self.status(),
            // The size stays the same, so that the policy keeps the object's history.
            marks: old.marks & (TAGGED | SAYS_QUERIES | DATED | MARKED_RARE),
            key: self.key(),
            signature: tail.signature,
            modified: tail.modified.map(|time| LastModified { time, at: old.modified_at }),
            own: [tail.own, &[]],
        })
    }

    /// Whether both refer to the same entry.
    pub(crate) fn is(&self, other: &Self) -> bool {
        std::ptr::eq(&self.0.header, &other.0.header)
    }

    /// Returns the latest generation up to which no purge reaches the entry.
    pub fn checked(&self) -> Generation {
        Generation(self.0.header.header.checked.load(Ordering::Relaxed))
    }

    /// Records that no purge up to `generation` reaches the entry.
    pub(crate) fn note_checked(&self, generation: Generation) {
        self.0.header.header.checked.store(generation.0, Ordering::Relaxed);
    }

    /// Returns the fields, if they name groups or tags.
    pub(crate) fn tagged(&self) -> Option<LinesRef<'_>> {
        self.has(TAGGED).then(|| self.fields())
    }

    /// Whether the response has a `No-Vary-Search` field.
    pub(crate) fn says_queries(&self) -> bool {
        self.has(SAYS_QUERIES)
    }

    /// Returns the cache key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.variable_part()[..self.key_len()]
    }

    /// Returns the selecting request fields; empty when the response does not vary.
    #[inline]
    pub fn signature(&self) -> &[u8] {
        self.tail().signature
    }

    /// Returns the stored field lines.
    pub fn fields(&self) -> LinesRef<'_> {
        let EntryPrefix { shared, date, modified_at, .. } = &self.0.header.header;
        let Tail { modified, own, .. } = self.tail();
        let modified = modified.map(|time| LastModified { time, at: *modified_at });
        let date = self.has(DATED).then_some(*date);
        LinesRef::of(shared.as_ref(), own, Dates { date, modified })
    }

    #[inline]
    fn tail(&self) -> Tail<'_> {
        let mut rest = &self.variable_part()[self.key_len()..];
        let rare = self.take(MARKED_RARE, &mut rest);
        let modified = self.take(MODIFIED, &mut rest).map(u32::from_le_bytes);
        let signature_len = self.take(SELECTED, &mut rest).map_or(0, u16::from_le_bytes);
        let (signature, own) = rest.split_at(usize::from(signature_len));
        Tail { rare, modified, signature, own }
    }

    /// Takes the first bytes of `rest` if the entry has this mark; they are present only then.
    #[inline]
    fn take<const N: usize>(&self, mark: u8, rest: &mut &[u8]) -> Option<[u8; N]> {
        let (first, behind) = rest.split_first_chunk().filter(|_| self.has(mark))?;
        *rest = behind;
        Some(*first)
    }

    /// Returns the stored status code.
    #[inline]
    pub fn status(&self) -> StatusCode {
        let bits = self.0.header.header.status.load(Ordering::Relaxed);
        StatusCode::from_u16(bits & STATUS).unwrap_or_default()
    }

    /// Returns what its fields say about other codings of the content. They are read once for all hits.
    pub fn coding_terms(&self) -> CodingTerms {
        let status = &self.0.header.header.status;
        let bits = status.load(Ordering::Relaxed);
        if bits & READ != 0 {
            return CodingTerms::from_bits((bits >> TERMS_SHIFT) as u8 & 15);
        }
        let terms = CodingTerms::of(self.status(), &self.fields());
        status.store(bits | READ | u16::from(terms.bits()) << TERMS_SHIFT, Ordering::Relaxed);
        terms
    }

    /// Returns age and lifetime.
    pub fn freshness(&self) -> Freshness {
        let EntryPrefix { received, lifetime, date, flags, marks, .. } = self.0.header.header;
        let age = || ordinary_age(received, date).saturating_add(u32::from(marks >> DELAY_SHIFT));
        let rare = self.tail().rare.map_or_else(|| [age(), 0, 0], numbers);
        let [initial_age, stale_while_revalidate, stale_if_error] = rare;
        Freshness { received, initial_age, lifetime, date, stale_while_revalidate, stale_if_error, flags }
    }

    /// Returns the cost of fetching the response, in microseconds.
    pub fn cost(&self) -> u32 {
        self.0.header.header.cost
    }

    /// Returns the encodable form of its head. `own` are the [own lines](LinesRef::own) of its fields.
    pub fn stored_head<'e>(&'e self, own: &'e [u8]) -> StoredHead<'e> {
        StoredHead {
            key: self.key(),
            signature: self.signature(),
            status: self.status(),
            freshness: self.freshness(),
            cost: self.cost(),
            shared: self.fields().shared(),
            own,
        }
    }

    /// Returns the content.
    #[inline]
    pub fn body(&self) -> &Body {
        self.0.header.header.body.plain()
    }

    /// Returns the content in other codings, if a worker has tried to make some.
    #[inline]
    pub fn coded(&self) -> Option<&CodedBody> {
        self.0.header.header.body.forms()
    }

    /// Returns the bytes of content in all forms, without slices, which are entries of their own.
    pub(crate) fn content(&self) -> u64 {
        let own = if self.body().slices().is_some() { 0 } else { self.body().len() };
        own + self.coded().map_or(0, CodedBody::len)
    }

    /// Returns the bytes of memory held, allocator rounding included, without the cache's bookkeeping and the
    /// shared lines, which their pool counts.
    pub fn charge(&self) -> u64 {
        const COUNTS: usize = 2 * size_of::<usize>();
        self.0.header.header.body.charge()
            + allocated(COUNTS + size_of::<EntryPrefix>() + self.variable_part().len()) as u64
    }

    /// Returns the part behind the fixed one.
    #[inline]
    pub(crate) fn variable_part(&self) -> &[u8] {
        let own = &self.0.slice;
        if self.is_packed() { self.packed_part(own) } else { own }
    }

    #[cold]
    fn packed_part(&self, count: &[u8]) -> &[u8] {
        let count = count.try_into().map_or(0, u32::from_le_bytes);
        let packed = self.0.header.header.body.in_pack().and_then(|packed| packed.before(count as usize));
        // It was there when the entry was made, and the entry holds it.
        packed.unwrap_or_default()
    }

    #[inline]
    fn has(&self, mark: u8) -> bool {
        self.0.header.header.marks & mark != 0
    }

    #[inline]
    fn key_len(&self) -> usize {
        usize::from(self.0.header.header.key_len)
    }
}

/// Returns the part of `freshness` that an entry stores beside its marks; `None` if the entry needs none and
/// the room for it is not `kept`.
fn rare(freshness: &Freshness, kept: bool) -> Option<RareFields> {
    let Freshness { initial_age, stale_while_revalidate, stale_if_error, .. } = *freshness;
    let is_ordinary = stale_while_revalidate == 0 && stale_if_error == 0;
    (kept || !is_ordinary).then_some([initial_age, stale_while_revalidate, stale_if_error])
}

/// Returns the seconds by which the initial age exceeds the ordinary one, if the marks have room for them.
fn delay(freshness: &Freshness) -> Option<u8> {
    let delay = freshness.initial_age.checked_sub(ordinary_age(freshness.received, freshness.date))?;
    (delay <= LONGEST_DELAY).then_some(delay as u8)
}

/// Returns the age on arrival of a response that was generated at its `date` and not stored by another cache.
fn ordinary_age(received: u32, date: u32) -> u32 {
    received.saturating_sub(date)
}

fn bytes_of<const N: usize, const B: usize>(numbers: [u32; N]) -> [u8; B] {
    let mut bytes = [0; B];
    for (place, number) in bytes.as_chunks_mut().0.iter_mut().zip(numbers) {
        *place = number.to_le_bytes();
    }
    bytes
}

fn numbers<const B: usize, const N: usize>(bytes: [u8; B]) -> [u32; N] {
    let mut numbers = [0; N];
    for (number, place) in numbers.iter_mut().zip(bytes.as_chunks().0) {
        *number = u32::from_le_bytes(*place);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::LongBody;
    use crate::lines::LinePool;

    #[test]
    fn an_entry_is_small() {
        assert_eq!(size_of::<Entry>(), 8);
        assert_eq!([size_of::<Body>(), size_of::<LongBody>()], [16, 16]);
        assert!(size_of::<EntryPrefix>() <= 56, "{}", size_of::<EntryPrefix>());
    }

    #[test]
    fn a_pack_has_the_variable_part_only_if_it_says_the_same() {
        let (pool, arena, key) =
            (LinePool::default(), crate::Arena::new().unwrap(), &b"http://site.test/"[..]);
        let lines = pool.keep_lines([(&b"etag"[..], &b"\"1\""[..])].into_iter(), 0);
        let entry = |body| {
            let (freshness, born) = (Freshness::default(), Generation::default());
            let (signature, status, cost) = (&b"br"[..], StatusCode::OK, 0);
            Entry::new(Parts { key, signature, status, freshness, cost, born, fields: &lines, body }).unwrap()
        };
        let plain = entry(Body::Heap(b"content".as_slice().into()));
        let head = plain.variable_part();
        let other = [b"k", &head[1..]].concat();
        for (before, is_shared) in [(&other[..], false), (&head[1..], false), (&[], false), (head, true)] {
            let pack = arena.extent(Some(100)).unwrap();
            pack.append(&[before, b"content, and another"].concat()).unwrap();
            let packed = crate::PackedBody::new(pack.into(), before.len() as u32, 7).unwrap();
            let entry = entry(Body::packed(packed));
            let own =
                |entry: &Entry| (entry.key().to_vec(), entry.signature().to_vec(), entry.fields().to_map());
            assert_eq!(own(&entry), own(&plain));
            assert_eq!((entry.charge(), entry.variable_part()), (plain.charge(), head));
            assert_eq!(entry.0.slice.len() == 4, is_shared, "{before:?}");
        }
    }

    #[test]
    fn the_seconds_that_a_response_takes_do_not_change_its_size() {
        let lines = LinePool::default().keep(&HeaderMap::new(), 0);
        let entry = |received, initial_age| {
            let freshness = Freshness { received, date: 100, initial_age, ..Freshness::default() };
            let body = Body::Heap(vec![0; 200].into());
            let (signature, status) = (&b""[..], StatusCode::OK);
            let (key, cost, born) =
                (&b"http://site.test/a-page-of-some-length"[..], 0, Generation::default());
            Entry::new(Parts { key, signature, status, freshness, cost, born, fields: &lines, body }).unwrap()
        };
        for received in [90, 100, 107] {
            let ordinary = ordinary_age(received, 100);
            let usual = entry(received, ordinary);
            for delay in 0..=LONGEST_DELAY + 1 {
                let entry = entry(received, ordinary + delay);
                assert_eq!(entry.freshness().initial_age, ordinary + delay);
                let is_larger = entry.variable_part().len() > usual.variable_part().len();
                assert_eq!(is_larger, delay > LONGEST_DELAY, "{delay} seconds more than usual");
                let aged = entry.aged(entry.freshness().invalid(), Generation::default()).unwrap();
                assert_eq!(aged.freshness().initial_age, ordinary + delay);
                assert_eq!(aged.variable_part().len(), entry.variable_part().len());
            }
        }
    }
}
