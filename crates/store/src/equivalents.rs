//! The stored responses that answer requests for other queries of their path (`No-Vary-Search`).
//!
//! A bounded table in this process: for each path the latest values of the field in its stored responses, and for each
//! value, by the significant part of the query, the URLs of stored responses. A response found through the table is
//! checked against its own field before it is used. So an entry evicted from the table only costs a fetch.
//!
//! Of several responses to the same requests, the latest stays: the earlier ones are removed when it is stored.

mod part;
mod removals;

use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use http::StatusCode;
use larder_semantics::fields::Fields;
use larder_semantics::no_vary_search::{self, Variation};
use larder_semantics::{key, partition};
use larder_words::with_defaults;
use parking_lot::{Mutex, MutexGuard};
use siphasher::sip::SipHasher13;

use self::part::{FieldValue, PARTS, Part, StoredQuery};
pub use self::part::{MOST_BYTES, MOST_FIELDS, MOST_URLS};
use self::removals::Removals;
use crate::Entry;
use crate::purges::Generation;

/// Longer queries are compared byte by byte.
const LONGEST_QUERY: usize = 2 << 10;
/// Bits of a filter for paths that may be in the table.
const BITS: usize = 1 << 16;
with_defaults! {
    /// The table.
    pub struct Equivalents {
        hasher: SipHasher13 = SipHasher13::new_with_keys(fastrand::u64(..), fastrand::u64(..)),
        /// The classes with a URL that was purged or changed.
        removed: Removals = Removals::default(),
        is_used: AtomicBool = AtomicBool::new(false),
        paths: Box<[AtomicU64]> = (0..BITS / 64).map(|_| AtomicU64::new(0)).collect(),
        parts: Box<[Mutex<Part>]> = (0..PARTS).map(|_| Mutex::default()).collect(),
    }
}

/// A URL whose stored response may answer a request for another URL.
#[derive(Debug)]
pub struct EquivalentUrl {
    /// The cache key.
    pub key: Vec<u8>,
    /// The stored responses of this URL: hash of the signature, second of reception, and start of the fetch.
    stored: Vec<(u64, u32, FetchContext)>,
    known: Arc<FieldValue>,
    class: u64,
}

struct KeyParts<'k> {
    start: &'k [u8],
    query: Option<&'k [u8]>,
    /// The last byte of a key, which names the kind of its clients.
    clients: u8,
    hash: u64,
}

/// The state at the start of a fetch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FetchContext {
    /// The generation in force then: later purges reach the response.
    pub(crate) generation: Generation,
    /// The value of [`Equivalents::removals`] then.
    pub(crate) removals: u64,
}

/// The source of a response.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// The origin, asked by this process.
    Fetched(FetchContext),
    /// The same, for a part, which answers only its own URL.
    Part(FetchContext),
    /// A disk of this process.
    Found,
    /// Another node, or the assembly of parts: the start of the fetch is not known.
    Elsewhere,
}

/// The effect on the table of a response that is about to be stored.
#[derive(Default)]
pub(crate) struct TableUpdate {
    /// The response must not be stored: a later response answers the same requests, or one of the URLs that
    /// it answers was purged or changed since its fetch began.
    pub(crate) is_refused: bool,
    /// The responses that it replaces: keys, and hashes of signatures.
    pub(crate) replaced: Vec<(Vec<u8>, u64)>,
    pub(crate) class: Option<u64>,
}

impl Equivalents {
    /// Returns the other URLs whose stored responses may answer a request for `key`, the latest first. As
    /// long as no response has had the field, this costs one comparison.
    pub fn others(&self, key: &[u8]) -> Vec<EquivalentUrl> {
        let mut others: Vec<EquivalentUrl> = Vec::new();
        let Some(place) = self.known(key) else { return others };
        let mut part = self.part(place.hash);
        for known in part.fields(place.hash) {
            let hash = self.class(&place, &known);
            let class = part.class(hash);
            for StoredQuery { query, variant, received, began } in
                class.into_iter().flat_map(|class| &class.stored)
            {
                let Some(began) = began.filter(|began| began.removals >= known.since) else { continue };
                if query.as_deref() == place.query {
                    continue;
                }
                let (key, stored) = (place.key(query.as_deref()), (*variant, *received, began));
                match others.iter_mut().find(|other| other.key == key && other.class == hash) {
                    Some(other) => other.stored.push(stored),
                    None => {
                        let known = Arc::clone(&known);
                        others.push(EquivalentUrl { key, stored: vec![stored], known, class: hash });
                    }
                }
            }
        }
        others
    }

