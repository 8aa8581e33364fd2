//! Largest first: the space of one large object is enough for many smaller ones.

use crate::parts::heap::Heap;
use crate::policy::{Capacity, Policy, Residents, Slot};

/// Evicts the largest object and, among equals, the least recently requested.
pub struct Maxs(Heap);

impl Maxs {
    #[inline]
    fn priority<R: Residents>(slot: Slot, residents: &R) -> u64 {
        u64::MAX - residents.object(slot).size
    }
}

impl Policy for Maxs {
    type Params = ();

    const ABOUT: &'static str = "evicts the largest object, so that many small ones can stay";
    const COST: &'static str = "O(log n)";

    fn new(_capacity: Capacity, _params: (), _seed: u64) -> Self {
        Self(Heap::new())
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, residents: &R) {
        self.0.push(slot, Self::priority(slot, residents));
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, residents: &R) {
        self.0.update(slot, Self::priority(slot, residents));
    }

    #[inline]
    fn evict<R: Residents>(&mut self, _residents: &R) -> Option<Slot> {
        self.0.pop().map(|(victim, _)| victim)
    }

    #[inline]
    fn on_remove<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        self.0.remove(slot);
    }

    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        self.0.validate(residents)
    }
}
