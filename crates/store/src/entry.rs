//! One stored response, compact: a reference is one word, and beyond key, field lines
//! ([`crate::lines`]) and content an entry costs 72 bytes.

use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use larder_semantics::fields::Fields;
use larder_semantics::freshness::{Flags, Freshness};
use larder_semantics::{coding, groups, no_vary_search};
use triomphe::ThinArc;

use crate::charge::allocated;
use crate::lines::{Dates, Lines, LinesRef, Modified, SharedLines};
use crate::purges::Generation;
use crate::{Body, Coded};

/// A stored response. Cloning it is one atomic increment.
#[derive(Clone, Debug)]
pub struct Entry(ThinArc<Fixed, u8>);

/// What an entry is besides its bytes. Those are, in this order: the key; [`Rare`], if it is [`MARKED_RARE`]; the time of
/// `Last-Modified`, if that is a number; the length of the signature and the signature, if there is one; its own field
/// lines.
#[derive(Debug)]
struct Fixed {
    body: Body,
    shared: Option<SharedLines>,
    /// No purge up to this generation reaches it.
    checked: AtomicU64,
    received: u32,
    lifetime: u32,
    date: u32,
    cost: u32,
    key_len: u16,
    /// Where the line `Last-Modified` stands among its own lines.
    modified_at: u16,
    status: StatusCode,
    flags: Flags,
    marks: u8,
}

/// It names groups or tags.
const TAGGED: u8 = 1;
/// It says which queries it answers.
const SAYS_QUERIES: u8 = 2;
/// Its `Date` is no line: the freshness knows it.
const DATED: u8 = 4;
/// Its `Last-Modified` is no line.
const MODIFIED: u8 = 8;
/// It has a signature.
const SELECTED: u8 = 16;
/// Its freshness says more than most do.
const MARKED_RARE: u8 = 32;
/// The highest bits count the seconds by which its initial age exceeds the ordinary one. Even a fast response takes a
/// second if the clock advances meanwhile, and must be no larger for that.
const DELAY_SHIFT: u32 = 6;
const LONGEST_DELAY: u32 = 3;

/// What of a freshness is seldom worth its place: `initial_age`, `stale_while_revalidate`, `stale_if_error`.
type Rare = [u32; 3];

/// What an entry is made of.
struct Source<'e> {
    body: Body,
    shared: Option<SharedLines>,
    checked: Generation,
    freshness: Freshness,
    cost: u32,
    status: StatusCode,
    /// Those of [`TAGGED`], [`SAYS_QUERIES`] and [`DATED`] that hold; and [`MARKED_RARE`], if there is to be room for
    /// [`Rare`] whatever the freshness says.
    marks: u8,
    key: &'e [u8],
    signature: &'e [u8],
    modified: Option<Modified>,
    /// Its own lines, one behind the other.
    own: [&'e [u8]; 2],
}

