//! Policies in the fewest words: a vector, oldest first, and every question answered by looking at all of it.

use std::cmp::Reverse;

use larder_evict::{Capacity, Inserted};

use super::{Answer, Op, Value};

/// An object in the cache.
pub(super) struct Entry {
    pub(super) key: u64,
    pub(super) size: u64,
    value: Value,
    /// How often it was asked for since it came.
    pub(super) hits: u64,
    /// When it came or was last asked for.
    pub(super) last: usize,
    /// What [`Naive::priority`] said when it came or was last asked for.
    priority: f64,
}

/// Who leaves.
pub(super) trait Naive: Default {
    /// The place of the next victim in `cache`, which is not empty.
    fn victim(&mut self, cache: &mut [Entry]) -> usize;

    /// Whether `new` gets in, which was not there and weighs no more than all that may.
    fn admits(&mut self, _new: &Entry, _cache: &[Entry], _capacity: Capacity) -> bool {
        true
    }

    /// What is to be remembered of an object that came or was asked for.
    fn priority(&self, _entry: &Entry) -> f64 {
        0.0
    }

    /// The object at `place` is about to leave, as a victim or otherwise.
    fn on_leave(&mut self, _cache: &[Entry], _place: usize) {}
}

#[derive(Default)]
pub(super) struct Fifo;

impl Naive for Fifo {
    fn victim(&mut self, _cache: &mut [Entry]) -> usize {
        0
    }
}

#[derive(Default)]
pub(super) struct Lru;

impl Naive for Lru {
    fn victim(&mut self, cache: &mut [Entry]) -> usize {
        (0..cache.len()).min_by_key(|&place| cache[place].last).expect("a cache that is not empty")
    }
}

#[derive(Default)]
pub(super) struct Lfu;

impl Naive for Lfu {
    fn victim(&mut self, cache: &mut [Entry]) -> usize {
        let rank = |place: &usize| (cache[*place].hits, cache[*place].last);
        (0..cache.len()).min_by_key(rank).expect("a cache that is not empty")
    }
}

#[derive(Default)]
pub(super) struct Maxs;

impl Naive for Maxs {
    fn victim(&mut self, cache: &mut [Entry]) -> usize {
        let rank = |place: &usize| (Reverse(cache[*place].size), cache[*place].last);
        (0..cache.len()).min_by_key(rank).expect("a cache that is not empty")
    }
}

#[derive(Default)]
pub(super) struct Gdsf {
    age: f64,
}

impl Naive for Gdsf {
    fn victim(&mut self, cache: &mut [Entry]) -> usize {
        let lowest = cache.iter().map(|entry| entry.priority).fold(f64::INFINITY, f64::min);
        self.age = self.age.max(lowest);
        let low = (0..cache.len()).filter(|&place| cache[place].priority == lowest);
        low.min_by_key(|&place| cache[place].last).expect("a cache that is not empty")
    }

    fn admits(&mut self, new: &Entry, cache: &[Entry], capacity: Capacity) -> bool {
        let stay = cache.iter().filter(|entry| entry.priority > new.priority);
        let stay: u64 = stay.map(|entry| capacity.weigh(entry.size)).sum();
        let gets_in = stay + capacity.weigh(new.size) <= capacity.amount;
        if !gets_in {
            self.age = new.priority;
        }
        gets_in
    }

    fn priority(&self, entry: &Entry) -> f64 {
        self.age + (entry.hits + 1) as f64 * 1e6 / entry.size.max(1) as f64
    }
}

/// Takes the number of hits for the mark of having been visited.
#[derive(Default)]
pub(super) struct Sieve {
    /// The key at which the hand stands.
    hand: Option<u64>,
}

impl Naive for Sieve {
    fn victim(&mut self, cache: &mut [Entry]) -> usize {
        let hand = cache.iter().position(|entry| Some(entry.key) == self.hand).unwrap_or(0);
        let mut round = (0..cache.len()).cycle().skip(hand);
        let place =
            round.find(|&place| std::mem::take(&mut cache[place].hits) == 0).expect("an endless round");
        self.hand = Some(cache[place].key);
        place
    }

    fn on_leave(&mut self, cache: &[Entry], place: usize) {
        if Some(cache[place].key) == self.hand {
            self.hand = cache.get(place + 1).map(|newer| newer.key);
        }
    }
}

/// The answers that a cache under the policy `N` owes to `ops`.
pub(super) fn answers<N: Naive>(mut capacity: Capacity, ops: &[Op]) -> Vec<Answer> {
    let (mut policy, mut cache) = (N::default(), Vec::new());
    let mut answers = Vec::new();
    for (now, op) in ops.iter().enumerate() {
        let mut answer = Answer::default();
        match *op {
            Op::Peek(key) => answer.found = find(&cache, key).map(|place| cache[place].value),
            Op::Get(key) => {
                if let Some(place) = find(&cache, key) {
                    let entry: &mut Entry = &mut cache[place];
                    (entry.hits, entry.last) = (entry.hits + 1, now);
                    entry.priority = policy.priority(entry);
                    answer.found = Some(entry.value);
                }
            }
            Op::Remove(key) => {
                answer.found = find(&cache, key).map(|place| leave(&mut policy, &mut cache, place))
            }
            Op::SetCapacity(amount) => capacity.amount = amount,
            Op::Clear => {
                policy = N::default();
                answer.dropped = cache.drain(..).map(|entry| entry.value).collect();
                answer.dropped.sort_unstable();
            }
            Op::Insert { key, .. } => {
                answer.dropped.extend(find(&cache, key).map(|place| leave(&mut policy, &mut cache, place)));
            }
        }
        let mut new = match *op {
            Op::Insert { key, size } => {
                Some(Entry { key, size, value: now, hits: 0, last: now, priority: 0.0 })
            }
            _ => None,
        };
        if let Some(new) = &mut new {
            new.priority = policy.priority(new);
            answer.inserted = Some(if capacity.weigh(new.size) > capacity.amount {
                Inserted::TooLarge(now)
            } else if answer.dropped.is_empty() && !policy.admits(new, &cache, capacity) {
                Inserted::Refused(now)
            } else {
                Inserted::Stored
            });
        }
        let is_replacement = !answer.dropped.is_empty();
        let mut new = new.filter(|_| answer.inserted == Some(Inserted::Stored));
        while weight(&cache, capacity) + weight(new.as_slice(), capacity) > capacity.amount {
            let place = policy.victim(&mut cache);
            answer.dropped.push(leave(&mut policy, &mut cache, place));
        }
        if let Some(new) = new.as_mut().filter(|_| is_replacement) {
            new.priority = policy.priority(new);
        }
        cache.extend(new);
        answers.push(answer);
    }
    answers
}

fn weight(cache: &[Entry], capacity: Capacity) -> u64 {
    cache.iter().map(|entry| capacity.weigh(entry.size)).sum()
}

fn find(cache: &[Entry], key: u64) -> Option<usize> {
    cache.iter().position(|entry| entry.key == key)
}

fn leave<N: Naive>(policy: &mut N, cache: &mut Vec<Entry>, place: usize) -> Value {
    policy.on_leave(cache, place);
    cache.remove(place).value
}
