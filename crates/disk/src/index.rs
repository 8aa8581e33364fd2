//! The location of each object's record: shards of the chosen policy, keyed by the hash of the key.
//!
//! When an object leaves the index, its bytes in its segment count as free, for any cause. A pending
//! location is known to the policy, but lookups do not find it.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::sync::Arc;

use larder_evict::{AnyShard, By, Capacity, InsertResult, Object, Spec};
use parking_lot::{Mutex, MutexGuard};

use crate::record::ALIGN;
use crate::segment::Segments;

/// The least size of a shard, since its size limits the size of its objects.
const SHARD_BYTES: u64 = 64 << 30;
const MOST_SHARDS: u64 = 64;
/// Bytes of memory of a location, beside the overhead of its shard.
const PLACE: usize = size_of::<ObjectLocation>();

/// The start of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) segment: NonZeroU32,
    /// The offset in units of 64 bytes.
    at: u32,
}

impl Location {
    /// Returns `None` when `at`, in bytes, is beyond the limit of a location.
    pub(crate) fn new(segment: u32, at: u64) -> Option<Self> {
        let at = u32::try_from(at / ALIGN).ok().filter(|&at| at < FLAGS)?;
        Some(Self { segment: NonZeroU32::new(segment)?, at })
    }

    /// Returns the offset in bytes.
    pub(crate) fn at(self) -> u64 {
        u64::from(self.at) * ALIGN
    }

    /// Returns the offset in units of 64 bytes.
    pub(crate) fn unit(self) -> u32 {
        self.at
    }
}

const PENDING: u32 = 1 << 31;
/// Offsets are below this, so that the bits above are free for flags.
const FLAGS: u32 = 1 << 30;

/// The index entry of an object, in 20 bytes.
#[derive(Clone, Debug)]
pub(crate) struct ObjectLocation {
    segment: NonZeroU32,
    /// The offset in units of 64 bytes, and a flag.
    at: u32,
    /// The length in units of 64 bytes.
    len: u32,
    cost: u32,
    used: Cell<u32>,
}

impl ObjectLocation {
    /// Returns the entry for a record of `len` bytes, last used at `used`, in seconds since 1970. `None` when
    /// it is too long.
    pub(crate) fn new(location: Location, len: u64, cost: u32, used: u32) -> Option<Self> {
        let len = u32::try_from(len / ALIGN).ok()?;
        Some(Self { segment: location.segment, at: location.at, len, cost, used: Cell::new(used) })
    }

    pub(crate) fn pending(self) -> Self {
        Self { at: self.at | PENDING, ..self }
    }

    pub(crate) fn location(&self) -> Location {
        Location { segment: self.segment, at: self.at & (FLAGS - 1) }
    }

    /// Returns the length in bytes.
    pub(crate) fn len(&self) -> u64 {
        u64::from(self.len) * ALIGN
    }

    pub(crate) fn cost(&self) -> u32 {
        self.cost
    }

    pub(crate) fn used(&self) -> u32 {
        self.used.get()
    }

    fn is_pending(&self) -> bool {
        self.at & PENDING != 0
    }
}

/// The result of putting an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PutResult {
    /// The entry was added; `instead` says whether it replaced another.
    In { instead: bool },
    /// The policy refused the entry; `instead` says whether an earlier entry was removed.
    Refused { instead: bool },
    /// No change: the caller's condition did not allow it any more.
    Forbidden,
}

/// Figures of the index at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IndexUsage {
    /// Entries, pending or not.
    pub(crate) objects: u64,
    /// Bytes of their records.
    pub(crate) record_bytes: u64,
    /// Entries evicted so far.
    pub(crate) evictions: u64,
    /// Bytes of memory of the entries and the policy.
    pub(crate) memory: u64,
}

type Shard = Mutex<AnyShard<ObjectLocation>>;

/// All locations, under one policy.
pub(crate) struct Index {
    shards: Box<[Shard]>,
    segments: Arc<Segments>,
}

impl Index {
    /// Creates an index for records of `capacity` bytes.
    pub(crate) fn new(capacity: u64, policy: &Spec, segments: Arc<Segments>) -> Self {
        let count = 1 << (capacity / SHARD_BYTES).clamp(1, MOST_SHARDS).ilog2();
        let shards = (0..count).map(|n| {
            let capacity = Capacity { by: By::Bytes, amount: part(capacity, n, count) };
            Mutex::new(policy.build(capacity, fastrand::u64(..)))
        });
        Self { shards: shards.collect(), segments }
    }

