//! Adaptive: ranks objects by worth and recency. Ghost caches set the weight of each, and select which new objects
//! are on probation.

use crate::params::{params, read_bool};
use crate::parts::ranking::{Exponent, Measure, Newcomers, Objective, Ranking};
use crate::policy::{Capacity, Object, Policy, Residents, Slot};
use crate::shard::Shard;

/// Evicts by one [`Ranking`], whose exponent determines the weight of an object's worth in comparison with its recency:
/// from no weight, which is LRU, to more than in greedy dual. New objects are ranked at once or, where many are not
/// requested again or a loop is larger than the cache, only after a request on probation.
///
/// The best of the [`CANDIDATES`] is measured: each has a ghost, a cache without bodies under the same ranking. The
/// ghosts see the requests for a sample of the keys, and their capacity is smaller in the same proportion. Up to 128
/// residents, the sample includes all keys; beyond that, it is a share of the keys that includes between 64 and 128
/// residents. A decision follows each time the ghosts have seen as many lookups as they hold objects, and at least
/// 256. The cache then adopts the candidate of the ghost with the fewest recent misses, if these are at least 2% fewer
/// than those of the current candidate, or 2.3% to begin probation. A candidate with probation must also have missed less
/// than all others over a longer time: where requests go back and forth over all objects, probation is better on each way and worse on the whole.
/// And it must have been worth it: while one leads, the cache's own misses of sampled keys are compared with those of the
/// best ghost without probation. If they are more, beyond chance, no candidate with probation leads until this is mostly
/// forgotten.
///
/// Any object that fits may be stored, even a large one. But a new object that ranks below its victims is refused until
/// it has been requested often enough. An object of size 0 is worth as much as one of 1.
///
/// A change of the candidate ranks all residents again, O(n), on a miss. The ghosts take about 60 KB for a cache of any
/// size.
pub struct Adaptive {
    residents: Ranking,
    /// In the order of [`CANDIDATES`]; those with probation only if the user allows it.
    ghosts: Vec<Ghost>,
    leader: usize,
    /// The sample is one key in 2 to the power of this number.
    thinning: u32,
    /// Lookups that the ghosts have seen since the latest decision.
    heard: usize,
    /// The cache's own misses in the sample since the latest decision, in the objective's unit.
    missed: f64,
    /// By how much these exceeded the misses of the best ghost without probation while a candidate with probation led;
    /// old ones weigh less than new ones.
    excess: f64,
    objective: Objective,
}

/// The weights of worth, and the new objects on probation. With [`Newcomers::None`], all exponents are needed: each is
/// the best on some traces. With the others, one exponent is nearly as good as three.
const CANDIDATES: [(Exponent, Newcomers); 5] = [
    (Exponent::Zero, Newcomers::None),
    (Exponent::One, Newcomers::None),
    (Exponent::OneAndHalf, Newcomers::None),
    (Exponent::One, Newcomers::All),
    (Exponent::One, Newcomers::Unknown),
];

/// The number of candidates without probation, which come first, and the index of the initial one.
const PLAIN: usize = 3;
const FIRST: usize = 1;

/// The maximum number of residents in the sample: at least half as many once there are more residents.
const SAMPLE: usize = 128;

/// The minimum number of lookups for a decision.
const HEARING: usize = 256;

/// A ghost replaces the leader if it missed less than this share of the leader's misses.
const MARGIN: f64 = 0.98;

/// The same for a ghost with probation and a leader without: a change that turns out wrong costs more.
const PROBATION_MARGIN: f64 = 0.977;

/// The excess that bars probation, as shares of the recent misses and of those over a longer time: chance has more weight
/// in few misses.
const TOLERANCE: f64 = 0.1;
const LONG_TOLERANCE: f64 = 0.005;

/// The weight of earlier misses after a decision, in the recent sum and in the long one.
const MEMORY: f64 = 0.5;
const LONG_MEMORY: f64 = 0.99;

