//! Decides which responses that other nodes own are copied here: those requested often, within a share of the memory.
//!
//! Each request to another node counts its key, which excludes hits of copies. A key is copied if it was
//! asked for [`OFTEN`] times lately; if the share is used up, it must have been asked for at least as often as the
//! oldest copy, which makes room. The memory's policy may evict copies earlier.

use std::collections::{HashMap, VecDeque};

use larder_evict::{By, Capacity, Sketch};
use parking_lot::Mutex;

/// The requests for a key after which it is copied.
const OFTEN: u64 = 2;
/// The number of keys that are counted well; each takes 8 bytes.
const COUNTED: usize = 1 << 14;

/// The copies of other nodes' responses.
pub(crate) struct HotCopies {
    /// The most that all copies may take.
    capacity: Capacity,
    kept: Mutex<HotState>,
}

struct HotState {
    counts: Sketch,
    /// The copies, by the hashes of their keys.
    copies: HashMap<u64, Copy>,
    /// The keys' hashes, the oldest copy first.
    order: VecDeque<u64>,
    /// The size of all copies: bytes or entries, as the capacity counts.
    weight: u64,
}

struct Copy {
    key: Box<[u8]>,
    weight: u64,
}

impl HotCopies {
    /// Creates a set of copies that may take a `share` of the capacity of `memory`, 0 to 1.
    pub(crate) fn new(memory: Capacity, share: f64) -> Self {
        let capacity = Capacity { amount: (memory.amount as f64 * share) as u64, ..memory };
        let counts = Sketch::with_room(COUNTED);
        let kept = HotState { counts, copies: HashMap::new(), order: VecDeque::new(), weight: 0 };
        Self { capacity, kept: Mutex::new(kept) }
    }

    /// Counts a request to another node for the key with this hash.
    pub(crate) fn count(&self, hash: u64) {
        self.kept.lock().counts.record(hash);
    }

    /// Decides whether an answer of `bytes` bytes to `key`, which has this hash, is copied. Returns the keys whose
    /// copies make room for it; `None` if it is not copied.
    pub(crate) fn admit(&self, key: &[u8], hash: u64, bytes: u64) -> Option<Vec<Box<[u8]>>> {
        let mut kept = self.kept.lock();
        let asked = kept.counts.estimate(hash);
        let (weight, room) = (self.weight(bytes), self.capacity.amount);
        if asked < OFTEN || weight > room {
            return None;
        }
        kept.remove(hash);
        let is_full = kept.weight + weight > room;
        if let Some(oldest) = kept.order.front().copied().filter(|_| is_full)
            && kept.counts.estimate(oldest) > asked
        {
            // The oldest copy moves behind the others.
            kept.order.rotate_left(1);
            return None;
        }
        let mut gone = Vec::new();
        while kept.weight + weight > room {
            let oldest = kept.order.front().copied()?;
            gone.extend(kept.remove(oldest));
        }
        kept.weight += weight;
        kept.order.push_back(hash);
        kept.copies.insert(hash, Copy { key: key.into(), weight });
        Some(gone)
    }

    /// The number of copies, if the memory's policy has evicted none.
    pub(crate) fn copies(&self) -> usize {
        self.kept.lock().copies.len()
    }

    fn weight(&self, bytes: u64) -> u64 {
        match self.capacity.by {
            By::Bytes => bytes,
            By::Entries => 1,
        }
    }
}

impl HotState {
    /// Removes a copy, and returns its key.
    fn remove(&mut self, hash: u64) -> Option<Box<[u8]>> {
        let copy = self.copies.remove(&hash)?;
        self.weight -= copy.weight;
        match self.order.front() {
            Some(oldest) if *oldest == hash => drop(self.order.pop_front()),
            _ => self.order.retain(|other| *other != hash),
        }
        Some(copy.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Room for 100 bytes.
    fn hot() -> HotCopies {
        HotCopies::new(Capacity { by: By::Bytes, amount: 400 }, 0.25)
    }

    fn ask(hot: &HotCopies, hash: u64, times: usize) {
        (0..times).for_each(|_| hot.count(hash));
    }

    fn admit(hot: &HotCopies, hash: u64, bytes: u64) -> Option<Vec<u64>> {
        let gone = hot.admit(&hash.to_be_bytes(), hash, bytes)?;
        Some(gone.iter().map(|key| u64::from_be_bytes(key[..].try_into().unwrap())).collect())
    }

    #[test]
    fn a_response_requested_once_is_not_copied_from_its_owner() {
        let hot = hot();
        ask(&hot, 1, 1);
        assert_eq!(admit(&hot, 1, 10), None);
        ask(&hot, 1, 1);
        assert_eq!(admit(&hot, 1, 10), Some(vec![]));
        assert_eq!(admit(&hot, 1, 101), None);
        assert_eq!(hot.copies(), 1);
    }

    #[test]
    fn the_oldest_makes_room_unless_it_was_asked_for_more_often() {
        let hot = hot();
        for (key, times) in [(1, 2), (2, 5), (3, 2), (4, 3)] {
            ask(&hot, key, times);
        }
        assert_eq!(admit(&hot, 1, 50), Some(vec![]));
        assert_eq!(admit(&hot, 2, 50), Some(vec![]));
        assert_eq!(admit(&hot, 3, 50), Some(vec![1]));
        assert_eq!(admit(&hot, 4, 50), None, "2 is the oldest, and was asked for more often");
        assert_eq!(admit(&hot, 4, 50), Some(vec![3]));
        assert_eq!(hot.copies(), 2);
    }

    #[test]
    fn a_copy_that_comes_again_counts_once() {
        let hot = hot();
        ask(&hot, 1, 2);
        assert_eq!((admit(&hot, 1, 60), admit(&hot, 1, 70)), (Some(vec![]), Some(vec![])));
        assert_eq!(hot.copies(), 1);
        ask(&hot, 2, 2);
        assert_eq!(admit(&hot, 2, 30), Some(vec![]), "70 and 30 are 100");
    }
}