    /// Returns the bytes of the longest record that the index accepts.
    pub(crate) fn largest(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().capacity().amount).min().unwrap_or(0)
    }

    /// Looks an object up, and counts a use at `now`.
    pub(crate) fn touch(&self, hash: u64, now: u32) -> Option<ObjectLocation> {
        let mut shard = self.shard(hash);
        let place = shard.get(hash).filter(|place| !place.is_pending())?;
        place.used.set(place.used.get().max(now));
        Some(place.clone())
    }

    /// Looks an object up, without counting a use.
    pub(crate) fn peek(&self, hash: u64) -> Option<ObjectLocation> {
        self.shard(hash).peek(hash).filter(|place| !place.is_pending()).cloned()
    }

    /// Whether there is an entry, pending or not.
    pub(crate) fn has(&self, hash: u64) -> bool {
        self.shard(hash).peek(hash).is_some()
    }

    /// Puts `place` in place of the hash's entry, if `may` still allows it.
    pub(crate) fn put(&self, hash: u64, place: ObjectLocation, may: impl FnOnce() -> bool) -> PutResult {
        let Some(segment) = self.segments.get(place.segment.get()) else { return PutResult::Forbidden };
        let (len, object) = (place.len(), Object { key: hash, size: place.len(), cost: place.cost });
        let mut dropped = Vec::new();
        let mut shard = self.shard(hash);
        if !may() {
            return PutResult::Forbidden;
        }
        let instead = shard.peek(hash).is_some();
        let put = match shard.insert(object, place, &mut dropped) {
            InsertResult::Stored => PutResult::In { instead },
            InsertResult::TooLarge(_) | InsertResult::Refused(_) => PutResult::Refused { instead },
        };
        if let PutResult::In { .. } = put {
            segment.enliven(len);
        }
        drop(shard);
        self.release(&dropped);
        put
    }

    /// Makes a pending entry visible to lookups. Returns false if it was removed meanwhile.
    pub(crate) fn confirm(&self, hash: u64, location: Location) -> bool {
        self.change(hash, location, |place| place.at &= !PENDING)
    }

    /// Changes an entry's location from `from` to the copy at `to`. Returns false if the entry is not at
    /// `from` any more.
    pub(crate) fn relocate(&self, hash: u64, from: Location, to: Location) -> bool {
        let Some(target) = self.segments.get(to.segment.get()) else { return false };
        let mut len = 0;
        let moved = self.change(hash, from, |place| {
            len = place.len();
            target.enliven(len);
            (place.segment, place.at) = (to.segment, to.at);
        });
        if moved && let Some(source) = self.segments.get(from.segment.get()) {
            source.release(len);
        }
        moved
    }

    pub(crate) fn remove(&self, hash: u64) -> bool {
        let place = self.shard(hash).remove(hash);
        self.release(place.as_slice());
        place.is_some()
    }

    /// Removes the entry if it is at `location`; a later one stays.
    pub(crate) fn remove_at(&self, hash: u64, location: Location) -> bool {
        self.remove_if(hash, |place| place.location() == location)
    }

    pub(crate) fn remove_if(&self, hash: u64, goes: impl FnOnce(&ObjectLocation) -> bool) -> bool {
        let mut shard = self.shard(hash);
        if !shard.peek(hash).is_some_and(goes) {
            return false;
        }
        let place = shard.remove(hash);
        drop(shard);
        self.release(place.as_slice());
        true
    }

    /// Makes the policy evict about `bytes` bytes of records.
    pub(crate) fn squeeze(&self, bytes: u64) {
        let count = self.shards.len() as u64;
        for shard in &self.shards {
            let mut dropped = Vec::new();
            let mut shard = shard.lock();
            let amount = shard.capacity().amount;
            let target = shard.used().saturating_sub(bytes.div_ceil(count));
            shard.set_capacity(target, &mut dropped);
            shard.set_capacity(amount, &mut Vec::new());
            drop(shard);
            self.release(&dropped);
        }
    }

    pub(crate) fn set_capacity(&self, capacity: u64) {
        let count = self.shards.len() as u64;
        for (n, shard) in (0..).zip(&self.shards) {
            let mut dropped = Vec::new();
            shard.lock().set_capacity(part(capacity, n, count), &mut dropped);
            self.release(&dropped);
        }
    }

    pub(crate) fn set_policy(&self, policy: &Spec) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            *shard = policy.succeed(&mut shard, fastrand::u64(..));
        }
    }

    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            let mut dropped = Vec::new();
            shard.lock().clear(&mut dropped);
            self.release(&dropped);
        }
    }

    /// Passes every entry that lookups can find to `see`, a shard at a time, in no particular order.
    pub(crate) fn for_each(&self, mut see: impl FnMut(u64, &ObjectLocation)) {
        for shard in &self.shards {
            shard.lock().for_each(&mut |hash, place| {
                if !place.is_pending() {
                    see(hash, place);
                }
            });
        }
    }

    /// Returns the current figures.
    pub(crate) fn usage(&self) -> IndexUsage {
        self.shards.iter().map(Mutex::lock).fold(IndexUsage::default(), |sum, shard| {
            let objects = shard.len() as u64;
            let memory = (shard.overhead_per_object() * objects as f64) as u64 + objects * PLACE as u64;
            IndexUsage {
                objects: sum.objects + objects,
                record_bytes: sum.record_bytes + shard.bytes(),
                evictions: sum.evictions + shard.evictions(),
                memory: sum.memory + memory,
            }
        })
    }

    /// Whether there are no entries.
    pub(crate) fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.lock().is_empty())
    }

    /// Checks the shards, and that every segment counts the bytes of its index entries.
    pub(crate) fn validate(&self) -> Result<(), String> {
        let mut live = std::collections::HashMap::<u32, u64>::new();
        for shard in &self.shards {
            let shard = shard.lock();
            shard.validate()?;
            shard.for_each(&mut |_, place| *live.entry(place.segment.get()).or_default() += place.len());
        }
        for segment in self.segments.all() {
            let counted = live.get(&segment.number).copied().unwrap_or(0);
            if segment.live() != counted {
                return Err(format!(
                    "{}: {} bytes live, {counted} in the index",
                    segment.name,
                    segment.live()
                ));
            }
        }
        Ok(())
    }

    fn change(&self, hash: u64, location: Location, change: impl FnOnce(&mut ObjectLocation)) -> bool {
        let mut shard = self.shard(hash);
        let place = shard.peek_mut(hash).filter(|place| place.location() == location);
        place.map(change).is_some()
    }

    fn release(&self, places: &[ObjectLocation]) {
        for place in places {
            if let Some(segment) = self.segments.get(place.segment.get()) {
                segment.release(place.len());
            }
        }
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, AnyShard<ObjectLocation>> {
        // The index inside a shard uses the low bits.
        self.shards[(hash >> 48) as usize % self.shards.len()].lock()
    }
}

