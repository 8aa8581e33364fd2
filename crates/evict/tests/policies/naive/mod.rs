//! Minimal policies: a vector, oldest first, and a full scan for every question.

mod adaptive;
mod greedy_dual;
mod lru_k;
mod queues;
mod tiny_lfu;
mod w_tiny_lfu;

use std::cmp::Reverse;

use larder_evict::{Capacity, InsertResult};

use super::operations::{Answer, Op, Value};
pub(crate) use adaptive::{Adaptive, ByBytes, ByRequests};
pub(crate) use greedy_dual::{Gds, GdsByMoney, GdsByPackets, Gdsf, GdsfByMoney, Lfuda};
pub(crate) use lru_k::LruK;
pub(crate) use queues::{Arc, Lirs, S3Fifo, TwoQ};
pub(crate) use tiny_lfu::{TinyLfu, keys};
pub(crate) use w_tiny_lfu::WTinyLfu;

/// An object in the cache.
pub(crate) struct Entry {
    pub(crate) key: u64,
    pub(crate) size: u64,
    value: Value,
    /// The number of requests since the object was stored.
    pub(crate) hits: u64,
    /// The time when the object was stored or last requested.
    pub(crate) last: usize,
}

/// The state of the cache that a model sees in addition to the objects.
#[derive(Clone, Copy)]
pub(crate) struct Now {
    pub(crate) capacity: Capacity,
    /// Lookups so far.
    pub(crate) lookups: u64,
}

/// The rule of a policy in minimal form.
pub(crate) trait Naive: Default {
    /// Returns a policy without history.
    fn new(_capacity: Capacity) -> Self {
        Self::default()
    }

    /// Returns the place of the next victim in `cache`, which is not empty.
    fn victim(&mut self, cache: &mut [Entry], now: Now) -> usize;

    /// Whether to admit `new`, which was absent and weighs no more than the capacity. The cache calls this before
    /// evictions.
    fn admits(&mut self, _new: &Entry, _cache: &[Entry], _now: Now) -> bool {
        true
    }

    /// Notes a request for `entry`.
    fn on_hit(&mut self, _entry: &Entry, _now: Now) {}

    /// Notes that `new` is stored: after [`admits`](Self::admits), or in place of the previous object with its key.
    fn on_enter(&mut self, _new: &Entry, _now: Now) {}

    /// Notes that the object at `place` is about to leave, by eviction or otherwise.
    fn on_leave(&mut self, _cache: &[Entry], _place: usize, _now: Now) {}
}

#[derive(Default)]
pub(crate) struct Fifo;

impl Naive for Fifo {
    fn victim(&mut self, _cache: &mut [Entry], _now: Now) -> usize {
        0
    }
}

#[derive(Default)]
pub(crate) struct Lru;

impl Naive for Lru {
    fn victim(&mut self, cache: &mut [Entry], _now: Now) -> usize {
        (0..cache.len()).min_by_key(|&place| cache[place].last).expect("a cache that is not empty")
    }
}

#[derive(Default)]
pub(crate) struct Lfu;

impl Naive for Lfu {
    fn victim(&mut self, cache: &mut [Entry], _now: Now) -> usize {
        let rank = |place: &usize| (cache[*place].hits, cache[*place].last);
        (0..cache.len()).min_by_key(rank).expect("a cache that is not empty")
    }
}

#[derive(Default)]
pub(crate) struct Maxs;

impl Naive for Maxs {
    fn victim(&mut self, cache: &mut [Entry], _now: Now) -> usize {
        let rank = |place: &usize| (Reverse(cache[*place].size), cache[*place].last);
        (0..cache.len()).min_by_key(rank).expect("a cache that is not empty")
    }
}

/// Uses the number of hits as the visited mark.
#[derive(Default)]
pub(crate) struct Sieve {
    /// The key at the hand's position.
    hand: Option<u64>,
}

