//! Approximate recent request counts in little memory: a count-min sketch of 4-bit counters
//! with conservative update, after TinyLFU (Einziger, Friedman and Manes, 2017).
//!
//! A key's four counters share one cache line, so that a count costs one memory access. The table grows with
//! the cache: when it doubles, both halves start as copies of it, so that no count is lost. An estimate is
//! never below the true count since the last halving, up to 15; it may be above.

/// The counters in one cache line: 4 rows of 32 counters.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Block([u64; 8]);

/// The positions of a key's counters: a word and a shift in each row of its block.
type Places = [(usize, u32); 4];

/// The maximum of a counter.
pub(crate) const MOST: u64 = 15;
/// The number of residents for each block: 8 bytes for each resident.
const RESIDENTS: usize = 8;
/// The number of counts for each resident after which all counters are halved.
const PERIOD: usize = 10;

/// The sketch.
pub struct Sketch {
    /// The blocks; their number is a power of two.
    blocks: Vec<Block>,
    counts: usize,
    residents: usize,
}

impl Sketch {
    pub(crate) fn new() -> Self {
        Self::with_room(RESIDENTS)
    }

    /// Returns an empty sketch for the keys of `residents` objects. It takes 8 bytes for each.
    pub fn with_room(residents: usize) -> Self {
        let blocks = residents.div_ceil(RESIDENTS).next_power_of_two();
        Self { blocks: vec![Block([0; 8]); blocks], counts: 0, residents: residents.max(RESIDENTS) }
    }

    /// Makes room for the keys of `residents` objects and as many that come and go meanwhile.
    #[inline]
    pub(crate) fn fit(&mut self, residents: usize) {
        if residents > self.residents {
            self.residents = residents;
            if residents > self.blocks.len() * RESIDENTS {
                self.double();
            }
        }
    }

    #[cold]
    fn double(&mut self) {
        self.blocks.reserve_exact(self.blocks.len());
        self.blocks.extend_from_within(..);
    }

    /// Returns the number of residents that the sketch has room for: the largest number so far, with a minimum.
    pub(crate) fn residents(&self) -> usize {
        self.residents
    }

    /// Counts a request for `key`.
    #[inline]
    pub fn record(&mut self, key: u64) {
        let (block, places) = self.places(key);
        let words = &mut self.blocks[block].0;
        let counters = counters(words, places);
        // No branch: whether a key has reached the maximum is hard to predict.
        let least = least(counters);
        let rising = if least == MOST { MOST + 1 } else { least };
        for (&(word, shift), &counter) in places.iter().zip(&counters) {
            words[word] += u64::from(counter == rising) << shift;
        }
        self.counts += usize::from(least != MOST);
        if self.counts >= self.residents * PERIOD {
            self.halve();
        }
    }

    /// Returns an estimate of the number of requests for `key`, 0 to 15.
    #[inline]
    pub fn estimate(&self, key: u64) -> u64 {
        let (block, places) = self.places(key);
        least(counters(&self.blocks[block].0, places))
    }

    #[cold]
    fn halve(&mut self) {
        for word in self.blocks.iter_mut().flat_map(|block| &mut block.0) {
            *word = *word >> 1 & 0x7777_7777_7777_7777;
        }
        self.counts /= 2;
    }

    #[inline]
    fn places(&self, key: u64) -> (usize, Places) {
        let mixed = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = mixed ^ mixed >> 32;
        // The low bits select the block, so that doubling only adds a bit; the top 20 select the places.
        let block = mixed as usize & (self.blocks.len() - 1);
        let place = |row: usize| {
            let bits = (mixed >> (44 + 5 * row)) as usize;
            (2 * row + (bits & 1), (bits as u32 >> 1 & 15) * 4)
        };
        (block, [place(0), place(1), place(2), place(3)])
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>()
    }
}

/// Returns the counters at `places`. The compiler does not inline a `map` of the array here.
#[inline(always)]
fn counters(words: &[u64; 8], [a, b, c, d]: Places) -> [u64; 4] {
    let counter = |(word, shift): (usize, u32)| words[word] >> shift & MOST;
    [counter(a), counter(b), counter(c), counter(d)]
}

#[inline]
fn least([a, b, c, d]: [u64; 4]) -> u64 {
    a.min(b).min(c.min(d))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counts_to_fifteen() {
        let mut sketch = Sketch::new();
        sketch.fit(1_000);
        let counted: Vec<_> = (0..20).map(|_| (sketch.record(7), sketch.estimate(7)).1).collect();
        let expected: Vec<_> = (1..=20_u64).map(|n| n.min(15)).collect();
        assert_eq!(counted, expected);
        assert_eq!(sketch.estimate(8), 0);
    }

    #[test]
    fn a_period_halves_every_count() {
        let mut sketch = Sketch::new();
        assert_eq!(sketch.residents(), 8);
        (0..13).for_each(|_| sketch.record(1));
        let others = (2..).take(80 - 14);
        others.for_each(|key| sketch.record(key << 32));
        assert_eq!((sketch.estimate(1), sketch.counts), (13, 79));
        sketch.record(1);
        assert_eq!((sketch.estimate(1), sketch.counts), (7, 40));
    }

    #[test]
    fn growing_forgets_nothing() {
        let mut sketch = Sketch::new();
        (0..5).for_each(|_| sketch.record(42));
        for residents in 0..10_000 {
            sketch.fit(residents);
            assert_eq!(sketch.estimate(42), 5);
        }
        assert_eq!(sketch.heap_bytes(), 2_048 * 64);
    }

    #[test]
    fn few_estimates_are_too_high() {
        let mut sketch = Sketch::new();
        (0..=10_000).for_each(|residents| sketch.fit(residents));
        (0..50_000_u64).for_each(|key| sketch.record(key % 25_000));
        let wrong = (0..25_000).filter(|&key| sketch.estimate(key) > 2).count();
        assert!(wrong < 2_500, "{wrong} of 25000");
    }

    proptest! {
        #[test]
        fn no_count_is_too_low(keys in vec(0..200_u64, 0..900), fits in vec(0..300_usize, 0..20)) {
            let mut sketch = Sketch::new();
            sketch.fit(100);
            let mut fits = fits.into_iter();
            let mut counts = HashMap::new();
            for (n, key) in keys.into_iter().enumerate() {
                if n % 40 == 0 {
                    sketch.fit(fits.next().unwrap_or(0));
                }
                sketch.record(key);
                *counts.entry(key).or_insert(0_u64) += 1;
                for (&key, &count) in &counts {
                    prop_assert!(sketch.estimate(key) >= count.min(MOST));
                }
            }
        }
    }
}
