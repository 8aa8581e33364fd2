//! Hit-for-miss: a bounded table of URLs whose last response could not be stored.
//!
//! Requests for a marked URL do not wait for each other, since they cannot share a response. A mark expires
//! after its time, or is removed when a response can be stored. Marks may overwrite each other, and may be
//! wrong once in 2^32; in both cases, only a chance to coalesce requests is lost.

use std::sync::atomic::{AtomicU64, Ordering};

/// Places in the table, which takes 512 KiB.
const PLACES: usize = 1 << 16;

/// The table. Half of each place is a tag of the URL's hash, the other half the time at which the mark expires.
#[derive(Debug)]
pub struct HitForMiss(Box<[AtomicU64]>);

impl Default for HitForMiss {
    fn default() -> Self {
        Self(Box::new([const { AtomicU64::new(0) }; PLACES]))
    }
}

impl HitForMiss {
    /// Marks the URL with this hash until `until` (UNIX seconds).
    pub fn mark(&self, hash: u64, until: u32) {
        self.place(hash).store(tag(hash) | u64::from(until), Ordering::Relaxed);
    }

    /// Removes the mark of the URL with this hash.
    pub fn clear(&self, hash: u64) {
        if self.place(hash).load(Ordering::Relaxed) & TAG == tag(hash) {
            self.place(hash).store(0, Ordering::Relaxed);
        }
    }

    /// Whether the URL with this hash is marked at `now` (UNIX seconds).
    pub fn marked(&self, hash: u64, now: u32) -> bool {
        let place = self.place(hash).load(Ordering::Relaxed);
        place & TAG == tag(hash) && (place as u32) > now
    }

    /// Iterates over the marks that have not expired at `now` (UNIX seconds): the URL's hash, as far as the table has it, and
    /// the time at which the mark expires.
    pub fn marks(&self, now: u32) -> impl Iterator<Item = (u64, u32)> {
        self.0.iter().zip(0..).filter_map(move |(place, number)| {
            let place = place.load(Ordering::Relaxed);
            (place as u32 > now).then_some((place & TAG | number, place as u32))
        })
    }

    fn place(&self, hash: u64) -> &AtomicU64 {
        &self.0[hash as usize % PLACES]
    }
}

const TAG: u64 = !0 << 32;

fn tag(hash: u64) -> u64 {
    hash & TAG
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_holds_for_its_url_until_its_time() {
        let hit_for_miss = HitForMiss::default();
        let (url, neighbour) = (7 << 32 | 1, 8 << 32 | 1);
        hit_for_miss.mark(url, 100);
        assert!(hit_for_miss.marked(url, 99));
        assert!(!hit_for_miss.marked(url, 100));
        assert!(!hit_for_miss.marked(neighbour, 99));
        hit_for_miss.clear(neighbour);
        assert!(hit_for_miss.marked(url, 99));
        let (copy, marks) = (HitForMiss::default(), |now| hit_for_miss.marks(now));
        marks(99).for_each(|(hash, until)| copy.mark(hash, until));
        assert!(copy.marked(url, 99) && marks(99).count() == 1 && marks(100).count() == 0);
        hit_for_miss.clear(url);
        assert!(!hit_for_miss.marked(url, 99));
    }
}
