//! Which stored responses answer requests for other queries of their path (`No-Vary-Search`).
//!
//! A bounded table of this process: for each path the latest values of the field that its stored responses have, and for
//! each of these, by what counts of a query, the URLs that a response is stored for. A response that the table leads to is
//! compared by its own field before it answers. So what the table has forgotten costs a fetch, and nothing else.
//!
//! Of responses that answer the same requests the latest stays: those before it are given up when it is stored.

mod part;
mod removed;

use std::hash::Hasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::StatusCode;
use larder_semantics::fields::Fields;
use larder_semantics::key;
use larder_semantics::no_vary_search::{self, Variation};
use siphasher::sip::SipHasher13;

use self::part::{Known, PARTS, Part, Stored};
pub use self::part::{MOST_BYTES, MOST_FIELDS, MOST_URLS};
use self::removed::Removed;
use crate::purges::Since;
use crate::{Entry, Fills, Joined, LinesRef, Scope, Store};

/// A longer query is compared byte by byte.
const LONGEST_QUERY: usize = 2 << 10;
/// Bits that say which paths may be known.
const BITS: usize = 1 << 16;
/// The table.
pub struct Equivalents {
    hasher: SipHasher13,
    /// The keys that were removed, without a rule of purges that says so.
    removed: Removed,
    is_used: AtomicBool,
    paths: Box<[AtomicU64]>,
    parts: Box<[Mutex<Part>]>,
}

/// A URL that may have a response for a request for another one.
#[derive(Debug)]
pub struct Other {
    /// Its cache key.
    pub key: Vec<u8>,
    since: Since,
    removals: u64,
    known: Arc<Known>,
}

/// A key in parts.
struct Place<'k> {
    start: &'k [u8],
    query: Option<&'k [u8]>,
    /// Behind a URL, a key has one byte that says whose clients it is for.
    clients: u8,
    hash: u64,
}

/// When a response was fetched.
#[derive(Clone, Copy)]
pub(crate) struct When {
    /// Purges reach it if they are later than this.
    pub(crate) since: Since,
    /// [`Equivalents::removals`] then; 0 if that is not known.
    pub(crate) removals: u64,
    /// UNIX seconds.
    pub(crate) received: u32,
}

/// What is known of a response that was stored.
struct Learned {
    /// Another one, which answers the same requests, is later.
    is_outdated: bool,
    /// What it takes the place of: keys, and hashes of signatures.
    replaced: Vec<(Vec<u8>, u64)>,
}

impl Default for Equivalents {
    fn default() -> Self {
        let random = || fastrand::u64(..);
        Self {
            hasher: SipHasher13::new_with_keys(random(), random()),
            removed: Removed::default(),
            is_used: AtomicBool::new(false),
            paths: (0..BITS / 64).map(|_| AtomicU64::new(0)).collect(),
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
        }
    }
}

impl Equivalents {
    /// The URLs whose stored responses may answer a request for `key`, which is not among them; the latest first. As
    /// long as no response has had the field, this is one comparison.
    pub fn others(&self, key: &[u8]) -> Vec<Other> {
        let mut others: Vec<Other> = Vec::new();
        let Some(place) = self.known(key) else { return others };
        let mut part = self.part(place.hash);
        for known in part.fields(place.hash) {
            let class = part.class(self.class(&place, &known));
            for Stored { query, since, removals, .. } in class.into_iter().flat_map(|class| &class.stored) {
                let other = place.key(query.as_deref());
                if query.as_deref() != place.query && others.iter().all(|known| known.key != other) {
                    let (since, removals, known) = (*since, *removals, Arc::clone(&known));
                    others.push(Other { key: other, since, removals, known });
                }
            }
        }
        others
    }

    /// The same, and those that are being fetched.
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

