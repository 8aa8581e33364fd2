//! First in, first out: a hit changes no state, so it has no cost.

use crate::parts::queue::Queue;
use crate::policy::{Capacity, Policy, Residents, Slot};

/// Evicts the object that was stored first. A replaced object counts as new.
pub struct Fifo {
    queue: Queue,
}

impl Policy for Fifo {
    type Params = ();

    const ABOUT: &'static str = "evicts the oldest object, regardless of later requests";

    fn new(_capacity: Capacity, _params: (), _seed: u64) -> Self {
        Self { queue: Queue::new() }
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        self.queue.push_front(slot);
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, _slot: Slot, _residents: &R) {}

    #[inline]
    fn evict<R: Residents>(&mut self, _residents: &R) -> Option<Slot> {
        self.queue.pop_back()
    }

    #[inline]
    fn on_remove<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        self.queue.remove(slot);
    }

    fn heap_bytes(&self) -> usize {
        self.queue.heap_bytes()
    }

    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        self.queue.validate(residents)
    }
}