    /// Returns the keys of these URLs, including those that are being fetched.
    pub(crate) fn all(&self, key: &[u8]) -> Vec<Vec<u8>> {
        let Some(place) = self.known(key) else { return Vec::new() };
        let mut part = self.part(place.hash);
        let mut all = Vec::new();
        for known in part.fields(place.hash) {
            let Some(class) = part.class(self.class(&place, &known)) else { continue };
            let stored = class.stored.iter().map(|stored| &stored.query);
            all.extend(stored.chain(&class.leaders).map(|query| place.key(query.as_deref())));
        }
        all.sort_unstable();
        all.dedup();
        all.retain(|other| other != key);
        all
    }

    /// Joins a fetch for `key`. `join` receives the keys of equivalent fetches in flight, and the number of
    /// removals that must precede their start; it returns whether it leads a fetch itself. Equivalent
    /// requests join one after the other.
    pub(crate) fn joining<T>(&self, key: &[u8], join: impl FnOnce(&[Vec<u8>], u64) -> (T, bool)) -> T {
        let Some(place) = self.known(key) else { return join(&[], 0).0 };
        let mut part = self.part(place.hash);
        let Some(known) = part.fields(place.hash).into_iter().next() else { return join(&[], 0).0 };
        let class = self.class(&place, &known);
        let leaders = part.class(class).map(|class| class.leaders.as_slice()).unwrap_or_default();
        let leaders: Vec<_> = leaders.iter().map(|query| place.key(query.as_deref())).collect();
        let (joined, leads) = join(&leaders, known.since.max(self.removed.last(class)));
        if leads {
            part.change(class, |class| class.lead(place.query));
        }
        joined
    }

    /// Returns the number of removals so far.
    pub(crate) fn removals(&self) -> u64 {
        self.removed.count()
    }

    /// Returns the start of the fetch of the response stored under `other` that has this variant and was received at
    /// `received`; `None` if it is unknown, or an equivalent URL was removed since.
    pub(crate) fn fetch_of(
        &self,
        other: &EquivalentUrl,
        variant: u64,
        received: u32,
    ) -> Option<FetchContext> {
        let (.., began) = other.stored.iter().find(|stored| (stored.0, stored.1) == (variant, received))?;
        (self.removed.last(other.class) <= began.removals).then_some(*began)
    }

    /// Notes that `key` is purged or changed: responses that are being fetched or stored for it, and for
    /// equivalent URLs, do not answer requests for other URLs any more. A field that becomes known only later
    /// does not apply to fetches that began before this call ([`FieldValue::since`]).
    pub(crate) fn note_removed(&self, key: &[u8]) {
        self.removed.count_one();
        let Some(place) = self.known(key) else { return };
        let mut part = self.part(place.hash);
        for known in part.fields(place.hash) {
            // Noted under the lock of the part, so that no value is learned for the path meanwhile.
            self.removed.note(self.class(&place, &known));
        }
    }

    /// Notes that a response with this `value` of the field is about to be stored under `key`. `variant` is
    /// the hash of its signature.
    pub(crate) fn learn(
        &self,
        key: &[u8],
        value: &[u8],
        variant: u64,
        (source, received): (Source, u32),
    ) -> TableUpdate {
        let mut learned = TableUpdate::default();
        let Some(place) = self.place(key) else { return learned };
        let (word, bit) = bit(place.hash);
        // Set before removals are counted: a removal finds the path known, or is counted here.
        self.paths[word].fetch_or(bit, Ordering::SeqCst);
        self.is_used.store(true, Ordering::SeqCst);
        let mut part = self.part(place.hash);
        let Some(known) = part.learn(place.hash, value, self.removals()) else { return learned };
        let hash = self.class(&place, &known);
        let (start, began) = match source {
            Source::Fetched(start) => (Some(start), Some(start)),
            Source::Part(start) => (Some(start), None),
            Source::Found | Source::Elsewhere => (None, None),
        };
        let is_removed = start.is_some_and(|start| self.removed.last(hash) > start.removals);
        let is_found = matches!(source, Source::Found);
        let stored = StoredQuery { query: place.query.map(Box::from), variant, received, began };
        part.change(hash, |class| {
            learned.is_refused = is_removed || class.is_outdated(&stored);
            if !learned.is_refused {
                let replaced = class.keep(stored, is_found).into_iter();
                learned.replaced =
                    replaced.map(|old| (place.key(old.query.as_deref()), old.variant)).collect();
            }
        });
        learned.class = Some(hash);
        learned
    }

