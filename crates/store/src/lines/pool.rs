//! Blocks of field lines that several responses have in common.
//!
//! A block consists of lines that were seen before, and is stored only if the block itself was seen before.
//! So a line that is different in each response is stored with that response alone, and the other lines can
//! be shared. The pool has a separate limit within the memory budget: beyond it, lines are stored with their
//! responses, and count in their size. A block is freed with its last user.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use hashbrown::{DefaultHashBuilder, HashSet};
use http::HeaderMap;
use larder_semantics::fields::{HeadLines, to_map};
use larder_semantics::{groups, no_vary_search};
use larder_words::with_defaults;
use parking_lot::Mutex;
use triomphe::ThinArc;

use super::repeats::Repeats;
use super::{Lines, write_line};
use crate::charge::allocated;

/// Names whose values differ from response to response, so that sharing is not tried.
const OWN: [&str; 10] = [
    "etag",
    "last-modified",
    "expires",
    "content-location",
    "location",
    "set-cookie",
    "cache-groups",
    "cache-tag",
    "surrogate-key",
    "xkey",
];
/// Lines that are stored as numbers, or not at all.
const NUMBERS: [&str; 3] = ["date", "age", "content-length"];
/// The most names among which lines of one name are looked for one by one.
const FEW_NAMES: usize = 64;
/// Bytes that the set of blocks takes for one block.
const BOOKKEEPING: usize = 24;
/// The least limit for blocks in bytes, so that small caches share lines as large ones do.
const LEAST: usize = 16 << 10;
/// The pool remembers one hash for this many bytes of its limit, within these bounds.
const BYTES_A_PLACE: usize = 512;
const PLACES: std::ops::RangeInclusive<usize> = 256..=16_384;

/// The blocks in use.
#[derive(Debug)]
pub struct LinePool(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    table: Mutex<Table>,
    hashes: DefaultHashBuilder,
    limit: usize,
}

#[derive(Debug)]
struct Table {
    blocks: HashSet<Block>,
    repeats: Repeats,
    /// Bytes that the blocks take.
    bytes: usize,
}

/// A reference to lines that several responses may have in common: one word. Each reference is a user of its block.
#[derive(Debug)]
pub(crate) struct SharedLines(ThinArc<Users, u8>);

/// The pool's reference to a block, which does not count as a user.
#[derive(Debug)]
struct Block(ThinArc<Users, u8>);

#[derive(Debug)]
struct Users {
    count: AtomicUsize,
    pool: Weak<Pool>,
    /// The lines in another form, once a reply needs that.
    form: OnceLock<Box<[u8]>>,
}

impl Default for LinePool {
    /// Returns a pool of 1 MiB.
    fn default() -> Self {
        Self::new(1 << 20)
    }
}

impl LinePool {
    /// Returns a pool that takes at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        let places = (limit / BYTES_A_PLACE).clamp(*PLACES.start(), *PLACES.end());
        let repeats = Repeats::new(places);
        let limit = limit.saturating_sub(repeats.bytes()).max(LEAST);
        let table = Table { blocks: HashSet::new(), repeats, bytes: 0 };
        Self(Arc::new(Pool { table: Mutex::new(table), hashes: DefaultHashBuilder::default(), limit }))
    }

    /// Returns the lines of `fields`, with `date` as their `Date`. Lines that repeat are shared, either all
    /// lines of a name or none: the order of lines of one name matters.
    pub fn keep(&self, fields: &HeaderMap, date: u32) -> Lines {
        let mut all = NamedLines::default();
        for (name, value) in fields {
            all.push(name.as_str().as_bytes(), value.as_bytes());
        }
        self.keep_named(&all, date)
    }

    /// Does the same with well-formed lines, given as name and value.
    pub fn keep_lines<'l>(
        &self,
        lines: impl Iterator<Item = (&'l [u8], &'l [u8])> + Clone,
        date: u32,
    ) -> Lines {
        let mut all = NamedLines::default();
        for (name, value) in lines.clone() {
            if all.ends_in_another_name(name) {
                return self.keep(&to_map(lines), date);
            }
            all.push(name, value);
        }
        self.keep_named(&all, date)
    }

    fn keep_named(&self, all: &NamedLines, date: u32) -> Lines {
        let hash = |lines: &Range<usize>| self.0.hashes.hash_one(&all.text[lines.clone()]);
        let hashes: Vec<_> = all.names.iter().map(|one| (!one.is_own).then(|| hash(&one.lines))).collect();
        let (mut shared, mut own) = (Vec::with_capacity(256), Vec::with_capacity(128));
        let mut table = self.0.table.lock();
        for (one, hash) in all.names.iter().zip(hashes) {
            let repeats = hash.is_some_and(|hash| table.repeats.saw(hash));
            let lines = &all.text[one.lines.clone()];
            if repeats { &mut shared } else { &mut own }.extend_from_slice(lines);
        }
        drop(table);
        let mut lines = self.share(&shared, own);
        (lines.dates.date, lines.is_special) = (Some(date), all.is_special);
        lines
    }

    /// Returns the lines `shared`, from the pool if it has or takes them, and `own`.
    pub(crate) fn share(&self, shared: &[u8], own: Vec<u8>) -> Lines {
        match self.block(shared) {
            Some(shared) => Lines::new(Some(shared), own),
            None if shared.is_empty() => Lines::new(None, own),
            None => Lines::new(None, [shared, &own].concat()),
        }
    }

    fn block(&self, lines: &[u8]) -> Option<SharedLines> {
        if lines.is_empty() {
            return None;
        }
        let hash = self.0.hashes.hash_one(lines);
        let mut table = self.0.table.lock();
        if let Some(known) = table.blocks.get(lines) {
            return Some(known.share());
        }
        let bytes = table.bytes + Block::bytes(lines.len());
        if !table.repeats.saw(hash) || bytes > self.0.limit {
            return None;
        }
        let users =
            Users { count: AtomicUsize::new(0), pool: Arc::downgrade(&self.0), form: OnceLock::new() };
        let block = Block(ThinArc::from_header_and_slice(users, lines));
        let shared = block.share();
        table.blocks.insert(block);
        table.bytes = bytes;
        Some(shared)
    }

    /// Returns the bytes of memory that the blocks take.
    pub fn bytes(&self) -> u64 {
        self.0.table.lock().bytes as u64
    }
}

