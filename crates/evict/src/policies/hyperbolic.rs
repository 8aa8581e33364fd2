//! Hyperbolic caching: the number of an object's requests, over the time since it was stored.

use crate::parts::urn::{Samples, Urn};
use crate::policy::{Capacity, Policy, Residents, Slot, leave_rest_to_part};

/// Evicts the object with the lowest rate of requests since it was stored, among `samples` drawn at random.
///
/// The rate falls while there are no requests, so an order cannot be maintained: the rate is computed when a victim is
/// needed. Ignores sizes.
pub struct Hyperbolic {
    urn: Urn<Stay>,
    samples: u32,
}

/// An object's time in the cache.
#[derive(Clone, Copy)]
struct Stay {
    times: u32,
    /// The time when the object was stored, in lookups modulo 2^32.
    since: u32,
}

impl Policy for Hyperbolic {
    type Params = Samples<64>;

    const ABOUT: &'static str = "evicts the object with the lowest rate of requests since it was stored";
    const COST: &'static str = "O(samples)";

    fn new(_capacity: Capacity, samples: Samples<64>, seed: u64) -> Self {
        Self { urn: Urn::new(seed), samples: samples.count() }
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, residents: &R) {
        self.urn.insert(slot, Stay { times: 1, since: residents.now() as u32 });
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        let stay = &mut self.urn[slot];
        stay.times = stay.times.saturating_add(1);
    }

    #[inline]
    fn evict<R: Residents>(&mut self, residents: &R) -> Option<Slot> {
        let now = residents.now() as u32;
        let rate = |_, stay: &Stay| stay.times as f32 / now.wrapping_sub(stay.since) as f32;
        let victim = self.urn.lowest(self.samples, rate)?;
        self.urn.remove(victim);
        Some(victim)
    }

    leave_rest_to_part!(urn, validate_holds_all);
}
