//! LeCaR: two experts, LRU and LFU, weighted by regret for their wrong evictions.

use fastrand::Rng;

use crate::params::{params, read_share};
use crate::parts::frequency::Frequencies;
use crate::parts::ghost::{Ghosts, Name};
use crate::parts::queue::Queue;
use crate::policy::{Capacity, Object, Policy, Residents, Slot};

/// Evicts the victim of one expert, chosen at random by weight. An expert loses weight when its victim is requested
/// again. If `discount` is less than 1, an earlier request costs more weight; the paper has 0.005, which learns too
/// slowly where sizes differ.
///
/// Each expert's victims are remembered until later victims weigh half the capacity. A victim that alone weighs more
/// displaces all earlier ones, and is not remembered itself.
pub struct LeCaR {
    recent: Queue,
    frequent: Frequencies,
    /// The victims of LRU and of LFU, with their numbers among the expert's.
    regrets: [Ghosts<u32>; 2],
    /// The number of the next victim of each expert; numbers wrap.
    victims: [u32; 2],
    /// The weight of LRU; the weight of LFU is 1 minus this.
    weight: f64,
    params: LeCaRParams,
    rng: Rng,
}

params! {
    /// The parameters of [`LeCaR`].
    LeCaRParams {
        /// The effect of a regret that occurs immediately.
        rate: f64 = 0.45, read_share, "weight of a regret that comes at once, 0 to 1";
        /// The remaining share of a regret that occurs after as many further victims as there are residents.
        discount: f64 = 0.005, read_share,
            "remaining share of a regret that comes as many victims later as there are residents, 0 to 1";
    }
}

impl LeCaR {
    /// Reduces the weight of the expert `wrong`, whose victim of this number is requested now.
    fn regret<R: Residents>(&mut self, wrong: usize, victim: u32, residents: &R) {
        let LeCaRParams { rate, discount } = self.params;
        let later = self.victims[wrong].wrapping_sub(victim).saturating_sub(1);
        let regret = discount.powf(f64::from(later) / residents.len().max(1) as f64);
        let mut weights = [self.weight, 1.0 - self.weight];
        weights[wrong] *= (-rate * regret).exp();
        let lru = weights[LRU] / (weights[LRU] + weights[LFU]);
        self.weight = lru.clamp(LEAST, 1.0 - LEAST);
    }
}

const LRU: usize = 0;
const LFU: usize = 1;

/// The minimum weight of an expert: with weight 0 it would never be chosen again.
const LEAST: f64 = 1e-10;

impl Policy for LeCaR {
    type Params = LeCaRParams;

    const ABOUT: &'static str =
        "evicts the victim of LRU or of LFU, more often of the one with fewer regrets";

    const KEEPS_NOTES: bool = true;

    fn new(_capacity: Capacity, params: LeCaRParams, seed: u64) -> Self {
        let regrets = [Ghosts::new(), Ghosts::new()];
        let (recent, frequent, rng) = (Queue::new(), Frequencies::new(), Rng::with_seed(seed));
        Self { recent, frequent, regrets, victims: [0; 2], weight: 0.5, params, rng }
    }

    #[inline]
    fn admit<R: Residents>(&mut self, new: &Object, residents: &R) -> bool {
        for expert in [LRU, LFU] {
            let name = Name::of_newcomer(new, residents);
            if let Some(victim) = self.regrets[expert].remove(name, residents) {
                self.regret(expert, victim, residents);
            }
        }
        true
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        self.recent.push_front(slot);
        self.frequent.insert(slot);
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        self.recent.move_to_front(slot);
        self.frequent.hit(slot);
    }

    #[inline]
    fn evict<R: Residents>(&mut self, residents: &R) -> Option<Slot> {
        let victims = [self.recent.back()?, self.frequent.first()?];
        let expert = if self.rng.f64() < self.weight { LRU } else { LFU };
        let victim = victims[expert];
        if victims[LRU] != victims[LFU] {
            let (weight, bound) = (residents.weight(victim), residents.capacity().amount / 2);
            if weight > bound {
                self.regrets[expert].truncate(0);
            }
            let number = self.victims[expert];
            self.victims[expert] = number.wrapping_add(1);
            self.regrets[expert].insert(Name::of(victim, residents), weight, number, bound, residents);
        }
        self.on_remove(victim, residents);
        Some(victim)
    }

    #[inline]
    fn on_remove<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        self.recent.remove(slot);
        self.frequent.remove(slot);
    }

    fn heap_bytes(&self) -> usize {
        let regrets: usize = self.regrets.iter().map(Ghosts::heap_bytes).sum();
        self.recent.heap_bytes() + self.frequent.heap_bytes() + regrets
    }

    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        self.recent.validate(residents)?;
        self.frequent.validate(residents)?;
        self.regrets.iter().try_for_each(|ghosts| ghosts.validate(residents))
    }
}
