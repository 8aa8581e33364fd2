//! One pool: the tags of a path segment, bounded, of which those of the present generation count.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_evict::{AnyShard, By, Capacity, Inserted, Lru, Object, Shard};
use serde::Serialize;

use crate::identity::Key;
use crate::settings::Settings;
use crate::tag::Tag;

/// Tags of one key that differ by `Vary`, at most; the oldest goes first.
const VARIANTS: usize = 16;
/// What a key with one tag takes besides their bytes.
const BOOKKEEPING: usize = 200;

/// Generations of the pool that segments share: those of one generation are blanked together.
const SHARED: usize = 64;

/// The tags of a path segment, or of all that have no pool of their own.
pub(crate) struct Pool {
    eras: Box<[Era]>,
    spread: RandomState,
    shelf: Mutex<Shelf>,
    pub(crate) counts: Counts,
}

/// What is true of a segment now.
#[derive(Debug, Default)]
struct Era {
    generation: AtomicU64,
    /// Until this second, somebody given up may still change something.
    doubtful_until: AtomicU32,
}

struct Shelf {
    residents: Shard<Lru, Resident>,
    /// What a key weighs at least, so that as many as there may be weigh as much as they may.
    least: u64,
    /// How many are of this generation.
    current: (u64, u64),
}

/// All tags of a key.
struct Resident {
    key: Box<[u8]>,
    tags: Vec<Tag>,
}

/// What happened to the requests of a pool.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) matched: AtomicU64,
    pub(crate) forwarded: AtomicU64,
    pub(crate) equal: AtomicU64,
    pub(crate) stored: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) blanked: AtomicU64,
}

/// What a pool holds and did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PoolReport {
    /// Its path segment; `*` for all that have none of their own.
    pub pool: String,
    /// Tags that count; of the shared pool, all.
    pub tags: u64,
    /// Bytes held, by those that count no more, too.
    pub bytes: u64,
    /// GETs answered 304 without the backend.
    pub matched: u64,
    /// GETs that the backend was asked.
    pub forwarded: u64,
    /// Of those, the ones answered 304 because the new tag was the one they showed.
    pub equal: u64,
    /// Tags stored.
    pub stored: u64,
    /// Tags not stored because the pool was blanked during the request to the backend.
    pub refused: u64,
    /// Times it was blanked.
    pub blanked: u64,
    /// Keys that had to make room.
    pub evictions: u64,
}

impl Pool {
    /// That of one segment.
    pub(crate) fn new(settings: &Settings) -> Self {
        Self::with_eras(settings, 1)
    }

    /// That of all other segments.
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

    /// The generation of `segment` whose tags count.
    pub(crate) fn generation(&self, segment: &str) -> u64 {
        self.era(segment).generation.load(Ordering::SeqCst)
    }

    /// From now on no tag of `segment` counts that there is, or that belongs to a request under way.
    pub(crate) fn blank(&self, segment: &str) {
        self.era(segment).generation.fetch_add(1, Ordering::SeqCst);
        count(&self.counts.blanked);
    }

    /// The same for every segment.
    pub(crate) fn blank_all(&self) {
        self.eras.iter().for_each(|era| _ = era.generation.fetch_add(1, Ordering::SeqCst));
        count(&self.counts.blanked);
    }

    /// No tags of `segment` are made before second `until`.
    pub(crate) fn doubt(&self, segment: &str, until: u32) {
        self.era(segment).doubtful_until.fetch_max(until, Ordering::SeqCst);
    }

    /// The same for every segment.
    pub(crate) fn doubt_all(&self, until: u32) {
        self.eras.iter().for_each(|era| _ = era.doubtful_until.fetch_max(until, Ordering::SeqCst));
    }

    /// The second before which no tags of `segment` are made.
    pub(crate) fn doubtful_until(&self, segment: &str) -> u32 {
        self.era(segment).doubtful_until.load(Ordering::SeqCst)
    }

    pub(crate) fn is_doubtful(&self, segment: &str, now: u32) -> bool {
        now < self.doubtful_until(segment)
    }

    /// Whether that holds for any segment.
    pub(crate) fn is_doubtful_anywhere(&self, now: u32) -> bool {
        self.eras.iter().any(|era| now < era.doubtful_until.load(Ordering::SeqCst))
    }

    fn era(&self, segment: &str) -> &Era {
        match &*self.eras {
            [only] => only,
            eras => &eras[self.spread.hash_one(segment) as usize % eras.len()],
        }
    }

    /// The lines of the tag under `key` that is of this generation and `fits`.
    pub(crate) fn find(&self, key: &Key, generation: u64, fits: impl Fn(&Tag) -> bool) -> Option<Arc<[u8]>> {
        let mut shelf = self.locked();
        let resident = shelf.residents.get(key.hash).filter(|resident| resident.key == key.bytes)?;
        let tag = resident.tags.iter().find(|tag| tag.generation == generation && fits(tag))?;
        Some(Arc::clone(&tag.lines))
    }

    /// Stores a tag of the generation it says: it counts as long as that is the present one.
    pub(crate) fn store(&self, key: &Key, tag: Tag) {
        let generation = tag.generation;
        let mut dropped = Vec::new();
        let mut shelf = self.locked();
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
            Inserted::Stored => shelf.current.1 += new,
            Inserted::TooLarge(_) | Inserted::Refused(_) => {}
        }
        shelf.forget(dropped.iter());
        drop(shelf);
        count(&self.counts.stored);
    }

    /// Blanks it, and gives it the room that new settings say.
    pub(crate) fn change(&self, settings: &Settings) {
        self.blank_all();
        let mut dropped = Vec::new();
        let mut shelf = self.locked();
        shelf.residents.clear(&mut dropped);
        shelf.residents.set_capacity(settings.bytes, &mut dropped);
        (shelf.least, shelf.current.1) = (least(settings), 0);
    }

    pub(crate) fn report(&self, pool: &str) -> PoolReport {
        let shelf = self.locked();
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

    fn locked(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    /// Counts what has left.
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

    /// Its tags of a generation.
    fn of(&self, generation: u64) -> u64 {
        self.tags.iter().filter(|tag| tag.generation == generation).count() as u64
    }
}

/// One request more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn least(settings: &Settings) -> u64 {
    settings.bytes.div_ceil(settings.tags.max(1))
}
