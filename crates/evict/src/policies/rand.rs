//! Random eviction: the baseline for other policies.

use crate::parts::urn::Urn;
use crate::policy::{Capacity, Policy, Residents, Slot};

/// Evicts a random object; all are equally likely.
pub struct Rand(Urn<()>);

impl Policy for Rand {
    type Params = ();

    const ABOUT: &'static str = "evicts at random";

    fn new(_capacity: Capacity, _params: (), seed: u64) -> Self {
        Self(Urn::new(seed))
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        self.0.insert(slot, ());
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, _slot: Slot, _residents: &R) {}

    #[inline]
    fn evict<R: Residents>(&mut self, _residents: &R) -> Option<Slot> {
        let victim = self.0.draw()?;
        self.0.remove(victim);
        Some(victim)
    }

    #[inline]
    fn on_remove<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        self.0.remove(slot);
    }

    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        self.0.validate(residents)?;
        self.0.validate_holds_all(residents)
    }
}
