//! The heaviest keys: those with the most requests, and those with the most bytes.
//!
//! They are found in a random sample of all requests. The counts halve from time to time, and a key with few of the counted requests
//! is forgotten when there are too many keys.

use hashbrown::HashMap;

/// Finds the heaviest keys.
#[derive(Default)]
pub struct Heavy {
    counted: HashMap<u64, (f64, f64)>,
    /// The requests counted since the counts were halved.
    requests: usize,
}

impl Heavy {
    /// The most keys by requests, and as many by bytes.
    pub const MOST: usize = 64;
    /// The most keys with counts.
    const COUNTED: usize = 2_048;
    /// The least share of the requests or bytes, and the least number of counted requests.
    const SHARE: f64 = 1.0 / 1_024.0;
    const REQUESTS: f64 = 4.0;
    /// The requests after which the counts halve.
    const HALVED: usize = 1 << 14;

    /// Counts a request that was chosen at random.
    pub fn count(&mut self, key: u64, bytes: u64) {
        let (requests, sum) = self.counted.entry(key).or_default();
        *requests += 1.0;
        *sum += bytes as f64;
        if self.counted.len() > Self::COUNTED {
            self.forget();
        }
        self.requests += 1;
        if self.requests == Self::HALVED {
            self.requests = 0;
            self.counted
                .values_mut()
                .for_each(|(requests, bytes)| (*requests, *bytes) = (*requests / 2.0, *bytes / 2.0));
        }
    }

    /// Returns the heaviest keys.
    pub fn choose(&self) -> Vec<u64> {
        let mut chosen = self.heaviest(|(requests, _)| requests);
        let by_bytes = self.heaviest(|(_, bytes)| bytes);
        chosen.extend(by_bytes);
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }

    fn heaviest(&self, weight: impl Fn((f64, f64)) -> f64) -> Vec<u64> {
        let least = self.counted.values().map(|counts| weight(*counts)).sum::<f64>() * Self::SHARE;
        let is_heavy = |counts: (f64, f64)| counts.0 >= Self::REQUESTS && weight(counts) > least;
        let heavy = self.counted.iter().filter(|(_, counts)| is_heavy(**counts));
        let mut heavy: Vec<_> = heavy.map(|(key, counts)| (weight(*counts), *key)).collect();
        heavy.sort_unstable_by(|one, next| next.0.total_cmp(&one.0));
        heavy.truncate(Self::MOST);
        heavy.into_iter().map(|(_, key)| key).collect()
    }

    /// Forgets about half of the keys: those with the fewest bytes among those with the fewest requests.
    fn forget(&mut self) {
        let mut counts: Vec<_> = self.counted.values().copied().collect();
        let order =
            |one: &(f64, f64), next: &(f64, f64)| one.0.total_cmp(&next.0).then(one.1.total_cmp(&next.1));
        counts.sort_unstable_by(order);
        let middle = counts[counts.len() / 2];
        self.counted.retain(|_, counts| order(counts, &middle).is_gt());
    }
}
