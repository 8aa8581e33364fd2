//! The score of a key and a node: weighted rendezvous hashing by the logarithm method.
//!
//! Each pair of key and node gives a number u between 0 and 1, and the node with the smallest -log(u) / weight owns the key.
//! That is node i with probability weight i / sum of weights, and no node's number depends on the other members
//! (Schindelhauer and Schomaker, "Weighted distributed hash tables", SPAA 2005; Wang and Ravishankar, "Hash-based virtual
//! hierarchies", 2004).
//!
//! The arithmetic uses only integers: a logarithm in floating point may differ in its last bit between C
//! libraries, and then two nodes would disagree about a key permanently.

use crate::hash::mix;

/// Bits of a logarithm behind the point. Six before it hold the largest, 64.
const FRACTION: u32 = 56;

/// Bits of the argument that select a segment of the logarithm, which is linear within a segment. The error
/// of 256 segments is at most 0.000003, and that of shares is far below their random variation.
const PIECE: u32 = 8;

/// log2 of 1 + i/256, with [`FRACTION`] bits.
static LOG2: [u64; (1 << PIECE) + 1] = logarithms();

const fn logarithms() -> [u64; (1 << PIECE) + 1] {
    let mut table = [0; (1 << PIECE) + 1];
    let mut i = 0;
    while i < 1 << PIECE {
        table[i] = log2((1 << 63) + ((i as u64) << (63 - PIECE)));
        i += 1;
    }
    table[1 << PIECE] = 1 << FRACTION;
    table
}

/// Returns log2 of a fixed-point number from 1 to 2 with 63 fractional bits: each squaring yields the next bit.
const fn log2(mut number: u64) -> u64 {
    let mut result = 0;
    let mut bit = 0;
    while bit < FRACTION {
        let square = number as u128 * number as u128;
        let carried = square >> 127;
        number = (square >> (63 + carried)) as u64;
        result = (result << 1) | carried as u64;
        bit += 1;
    }
    result
}

/// Returns -log2 of hash / 2^64, with [`FRACTION`] bits. Never increases with the hash.
fn distance(hash: u64) -> u64 {
    let number = hash | 1;
    let zeros = number.leading_zeros();
    let mantissa = number << zeros << 1;
    let piece = (mantissa >> (64 - PIECE)) as usize;
    let within = mantissa << PIECE;
    let rise = LOG2[piece + 1] - LOG2[piece];
    let log = LOG2[piece] + ((u128::from(rise) * u128::from(within)) >> 64) as u64;
    (u64::from(zeros + 1) << FRACTION) - log
}

/// The data of a node that its score depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seat {
    seed: u64,
    /// 2^64 / weight: multiplying is faster than dividing.
    inverse: u64,
}

impl Seat {
    /// Returns the seat of a node whose name has this hash. The weight must not be 0.
    pub(crate) fn new(seed: u64, weight: u16) -> Self {
        Self { seed, inverse: u64::MAX / u64::from(weight.max(1)) }
    }

    /// Returns the distance of a key from this node: the nearest node owns it.
    pub(crate) fn score(self, key: u64) -> u64 {
        ((u128::from(distance(mix(key ^ self.seed))) * u128::from(self.inverse)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{FRACTION, distance, log2};

    fn real(fixed: u64) -> f64 {
        fixed as f64 / (1_u64 << FRACTION) as f64
    }

    #[test]
    fn the_ends_are_in_range() {
        assert_eq!(distance(0), 64 << FRACTION);
        assert_eq!(real(distance(1 << 63)), 1.0);
        assert!(distance(u64::MAX) <= 1);
    }

    proptest! {
        #[test]
        fn the_distance_of_a_hash_is_its_logarithm(hash in 1_u64..) {
            let exact = 64.0 - (hash as f64).log2();
            prop_assert!((real(distance(hash)) - exact).abs() < 4e-6, "{} for {exact}", real(distance(hash)));
        }

        #[test]
        fn a_greater_hash_is_never_farther(a: u64, b: u64) {
            prop_assert!(distance(a.min(b)) >= distance(a.max(b)));
        }

        #[test]
        fn the_table_is_exact(number in 1_u64 << 63..) {
            let exact = (number as f64 / (1_u64 << 63) as f64).log2();
            prop_assert!((real(log2(number)) - exact).abs() < 1e-12);
        }
    }
}
