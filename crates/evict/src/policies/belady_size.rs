//! Belady's policy for different sizes: evicts the object with the largest product of size and time to its next request.
//!
//! The optimal choice would be a knapsack problem. This is the usual approximation of the least number of misses; it is no
//! bound, and if a few objects are as large as the cache, an online policy may beat it.

use std::cmp::Reverse;

use crate::parts::urn::{Samples, Urn};
use crate::policy::{Capacity, Object, Policy, Residents, Slot};

/// Evicts objects that have no later request. If there are none, it evicts the object with the largest product of size
/// and requests until its next one, among `samples` drawn at random, or among all residents if there are not more.
///
/// A new object is refused if this is its last request, or if it ranks before its first victim.
pub struct BeladySize {
    /// Objects with a later request.
    living: Urn<()>,
    /// Objects without a later request.
    dead: Urn<()>,
    samples: u32,
}

impl BeladySize {
    #[inline]
    fn next_victim<R: Residents>(&mut self, residents: &R) -> Option<Slot> {
        self.living.lowest(self.samples, |slot, ()| Reverse(burden_of(slot, residents)))
    }
}

#[inline]
fn burden_of<R: Residents>(slot: Slot, residents: &R) -> u128 {
    burden(residents.object(slot).size, residents.next(slot), residents.now())
}

/// Returns the product of the size and the number of requests until the object's next one.
#[inline]
fn burden(size: u64, next: u64, now: u64) -> u128 {
    u128::from(size) * u128::from(next.saturating_sub(now))
}

impl Policy for BeladySize {
    type Params = Samples<128>;

    const ABOUT: &'static str = "evicts the largest product of size and time to the next request: near the bound, since it uses future requests";
    const OFFLINE: bool = true;
    const COST: &'static str = "O(samples)";

    fn new(_capacity: Capacity, samples: Samples<128>, seed: u64) -> Self {
        Self { living: Urn::new(seed), dead: Urn::new(seed), samples: samples.count() }
    }

    #[inline]
    fn admit<R: Residents>(&mut self, new: &Object, residents: &R) -> bool {
        let capacity = residents.capacity();
        let used = residents.used().saturating_add(capacity.weigh(new.size));
        if used <= capacity.amount {
            return true;
        }
        let now = residents.now();
        let next = residents.next_of_newcomer();
        let leaves = |victim| burden(new.size, next, now) < burden_of(victim, residents);
        next < u64::MAX && (self.dead.len() > 0 || self.next_victim(residents).is_some_and(leaves))
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, residents: &R) {
        match residents.next(slot) {
            u64::MAX => self.dead.insert(slot, ()),
            _ => self.living.insert(slot, ()),
        }
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, residents: &R) {
        if residents.next(slot) == u64::MAX && self.living.remove(slot) {
            self.dead.insert(slot, ());
        }
    }

    #[inline]
    fn evict<R: Residents>(&mut self, residents: &R) -> Option<Slot> {
        let victim = self.dead.draw().or_else(|| self.next_victim(residents))?;
        self.on_remove(victim, residents);
        Some(victim)
    }

    #[inline]
    fn on_remove<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        let _was_living = self.dead.remove(slot) || self.living.remove(slot);
    }

    fn heap_bytes(&self) -> usize {
        self.living.heap_bytes() + self.dead.heap_bytes()
    }

    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        self.living.validate(residents)?;
        self.dead.validate(residents)?;
        match self.living.len() + self.dead.len() == residents.len() {
            true => Ok(()),
            false => {
                Err(format!("{} living, {} dead of {}", self.living.len(), self.dead.len(), residents.len()))
            }
        }
    }
}
