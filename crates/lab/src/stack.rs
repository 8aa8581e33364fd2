//! Stack distances (Mattson et al., IBM Systems Journal 1970): the size of an LRU cache for which a request is a hit. One
//! pass gives LRU's whole miss-ratio curve.
//!
//! O(n log n): a Fenwick tree over the requests holds the weight of each object at its last request.

use crate::trace::Trace;

/// The distance of the first request for an object.
pub const FIRST: u64 = u64::MAX;

/// Returns, for each request, the weight of the objects requested since the last request for the same object, itself
/// included: by number, or `by_bytes` with the sizes at their last requests.
///
/// An LRU cache of entries hits exactly where the distance is at most its capacity. In bytes this is an approximation,
/// because an object that does not fit beside others makes room that it does not use.
pub fn distances(trace: &Trace, by_bytes: bool) -> Vec<u64> {
    let mut tree = Fenwick::new(trace.len());
    let mut last = vec![u32::MAX; trace.shape().objects as usize];
    let weight = |at: usize| if by_bytes { trace.size(at) } else { 1 };
    let mut total = 0;
    let mut distance = |(at, &id): (usize, &u32)| {
        let before = std::mem::replace(&mut last[id as usize], at as u32);
        total += weight(at);
        tree.add(at, weight(at));
        if before == u32::MAX {
            return FIRST;
        }
        let before = before as usize;
        // The objects whose last request is at `before` or later, including `before` and excluding this request.
        let distance = total - weight(at) - (tree.sum_to(before) - weight(before));
        total -= weight(before);
        tree.take(before, weight(before));
        distance
    };
    trace.ids().iter().enumerate().map(&mut distance).collect()
}

/// Prefix sums of a row of changing numbers.
struct Fenwick(Vec<u64>);

impl Fenwick {
    fn new(length: usize) -> Self {
        Self(vec![0; length])
    }

    /// Returns the sum of the first numbers, including the one at `at`.
    fn sum_to(&self, mut at: usize) -> u64 {
        let mut sum = 0u64;
        loop {
            sum = sum.wrapping_add(self.0[at]);
            match at & (at + 1) {
                0 => return sum,
                next => at = next - 1,
            }
        }
    }

    fn add(&mut self, mut at: usize, amount: u64) {
        while let Some(sum) = self.0.get_mut(at) {
            *sum = sum.wrapping_add(amount);
            at |= at + 1;
        }
    }

    fn take(&mut self, at: usize, amount: u64) {
        self.add(at, amount.wrapping_neg());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::trace::{Builder, Record};

    fn trace(requests: &[(u64, u64)]) -> Trace {
        let mut builder = Builder::default();
        for &(key, size) in requests {
            builder.push_number(Record { key, time: 0, size, cost: 0 }).unwrap();
        }
        builder.finish()
    }

    #[test]
    fn a_distance_counts_distinct_objects_since_the_last_time() {
        let trace = trace(&[(1, 10), (2, 20), (2, 20), (3, 30), (1, 10), (1, 10), (2, 20)]);
        assert_eq!(distances(&trace, false), [FIRST, FIRST, 1, FIRST, 3, 1, 3]);
        assert_eq!(distances(&trace, true), [FIRST, FIRST, 20, FIRST, 60, 10, 60]);
        assert!(distances(&self::trace(&[]), false).is_empty());
    }

    proptest! {
        #[test]
        fn distances_are_places_in_a_list_of_the_most_recent(
            requests in prop::collection::vec((0..20u64, 0..5u64), 0..200),
            by_bytes: bool,
        ) {
            // The most recent first; an object keeps the weight of its last request.
            let mut recent: Vec<(u64, u64)> = Vec::new();
            let mut expected = Vec::new();
            for &(key, size) in &requests {
                match recent.iter().position(|(known, _)| *known == key) {
                    Some(place) => {
                        let weights = recent[..=place].iter().map(|(_, size)| if by_bytes { *size } else { 1 });
                        expected.push(weights.sum());
                        recent.remove(place);
                    }
                    None => expected.push(FIRST),
                }
                recent.insert(0, (key, size));
            }
            prop_assert_eq!(distances(&trace(&requests), by_bytes), expected);
        }
    }
}