impl Naive for Sieve {
    fn victim(&mut self, cache: &mut [Entry], _now: Now) -> usize {
        let hand = cache.iter().position(|entry| Some(entry.key) == self.hand).unwrap_or(0);
        let mut round = (0..cache.len()).cycle().skip(hand);
        let place =
            round.find(|&place| std::mem::take(&mut cache[place].hits) == 0).expect("an endless round");
        self.hand = Some(cache[place].key);
        place
    }

    fn on_leave(&mut self, cache: &[Entry], place: usize, _now: Now) {
        if Some(cache[place].key) == self.hand {
            self.hand = cache.get(place + 1).map(|newer| newer.key);
        }
    }
}

/// Returns the expected answers to `ops` of a cache under the policy `N`.
pub(crate) fn answers<N: Naive>(capacity: Capacity, ops: &[Op]) -> Vec<Answer> {
    let mut cache = Cache::<N>::new(capacity);
    ops.iter().enumerate().map(|(at, op)| cache.answer(at, op)).collect()
}

/// A cache under the policy `N`: its entries in the order of insertion.
pub(crate) struct Cache<N> {
    pub(crate) policy: N,
    entries: Vec<Entry>,
    now: Now,
}

impl<N: Naive> Cache<N> {
    pub(crate) fn new(capacity: Capacity) -> Self {
        Self { policy: N::new(capacity), entries: Vec::new(), now: Now { capacity, lookups: 0 } }
    }

    /// Returns the expected answer to the operation numbered `at`.
    pub(crate) fn answer(&mut self, at: usize, op: &Op) -> Answer {
        let mut answer = Answer::default();
        match *op {
            Op::Peek(key) => answer.found = self.find(key).map(|place| self.entries[place].value),
            Op::Get(key) => answer.found = self.get(at, key),
            Op::Remove(key) => answer.found = self.find(key).map(|place| self.leave(place)),
            Op::SetCapacity(amount) => {
                self.now.capacity.amount = amount;
                self.make_room(0, &mut answer.dropped);
            }
            Op::Clear => {
                self.policy = N::new(self.now.capacity);
                answer.dropped = self.entries.drain(..).map(|entry| entry.value).collect();
                answer.dropped.sort_unstable();
            }
            Op::Insert { key, size } => {
                let new = Entry { key, size, value: at, hits: 0, last: at };
                answer.inserted = Some(self.insert(new, &mut answer.dropped));
            }
        }
        answer
    }

    fn get(&mut self, at: usize, key: u64) -> Option<Value> {
        self.now.lookups += 1;
        let place = self.find(key)?;
        let entry = &mut self.entries[place];
        (entry.hits, entry.last) = (entry.hits + 1, at);
        self.policy.on_hit(entry, self.now);
        Some(entry.value)
    }

    fn insert(&mut self, new: Entry, dropped: &mut Vec<Value>) -> InsertResult<Value> {
        let replaced = self.find(new.key).map(|place| self.leave(place));
        dropped.extend(replaced);
        let weight = self.now.capacity.weigh(new.size);
        if weight > self.now.capacity.amount {
            return InsertResult::TooLarge(new.value);
        }
        if replaced.is_none() && !self.policy.admits(&new, &self.entries, self.now) {
            return InsertResult::Refused(new.value);
        }
        self.make_room(weight, dropped);
        self.policy.on_enter(&new, self.now);
        self.entries.push(new);
        InsertResult::Stored
    }

    fn make_room(&mut self, weight: u64, dropped: &mut Vec<Value>) {
        while used(&self.entries, self.now.capacity) + weight > self.now.capacity.amount {
            let place = self.policy.victim(&mut self.entries, self.now);
            dropped.push(self.leave(place));
        }
    }

    fn find(&self, key: u64) -> Option<usize> {
        self.entries.iter().position(|entry| entry.key == key)
    }

    fn leave(&mut self, place: usize) -> Value {
        self.policy.on_leave(&self.entries, place, self.now);
        self.entries.remove(place).value
    }
}

/// Returns the weight of `cache`, in the unit of the capacity.
fn used(cache: &[Entry], capacity: Capacity) -> u64 {
    cache.iter().map(|entry| capacity.weigh(entry.size)).sum()
}