struct Ghost {
    cache: Shard<Ranking, ()>,
    /// The sum of missed benefits since the latest decision, in the objective's unit.
    missed: f64,
    /// The same with earlier ones; old misses weigh less than new ones.
    missed_recently: f64,
    /// The same over a longer time.
    missed_long: f64,
}

params! {
    /// How [`Adaptive`] is tuned.
    AdaptiveParams {
        objective: Objective = Objective::default(), Objective::read,
            "the misses to minimise: requests, at the cost of more bytes, or bytes, at the cost of more requests";
        probation: bool = true, read_bool,
            "whether new objects may have to be requested again before they evict others: true or false";
    }
}

impl Ghost {
    #[inline]
    fn hear(&mut self, object: &Object, objective: Objective) {
        if self.cache.get(object.key).is_none() {
            self.miss(object, objective);
        }
    }

    /// Hears of `count` requests in sequence.
    fn hear_often(&mut self, object: &Object, count: u32, objective: Objective) {
        let mut left = count;
        while left > 0 && !self.cache.get_often(object.key, left) {
            self.miss(object, objective);
            left -= 1;
        }
    }

    #[inline]
    fn miss(&mut self, object: &Object, objective: Objective) {
        self.missed += objective.benefit(object.size) as f64;
        let _stored = self.cache.insert(*object, (), &mut Vec::new());
    }

    /// Removes the keys outside `is_in`.
    fn thin(&mut self, is_in: impl Fn(u64) -> bool) {
        let mut left_out = Vec::new();
        self.cache.for_each(&mut |key, ()| {
            if !is_in(key) {
                left_out.push(key);
            }
        });
        for key in left_out {
            self.cache.remove(key);
        }
    }
}

impl Adaptive {
    #[inline]
    fn hear(&mut self, object: &Object, is_hit: bool) {
        if is_sampled(object.key, self.thinning) {
            self.tell_ghosts(object, is_hit);
        }
    }

    #[cold]
    fn tell_ghosts(&mut self, object: &Object, is_hit: bool) {
        self.heard += 1;
        if !is_hit {
            self.missed += self.objective.benefit(object.size) as f64;
        }
        for ghost in &mut self.ghosts {
            ghost.hear(object, self.objective);
        }
    }

    fn is_time_to_judge(&self) -> bool {
        let has_heard_all = |ghost: &Ghost| self.heard >= ghost.cache.len();
        self.heard >= HEARING && self.ghosts.iter().all(has_heard_all)
    }

    #[cold]
    fn judge<R: Residents>(&mut self, residents: &R) {
        self.heard = 0;
        for ghost in &mut self.ghosts {
            ghost.missed_recently = MEMORY * ghost.missed_recently + ghost.missed;
            ghost.missed_long = LONG_MEMORY * ghost.missed_long + ghost.missed;
        }
        let plain = self.best(|place| place < PLAIN);
        self.excess *= LONG_MEMORY;
        if self.leader >= PLAIN {
            self.excess += self.missed - self.ghosts[plain].missed;
        }
        let least = self.ghosts[..PLAIN].iter().map(|ghost| ghost.missed_long).fold(f64::INFINITY, f64::min);
        let recently = |place: usize| self.ghosts[place].missed_recently;
        let is_barred = self.excess > LONG_TOLERANCE * least + TOLERANCE * recently(plain);
        let may_lead = |place: usize| place < PLAIN || !is_barred && self.ghosts[place].missed_long < least;
        let best = self.best(may_lead);
        let margin = if best >= PLAIN && self.leader < PLAIN { PROBATION_MARGIN } else { MARGIN };
        if recently(best) < margin * recently(self.leader) || !may_lead(self.leader) {
            self.leader = best;
            self.residents.change(measure(self.objective, CANDIDATES[best]), residents);
        }
        self.missed = 0.0;
        self.ghosts.iter_mut().for_each(|ghost| ghost.missed = 0.0);
        self.fit_ghosts(residents);
    }

    /// Returns the candidate with the fewest recent misses among those that `may_lead`.
    fn best(&self, may_lead: impl Fn(usize) -> bool) -> usize {
        let missed = |place: &usize| self.ghosts[*place].missed_recently;
        let places = (0..self.ghosts.len()).filter(|&place| may_lead(place));
        places.min_by(|a, b| missed(a).total_cmp(&missed(b))).unwrap_or(FIRST)
    }

