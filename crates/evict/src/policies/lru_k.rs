//! LRU-K: orders objects by their k-th last request. The paper finds most of the gain at k = 2.

use crate::params::{params, read_count, read_share};
use crate::parts::by_slot::BySlot;
use crate::parts::ghost::{Ghosts, Name};
use crate::parts::heap::Heap;
use crate::policy::{Capacity, Object, Policy, Residents, Slot};

/// The largest k.
const MOST: usize = 4;

/// Evicts the object whose k-th last request is the oldest. Objects with fewer than k requests come first, in LRU
/// order. The request times of evicted objects are remembered for a while. Every request counts: the paper's period of
/// correlated references is 0.
pub struct LruK {
    params: LruKParams,
    /// By the time of the k-th last request, 0 for never.
    heap: Heap,
    /// The last k - 1 requests, latest first; the remaining arrays are empty.
    times: [BySlot<Time>; MOST - 1],
    ghosts: Ghosts<History>,
    /// The previous requests for the object admitted last, if they were remembered.
    returning: History,
}

/// Lookups, counted modulo 2^32; 0 for never.
type Time = u32;

/// The times of an object's requests, latest first.
type History = [Time; MOST - 1];

params! {
    /// The parameters of [`LruK`].
    LruKParams {
        k: u32 = 2, |value| read_count(value, 1..=MOST as u32),
            "number of the request that decides, counted from the last: 1 (LRU) to 4";
        ghost: f64 = 0.25, read_share,
            "size of the evicted objects whose requests are remembered, as a share of the capacity: 0 to 1";
    }
}

/// Returns the stored form of the time `now`.
#[inline]
fn noted(now: u64) -> Time {
    (now as Time).max(1)
}

/// Returns the full time of the stored `time`, given the current time `now`; 0 for never.
#[inline]
fn full(time: Time, now: u64) -> u64 {
    match time {
        0 => 0,
        _ => now.saturating_sub((now as Time).wrapping_sub(time).into()),
    }
}

impl Policy for LruK {
    type Params = LruKParams;

    const ABOUT: &'static str = "evicts the object whose k-th last request is the oldest";
    const COST: &'static str = "O(log n)";

    const KEEPS_NOTES: bool = true;

    fn new(_capacity: Capacity, params: LruKParams, _seed: u64) -> Self {
        let times = [const { BySlot::new() }; MOST - 1];
        Self { params, heap: Heap::new(), times, ghosts: Ghosts::new(), returning: History::default() }
    }

    #[inline]
    fn admit<R: Residents>(&mut self, new: &Object, residents: &R) -> bool {
        self.returning = self.ghosts.remove(Name::of_newcomer(new, residents), residents).unwrap_or_default();
        true
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, residents: &R) {
        let now = residents.now();
        let mut time = noted(now);
        let before = std::mem::take(&mut self.returning);
        for (times, before) in self.times().iter_mut().zip(before) {
            times.put(slot, time);
            time = before;
        }
        self.heap.push(slot, full(time, now));
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, residents: &R) {
        let now = residents.now();
        let mut time = noted(now);
        for times in self.times() {
            std::mem::swap(&mut times[slot], &mut time);
        }
        self.heap.update(slot, full(time, now));
    }

    #[inline]
    fn evict<R: Residents>(&mut self, residents: &R) -> Option<Slot> {
        let (slot, _) = self.heap.pop()?;
        let bound = residents.capacity().share(self.params.ghost);
        let history = std::array::from_fn(|at| self.times[at].get(slot).copied().unwrap_or_default());
        self.ghosts.insert(Name::of(slot, residents), residents.weight(slot), history, bound, residents);
        Some(slot)
    }

    #[inline]
    fn on_remove<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        self.heap.remove(slot);
    }

    fn heap_bytes(&self) -> usize {
        let times = self.times.iter().map(BySlot::heap_bytes);
        self.heap.heap_bytes() + times.sum::<usize>() + self.ghosts.heap_bytes()
    }

    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        self.heap.validate(residents)?;
        self.ghosts.validate(residents)
    }
}

impl LruK {
    /// Returns the stored times of residents.
    #[inline]
    fn times(&mut self) -> &mut [BySlot<Time>] {
        &mut self.times[..self.params.k as usize - 1]
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::{By, Capacity, Object};
    use crate::{InsertResult, Spec};

    /// Returns the objects that remain in a cache of `entries` after requests for these keys, in order of key.
    fn left(spec: &str, entries: u64, keys: &[u64]) -> Vec<u64> {
        let spec: Spec = spec.parse().unwrap();
        let mut shard = spec.build::<u64>(Capacity { by: By::Entries, amount: entries }, 0);
        for &key in keys {
            if shard.get(key).is_none() {
                let stored = shard.insert(Object { key, size: 1, cost: 0 }, key, &mut Vec::new());
                assert_eq!(stored, InsertResult::Stored);
            }
        }
        let mut left = Vec::new();
        shard.for_each(&mut |key, _| left.push(key));
        left.sort_unstable();
        left
    }

    #[test]
    fn the_kth_last_request_decides() {
        // When 4 is requested, object 1 has the oldest last request, object 2 the oldest last but one, and only 3 has
        // fewer than three requests.
        let requests = [2, 2, 1, 1, 1, 3, 3, 2, 4];
        assert_eq!(left("lruk:k=1", 3, &requests), [2, 3, 4]);
        assert_eq!(left("lruk:k=2", 3, &requests), [1, 3, 4]);
        assert_eq!(left("lruk:k=3", 3, &requests), [1, 2, 4]);
    }

    #[test]
    fn objects_with_fewer_than_k_requests_leave_in_lru_order() {
        assert_eq!(left("lruk:k=4", 2, &[1, 2, 1, 1, 2, 3]), [2, 3]);
    }

    #[test]
    fn k_is_1_to_4() {
        for (spec, is_valid) in
            [("lruk:k=0", false), ("lruk:k=1", true), ("lruk:k=4", true), ("lruk:k=5", false)]
        {
            assert_eq!(spec.parse::<Spec>().is_ok(), is_valid, "{spec}");
        }
    }
}
