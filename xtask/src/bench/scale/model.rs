//! A closed queueing network of cores and locks: each core serves hits, one after the other, and waits for the lock of a
//! shard if another core has it. Solved by exact mean value analysis (Reiser and Lavenberg 1980).

use super::holds::{BATCH, FIND, FIND_ONE, Holds};

pub(super) const ASSUMPTIONS: &str = "\
model: each of N cores serves one hit after the other, always busy. A hit takes the CPU time of a hit of one URL on one core, \
without its lookup, and the lock of its shard for the mean time above and 0.1 us more, in which the lock's cache line moves from another core. Times are \
exponential, so waiting is overestimated. Nothing else is shared: the kernel, the network and memory are as fast for N cores \
as for one. A URL is hot if it has more than half of the requests of its place among 64; it takes the lock once in 64 hits. \
There are 1,000,000 URLs, and 4 N shards or 8. A ratio of two workers to one below the model's, or a line beyond the list of \
`cargo x ledger`, refutes it.";

/// The time in which a cache line moves from another core, in microseconds.
const TRANSFER: f64 = 0.1;
/// The places of a worker's hot entries, and the hits of one in which it takes the lock once.
const PLACES: usize = 64;
const USES: f64 = 64.0;
const URLS: usize = 1_000_000;
const LEAST_SHARDS: usize = 8;

/// How often each URL is requested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Popularity {
    OneUrl,
    /// The probability falls with this power of the rank.
    Zipf(f64),
}

impl Popularity {
    pub(super) const ALL: [Self; 4] = [Self::Zipf(0.9), Self::Zipf(1.0), Self::Zipf(1.3), Self::OneUrl];

    pub(super) fn name(self) -> String {
        match self {
            Self::OneUrl => "one URL".to_owned(),
            Self::Zipf(exponent) => format!("Zipf {exponent:.1}"),
        }
    }

    /// Returns the probability of each URL.
    fn shares(self) -> Vec<f64> {
        let Self::Zipf(exponent) = self else { return vec![1.0] };
        let weights: Vec<f64> = (1..=URLS).map(|rank| (rank as f64).powf(-exponent)).collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / sum).collect()
    }
}

/// What the model is solved for. Times are in microseconds.
pub(super) struct Scenario {
    cores: usize,
    /// The time of a hit outside of locks.
    alone: f64,
    /// The locks that are used, each with the number of its uses for a hit, and the time that it is held for a hit.
    locks: Vec<(f64, f64)>,
}

/// The rate of all cores in millions of hits a second, and the 99th percentile of a hit's time in microseconds.
pub(super) struct Prediction {
    pub(super) rate: f64,
    pub(super) p99: f64,
}

impl Scenario {
    /// Returns the scenario of hits that take `cost` on one core.
    pub(super) fn new(
        popularity: Popularity,
        cores: usize,
        cost: f64,
        holds: &Holds,
        has_hot_entries: bool,
    ) -> Self {
        let (shares, shards) = (popularity.shares(), (4 * cores).next_power_of_two().max(LEAST_SHARDS));
        let place = |rank: usize| spread(rank as u64) as usize % PLACES;
        let mut places = [0.0; PLACES];
        shares.iter().enumerate().for_each(|(rank, share)| places[place(rank)] += share);
        let transfer = if cores > 1 { TRANSFER } else { 0.0 };
        let found = if popularity == Popularity::OneUrl { FIND_ONE } else { FIND };
        let (find, batch) = (holds.mean(found) + transfer, holds.mean(BATCH) + transfer);
        let mut locks = vec![(0.0, 0.0); shards];
        for (rank, share) in shares.iter().enumerate() {
            let (uses, held) = &mut locks[(spread(rank as u64) >> 48) as usize % shards];
            let is_hot = has_hot_entries && cores > 1 && 2.0 * share > places[place(rank)];
            let (number, time) = if is_hot { (share / USES, batch) } else { (*share, find) };
            *uses += number;
            *held += number * time;
        }
        locks.retain(|(uses, _)| *uses > 0.0);
        // What was measured is a hit of one URL.
        Self { cores, alone: (cost - holds.mean(FIND_ONE)).max(0.0), locks }
    }

    pub(super) fn predict(&self) -> Prediction {
        let mut waiting = vec![0.0; self.locks.len()];
        let (mut rate, mut times) = (0.0, vec![0.0; self.locks.len()]);
        for cores in 1..=self.cores {
            for ((time, (_, held)), waiting) in times.iter_mut().zip(&self.locks).zip(&waiting) {
                *time = held * (1.0 + waiting);
            }
            rate = cores as f64 / (self.alone + times.iter().sum::<f64>());
            for (waiting, time) in waiting.iter_mut().zip(&times) {
                *waiting = rate * time;
            }
        }
        Prediction { rate, p99: self.alone + self.percentile(&times) }
    }

    /// Returns the time at a lock that a hundredth of all hits exceed, if the time at each is exponential.
    fn percentile(&self, times: &[f64]) -> f64 {
        let longer = |limit: f64| -> f64 {
            let each = self.locks.iter().zip(times).filter(|(_, time)| **time > 0.0);
            each.map(|((uses, _), time)| uses * (-limit * uses / time).exp()).sum()
        };
        let (mut low, mut high) = (0.0, 1e6);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if longer(middle) > 0.01 { low = middle } else { high = middle }
        }
        high
    }
}

/// Mixes the bits of a number, as a hash does (the finish of MurmurHash3).
fn spread(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ bits >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    bits = (bits ^ bits >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    bits ^ bits >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_lock_that_is_always_held_limits_all_cores_to_its_rate() {
        // A hit has the lock for 0.2 of 1 us, with the time of the line for 0.3.
        let holds = Holds::given(200.0, 1_000.0);
        let rate = |cores, hot| Scenario::new(Popularity::OneUrl, cores, 1.0, &holds, hot).predict().rate;
        assert!((rate(1, false) - 1.0).abs() < 1e-9);
        assert!(rate(2, false) > 1.5 && rate(128, false) < 1.0 / 0.3 + 1e-9, "{}", rate(128, false));
        assert!(rate(64, true) > 30.0, "{}", rate(64, true));
    }

    #[test]
    fn popular_urls_are_hot_and_the_others_spread_over_the_locks() {
        let holds = Holds::given(200.0, 1_000.0);
        for exponent in [0.9, 1.0, 1.3] {
            let predict = |hot| Scenario::new(Popularity::Zipf(exponent), 64, 9.0, &holds, hot).predict();
            let (hot, plain) = (predict(true), predict(false));
            assert!(hot.rate > plain.rate && hot.p99 <= plain.p99, "Zipf {exponent}");
            // At best, a hit takes all of its time but that under the lock.
            let best = 64.0 / (9.0 - holds.mean(FIND));
            assert!(hot.rate < best && hot.rate > 0.9 * best, "Zipf {exponent}: {} of {best}", hot.rate);
        }
    }
}
