//! Random eviction: the baseline for other policies.

use crate::parts::urn::Urn;
use crate::policy::{Capacity, Policy, Residents, Slot, leave_rest_to_part};

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

    leave_rest_to_part!(0, validate_holds_all);
}
