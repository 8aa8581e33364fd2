//! One pool: the tags of a path segment, with a limit; only those of the current generation are valid.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use larder_evict::{By, Capacity, InsertResult, Lru, Object, Shard};
use parking_lot::Mutex;
use serde::Serialize;

use crate::identity::Key;
use crate::settings::Settings;
use crate::tag::Tag;

/// The most tags of one key, which differ by `Vary`; the oldest is removed first.
const VARIANTS: usize = 16;
/// Bytes of a key with one tag, without the bytes of both.
const BOOKKEEPING: usize = 200;

/// The number of generations in the shared pool: segments with the same one are blanked together.
const SHARED: usize = 64;

/// The tags of a path segment, or of all segments without a separate pool.
pub(crate) struct Pool {
    eras: Box<[Era]>,
    spread: RandomState,
    shelf: Mutex<Shelf>,
    pub(crate) counts: Counts,
}

/// The current state of a segment.
#[derive(Debug, Default)]
struct Era {
    generation: AtomicU64,
    /// Until this second, a request without a known end may still change data.
    doubtful_until: AtomicU32,
}

struct Shelf {
    residents: Shard<Lru, Resident>,
    /// The least size of a key, so that the most keys allowed fill the limit in bytes.
    least: u64,
    /// The current generation, and the number of its tags.
    current: (u64, u64),
}

/// All tags of a key.
struct Resident {
    key: Box<[u8]>,
    tags: Vec<Tag>,
}

/// Counters of a pool's requests.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) matched: AtomicU64,
    pub(crate) forwarded: AtomicU64,
    pub(crate) equal: AtomicU64,
    pub(crate) stored: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) blanked: AtomicU64,
}

/// The contents and counters of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PoolReport {
    /// The path segment; `*` for all segments without a separate pool.
    pub pool: String,
    /// Current tags; for the shared pool, all keys with tags, current or not.
    pub tags: u64,
    /// Bytes held, including those of outdated tags.
    pub bytes: u64,
    /// GETs answered 304 without the backend.
    pub matched: u64,
    /// GETs forwarded to the backend.
    pub forwarded: u64,
    /// Forwarded GETs that were answered 304 because the new tag was one of the request's.
    pub equal: u64,
    /// Tags stored.
    pub stored: u64,
    /// Tags not stored because the pool was blanked during the request to the backend.
    pub refused: u64,
    /// The number of times that the pool was blanked.
    pub blanked: u64,
    /// Keys evicted.
    pub evictions: u64,
}

impl Pool {
    /// Creates the pool of one segment.
    pub(crate) fn new(settings: &Settings) -> Self {
        Self::with_eras(settings, 1)
    }

    /// Creates the pool of all other segments.
    pub(crate) fn shared(settings: &Settings) -> Self {
        Self::with_eras(settings, SHARED)
    }

    fn with_eras(settings: &Settings, eras: usize) -> Self {
        let capacity = Capacity { by: By::Bytes, amount: settings.bytes };
        let residents = Shard::new(capacity, (), 0);
        let shelf = Shelf { residents, least: least(settings), current: (0, 0) };
        Self {
            eras: (0..eras).map(|_| Era::default()).collect(),
            spread: RandomState::new(),
            shelf: Mutex::new(shelf),
            counts: Counts::default(),
        }
    }

    /// Returns the generation of `segment` whose tags are valid.
    pub(crate) fn generation(&self, segment: &str) -> u64 {
        self.era(segment).generation.load(Ordering::SeqCst)
    }

    /// Invalidates the tags of `segment`, including those of requests in flight.
    pub(crate) fn blank(&self, segment: &str) {
        self.era(segment).generation.fetch_add(1, Ordering::SeqCst);
        count(&self.counts.blanked);
    }

    /// Invalidates the tags of every segment.
    pub(crate) fn blank_all(&self) {
        self.eras.iter().for_each(|era| _ = era.generation.fetch_add(1, Ordering::SeqCst));
        count(&self.counts.blanked);
    }

    /// Forbids new tags of `segment` before second `until`.
    pub(crate) fn doubt(&self, segment: &str, until: u32) {
        self.era(segment).doubtful_until.fetch_max(until, Ordering::SeqCst);
    }

    /// Forbids new tags before second `until`.
    pub(crate) fn doubt_all(&self, until: u32) {
        self.eras.iter().for_each(|era| _ = era.doubtful_until.fetch_max(until, Ordering::SeqCst));
    }