/// What stands behind an entry's key.
struct Tail<'e> {
    rare: Option<[u8; size_of::<Rare>()]>,
    modified: Option<u32>,
    signature: &'e [u8],
    own: &'e [u8],
}

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
        ];
        let marks = marks.iter().filter(|(_, holds)| *holds).fold(0, |marks, (mark, _)| marks | mark);
        let date = if marks & DATED == 0 { lines.date_line() } else { &[] };
        Self::assemble(Source {
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

    /// `None` if key or signature are too long.
    fn assemble(source: Source<'_>) -> Option<Self> {
        let Source { key, signature, freshness, modified, .. } = source;
        let signature_len = u16::try_from(signature.len()).ok()?.to_le_bytes();
        let delay = delay(&freshness);
        let rare = rare(&freshness, source.marks & MARKED_RARE != 0 || delay.is_none()).map(bytes_of);
        let time = modified.map(|modified| modified.time.to_le_bytes());
        let marks = [
            (MODIFIED, modified.is_some()),
            (SELECTED, !signature.is_empty()),
            (MARKED_RARE, rare.is_some()),
        ];
        let set = marks.iter().filter(|(_, holds)| *holds);
        let fixed = Fixed {
            body: source.body,
            shared: source.shared,
            checked: AtomicU64::new(source.checked.0),
            received: freshness.received,
            lifetime: freshness.lifetime,
            date: freshness.date,
            cost: source.cost,
            key_len: key.len().try_into().ok()?,
            modified_at: modified.map_or(0, |modified| modified.at),
            status: source.status,
            flags: freshness.flags,
            marks: set.fold(source.marks, |marks, (mark, _)| marks | mark)
                | delay.unwrap_or(0) << DELAY_SHIFT,
        };
        let signature_len = if signature.is_empty() { &[][..] } else { &signature_len[..] };
        let rare = rare.as_ref().map_or(&[][..], |bytes| &bytes[..]);
        let time = time.as_ref().map_or(&[][..], |bytes| &bytes[..]);
        let [own, more] = source.own;
        let bytes = [key, rare, time, signature_len, signature, own, more].concat();
        Some(Self(ThinArc::from_header_and_slice(fixed, &bytes)))
    }

    /// The same content under another head: what a 304 or a HEAD leaves behind
    /// (RFC 9111 sections 3.2 and 4.3.5).
    pub fn refreshed(&self, fields: &Lines, freshness: Freshness, born: Generation) -> Option<Self> {
        let (key, signature) = (self.key(), self.signature());
        let (status, cost) = (self.status(), self.cost());
        // The content is the same, and so are its other forms; unless the new head says something else about them.
        let view = fields.view();
        let varies = || self.coded().is_none_or(|coded| coded.varies() == coding::varies(&view));
        let body = match coding::is_changeable(status, &view) && varies() {
            true => self.0.header.header.body.duplicate(),
            false => self.body().duplicate(),
        };
        Self::new(Parts { key, signature, status, freshness, cost, born, fields, body })
    }

    /// The same response as a purge leaves it, that no purge up to `checked` reaches further.
    pub(crate) fn aged(&self, freshness: Freshness, checked: Generation) -> Option<Self> {
        self.again(self.0.header.header.body.duplicate(), freshness, checked)
    }

    /// The same response with `body`, which is its content with its forms in other codings.
    pub(crate) fn with_forms(&self, body: Body) -> Option<Self> {
        self.again(body, self.freshness(), self.checked())
    }

    fn again(&self, body: Body, freshness: Freshness, checked: Generation) -> Option<Self> {
        let (old, tail) = (&self.0.header.header, self.tail());
        Self::assemble(Source {
            body,
            shared: old.shared.clone(),
            checked,
            freshness: Freshness { date: old.date, ..freshness },
            cost: old.cost,
            status: old.status,
            // It stays as large as it was, so that the policy keeps what it knows of it.
            marks: old.marks & (TAGGED | SAYS_QUERIES | DATED | MARKED_RARE),
            key: self.key(),
            signature: tail.signature,
            modified: tail.modified.map(|time| Modified { time, at: old.modified_at }),
            own: [tail.own, &[]],
        })
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
        self.tail().signature
    }

    /// The stored field lines.
    pub fn fields(&self) -> LinesRef<'_> {
        let Fixed { shared, date, modified_at, .. } = &self.0.header.header;
        let Tail { modified, own, .. } = self.tail();
        let modified = modified.map(|time| Modified { time, at: *modified_at });
        let date = self.has(DATED).then_some(*date);
        LinesRef::of(shared.as_ref(), own, Dates { date, modified })
    }

    fn tail(&self) -> Tail<'_> {
        let mut rest = &self.0.slice[self.key_len()..];
        let rare = self.take(MARKED_RARE, &mut rest);
        let modified = self.take(MODIFIED, &mut rest).map(u32::from_le_bytes);
        let signature_len = self.take(SELECTED, &mut rest).map_or(0, u16::from_le_bytes);
        let (signature, own) = rest.split_at(usize::from(signature_len));
        Tail { rare, modified, signature, own }
    }

    /// The first bytes of `rest`, which are there if it has this mark.
    fn take<const N: usize>(&self, mark: u8, rest: &mut &[u8]) -> Option<[u8; N]> {
        let (first, behind) = rest.split_first_chunk().filter(|_| self.has(mark))?;
        *rest = behind;
        Some(*first)
    }

    /// The stored status code.
    pub fn status(&self) -> StatusCode {
        self.0.header.header.status
    }

    /// Age and lifetime.
    pub fn freshness(&self) -> Freshness {
        let Fixed { received, lifetime, date, flags, marks, .. } = self.0.header.header;
        let age = || ordinary_age(received, date).saturating_add(u32::from(marks >> DELAY_SHIFT));
        let rare = self.tail().rare.map_or_else(|| [age(), 0, 0], numbers);
        let [initial_age, stale_while_revalidate, stale_if_error] = rare;
        Freshness { received, initial_age, lifetime, date, stale_while_revalidate, stale_if_error, flags }
    }

    /// What fetching it took, in microseconds.
    pub fn cost(&self) -> u32 {
        self.0.header.header.cost
    }

    /// The content.
    #[inline]
    pub fn body(&self) -> &Body {
        self.0.header.header.body.plain()
    }

    /// The content in other codings, if it has been tried to make some.
    #[inline]
    pub fn coded(&self) -> Option<&Coded> {
        self.0.header.header.body.forms()
    }

    /// Bytes of content in all forms.
    pub(crate) fn content(&self) -> u64 {
        self.body().len() + self.coded().map_or(0, Coded::len)
    }

    /// Bytes of memory held, allocator rounding included, without the cache's own bookkeeping and the shared lines,
    /// which their pool counts.
    pub fn charge(&self) -> u64 {
        const COUNTS: usize = 2 * size_of::<usize>();
        self.0.header.header.body.charge()
            + allocated(COUNTS + size_of::<Fixed>() + self.0.slice.len()) as u64
    }

    fn has(&self, mark: u8) -> bool {
        self.0.header.header.marks & mark != 0
    }

    fn key_len(&self) -> usize {
        usize::from(self.0.header.header.key_len)
    }
}

