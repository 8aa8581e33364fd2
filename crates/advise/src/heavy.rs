//! The heaviest keys: those with the most requests, and those with the most bytes.
//!
//! They are found in a random sample of all requests, in which a request is the likelier the more bytes it has. Its
//! weight is the number of requests that it stands for. The weights halve from time to time, and a light key is
//! forgotten when there are too many: its weight is still part of the sum of all, so that no key among many equal ones is heavy.

use hashbrown::HashMap;

/// Finds the heaviest keys.
pub struct Heavy {
    counted: HashMap<u64, Weights>,
    /// The weights of all keys, forgotten ones included.
    all: Weights,
    /// The least share of these that a heavy key has.
    least: f64,
    /// The requests counted since the weights were halved.
    requests: usize,
    /// Whether the last change of the least share was that more keys are heavy.
    is_widened: bool,
    /// The next calls of [`widen`](Self::widen) that change nothing, and how many there were the last time.
    left: u32,
    wait: u32,
}

/// The weights of a key.
#[derive(Clone, Copy, Default)]
struct Weights {
    requests: f64,
    bytes: f64,
    /// The number of counted requests.
    counted: f64,
    /// Whether it was chosen the last time.
    is_chosen: bool,
}

impl Default for Heavy {
    fn default() -> Self {
        let (counted, all) = Default::default();
        Self { counted, all, least: Self::SHARE, requests: 0, is_widened: false, left: 0, wait: 0 }
    }
}

impl Heavy {
    /// The mean of the [steps](Self::step) between two requests that are chosen.
    pub const DISTANCE: u32 = 1 << 13;
    /// The step of a request without bytes: one in 128 is chosen.
    const STEP: u32 = 1 << 6;
    /// The most keys by requests, and as many by bytes.
    const MOST: usize = 64;
    /// The most keys with weights.
    const COUNTED: usize = 2_048;
    /// The limits of the least share of the weights, and the least number of counted requests.
    const SHARE: f64 = 1.0 / 1_024.0;
    const MOST_SHARE: f64 = 1.0 / 8.0;
    const LEAST: f64 = 3.0;
    /// The counted requests after which the weights halve.
    const HALVED: usize = 1 << 14;
    /// The most calls without a change before more keys are heavy again.
    const MOST_WAIT: u32 = 64;

    /// Returns the step of a request with so many bytes on the way to the next one that is chosen. 8 MiB are enough for
    /// the whole way.
    #[inline]
    pub fn step(bytes: u64) -> u32 {
        Self::STEP + (bytes >> 10).min(u64::from(Self::DISTANCE)) as u32
    }

    /// Counts a request that was chosen.
    pub fn count(&mut self, key: u64, bytes: u64) {
        let stands_for = (f64::from(Self::DISTANCE) / f64::from(Self::step(bytes))).max(1.0);
        let weights = self.counted.entry(key).or_default();
        for weights in [weights, &mut self.all] {
            weights.add(stands_for, bytes as f64 * stands_for);
        }
        if self.counted.len() > Self::COUNTED {
            self.forget();
        }
        self.requests += 1;
        if self.requests == Self::HALVED {
            self.requests = 0;
            self.counted.values_mut().for_each(Weights::halve);
            self.all.halve();
        }
    }

    /// Doubles the least share of a heavy key. Returns false if it is too large for that. If it was halved just before, the next time
    /// for that is later: after twice as many calls each time.
    pub fn narrow(&mut self) -> bool {
        let is_possible = self.least < Self::MOST_SHARE;
        if is_possible {
            self.least *= 2.0;
            if std::mem::take(&mut self.is_widened) {
                self.wait = (2 * self.wait).clamp(1, Self::MOST_WAIT);
                self.left = self.wait;
            }
        }
        is_possible
    }