    /// Notes that a fetch for `key` has ended.
    pub(crate) fn end(&self, key: &[u8], class: u64) {
        let Some(place) = self.place(key) else { return };
        self.part(place.hash).change(class, |class| class.end(place.query));
    }

    /// Returns the parts of `key`, if its path may be in the table.
    fn known<'k>(&self, key: &'k [u8]) -> Option<KeyParts<'k>> {
        if !self.is_used.load(Ordering::SeqCst) {
            return None;
        }
        let place = self.place(key)?;
        let (word, bit) = bit(place.hash);
        (self.paths[word].load(Ordering::SeqCst) & bit != 0).then_some(place)
    }

    fn place<'k>(&self, key: &'k [u8]) -> Option<KeyParts<'k>> {
        // A change of a URL could not be noted for its partitions, which nobody counts.
        let (&clients, url) = key.split_last().filter(|_| !partition::is_key(key))?;
        let (start, query) = key::split_at_query(url);
        let mut hasher = self.hasher;
        hasher.write(start);
        hasher.write_u8(clients);
        let place = KeyParts { start, query, clients, hash: hasher.finish() };
        (query.map_or(0, <[u8]>::len) <= LONGEST_QUERY).then_some(place)
    }

    fn class(&self, place: &KeyParts<'_>, known: &FieldValue) -> u64 {
        let mut hasher = self.hasher;
        hasher.write_u64(place.hash);
        hasher.write_usize(known.value.len());
        hasher.write(&known.value);
        hasher.write(&known.variation.canonical(place.query));
        hasher.finish()
    }

    fn part(&self, hash: u64) -> MutexGuard<'_, Part> {
        self.parts[hash as usize % PARTS].lock()
    }
}

fn bit(hash: u64) -> (usize, u64) {
    let at = (hash >> 32) as usize % BITS;
    (at / 64, 1 << (at % 64))
}

impl EquivalentUrl {
    /// Whether `entry`, which is stored under this URL, answers a request for `key` by its own field, whose value has
    /// to be the known one. Both keys have one path.
    pub(crate) fn answers(&self, entry: &Entry, key: &[u8]) -> bool {
        let known = &self.known;
        let is_known = no_vary_search::field(&entry.fields()).is_some_and(|value| *value == *known.value);
        is_for_others(entry.status())
            && is_known
            && known.variation.equivalent(query(entry.key()), query(key))
    }
}

impl KeyParts<'_> {
    /// Returns the key of the same path with this query.
    fn key(&self, query: Option<&[u8]>) -> Vec<u8> {
        let mark = query.map_or(&[][..], |_| b"?");
        [self.start, mark, query.unwrap_or_default(), &[self.clients]].concat()
    }
}

fn query(key: &[u8]) -> Option<&[u8]> {
    key::split_at_query(key.split_last()?.1).1
}

/// Whether a response with this status may answer requests for other URLs than its own; error responses may not.
pub(crate) fn is_for_others(status: StatusCode) -> bool {
    status != StatusCode::PARTIAL_CONTENT && (status.is_success() || status.is_redirection())
}

/// Whether a response with this status and these fields, stored or being fetched under `stored`, answers a
/// request for `key`.
pub fn is_for(stored: &[u8], status: StatusCode, response: &impl Fields, key: &[u8]) -> bool {
    if stored == key {
        return true;
    }
    if !is_for_others(status) {
        return false;
    }
    let (Some((one, stored)), Some((other, key))) = (stored.split_last(), key.split_last()) else {
        return false;
    };
    let ((path, stored), (wanted, query)) = (key::split_at_query(stored), key::split_at_query(key));
    let is_there = one == other && path == wanted;
    is_there && Variation::of(response).is_some_and(|variation| variation.equivalent(stored, query))
}