fn part(whole: u64, n: u64, count: u64) -> u64 {
    whole / count + u64::from(n < whole % count)
}

#[cfg(test)]
mod tests {
    use std::{fs, io};

    use super::*;

    struct NoFile;

    impl crate::File for NoFile {
        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
            Ok(0)
        }

        fn write_at(&self, bytes: &[u8], _: u64) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }

        fn size(&self) -> io::Result<u64> {
            Ok(0)
        }

        fn as_file(&self) -> Option<&fs::File> {
            None
        }
    }

    /// Returns the bytes of memory for each object, once `objects` of 0.9 to 4.5 KiB fill the index and are
    /// requested and replaced as on the web: popular ones far more often, many only once.
    fn bytes_each(policy: &str, objects: u64) -> f64 {
        let segments = Arc::new(Segments::default());
        segments.add(1, Arc::new(NoFile), 0);
        let index = Index::new(objects * 2700, &Spec::parse(policy).unwrap(), segments);
        let mut random = fastrand::Rng::with_seed(1);
        for now in 0..objects as u32 * 6 {
            // Zipf's law with exponent 0.8 over four times as many, by the inverse of its integral.
            let rank = (random.f64() * ((objects as f64 * 4.0).powf(0.2) - 1.0) + 1.0).powf(5.0) as u64;
            let hash = (rank + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            if index.touch(hash, now).is_none() {
                let location = Location::new(1, u64::from(now) * 64).unwrap();
                let place = ObjectLocation::new(location, 900 + hash % 3600, 0, now).unwrap();
                index.put(hash, place, || true);
            }
        }
        let usage = index.usage();
        assert!(usage.evictions > 0 && usage.objects > objects * 8 / 10, "{policy}: {usage:?}");
        usage.memory as f64 / usage.objects as f64
    }

    #[test]
    fn an_object_takes_little_memory() {
        for (policy, most) in
            [("fifo", 64.0), ("lru", 64.0), ("sieve", 64.0), ("clock", 64.0), ("s3fifo", 80.0)]
        {
            let each = bytes_each(policy, 50_000);
            assert!(each <= most, "{policy}: {each} bytes, and {most} are allowed");
        }
    }
}
