//! The number of the last removal in each class of URLs. Classes may share a place, so that a removal may
//! seem later than it was, but never earlier.

use std::sync::atomic::{AtomicU64, Ordering};

use larder_words::with_defaults;

const PLACES: usize = 1 << 15;
/// Bits of a removal's number; the bits above contain a part of the hash of the last class.
const BITS: u32 = 40;

fn places() -> Box<[AtomicU64]> {
    Box::new([const { AtomicU64::new(0) }; PLACES])
}

with_defaults! {
    /// The table.
    pub(super) struct Removals {
        count: AtomicU64 = AtomicU64::new(0),
        last: Box<[AtomicU64]> = places(),
        /// The last removals of the other classes that share the place.
        others: Box<[AtomicU64]> = places(),
    }
}

impl Removals {
    /// Returns the number of removals so far.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Counts a removal and returns its number.
    pub(super) fn count_one(&self) -> u64 {
        self.count.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Records a removal in the class with this hash.
    pub(super) fn note(&self, hash: u64) {
        let number = self.count_one();
        let (place, tag) = (hash as usize % PLACES, hash >> BITS << BITS);
        let new = tag | number;
        let mut old = self.last[place].load(Ordering::Acquire);
        loop {
            let other = old & !(u64::MAX << BITS);
            if old != 0 && old >> BITS << BITS != tag {
                // Stored first, so that readers always find it in one of the two places.
                self.others[place].fetch_max(other, Ordering::AcqRel);
            } else if other > number {
                return;
            }
            match self.last[place].compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => old = now,
            }
        }
    }

    /// Returns the number of the last removal in the class with this hash, or a later number; 0 if there was none.
    pub(super) fn last(&self, hash: u64) -> u64 {
        let place = hash as usize % PLACES;
        let last = self.last[place].load(Ordering::Acquire);
        let own = if last >> BITS == hash >> BITS { last & !(u64::MAX << BITS) } else { 0 };
        own.max(self.others[place].load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_is_never_forgotten() {
        let (removed, mut rng) = (Removals::default(), fastrand::Rng::with_seed(7));
        let keys: Vec<_> = (0..64).map(|n| rng.u64(..) >> BITS << BITS | (n % 8)).collect();
        let mut last = vec![0; keys.len()];
        for number in 1..1_000 {
            let at = rng.usize(..keys.len());
            removed.note(keys[at]);
            last[at] = number;
            assert_eq!(removed.count(), number);
            assert!(keys.iter().zip(&last).all(|(key, last)| removed.last(*key) >= *last));
        }
    }

    #[test]
    fn keys_of_different_places_or_tags_are_distinguished() {
        let removed = Removals::default();
        removed.note(1);
        removed.note(2);
        assert_eq!([1, 2, 3, 1 | 7 << BITS].map(|key| removed.last(key)), [1, 2, 0, 0]);
        removed.note(1 | 7 << BITS);
        assert_eq!([1, 1 | 7 << BITS].map(|key| removed.last(key)), [1, 3]);
    }
}
