//! One queue of all objects: FIFO leaves it as it is, so that a hit costs nothing, and LRU moves an object that is
//! requested to its front.

use crate::parts::queue::Queue;
use crate::policy::{Capacity, Policy, Residents, Slot, leave_rest_to_part};

/// Evicts the last object of the queue. A replaced object counts as new.
pub struct QueuePolicy<const MOVES_HITS: bool>(Queue);

/// First in, first out: evicts the object that was stored first.
pub type Fifo = QueuePolicy<false>;

/// Evicts the least recently requested object: the one requested last is likely to be requested next.
pub type Lru = QueuePolicy<true>;

impl<const MOVES_HITS: bool> Policy for QueuePolicy<MOVES_HITS> {
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

    leave_rest_to_part!();
}
