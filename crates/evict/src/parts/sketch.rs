//! Approximate recent request counts in little memory: a count-min sketch of 4-bit counters
//! with conservative update, after TinyLFU (Einziger, Friedman and Manes, 2017).
//!
//! A key's four counters share one cache line, so that a count costs one memory access. The table grows with
//! the cache: when it doubles, both halves start as copies of it, so that no count is lost. An estimate is
//! never below the true count since the last halving, up to 15; it may be above.

/// The counters in one cache line: 4 rows of 32 counters, two in each byte.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Block([u8; 64]);

/// The positions of a key's counters, one in each row of a block.
///
/// The four counters are read, compared and raised together, each in a byte of a `u32`, the first row's in the lowest:
/// this takes half the instructions of four separate counters.
struct Places {
    block: usize,
    /// 5 bits for each row, the first row's in the lowest: 4 select a byte, the highest selects its upper half.
    rows: u32,
}

/// A `u32` with 1 in each byte.
const ONES: u32 = 0x0101_0101;

/// The maximum of a counter.
const MOST: u32 = 15;
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
        Self { blocks: vec![Block([0; 64]); blocks], counts: 0, residents: residents.max(RESIDENTS) }
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
    // Without `always`, the compiler calls it.
    #[inline(always)]
    pub fn record(&mut self, key: u64) {
        let places = self.places(key);
        let block = &mut self.blocks[places.block];
        let bytes = places.bytes(block);
        let counts = places.counts(bytes);
        // No branch: whether a key has reached the maximum is hard to predict.
        let least = least(counts);
        let rises = u32::from(least != MOST);
        // Of 16 less the excess over the least count, bit 4 is set only if there is no excess.
        let rising = ((0x10 * ONES - (counts - least * ONES)) >> 4) & (rises * ONES);
        places.put(block, bytes + places.units(rising));
        self.counts += rises as usize;
        if self.counts >= self.residents * PERIOD {
            self.halve();
        }
    }

    /// Returns an estimate of the number of requests for `key`, 0 to 15.
    #[inline(always)]
    pub fn estimate(&self, key: u64) -> u64 {
        least(self.counts(key)).into()
    }

    /// Whether the estimate for `key` is above `count`, which is 15 at most.
    #[inline(always)]
    pub(crate) fn exceeds(&self, key: u64, count: u64) -> bool {
        // Bit 7 of a byte is set if that counter is above `count`.
        (self.counts(key) + (0x7F - count as u32) * ONES) & (0x80 * ONES) == 0x80 * ONES
    }

    #[cold]
    fn halve(&mut self) {
        for block in &mut self.blocks {
            block.0.iter_mut().for_each(|pair| *pair = *pair >> 1 & 0x77);
        }
        self.counts /= 2;
    }

    #[inline(always)]
    fn places(&self, key: u64) -> Places {
        let mixed = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        // The low bits select the block, so that doubling only adds a bit; the top 20 select the places.
        let block = (mixed ^ mixed >> 32) as usize & (self.blocks.len() - 1);
        Places { block, rows: (mixed >> 44) as u32 }
    }

    #[inline(always)]
    fn counts(&self, key: u64) -> u32 {
        let places = self.places(key);
        places.counts(places.bytes(&self.blocks[places.block]))
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>()
    }
}

impl Places {
    /// Returns the index of the byte of `row`.
    #[inline(always)]
    fn byte(&self, row: usize) -> usize {
        16 * row + (self.rows >> (5 * row) & 15) as usize
    }

    /// Returns the byte of each row.
    #[inline(always)]
    fn bytes(&self, Block(block): &Block) -> u32 {
        // The compiler does not inline a `map` of the rows here.
        u32::from_le_bytes([
            block[self.byte(0)],
            block[self.byte(1)],
            block[self.byte(2)],
            block[self.byte(3)],
        ])
    }

    /// Stores the byte of each row.
    #[inline(always)]
    fn put(&self, Block(block): &mut Block, bytes: u32) {
        for (row, byte) in bytes.to_le_bytes().into_iter().enumerate() {
            block[self.byte(row)] = byte;
        }
    }

    /// Returns the counters in `bytes`.
    #[inline(always)]
    fn counts(&self, bytes: u32) -> u32 {
        (bytes ^ (bytes ^ bytes >> 4) & self.upper()) & (MOST * ONES)
    }

    /// Returns the amounts to add to the bytes, so that each counter rises by its byte of `rising`, 0 or 1.
    #[inline(always)]
    fn units(&self, rising: u32) -> u32 {
        rising ^ (rising ^ rising << 4) & self.upper()
    }

    /// Returns a byte of ones for each row whose counter is in the upper half.
    #[inline(always)]
    fn upper(&self) -> u32 {
        // The product moves bits 0, 5, 10 and 15 to bits 0, 8, 16 and 24, without carries.
        let halves = ((self.rows >> 4 & 0x8421) * 0x249) & ONES;
        (halves << 8).wrapping_sub(halves)
    }
}

#[inline(always)]
fn least(counts: u32) -> u32 {
    let [a, b, c, d] = counts.to_le_bytes();
    a.min(b).min(c.min(d)).into()
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
                    prop_assert!(sketch.estimate(key) >= count.min(15));
                }
            }
        }
    }
}
