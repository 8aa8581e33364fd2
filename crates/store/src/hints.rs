//! Links of stored responses that outlive their content, for early hints (RFC 8297) during a new request to
//! the origin.
//!
//! A hint is a stored response without content, and with only the links and tags of its fields; so purges reach it as
//! they reach other responses ([`crate::purges`]). Removing or invalidating the responses of a URL removes its hint,
//! except by eviction. The table has a separate limit, independent of the memory tier's capacity.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use larder_evict::{AnyShard, By, Capacity, Object, Spec};
use larder_semantics::fields::Fields;
use larder_semantics::freshness::Freshness;
use larder_semantics::{early_hints, groups};
use parking_lot::Mutex;

use crate::entry::Parts;
use crate::{Body, Entry, Generation, LinePool};

/// The most bytes for all hints.
pub const MOST_BYTES: u64 = 4 << 20;
/// The most bytes for one hint: if the tags do not fit, the URL gets no hint.
const LONGEST: u64 = 16 << 10;
/// Bytes of index and policy for one hint.
const BOOKKEEPING: u64 = 96;
/// Bytes of links that several hints share.
const SHARED: usize = 64 << 10;

/// The hints of a process.
pub struct Hints {
    table: Mutex<AnyShard<Entry>>,
    /// The number of hints, readable without the lock.
    count: AtomicUsize,
    lines: LinePool,
}

/// Figures of the hints at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HintUsage {
    /// URLs with a hint.
    pub hints: u64,
    /// Bytes that these take.
    pub bytes: u64,
}

/// The parts of a response that a hint is made from.
pub struct HintSource<'h, F> {
    /// The status code.
    pub status: StatusCode,
    /// The fields.
    pub fields: &'h F,
    /// The request fields that select the response.
    pub signature: &'h [u8],
    /// The time at which it was received, and its lifetime.
    pub freshness: Freshness,
}

impl Default for Hints {
    fn default() -> Self {
        let capacity = Capacity { by: By::Bytes, amount: MOST_BYTES };
        let table = Spec::default().build(capacity, RandomState::new().hash_one(0_u8));
        Self { table: Mutex::new(table), count: AtomicUsize::new(0), lines: LinePool::new(SHARED) }
    }
}

impl Hints {
    /// Stores `entry` in place of the hint of its key.
    pub(crate) fn put(&self, hash: u64, entry: Entry) {
        let size = entry.charge() + BOOKKEEPING;
        if size > LONGEST {
            return self.remove(entry.key(), hash);
        }
        let mut dropped = Vec::new();
        let mut table = self.table.lock();
        table.insert(Object { key: hash, size, cost: 0 }, entry, &mut dropped);
        self.count.store(table.len(), Ordering::Release);
        drop(table);
    }

    /// Removes the hint of `key`, which has this hash in memory.
    pub fn remove(&self, key: &[u8], hash: u64) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut table = self.table.lock();
        if table.peek(hash).is_some_and(|entry| entry.key() == key) {
            let removed = table.remove(hash);
            self.count.store(table.len(), Ordering::Release);
            drop(table);
            drop(removed);
        }
    }

    pub(crate) fn clear(&self) {
        let mut dropped = Vec::new();
        let mut table = self.table.lock();
        table.clear(&mut dropped);
        self.count.store(0, Ordering::Release);
        drop(table);
    }

    pub(crate) fn find(&self, key: &[u8], hash: u64) -> Option<Entry> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.table.lock().get(hash).filter(|entry| entry.key() == key).cloned()
    }

    /// Returns all hints.
    pub(crate) fn all(&self) -> Vec<Entry> {
        let (table, mut all) = (self.table.lock(), Vec::new());
        table.for_each(&mut |_, entry| all.push(entry.clone()));
        all
    }

    /// Returns the pool of their field lines.
    pub(crate) fn lines(&self) -> &LinePool {
        &self.lines
    }

    /// Returns the number and bytes of the hints.
    pub fn usage(&self) -> HintUsage {
        let table = self.table.lock();
        HintUsage { hints: table.len() as u64, bytes: table.bytes() }
    }
}

impl<F: Fields> HintSource<'_, F> {
    /// Returns the hint of `key` for a response that was fetched when `born` was in force; `None` if its
    /// links may not be sent, or it has none.
    pub(crate) fn hint(&self, hints: &Hints, key: &[u8], born: Generation) -> Option<Entry> {
        let Self { status, fields, signature, freshness } = *self;
        if !early_hints::may_hint(status, signature) {
            return None;
        }
        let mut kept = HeaderMap::new();
        for link in early_hints::links(fields) {
            kept.append(header::LINK, HeaderValue::from_bytes(link).ok()?);
        }
        if kept.is_empty() {
            return None;
        }
        for name in groups::FIELDS {
            for value in fields.lines(name) {
                kept.append(HeaderName::from_static(name), HeaderValue::from_bytes(value).ok()?);
            }
        }
        Entry::new(Parts {
            key,
            signature: &[],
            status,
            freshness,
            cost: 0,
            born,
            fields: &hints.lines.keep(&kept, freshness.date),
            body: Body::Heap([].into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: usize, length: usize) -> Entry {
        let link = format!("</{}>; rel=preload", "x".repeat(length));
        let fields = HeaderMap::from_iter([(header::LINK, HeaderValue::try_from(link).unwrap())]);
        let lines = LinePool::default().keep(&fields, 0);
        let key = format!("http://a/{number}");
        let (freshness, born) = (Freshness::default(), Generation::default());
        let body = Body::Heap([].into());
        let (key, signature, status, cost) = (key.as_bytes(), &b""[..], StatusCode::OK, 0);
        Entry::new(Parts { key, signature, status, freshness, cost, born, fields: &lines, body }).unwrap()
    }

    #[test]
    fn hints_take_no_more_memory_than_their_limit() {
        let hints = Hints::default();
        for number in 0..20_000 {
            hints.put(number as u64, entry(number, 1_000));
        }
        let HintUsage { hints: count, bytes } = hints.usage();
        assert!(bytes <= MOST_BYTES && count > 1_000 && count < 20_000, "{count} hints, {bytes} bytes");
        assert!(hints.find(b"http://a/19999", 19_999).is_some());
        assert!(hints.find(b"http://a/other", 19_999).is_none(), "another key of the same hash");
        hints.put(19_999, entry(19_999, LONGEST as usize));
        assert!(hints.find(b"http://a/19999", 19_999).is_none(), "the earlier one is outdated, too");
        hints.clear();
        assert_eq!(hints.usage(), HintUsage::default());
    }
}
