//! Detects field lines that repeat from response to response, with a table of fixed size for hashes seen before.
//!
//! The table may lose a line that repeats, or take a new one for known; either costs some bytes, never a wrong line.

/// Hashes that share a place. Those in the first half were seen at least twice; unique ones pass through the
/// second half, and evict none from the first.
const WAYS: usize = 8;
const FIRST_HALF: usize = WAYS / 2;

/// The hashes seen before.
#[derive(Debug)]
pub(super) struct Repeats(Box<[[u32; WAYS]]>);

impl Repeats {
    /// Returns a table with room for `places` times [`WAYS`] hashes.
    pub(super) fn new(places: usize) -> Self {
        Self(vec![[0; WAYS]; places.max(1)].into())
    }

    /// Whether this hash was seen before, as far as the table remembers.
    pub(super) fn saw(&mut self, hash: u64) -> bool {
        let place = (hash >> 32) as usize % self.0.len();
        let (ways, mark) = (&mut self.0[place], (hash as u32).max(1));
        match ways.iter().position(|known| *known == mark) {
            Some(at) => {
                ways[..=at].rotate_right(1);
                true
            }
            None => {
                ways[FIRST_HALF..].rotate_right(1);
                ways[FIRST_HALF] = mark;
                false
            }
        }
    }

    /// Returns the bytes of memory held.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_hash_is_remembered_among_any_number_of_unique_ones() {
        let mut repeats = Repeats::new(1);
        assert!(!repeats.saw(7) && repeats.saw(7));
        assert!((100..10_000).all(|unique| !repeats.saw(unique)));
        assert!(repeats.saw(7));
    }
}
