//! Greedy dual, after P. Cao and S. Irani (GDS), L. Cherkasova (GDSF) and M. Arlitt et al. (LFU-DA): an object's
//! priority is its value when it was stored or last requested, plus the inflation at that time. The object with the
//! lowest priority is evicted, and its priority becomes the inflation.

use std::collections::HashMap;
use std::marker::PhantomData;

use super::{Entry, Naive, Now};

/// The differences between the members of the family.
pub(crate) trait Value: Default {
    /// Returns the worth of `entry`.
    fn of(entry: &Entry) -> f64;

    /// Whether a new object that is worth less than its victims is refused.
    const REFUSES: bool;
}

/// A cost of 1, in millionths, for each byte.
#[derive(Default)]
pub(crate) struct PerByte;

impl Value for PerByte {
    const REFUSES: bool = false;

    fn of(entry: &Entry) -> f64 {
        1e6 / entry.size.max(1) as f64
    }
}

/// Two packets and one for every 536 bytes, for each byte.
#[derive(Default)]
pub(crate) struct PacketsPerByte;

impl Value for PacketsPerByte {
    const REFUSES: bool = false;

    fn of(entry: &Entry) -> f64 {
        (2.0 + entry.size as f64 / 536.0) * 1e6 / entry.size.max(1) as f64
    }
}

/// A cost of 1 for each byte, times the number of requests.
#[derive(Default)]
pub(crate) struct CountPerByte;

impl Value for CountPerByte {
    const REFUSES: bool = true;

    fn of(entry: &Entry) -> f64 {
        (entry.hits + 1) as f64 * 1e6 / entry.size.max(1) as f64
    }
}

/// A fee worth 4,444 bytes and the bytes themselves, for each byte.
#[derive(Default)]
pub(crate) struct MoneyPerByte;

impl Value for MoneyPerByte {
    const REFUSES: bool = false;

    fn of(entry: &Entry) -> f64 {
        (4_444.0 + entry.size as f64) / entry.size.max(1) as f64
    }
}

/// The same, times the number of requests.
#[derive(Default)]
pub(crate) struct CountAndMoneyPerByte;

impl Value for CountAndMoneyPerByte {
    const REFUSES: bool = true;

    fn of(entry: &Entry) -> f64 {
        (entry.hits + 1) as f64 * (4_444.0 + entry.size as f64) / entry.size.max(1) as f64
    }
}

/// The number of requests.
#[derive(Default)]
pub(crate) struct Count;

impl Value for Count {
    const REFUSES: bool = false;

    fn of(entry: &Entry) -> f64 {
        (entry.hits + 1) as f64
    }
}

pub(crate) type Gds = GreedyDual<PerByte>;
pub(crate) type GdsByMoney = GreedyDual<MoneyPerByte>;
pub(crate) type GdsByPackets = GreedyDual<PacketsPerByte>;
pub(crate) type Gdsf = GreedyDual<CountPerByte>;
pub(crate) type GdsfByMoney = GreedyDual<CountAndMoneyPerByte>;
pub(crate) type Lfuda = GreedyDual<Count>;

#[derive(Default)]
pub(crate) struct GreedyDual<V> {
    inflation: f64,
    /// The inflation when the new object competed, before its victims were evicted.
    before: Option<f64>,
    /// The priorities by key.
    priorities: HashMap<u64, f64>,
    value: PhantomData<V>,
}

impl<V: Value> Naive for GreedyDual<V> {
    fn victim(&mut self, cache: &mut [Entry], _now: Now) -> usize {
        let priority = |place: usize| self.priorities[&cache[place].key];
        let lowest = (0..cache.len()).map(priority).fold(f64::INFINITY, f64::min);
        let low = (0..cache.len()).filter(|&place| priority(place) == lowest);
        let victim = low.min_by_key(|&place| cache[place].last).expect("a cache that is not empty");
        self.inflation = self.inflation.max(lowest);
        victim
    }

    fn admits(&mut self, new: &Entry, cache: &[Entry], now: Now) -> bool {
        if !V::REFUSES {
            return true;
        }
        let priority = self.inflation + V::of(new);
        let stay = cache.iter().filter(|entry| self.priorities[&entry.key] > priority);
        let stay: u64 = stay.map(|entry| now.capacity.weigh(entry.size)).sum();
        let gets_in = stay + now.capacity.weigh(new.size) <= now.capacity.amount;
        match gets_in {
            true => self.before = Some(self.inflation),
            false => self.inflation = priority,
        }
        gets_in
    }

    fn on_hit(&mut self, entry: &Entry, _now: Now) {
        self.priorities.insert(entry.key, self.inflation + V::of(entry));
    }

    fn on_enter(&mut self, new: &Entry, _now: Now) {
        let inflation = self.before.take().unwrap_or(self.inflation);
        self.priorities.insert(new.key, inflation + V::of(new));
    }
}
