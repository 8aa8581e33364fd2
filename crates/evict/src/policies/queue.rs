//! One queue of all objects: FIFO leaves it as it is, so that a hit costs nothing, and LRU moves an object that is
//! requested to its front.

use crate::parts::queue::Queue;
use crate::policy::{Capacity, Policy, Residents, Slot};

/// Evicts the last object of the queue. A replaced object counts as new.
pub struct Queued<const MOVES_HITS: bool>(Queue);

/// First in, first out: evicts the object that was stored first.
pub type Fifo = Queued<false>;

/// Evicts the least recently requested object: the one requested last is likely to be requested next.
pub type Lru = Queued<true>;

impl<const MOVES_HITS: bool> Policy for Queued<MOVES_HITS> {
    type Params = ();

    const ABOUT: &'static str = match MOVES_HITS {
        false => "evicts the oldest object, regardless of later requests",
        true => "evicts the least recently requested object",
    };

    fn new(_capacity: Capacity, _params: (), _seed: u64) -> Self {
        Self(Queue::new())
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        self.0.push_front(slot);
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        if MOVES_HITS {
            self.0.move_to_front(slot);
        }
    }

    #[inline]
    fn evict<R: Residents>(&mut self, _residents: &R) -> Option<Slot> {
        self.0.pop_back()
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