    /// Joins a fetch for `key`: `join` is told of the keys of equivalent ones that are under way, and says whether it
    /// leads one of its own. No two requests that are equivalent join at a time.
    pub(crate) fn joining<T>(&self, key: &[u8], join: impl FnOnce(&[Vec<u8>]) -> (T, bool)) -> T {
        let Some(place) = self.known(key) else { return join(&[]).0 };
        let mut part = self.part(place.hash);
        let Some(known) = part.fields(place.hash).into_iter().next() else { return join(&[]).0 };
        let class = self.class(&place, &known);
        let leaders = part.class(class).map(|class| class.leaders.as_slice()).unwrap_or_default();
        let leaders: Vec<_> = leaders.iter().map(|query| place.key(query.as_deref())).collect();
        let (joined, leads) = join(&leaders);
        if leads {
            part.change(class, |class| class.lead(place.query));
        }
        joined
    }

    /// How often a key was removed so far.
    pub(crate) fn removals(&self) -> u64 {
        self.removed.count()
    }

    /// Notes that what is stored under `key` is removed: what is being fetched or stored for another URL does not answer
    /// requests for it either.
    pub(crate) fn note_removed(&self, key: &[u8]) {
        self.removed.note(self.hasher.hash(key));
    }

    /// Notes that a response with this `value` of the field was stored under `key`, for requests with this hash of their
    /// signature.
    fn learn(&self, key: &[u8], value: &[u8], variant: u64, when: When) -> Learned {
        let mut learned = Learned { is_outdated: false, replaced: Vec::new() };
        let Some(place) = self.place(key) else { return learned };
        let mut part = self.part(place.hash);
        let Some(known) = part.learn(place.hash, value) else { return learned };
        let (query, When { since, removals, received }) = (place.query.map(Box::from), when);
        let stored = Stored { query, variant, since, removals, received };
        part.change(self.class(&place, &known), |class| {
            learned.is_outdated = class.is_outdated(&stored);
            if !learned.is_outdated {
                let replaced = class.keep(stored).into_iter();
                learned.replaced =
                    replaced.map(|old| (place.key(old.query.as_deref()), old.variant)).collect();
            }
        });
        drop(part);
        let (word, bit) = bit(place.hash);
        self.paths[word].fetch_or(bit, Ordering::Release);
        self.is_used.store(true, Ordering::Release);
        learned
    }

    /// The place of `key`, if its path may be known.
    fn known<'k>(&self, key: &'k [u8]) -> Option<Place<'k>> {
        if !self.is_used.load(Ordering::Acquire) {
            return None;
        }
        let place = self.place(key)?;
        let (word, bit) = bit(place.hash);
        (self.paths[word].load(Ordering::Acquire) & bit != 0).then_some(place)
    }

    fn place<'k>(&self, key: &'k [u8]) -> Option<Place<'k>> {
        let (&clients, url) = key.split_last()?;
        let (start, query) = key::split_at_query(url);
        let mut hasher = self.hasher;
        hasher.write(start);
        hasher.write_u8(clients);
        let place = Place { start, query, clients, hash: hasher.finish() };
        (query.map_or(0, <[u8]>::len) <= LONGEST_QUERY).then_some(place)
    }

    fn class(&self, place: &Place<'_>, known: &Known) -> u64 {
        let mut hasher = self.hasher;
        hasher.write_u64(place.hash);
        hasher.write_usize(known.value.len());
        hasher.write(&known.value);
        hasher.write(&known.variation.canonical(place.query));
        hasher.finish()
    }

    fn part(&self, hash: u64) -> MutexGuard<'_, Part> {
        self.parts[hash as usize % PARTS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bit(hash: u64) -> (usize, u64) {
    let at = (hash >> 32) as usize % BITS;
    (at / 64, 1 << (at % 64))
}

impl Place<'_> {
    /// The key of the same path with this query.
    fn key(&self, query: Option<&[u8]>) -> Vec<u8> {
        let mark = query.map_or(&[][..], |_| b"?");
        [self.start, mark, query.unwrap_or_default(), &[self.clients]].concat()
    }
}

