//! Hot entries: repeated hits of a response, without a lock or a written cache line that workers share.
//!
//! Each worker has a small table of the URLs that it serves most often. A place of the table has references of its own to
//! the first variants of a URL. A reply borrows a reference and [gives it back](Memory::give_back) once it is written: to
//! clone it would write the response's reference count, which all workers share. While it is borrowed, other requests find
//! the response in its shard. The uses of a hot entry are counted in its shard in batches, and before anyone reads them.
//!
//! # The order of events
//!
//! A **change** stores, replaces, removes or evicts responses of a shard:
//!
//! 1. It locks the shard.
//! 2. It changes the residents.
//! 3. It counts the change ([`Shard::changes`]).
//! 4. It unlocks the shard.
//! 5. Its caller learns that it is done.
//!
//! A worker **learns** a hot entry:
//!
//! 6. It locks the shard.
//! 7. It finds the response.
//! 8. It reads the count of changes.
//! 9. It unlocks the shard, and writes response and count into its table.
//!
//! A **hit** of a hot entry:
//!
//! 10. It reads the count of changes, and compares it with the one in the table.
//! 11. It uses the response.
//! 12. It compares the generation of purges with the response's (`Store::current`), and the time with its lifetime.
//!
//! These races are excluded:
//!
//! - *A hit that begins after 5 uses the old response.* 3 precedes 5, so 10 reads a new count.
//! - *The old response gets the new count*, and is used for ever. Both 7 and 8 are between 6 and 9, and 2 and 3 between 1 and
//!   4: the lock orders them.
//! - *A purge that changes no shard is missed.* 12 follows 11 for hot entries as for all others, and is done for each hit.
//! - *A reply gives an old response back to a place that has learned a newer one since.* A place takes back only the very
//!   responses that it learned last.
//! - *A use is counted twice, or forgotten.* A place's uses are read and set to 0 under its worker's lock, while the shard is
//!   locked, too. The order is table, then shard, everywhere.

use parking_lot::Mutex;

use super::resident::Resident;
use super::shards::{LockedShard, Shard};
use super::{Budget, Memory};
use crate::Entry;

/// The places of a table.
const PLACES: usize = 64;
/// A response is hot once it has as many more uses in its place than others, and a place remembers at most this many.
const HOT: u32 = 8;
const MOST_VOTES: u32 = 2 * HOT;
/// The uses that a place counts by itself, unless a second has passed.
const BATCH: u32 = 64;
/// The most bytes of all variants of a hot URL, so that a table holds at most 1 MiB of responses that were evicted since.
const LARGEST: u64 = 16 << 10;
/// The variants of a URL that replies can borrow.
const VARIANTS: usize = 4;

/// The hot entries of one worker, on cache lines of their own.
#[repr(align(128))]
pub(super) struct HotTable(Mutex<[Place; PLACES]>);

/// A place for one of the URLs whose hashes lead to it.
#[derive(Default)]
struct Place {
    hash: u64,
    /// The uses of this URL, minus those of others since.
    votes: u32,
    /// The uses that its shard has not counted, and the time of the last one (UNIX seconds).
    uses: u32,
    last: u32,
    /// The time of the last count.
    counted: u32,
    /// The count of changes with which it was learned.
    change: u64,
    /// The responses that were learned.
    learned: Option<Resident>,
    /// A reference to each of the first variants, unless a reply has borrowed it.
    references: [Option<Entry>; VARIANTS],
}

impl HotTable {
    /// Returns the tables of all workers, also of a single one: counting uses in batches is less work for the policy. There
    /// are none if the tier has to evict exactly as its policy says.
    pub(super) fn for_workers(budget: Budget) -> Box<[Self]> {
        let tables = if budget.shards() > 1 { budget.workers } else { 0 };
        (0..tables).map(|_| Self(Mutex::new(std::array::from_fn(|_| Place::default())))).collect()
    }
}

impl Place {
    /// Takes the reference to the response stored under `key` that `selects` accepts.
    fn take(
        &mut self,
        (key, hash): (&[u8], u64),
        shard: &Shard,
        now: u32,
        selects: impl Fn(&Entry) -> bool,
    ) -> Option<Entry> {
        if self.hash != hash || self.change != shard.changes() {
            return None;
        }
        let variants = self.learned.as_ref()?.variants();
        let at = variants.iter().position(selects).filter(|at| variants[*at].key() == key)?;
        let entry = self.references.get_mut(at)?.take()?;
        self.uses += 1;
        self.last = now;
        Some(entry)
    }

    fn is_due(&self, now: u32) -> bool {
        self.uses >= BATCH || self.uses > 0 && self.counted != now
    }

    /// Votes for the URL with this hash. Returns whether it has the place.
    fn vote(&mut self, hash: u64) -> bool {
        if self.hash == hash {
            self.votes = (self.votes + 1).min(MOST_VOTES);
            return true;
        }
        self.votes = self.votes.saturating_sub(1);
        false
    }