with_defaults! {
    /// The lines of a response without [`NUMBERS`], as they are sent.
    struct NamedLines {
        text: Vec<u8> = Vec::with_capacity(512),
        names: Vec<LinesOfName> = Vec::with_capacity(16),
        /// Whether there are lines about groups, tags, queries or links.
        is_special: bool = false,
    }
}

/// The lines of one name in the text.
struct LinesOfName {
    lines: Range<usize>,
    /// The length of the name.
    length: usize,
    /// Whether sharing them is not tried.
    is_own: bool,
}

impl NamedLines {
    fn push(&mut self, name: &[u8], value: &[u8]) {
        if is_one_of(&NUMBERS, name) {
            return;
        }
        self.is_special |=
            is_one_of(&groups::FIELDS, name) || is_one_of(&["link", no_vary_search::FIELD], name);
        let (start, length) = (self.text.len(), name.len());
        let continues = self.names.last().is_some_and(|last| self.is_called(last, name));
        write_line(&mut self.text, name, value);
        match self.names.last_mut().filter(|_| continues) {
            Some(last) => last.lines.end = self.text.len(),
            None => {
                let lines = start..self.text.len();
                self.names.push(LinesOfName { lines, length, is_own: is_one_of(&OWN, name) });
            }
        }
    }

    /// Whether there are lines called `name`, and others behind them. Among many names, that is not found out.
    fn ends_in_another_name(&self, name: &[u8]) -> bool {
        let earlier = self.names.split_last().map_or(&[][..], |(_, earlier)| earlier);
        earlier.len() >= FEW_NAMES || earlier.iter().any(|one| self.is_called(one, name))
    }

    fn is_called(&self, one: &LinesOfName, name: &[u8]) -> bool {
        let own = &self.text[one.lines.start..one.lines.start + one.length];
        own.eq_ignore_ascii_case(name)
    }
}

fn is_one_of(names: &[&str], name: &[u8]) -> bool {
    names.iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
}

impl Pool {
    /// Removes `block` if it is unused.
    fn forget(&self, block: &ThinArc<Users, u8>) {
        let mut table = self.table.lock();
        // Checked under the lock, which each new user needs.
        if block.header.header.count.load(Ordering::Acquire) > 0 {
            return;
        }
        let is_it = |known: &Block| std::ptr::eq(&known.0.header, &block.header);
        if table.blocks.get(&block.slice).is_some_and(is_it) {
            table.blocks.remove(&block.slice);
            table.bytes -= Block::bytes(block.slice.len());
        }
    }
}

impl Block {
    /// Returns the bytes of memory that a block of this length takes, with another form of about the same length.
    fn bytes(len: usize) -> usize {
        const COUNTS: usize = 2 * size_of::<usize>();
        allocated(COUNTS + size_of::<Users>() + len) + allocated(len) + BOOKKEEPING
    }

    fn share(&self) -> SharedLines {
        self.0.header.header.count.fetch_add(1, Ordering::Relaxed);
        SharedLines(self.0.clone())
    }
}

impl SharedLines {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0.slice
    }

    /// Whether both refer to the same block.
    pub(crate) fn is(&self, other: &Self) -> bool {
        std::ptr::eq(&self.0.header, &other.0.header)
    }

    /// Returns the lines in the form in which `write` appends them, which is made once.
    pub(super) fn form(&self, write: impl FnOnce(&mut Vec<u8>, HeadLines<'_>)) -> &[u8] {
        self.0.header.header.form.get_or_init(|| {
            let mut form = Vec::with_capacity(self.bytes().len());
            write(&mut form, HeadLines(self.bytes()));
            form.into()
        })
    }
}