impl Store {
    /// What `entry`, which is stored under the key of `other` and current there, leaves for a request for `key`: itself, if its
    /// own field says that it answers it; the same but stale or invalid, or nothing, if `key` was purged since.
    pub fn for_other(&self, entry: Entry, other: &Other, key: &[u8]) -> Option<Entry> {
        if entry.status() == StatusCode::PARTIAL_CONTENT || !answers(&entry, &other.known, key) {
            return None;
        }
        let equivalents = &self.equivalents;
        if equivalents.removed.last(equivalents.hasher.hash(key)) > other.removals {
            return None;
        }
        let now = self.purges.now();
        if matches!(other.since, Since::Generation(since) if since == now) {
            return Some(entry);
        }
        match self.purges.reach(other.since, key, None::<&LinesRef<'_>>) {
            Some(reach) => reach.leaves(&entry, now),
            None => Some(entry),
        }
    }

    /// Notes that a response with these fields was stored, or found on a disk, and gives up what it takes the place of.
    /// False when a later one answers the same requests.
    pub(crate) fn learn(
        &self,
        (key, signature): (&[u8], &[u8]),
        status: StatusCode,
        response: &impl Fields,
        when: When,
    ) -> bool {
        let value = no_vary_search::field(response).filter(|_| status != StatusCode::PARTIAL_CONTENT);
        let Some(value) = value else { return true };
        let variant = self.memory.variant(&[], signature);
        let Learned { is_outdated, replaced } = self.equivalents.learn(key, &value, variant, when);
        for (other, variant) in replaced {
            self.give_up(&other, variant, when.received);
        }
        !is_outdated
    }

    /// Forgets a response that was received before then.
    fn give_up(&self, key: &[u8], variant: u64, received: u32) {
        let resident = self.memory.peek(key, self.memory.hash(key));
        for entry in resident.iter().flat_map(|resident| resident.variants()) {
            if self.memory.variant(&[], entry.signature()) == variant
                && entry.freshness().received <= received
            {
                self.memory.exchange(entry, None);
            }
        }
        self.disks.remove(key);
    }
}

impl Fills {
    /// [Joins](Self::join_own) the fills of `key`, or follows one of another URL whose response is expected to answer requests
    /// for `key` as well: the head that is announced says so, or not.
    pub fn join(self: &Arc<Self>, key: &[u8], signature: &[u8]) -> Joined {
        self.store().equivalents.joining(key, |others| {
            if let Some(reader) = others.iter().find_map(|other| self.follow(other, signature)) {
                return (Joined::Follow(reader), false);
            }
            let joined = self.join_own(key, signature);
            let leads = matches!(joined, Joined::Lead(_));
            (joined, leads)
        })
    }

    /// These scopes, and the URLs that are known to have the same responses as those among them.
    pub fn with_equivalents(&self, mut scopes: Vec<Scope>) -> Vec<Scope> {
        let equivalents = &self.store().equivalents;
        let others = scopes.iter().flat_map(|scope| match scope {
            Scope::Url(key) => equivalents.all(key),
            _ => Vec::new(),
        });
        let others: Vec<_> = others.map(Scope::Url).filter(|other| !scopes.contains(other)).collect();
        scopes.extend(others);
        scopes
    }
}

/// Whether `entry` answers a request for `key` by its own field, which is `known`. Both keys have one path.
fn answers(entry: &Entry, known: &Known, key: &[u8]) -> bool {
    let is_known = no_vary_search::field(&entry.fields()).is_some_and(|value| *value == *known.value);
    is_known && known.variation.equivalent(query(entry.key()), query(key))
}

fn query(key: &[u8]) -> Option<&[u8]> {
    key::split_at_query(key.split_last()?.1).1
}

/// Whether a response with these fields, stored or being fetched under `stored`, answers a request for `key`.
pub fn is_for(stored: &[u8], response: &impl Fields, key: &[u8]) -> bool {
    if stored == key {
        return true;
    }
    let (Some((one, stored)), Some((other, key))) = (stored.split_last(), key.split_last()) else {
        return false;
    };
    let ((path, stored), (wanted, query)) = (key::split_at_query(stored), key::split_at_query(key));
    let is_there = one == other && path == wanted;
    is_there && Variation::of(response).is_some_and(|variation| variation.equivalent(stored, query))
}