    /// Halves the least share of a heavy key. Returns false if it is too small for that, or if that was too much the last time and it
    /// is too early to do it again.
    pub fn widen(&mut self) -> bool {
        if self.left > 0 {
            self.left -= 1;
            return false;
        }
        if self.is_widened {
            self.wait = 0;
        }
        let is_possible = self.least > Self::SHARE;
        if is_possible {
            self.least /= 2.0;
        }
        self.is_widened = is_possible;
        is_possible
    }

    /// Returns the heaviest keys. A key that was among them stays until it has half of the least share.
    pub fn choose(&mut self) -> Vec<u64> {
        let mut chosen = self.heaviest(|weights| weights.requests);
        chosen.extend(self.heaviest(|weights| weights.bytes));
        chosen.sort_unstable();
        chosen.dedup();
        for (key, weights) in &mut self.counted {
            weights.is_chosen = chosen.binary_search(key).is_ok();
        }
        chosen
    }

    /// Returns the key with the most bytes.
    pub fn largest(&self) -> Option<u64> {
        let bytes = |(key, weights): (&u64, &Weights)| (weights.bytes, *key);
        self.counted.iter().map(bytes).max_by(|one, next| one.0.total_cmp(&next.0)).map(|(_, key)| key)
    }

    fn heaviest(&self, weight: impl Fn(&Weights) -> f64) -> Vec<u64> {
        let least = weight(&self.all) * self.least;
        let is_heavy = |weights: &Weights| {
            let ease = if weights.is_chosen { 2.0 } else { 1.0 };
            weights.counted * ease >= Self::LEAST && weight(weights) * ease > least
        };
        let heavy = self.counted.iter().filter(|(_, weights)| is_heavy(weights));
        let mut heavy: Vec<_> = heavy.map(|(key, weights)| (weight(weights), *key)).collect();
        heavy.sort_unstable_by(|one, next| next.0.total_cmp(&one.0));
        heavy.truncate(Self::MOST);
        heavy.into_iter().map(|(_, key)| key).collect()
    }

    /// Forgets about half of the keys: those that were counted the least often, and among these those with the fewest
    /// bytes.
    fn forget(&mut self) {
        let mut all: Vec<_> = self.counted.values().copied().collect();
        let order = |one: &Weights, next: &Weights| {
            one.counted.total_cmp(&next.counted).then(one.bytes.total_cmp(&next.bytes))
        };
        all.sort_unstable_by(order);
        let middle = all[all.len() / 2];
        self.counted.retain(|_, weights| order(weights, &middle).is_gt());
    }
}

impl Weights {
    fn add(&mut self, requests: f64, bytes: f64) {
        self.requests += requests;
        self.bytes += bytes;
        self.counted += 1.0;
    }

    fn halve(&mut self) {
        let Self { requests, bytes, counted, is_chosen } = *self;
        *self = Self { requests: requests / 2.0, bytes: bytes / 2.0, counted: counted / 2.0, is_chosen };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_among_many_equal_ones_is_heavy() {
        let mut heavy = Heavy::default();
        for at in 0..60_000_u64 {
            heavy.count(at * 7_919 % 10_000, 1_024);
        }
        assert_eq!(heavy.choose(), Vec::<u64>::new());
    }

    #[test]
    fn fewer_keys_are_heavy_once_a_heavy_one_needs_more() {
        let mut heavy = Heavy::default();
        // Two in three requests are for one key, and the others for 50 in turn.
        (0..3_000).for_each(|at| heavy.count(if at % 3 == 0 { 1 + at / 3 % 50 } else { 0 }, 1_024));
        assert_eq!(heavy.choose().len(), 51);
        while heavy.narrow() {}
        assert_eq!(heavy.choose(), [0]);
        while heavy.widen() {}
        assert_eq!(heavy.choose().len(), 51);
    }

    #[test]
    fn keys_that_were_too_many_are_tried_again_ever_later() {
        let mut heavy = Heavy::default();
        let mut calls_before_more = || {
            assert!(heavy.narrow());
            (0..).find(|_| heavy.widen()).expect("more keys")
        };
        assert_eq!([(); 5].map(|()| calls_before_more()), [0, 1, 2, 4, 8]);
    }
}
