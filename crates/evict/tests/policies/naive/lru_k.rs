//! LRU-K, after E. J. O'Neil, P. E. O'Neil and G. Weikum: evicts the object whose K-th last request is the oldest, and
//! objects with fewer requests before all others; among equals, the least recently requested. The requests of evicted
//! objects are remembered, here for the latest ones that together weigh a quarter of the capacity.

use std::collections::{HashMap, VecDeque};

use super::{Entry, Naive, Now};

/// The times of requests, latest first.
type History = Vec<u64>;

#[derive(Default)]
pub(crate) struct LruK<const K: usize> {
    /// The histories of residents, by key.
    resident: HashMap<u64, History>,
    /// Key, weight and history of objects that have left, oldest first.
    retained: VecDeque<(u64, u64, History)>,
    /// The history of the newcomer that was admitted.
    returning: Option<History>,
}

impl<const K: usize> LruK<K> {
    fn retain(&mut self, key: u64, weight: u64, bound: u64) {
        let history = self.resident[&key].clone();
        let used = |retained: &VecDeque<(u64, u64, History)>| -> u64 { retained.iter().map(|it| it.1).sum() };
        // Objects without weight have to be limited, too.
        let weight = weight.max(1);
        if weight <= bound {
            while used(&self.retained) + weight > bound {
                self.retained.pop_front();
            }
            self.retained.push_back((key, weight, history));
        }
    }
}

impl<const K: usize> Naive for LruK<K> {
    fn victim(&mut self, cache: &mut [Entry], now: Now) -> usize {
        let kth = |entry: &Entry| self.resident[&entry.key].get(K - 1).copied().unwrap_or(0);
        let rank = |place: &usize| (kth(&cache[*place]), cache[*place].last);
        let victim = (0..cache.len()).min_by_key(rank).expect("a cache that is not empty");
        let Entry { key, size, .. } = cache[victim];
        self.retain(key, now.capacity.weigh(size), now.capacity.amount / 4);
        victim
    }

    fn admits(&mut self, new: &Entry, _cache: &[Entry], _now: Now) -> bool {
        let known = self.retained.iter().position(|(key, ..)| *key == new.key);
        self.returning = known.and_then(|at| self.retained.remove(at)).map(|(.., history)| history);
        true
    }

    fn on_hit(&mut self, entry: &Entry, now: Now) {
        self.resident.entry(entry.key).or_default().insert(0, now.lookups);
    }

    fn on_enter(&mut self, new: &Entry, now: Now) {
        let mut history = self.returning.take().unwrap_or_default();
        history.insert(0, now.lookups);
        self.resident.insert(new.key, history);
    }

    fn on_leave(&mut self, cache: &[Entry], place: usize, _now: Now) {
        self.resident.remove(&cache[place].key);
    }
}