    /// Returns the second before which no tags of `segment` are created.
    pub(crate) fn doubtful_until(&self, segment: &str) -> u32 {
        self.era(segment).doubtful_until.load(Ordering::SeqCst)
    }

    pub(crate) fn is_doubtful(&self, segment: &str, now: u32) -> bool {
        now < self.doubtful_until(segment)
    }

    /// Whether any segment is doubtful.
    pub(crate) fn is_doubtful_anywhere(&self, now: u32) -> bool {
        self.eras.iter().any(|era| now < era.doubtful_until.load(Ordering::SeqCst))
    }

    fn era(&self, segment: &str) -> &Era {
        match &*self.eras {
            [only] => only,
            eras => &eras[self.spread.hash_one(segment) as usize % eras.len()],
        }
    }

    /// Returns the lines of the tag under `key` that is of this generation and `fits`.
    pub(crate) fn find(&self, key: &Key, generation: u64, fits: impl Fn(&Tag) -> bool) -> Option<Arc<[u8]>> {
        let mut shelf = self.shelf.lock();
        let resident = shelf.residents.get(key.hash).filter(|resident| resident.key == key.bytes)?;
        let tag = resident.tags.iter().find(|tag| tag.generation == generation && fits(tag))?;
        Some(Arc::clone(&tag.lines))
    }

    /// Stores a tag, which is valid while its generation is the current one.
    pub(crate) fn store(&self, key: &Key, tag: Tag) {
        let generation = tag.generation;
        let mut dropped = Vec::new();
        let mut shelf = self.shelf.lock();
        if shelf.current.0 < generation {
            shelf.current = (generation, 0);
        }
        let old = shelf.residents.remove(key.hash);
        shelf.forget(old.iter());
        let mut tags = old.filter(|old| old.key == key.bytes).map_or_else(Vec::new, |old| old.tags);
        tags.retain(|old| old.generation == generation && old.signature != tag.signature);
        if tags.len() == VARIANTS {
            tags.remove(0);
        }
        tags.push(tag);
        let resident = Resident { key: key.bytes.clone(), tags };
        let object = Object { key: key.hash, size: resident.size().max(shelf.least), cost: 0 };
        let new = resident.of(shelf.current.0);
        match shelf.residents.insert(object, resident, &mut dropped) {
            InsertResult::Stored => shelf.current.1 += new,
            InsertResult::TooLarge(_) | InsertResult::Refused(_) => {}
        }
        shelf.forget(dropped.iter());
        drop(shelf);
        count(&self.counts.stored);
    }

    /// Blanks the pool, and applies the limits of new settings.
    pub(crate) fn change(&self, settings: &Settings) {
        self.blank_all();
        let mut dropped = Vec::new();
        let mut shelf = self.shelf.lock();
        shelf.residents.clear(&mut dropped);
        shelf.residents.set_capacity(settings.bytes, &mut dropped);
        (shelf.least, shelf.current.1) = (least(settings), 0);
    }

    pub(crate) fn report(&self, pool: &str) -> PoolReport {
        let shelf = self.shelf.lock();
        let tags = match &*self.eras {
            [only] if only.generation.load(Ordering::SeqCst) != shelf.current.0 => 0,
            [_] => shelf.current.1,
            _ => shelf.residents.len() as u64,
        };
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = &self.counts;
        PoolReport {
            pool: pool.to_owned(),
            tags,
            bytes: shelf.residents.used(),
            matched: of(&counts.matched),
            forwarded: of(&counts.forwarded),
            equal: of(&counts.equal),
            stored: of(&counts.stored),
            refused: of(&counts.refused),
            blanked: of(&counts.blanked),
            evictions: shelf.residents.evictions(),
        }
    }
}

impl Shelf {
    /// Subtracts the tags of removed residents.
    fn forget<'r>(&mut self, gone: impl Iterator<Item = &'r Resident>) {
        let gone: u64 = gone.map(|resident| resident.of(self.current.0)).sum();
        self.current.1 = self.current.1.saturating_sub(gone);
    }
}

impl Resident {
    fn size(&self) -> u64 {
        let tags: usize = self.tags.iter().map(|tag| tag.bytes() + size_of::<Tag>()).sum();
        (BOOKKEEPING + self.key.len() + tags) as u64
    }

    /// Returns the number of its tags of a generation.
    fn of(&self, generation: u64) -> u64 {
        self.tags.iter().filter(|tag| tag.generation == generation).count() as u64
    }
}

/// Increments a counter.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn least(settings: &Settings) -> u64 {
    settings.bytes.div_ceil(settings.tags.max(1))
}