impl Clone for SharedLines {
    fn clone(&self) -> Self {
        self.0.header.header.count.fetch_add(1, Ordering::Relaxed);
        Self(self.0.clone())
    }
}

impl Drop for SharedLines {
    fn drop(&mut self) {
        let users = &self.0.header.header;
        if users.count.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(pool) = users.pool.upgrade()
        {
            pool.forget(&self.0);
        }
    }
}

impl PartialEq for Block {
    fn eq(&self, other: &Self) -> bool {
        self.0.slice == other.0.slice
    }
}

impl Eq for Block {}

impl Hash for Block {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.slice.hash(state);
    }
}

impl Borrow<[u8]> for Block {
    fn borrow(&self) -> &[u8] {
        &self.0.slice
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn fields(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    fn shared(lines: &Lines) -> &[u8] {
        lines.shared.as_ref().map_or(b"", SharedLines::bytes)
    }

    /// Responses that differ in one field only.
    fn page(pool: &LinePool, number: usize) -> Lines {
        let unique = number.to_string();
        pool.keep(&fields(&[("server", "s"), ("x-request-id", &unique), ("content-type", "text/html")]), 0)
    }

    #[test]
    fn a_unique_line_leaves_the_others_to_be_shared() {
        let pool = LinePool::default();
        let kept: Vec<_> = (0..5_000).map(|number| page(&pool, number)).collect();
        assert_eq!(kept[1].shared.as_ref().map(SharedLines::bytes), None);
        assert_eq!(kept[1].own.len(), kept[0].own.len());
        for (number, lines) in kept.iter().enumerate().skip(2) {
            assert_eq!(shared(lines), b"Server: s\r\nContent-Type: text/html\r\n");
            let own = format!("X-Request-Id: {number}\r\n");
            assert_eq!(lines.own, own.as_bytes());
        }
        assert_eq!(shared(&kept[2]).as_ptr(), shared(&kept[4_999]).as_ptr());
    }

    #[test]
    fn a_block_goes_with_its_last_user() {
        let pool = LinePool::default();
        let kept: Vec<_> = (0..10).map(|number| page(&pool, number)).collect();
        let copies = kept.clone();
        drop(kept);
        assert!(pool.bytes() > 0);
        drop(copies);
        assert_eq!((pool.bytes(), pool.0.table.lock().blocks.len()), (0, 0));
    }

    #[test]
    fn beyond_its_limit_lines_belong_to_their_responses() {
        let pool = LinePool::new(32 << 10);
        let long = |number: usize| fields(&[("x-policy", &format!("{number:0>2000}"))]);
        let mut kept = Vec::new();
        for _ in 0..3 {
            kept.extend((0..50).map(|number| pool.keep(&long(number), 0)));
        }
        let (sharing, alone): (Vec<_>, Vec<_>) = kept.iter().partition(|lines| lines.shared.is_some());
        assert!(!sharing.is_empty() && alone.iter().all(|lines| lines.own.len() > 2_000));
        assert!(pool.bytes() <= 32 << 10, "{} bytes", pool.bytes());
    }

    /// Lines as origins send them: with any capitals, and with other lines between those of one name.
    #[test]
    fn lines_are_kept_as_the_map_of_them_is() {
        let (one, other, map) =
            (LinePool::default(), LinePool::default(), |lines: &[(_, _)]| to_map(lines.iter().copied()));
        let together = [
            (&b"X-UNIQUE"[..], &b"1"[..]),
            (b"etag", b"e"),
            (b"Link", b"a"),
            (b"link", b"b"),
            (b"AGE", b"1"),
        ];
        let apart = [(&b"LINK"[..], &b"a"[..]), (b"server", b"s"), (b"link", b"b")];
        let many: Vec<_> = (0..3 * FEW_NAMES).map(|number| format!("x-{number}")).collect();
        let many: Vec<_> = many.iter().map(|name| (name.as_bytes(), &b"v"[..])).collect();
        for lines in [&together[..], &apart, &many].repeat(3) {
            let (kept, expected) = (one.keep_lines(lines.iter().copied(), 7), other.keep(&map(lines), 7));
            assert_eq!((shared(&kept), &kept.own), (shared(&expected), &expected.own));
        }
    }

    #[test]
    fn lines_of_one_name_stay_together_and_in_order() {
        let pool = LinePool::default();
        let all = |last: &str| fields(&[("link", "</a>"), ("server", "s"), ("link", last)]);
        for number in 0..5 {
            let lines = pool.keep(&all(&number.to_string()), 0);
            let links: Vec<_> = lines.view().to_map().get_all("link").iter().cloned().collect();
            assert_eq!(links, ["</a>", &number.to_string()]);
        }
    }
}