/// What of `freshness` an entry has to note beside its marks; `None` if that is nothing and it is not `kept` anyway.
fn rare(freshness: &Freshness, kept: bool) -> Option<Rare> {
    let Freshness { initial_age, stale_while_revalidate, stale_if_error, .. } = *freshness;
    let is_ordinary = stale_while_revalidate == 0 && stale_if_error == 0;
    (kept || !is_ordinary).then_some([initial_age, stale_while_revalidate, stale_if_error])
}

/// The seconds by which the initial age exceeds the ordinary one, if the marks have room for them.
fn delay(freshness: &Freshness) -> Option<u8> {
    let delay = freshness.initial_age.checked_sub(ordinary_age(freshness.received, freshness.date))?;
    (delay <= LONGEST_DELAY).then_some(delay as u8)
}

/// How old a response is that was made at its `date` and came on the straight way.
fn ordinary_age(received: u32, date: u32) -> u32 {
    received.saturating_sub(date)
}

fn bytes_of(numbers: Rare) -> [u8; size_of::<Rare>()] {
    let mut bytes = [0; size_of::<Rare>()];
    for (place, number) in bytes.as_chunks_mut().0.iter_mut().zip(numbers) {
        *place = number.to_le_bytes();
    }
    bytes
}

fn numbers(bytes: [u8; size_of::<Rare>()]) -> Rare {
    let mut numbers = Rare::default();
    for (number, place) in numbers.iter_mut().zip(bytes.as_chunks().0) {
        *number = u32::from_le_bytes(*place);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::lines::LinePool;

    #[test]
    fn an_entry_is_small() {
        assert_eq!(size_of::<Entry>(), 8);
        assert_eq!(size_of::<Body>(), 16);
        assert!(size_of::<Fixed>() <= 56, "{}", size_of::<Fixed>());
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
                let is_larger = entry.0.slice.len() > usual.0.slice.len();
                assert_eq!(is_larger, delay > LONGEST_DELAY, "{delay} seconds more than usual");
                let aged = entry.aged(entry.freshness().invalid(), Generation::default()).unwrap();
                assert_eq!(aged.freshness().initial_age, ordinary + delay);
                assert_eq!(aged.0.slice.len(), entry.0.slice.len());
            }
        }
    }
}
