//! Least frequently used: objects with many requests are likely to be requested again.

use crate::parts::frequency::Frequencies;
use crate::policy::{Capacity, Policy, Residents, Slot, leave_rest_to_part};

/// Evicts the object with the fewest requests since it was stored and, among equals, the least recently requested.
///
/// Evicted objects are forgotten: they return as new. Ignores sizes.
pub struct Lfu(Frequencies);

impl Policy for Lfu {
    type Params = ();

    const ABOUT: &'static str = "evicts the least frequently requested object since it was stored";

    fn new(_capacity: Capacity, _params: (), _seed: u64) -> Self {
        Self(Frequencies::new())
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        self.0.insert(slot);
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        self.0.hit(slot);
    }

    #[inline]
    fn evict<R: Residents>(&mut self, _residents: &R) -> Option<Slot> {
        let victim = self.0.first()?;
        self.0.remove(victim);
        Some(victim)
    }

    leave_rest_to_part!();
}