    /// Halves the sample.
    #[cold]
    fn thin<R: Residents>(&mut self, residents: &R) {
        self.thinning += 1;
        for ghost in &mut self.ghosts {
            ghost.thin(|key| is_sampled(key, self.thinning));
        }
        self.fit_ghosts(residents);
    }

    /// Sets the ghosts' capacity to the sample's share of the capacity, which may have changed.
    fn fit_ghosts<R: Residents>(&mut self, residents: &R) {
        let amount = residents.capacity().amount >> self.thinning;
        for ghost in &mut self.ghosts {
            if ghost.cache.capacity().amount != amount {
                ghost.cache.set_capacity(amount, &mut Vec::new());
            }
        }
    }
}

fn measure(objective: Objective, (exponent, on_probation): (Exponent, Newcomers)) -> Measure {
    Measure { objective, exponent, on_probation }
}

/// Whether `key` is in the ghosts' sample of one key in 2^`thinning`. Keys are hashes, but shards and their tables
/// already use some of their bits, so the key is hashed once more.
#[inline]
fn is_sampled(key: u64, thinning: u32) -> bool {
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15) <= u64::MAX >> thinning
}

impl Policy for Adaptive {
    type Params = AdaptiveParams;

    const ABOUT: &'static str = "learns from ghost caches how to weigh worth against recency, and which new objects start on probation; the default";

    const COST: &'static str = "O(log n)";

    const FETCHES_AHEAD: bool = true;

    fn new(capacity: Capacity, params: AdaptiveParams, seed: u64) -> Self {
        let objective = params.objective;
        let candidates =
            CANDIDATES.iter().filter(|(_, newcomers)| params.probation || *newcomers == Newcomers::None);
        let measures = candidates.map(|&candidate| measure(objective, candidate));
        let ghost = |measure| Ghost {
            cache: Shard::new(capacity, measure, seed),
            missed: 0.0,
            missed_recently: 0.0,
            missed_long: 0.0,
        };
        Self {
            residents: Ranking::new(capacity, measure(objective, CANDIDATES[FIRST]), seed),
            ghosts: measures.map(ghost).collect(),
            leader: FIRST,
            thinning: 0,
            heard: 0,
            missed: 0.0,
            excess: 0.0,
            objective,
        }
    }

    #[inline]
    fn admit<R: Residents>(&mut self, new: &Object, residents: &R) -> bool {
        self.hear(new, false);
        if residents.len() >> self.thinning > SAMPLE {
            self.thin(residents);
        }
        if self.is_time_to_judge() {
            self.judge(residents);
        }
        self.residents.admit(new, residents)
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, residents: &R) {
        self.residents.on_insert(slot, residents);
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, residents: &R) {
        self.residents.on_hit(slot, residents);
        self.hear(&residents.object(slot), true);
    }

    fn on_hits<R: Residents>(&mut self, slot: Slot, count: u32, residents: &R) -> bool {
        let object = residents.object(slot);
        if is_sampled(object.key, self.thinning) {
            self.heard += count as usize;
            self.ghosts.iter_mut().for_each(|ghost| ghost.hear_often(&object, count, self.objective));
        }
        self.residents.on_hits(slot, count, residents)
    }

    #[inline]
    fn evict<R: Residents>(&mut self, residents: &R) -> Option<Slot> {
        self.residents.evict(residents)
    }

    #[inline]
    fn on_remove<R: Residents>(&mut self, slot: Slot, residents: &R) {
        self.residents.on_remove(slot, residents);
    }

    fn heap_bytes(&self) -> usize {
        let ghosts = self.ghosts.iter().map(|ghost| ghost.cache.overhead_bytes());
        self.residents.heap_bytes() + ghosts.sum::<usize>()
    }

    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        self.residents.validate(residents)?;
        self.ghosts.iter().try_for_each(|ghost| ghost.cache.validate())
    }
}