    /// Counts its uses in the shard of its response.
    fn count(&mut self, shard: &mut LockedShard<'_>) {
        shard.get_often(self.hash, self.uses);
        if let Some(kept) = shard.peek(self.hash) {
            kept.uses().note(self.uses, self.last);
        }
        (self.uses, self.counted) = (0, self.last);
    }

    /// Learns the responses of its URL, which were in their shard after this change, if they are hot, and unless it has
    /// them. References that are still borrowed here may never come back.
    fn learn(&mut self, resident: &Resident, change: u64, now: u32) {
        let variants = resident.variants();
        let has_all = self.references.iter().zip(variants).all(|(reference, _)| reference.is_some());
        if self.votes < HOT || self.change == change && has_all {
            return;
        }
        self.forget();
        for (reference, entry) in self.references.iter_mut().zip(variants) {
            *reference = Some(entry.clone());
        }
        (self.learned, self.change, self.counted) = (Some(resident.clone()), change, now);
    }

    fn forget(&mut self) {
        self.learned = None;
        self.references = Default::default();
    }
}

impl Memory {
    /// Finds the response stored under `key` that `selects` accepts, and counts a use as [`find`](Self::find) does, for the
    /// worker with this number. If the caller [gives back](Self::give_back) the entry, repeated hits take no lock and write
    /// to no cache line of other workers.
    #[inline]
    pub fn find_for(
        &self,
        worker: usize,
        key: (&[u8], u64),
        now: u32,
        selects: impl Fn(&Entry) -> bool,
    ) -> Option<Entry> {
        match self.hot.get(worker) {
            Some(table) => self.find_hot(table, key, now, selects),
            None => self.find(key.0, key.1, now)?.into_variant(selects),
        }
    }

    fn find_hot(
        &self,
        table: &HotTable,
        (key, hash): (&[u8], u64),
        now: u32,
        selects: impl Fn(&Entry) -> bool,
    ) -> Option<Entry> {
        let shard = self.shards.of(hash);
        let mut table = table.0.lock();
        let place = &mut table[hash as usize % PLACES];
        if let Some(entry) = place.take((key, hash), shard, now, &selects) {
            if place.is_due(now) {
                place.count(&mut self.shards.lock(shard));
            }
            return Some(entry);
        }
        self.find_and_learn(place, shard, (key, hash), now)?.into_variant(selects)
    }

    /// Finds the responses stored under `key` in their shard, and learns them if they are hot.
    fn find_and_learn(
        &self,
        place: &mut Place,
        shard: &Shard,
        (key, hash): (&[u8], u64),
        now: u32,
    ) -> Option<Resident> {
        let mut has_place = place.vote(hash);
        if !has_place && place.votes == 0 {
            self.count_place(place);
            *place = Place { hash, votes: 1, ..Place::default() };
            has_place = true;
        }
        let mut shard = self.shards.lock(shard);
        if has_place && place.uses > 0 {
            place.count(&mut shard);
        }
        let change = shard.changes();
        let kept = shard.get(hash).filter(|kept| kept.is_for(key))?;
        kept.uses().note(1, now);
        let (resident, charge) = (kept.resident(), kept.charge());
        drop(shard);
        if has_place && charge <= LARGEST {
            place.learn(&resident, change, now);
        }
        Some(resident)
    }

    /// Takes back an entry that [`find_for`](Self::find_for) has found for this worker under this hash.
    #[inline]
    pub fn give_back(&self, worker: usize, hash: u64, entry: Entry) {
        let Some(table) = self.hot.get(worker) else { return };
        let mut table = table.0.lock();
        let place = &mut table[hash as usize % PLACES];
        let learned = place.learned.as_ref().filter(|_| place.hash == hash);
        let at = learned.and_then(|learned| learned.variants().iter().position(|own| own.is(&entry)));
        if let Some(reference) = at.and_then(|at| place.references.get_mut(at)) {
            *reference = Some(entry);
        }
    }

    /// Counts all uses of hot entries so far, and releases those that have changed since.
    pub(super) fn settle(&self) {
        for table in &self.hot {
            for place in table.0.lock().iter_mut() {
                self.count_place(place);
                if place.learned.is_some() && place.change != self.shards.of(place.hash).changes() {
                    place.forget();
                }
            }
        }
    }

