//! TinyLFU, after G. Einziger, R. Friedman and B. Manes: LRU, where a new object is admitted only if it was recently
//! requested more often than all its victims together. Recent means: all counts are halved after ten counts for each
//! object that there was room for, and no count is above 15.
//!
//! Counts are exact here. The policy's estimates are exact, too, for keys from [`keys`].

use std::collections::HashMap;

use larder_evict::{Sketch, spread};

use super::{Entry, Naive, Now, used};

/// The maximum of a count.
const MOST: u64 = 15;
/// The number of counts for each object after which all are halved.
const PERIOD: u64 = 10;
/// The number of objects that there is room for at first.
const FEW: usize = 8;

/// The counts of recent requests.
#[derive(Default)]
pub(super) struct Counts {
    counts: HashMap<u64, u64>,
    counted: u64,
    most_objects: usize,
}

impl Counts {
    /// Counts a request for an object that is not among `objects` in the cache. Returns the number that there was room for.
    pub(super) fn count_miss(&mut self, key: u64, objects: usize) -> usize {
        self.most_objects = self.most_objects.max(objects).max(FEW);
        self.count(key);
        self.most_objects
    }

    pub(super) fn count(&mut self, key: u64) {
        let count = self.counts.entry(key).or_default();
        if *count == MOST {
            return;
        }
        *count += 1;
        self.counted += 1;
        if self.counted >= self.most_objects as u64 * PERIOD {
            self.counts.values_mut().for_each(|count| *count /= 2);
            self.counted /= 2;
        }
    }

    pub(super) fn of(&self, key: u64) -> u64 {
        self.counts.get(&key).copied().unwrap_or(0)
    }
}

#[derive(Default)]
pub(crate) struct TinyLfu(Counts);

impl Naive for TinyLfu {
    fn victim(&mut self, cache: &mut [Entry], _now: Now) -> usize {
        (0..cache.len()).min_by_key(|&place| cache[place].last).expect("a cache that is not empty")
    }

    fn admits(&mut self, new: &Entry, cache: &[Entry], now: Now) -> bool {
        self.0.count_miss(new.key, cache.len());
        let mut excess =
            (used(cache, now.capacity) + now.capacity.weigh(new.size)).saturating_sub(now.capacity.amount);
        let mut oldest_first: Vec<_> = cache.iter().collect();
        oldest_first.sort_by_key(|entry| entry.last);
        let mut victims = Vec::new();
        for entry in oldest_first {
            if excess > 0 {
                excess = excess.saturating_sub(now.capacity.weigh(entry.size));
                victims.push(entry);
            }
        }
        victims.is_empty()
            || self.0.of(new.key) > victims.into_iter().map(|victim| self.0.of(victim.key)).sum()
    }

    fn on_hit(&mut self, entry: &Entry, _now: Now) {
        self.0.count(entry.key);
    }
}

/// Returns `count` keys that do not collide in the smallest sketch, and so in no larger one.
pub(crate) fn keys(count: usize) -> Vec<u64> {
    let mut keys = Vec::new();
    for key in (0..).map(spread) {
        keys.push(key);
        if !are_distinct(&keys) {
            keys.pop();
        }
        if keys.len() == count {
            break;
        }
    }
    keys
}

/// Whether no key's estimate is above 0 while only the other keys are requested.
fn are_distinct(keys: &[u64]) -> bool {
    let is_unknown = |key: &u64| {
        let mut sketch = Sketch::with_room(FEW);
        let others = keys.iter().filter(|other| *other != key);
        others.for_each(|other| sketch.record(*other));
        sketch.estimate(*key) == 0
    };
    keys.iter().all(is_unknown)
}
