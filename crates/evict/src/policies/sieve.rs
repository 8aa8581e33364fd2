//! SIEVE: CLOCK without moves. Requested objects stay in place, and a hand moves through the queue from the oldest to
//! the newest, so that new objects are examined soon.

use crate::parts::by_slot::BySlot;
use crate::parts::queue::Queue;
use crate::policy::{Capacity, Policy, Residents, Slot};

/// Evicts the next object that was not requested since the hand last passed it.
pub struct Sieve {
    queue: Queue,
    visited: BySlot<bool>,
    /// The position of the search for the next victim; `None` for the oldest object.
    hand: Option<Slot>,
}

impl Policy for Sieve {
    type Params = ();

    const ABOUT: &'static str = "evicts the first object without a request since the last round of a hand, which moves from old to new objects";

    fn new(_capacity: Capacity, _params: (), _seed: u64) -> Self {
        Self { queue: Queue::new(), visited: BySlot::new(), hand: None }
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        self.queue.push_front(slot);
        self.visited.put(slot, false);
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        self.visited[slot] = true;
    }

    #[inline]
    fn evict<R: Residents>(&mut self, _residents: &R) -> Option<Slot> {
        let mut slot = self.hand.or(self.queue.back())?;
        while std::mem::take(&mut self.visited[slot]) {
            slot = self.queue.before(slot).or(self.queue.back())?;
        }
        self.hand = self.queue.before(slot);
        self.queue.remove(slot);
        Some(slot)
    }

    #[inline]
    fn on_remove<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        if self.hand == Some(slot) {
            self.hand = self.queue.before(slot);
        }
        self.queue.remove(slot);
    }

    fn heap_bytes(&self) -> usize {
        self.queue.heap_bytes() + self.visited.heap_bytes()
    }

    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        self.queue.validate(residents)?;
        match self.hand.filter(|&slot| !residents.contains(slot)) {
            None => Ok(()),
            Some(slot) => Err(format!("the hand points to {slot}, which is not resident")),
        }
    }
}
