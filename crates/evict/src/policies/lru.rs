//! Least recently used: what was asked for last is likely to be asked for next.

use crate::parts::list::{Links, List};
use crate::policy::{Capacity, Policy, Residents, Slot};

/// Evicts what has not been asked for the longest.
pub struct Lru {
    links: Links,
    queue: List,
}

impl Policy for Lru {
    type Params = ();

    const ABOUT: &'static str = "evicts what has not been asked for the longest";

    fn new(_capacity: Capacity, _params: (), _seed: u64) -> Self {
        Self { links: Links::new(), queue: List::new() }
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        self.queue.push_front(&mut self.links, slot);
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        self.queue.move_to_front(&mut self.links, slot);
    }

    #[inline]
    fn evict<R: Residents>(&mut self, _residents: &R) -> Option<Slot> {
        self.queue.pop_back(&mut self.links)
    }

    #[inline]
    fn on_remove<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        self.queue.remove(&mut self.links, slot);
    }

    fn heap_bytes(&self) -> usize {
        self.links.heap_bytes()
    }

    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        self.queue.validate(&self.links, residents)?;
        match self.queue.len() == residents.len() {
            true => Ok(()),
            false => Err(format!("{} slots queued of {} residents", self.queue.len(), residents.len())),
        }
    }
}
