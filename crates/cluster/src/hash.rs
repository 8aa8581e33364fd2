//! Hashes that are the same on every machine, in every process and in every version.
//!
//! Not for hash tables: they are not keyed, so a client that chooses keys can choose their owner. That can overload an
//! owner, which [`Load`](crate::Load) handles, and never causes a wrong answer: a node compares whole keys.

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// Returns the number that places a key in the ring: FNV-1a (Fowler, Noll, Vo) with its bits mixed.
pub fn key_hash(key: &[u8]) -> u64 {
    mix(key.iter().fold(OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME)))
}

/// A permutation in which every bit of the number changes half the bits of the result: the finaliser of
/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014; constants by Stafford).
pub(crate) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::{key_hash, mix};

    #[test]
    fn the_same_everywhere() {
        assert_eq!(mix(0), 0);
        assert_eq!(mix(1), 0x5692_161d_100b_05e5);
        for (key, expected) in [
            ("", 0xf52a_15e9_a9b5_e89b),
            ("http://example.com/", 0x7193_bf4c_41ae_0ad3),
            ("node-1", 0x1395_0d4e_f307_e655),
        ] {
            assert_eq!(key_hash(key.as_bytes()), expected, "{key:?}");
        }
    }
}
