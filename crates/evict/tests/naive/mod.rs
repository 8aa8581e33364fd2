//! Policies in the fewest words: a vector, oldest first, and every question answered by looking at all of it.

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
}

/// Who leaves.
pub(super) trait Naive: Default {
    /// The place of the next victim in `cache`, which is not empty.
    fn victim(&mut self, cache: &mut [Entry]) -> usize;

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
        let new = match *op {
            Op::Insert { key, size } => Some(Entry { key, size, value: now, hits: 0, last: now }),
            _ => None,
        };
        let weight = new.as_ref().map_or(0, |new| capacity.weigh(new.size));
        if weight <= capacity.amount {
            while cache.iter().map(|entry| capacity.weigh(entry.size)).sum::<u64>() + weight > capacity.amount
            {
                let place = policy.victim(&mut cache);
                answer.dropped.push(leave(&mut policy, &mut cache, place));
            }
            answer.inserted = new.is_some().then_some(Inserted::Stored);
            cache.extend(new);
        } else {
            answer.inserted = Some(Inserted::TooLarge(now));
        }
        answers.push(answer);
    }
    answers
}

fn find(cache: &[Entry], key: u64) -> Option<usize> {
    cache.iter().position(|entry| entry.key == key)
}

fn leave<N: Naive>(policy: &mut N, cache: &mut Vec<Entry>, place: usize) -> Value {
    policy.on_leave(cache, place);
    cache.remove(place).value
}