    fn count_place(&self, place: &mut Place) {
        if place.uses > 0 {
            place.count(&mut self.shards.lock(self.shards.of(place.hash)));
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, StatusCode};
    use larder_evict::{By, Capacity, Spec};
    use larder_semantics::freshness::Freshness;

    use super::*;
    use crate::entry::Parts;
    use crate::{Body, Generation};

    const KEY: &[u8] = b"http://site.test/hot";

    fn memory() -> Memory {
        let capacity = Capacity { by: By::Entries, amount: 1 << 17 };
        Memory::new(Budget { workers: 2, ..capacity.into() }, &Spec::default(), 3)
    }

    fn entry(memory: &Memory, body: &[u8]) -> Entry {
        variant(memory, b"", body)
    }

    fn variant(memory: &Memory, signature: &[u8], body: &[u8]) -> Entry {
        let (status, freshness) = (StatusCode::OK, Freshness::default());
        let (fields, born) = (memory.keep(&HeaderMap::new(), 0), Generation::default());
        let body = Body::Heap(body.into());
        Entry::new(Parts { key: KEY, signature, status, freshness, cost: 0, born, fields: &fields, body })
            .expect("a short key")
    }

    /// Looks up as a request does whose reply is written at once. Returns the content.
    fn hit(memory: &Memory, worker: usize) -> Option<Vec<u8>> {
        let entry = find(memory, worker, |_| true)?;
        let body = entry.body().copy(0, 100).expect("it is in memory").to_vec();
        memory.give_back(worker, memory.hash(KEY), entry);
        Some(body)
    }

    fn find(memory: &Memory, worker: usize, selects: impl Fn(&Entry) -> bool) -> Option<Entry> {
        memory.find_for(worker, (KEY, memory.hash(KEY)), 7, selects)
    }

    /// Returns the uses that a worker has not counted yet, and whether it has the entry.
    fn place(memory: &Memory, worker: usize) -> (u32, bool) {
        let table = memory.hot[worker].0.lock();
        let place = &table[memory.hash(KEY) as usize % PLACES];
        (place.uses, place.references[0].is_some())
    }

    #[test]
    fn a_hot_response_is_found_without_its_shard_until_that_changes() {
        let memory = memory();
        memory.put(entry(&memory, b"old"), None);
        for _ in 0..HOT + 5 {
            assert_eq!(hit(&memory, 0).as_deref(), Some(&b"old"[..]));
        }
        assert_eq!((place(&memory, 0), place(&memory, 1)), ((5, true), (0, false)));
        memory.put(entry(&memory, b"new"), None);
        assert_eq!(hit(&memory, 0).as_deref(), Some(&b"new"[..]));
        memory.remove(KEY);
        assert_eq!(hit(&memory, 0), None);
    }

    #[test]
    fn all_uses_are_counted_when_they_are_read() {
        let memory = memory();
        memory.put(entry(&memory, b"page"), None);
        for worker in [0, 1, 0] {
            (0..75).for_each(|_| _ = hit(&memory, worker));
        }
        assert!(place(&memory, 0).0 > 0);
        assert_eq!(memory.used(KEY).map(|(_, used)| (used.hits, used.last)), Some((225, 7)));
    }

    #[test]
    fn a_place_takes_back_only_what_it_has_learned_last() {
        let memory = memory();
        memory.put(entry(&memory, b"old"), None);
        (0..HOT).for_each(|_| _ = hit(&memory, 0));
        let old = find(&memory, 0, |_| true).expect("a hit");
        memory.put(entry(&memory, b"new"), None);
        hit(&memory, 0);
        let new = find(&memory, 0, |_| true).expect("a hit");
        memory.give_back(0, memory.hash(KEY), old);
        assert!(!place(&memory, 0).1);
        memory.give_back(0, memory.hash(KEY), new);
        assert!(place(&memory, 0).1);
        assert_eq!(hit(&memory, 0).as_deref(), Some(&b"new"[..]));
    }

    #[test]
    fn each_variant_of_a_hot_url_is_found_without_its_shard() {
        let memory = memory();
        memory.put(variant(&memory, b"en", b"page"), None);
        memory.put(variant(&memory, b"de", b"Seite"), None);
        (0..HOT).for_each(|_| _ = hit(&memory, 0));
        for (uses, signature) in (1..).zip([b"en", b"de", b"en"]) {
            let entry = find(&memory, 0, |entry| entry.signature() == signature).expect("a hit");
            assert_eq!((entry.signature(), place(&memory, 0).0), (&signature[..], uses));
            memory.give_back(0, memory.hash(KEY), entry);
        }
        assert!(find(&memory, 0, |entry| entry.signature() == b"fr").is_none());
    }

    #[test]
    fn workers_of_a_small_cache_have_no_hot_entries() {
        let tables = |amount, workers| {
            let budget = Budget::from(Capacity { by: By::Entries, amount });
            HotTable::for_workers(Budget { workers, ..budget }).len()
        };
        assert_eq!([tables(1 << 16, 1), tables(1 << 16, 2)], [0, 0]);
        assert_eq!([tables(1 << 17, 1), tables(1 << 17, 2)], [1, 2]);
    }
}
