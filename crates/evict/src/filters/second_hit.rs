//! Second hit: admits an object at its second request, since many objects are requested once.

use crate::filter::Filter;
use crate::policy::{Object, Residents};

/// Keys that a generation of the memory holds for each resident: after that many other misses, a key is forgotten one
/// to two generations later.
const GENERATION: usize = 4;
/// Bits for each key of a generation: with 4 of them set, about one key in forty is a false positive.
const BITS: usize = 10;
/// Words of the smallest filter: an empty cache has to remember some keys, too.
const SMALLEST: usize = 128;

/// Admits objects that were requested before, according to two alternating Bloom filters: the younger one is filled,
/// and the older one is still consulted. An object is refused at its first request even if there is room. After Maggs
/// and Sitaraman, Algorithmic nuggets in content delivery, 2015.
pub struct SecondHit {
    young: Bloom,
    old: Bloom,
}

impl Filter for SecondHit {
    type Params = ();

    const ABOUT: &'static str = "admits objects that were requested before, recently";

    fn new(_params: (), _seed: u64) -> Self {
        Self { young: Bloom::new(0), old: Bloom::new(0) }
    }

    fn admit<R: Residents>(&mut self, new: &Object, residents: &R, _: impl Iterator<Item = Object>) -> bool {
        let known_lately = self.young.insert(new.key);
        let known = known_lately || self.old.contains(new.key);
        if self.young.is_full() {
            self.old = std::mem::replace(&mut self.young, Bloom::new(residents.len() * GENERATION));
        }
        known
    }

    fn heap_bytes(&self) -> usize {
        self.young.heap_bytes() + self.old.heap_bytes()
    }
}

/// A set of keys with a few false positives.
struct Bloom {
    words: Vec<u64>,
    keys: usize,
    most: usize,
}

impl Bloom {
    /// Returns a filter for `most` keys, with a minimum size.
    fn new(most: usize) -> Self {
        let words = (most * BITS / 64).next_power_of_two().max(SMALLEST);
        Self { words: vec![0; words], keys: 0, most: most.max(words * 64 / BITS) }
    }

    fn is_full(&self) -> bool {
        self.keys >= self.most
    }

    /// Adds `key`. Returns whether it was present.
    fn insert(&mut self, key: u64) -> bool {
        let (word, mask) = self.place(key);
        let known = self.words[word] & mask == mask;
        self.words[word] |= mask;
        self.keys += usize::from(!known);
        known
    }

    fn contains(&self, key: u64) -> bool {
        let (word, mask) = self.place(key);
        self.words[word] & mask == mask
    }

    /// Returns the word of the key, and a mask of four bits in it.
    fn place(&self, key: u64) -> (usize, u64) {
        let mixed = key.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        let mixed = mixed ^ mixed >> 32;
        let bit = |n: u32| 1_u64 << (mixed >> (40 + 6 * n) & 63);
        (mixed as usize & (self.words.len() - 1), bit(0) | bit(1) | bit(2) | bit(3))
    }

    fn heap_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_all_and_invents_few() {
        let mut bloom = Bloom::new(4_000);
        (0..4_000).for_each(|key| assert!(!bloom.insert(key) || key > 100));
        assert!((0..4_000).all(|key| bloom.contains(key)));
        let invented = (4_000..104_000).filter(|&key| bloom.contains(key)).count();
        assert!(invented < 5_000, "{invented} of 100000");
    }
}
