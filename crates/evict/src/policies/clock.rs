//! CLOCK, also called second chance: a queue in which requested objects get another round.

use crate::params::{params, read_count};
use crate::parts::by_slot::BySlot;
use crate::parts::queue::Queue;
use crate::policy::{Capacity, Policy, Residents, Slot};

/// Evicts the oldest object without a request since it was last considered. The queue itself takes the place of the
/// clock hand.
pub struct Clock {
    queue: Queue,
    hits: BySlot<u8>,
    most: u8,
}

params! {
    /// The parameters of [`Clock`].
    ClockParams {
        /// The number of bits that count an object's hits: each hit gives it another round.
        bits: u32 = 1, |value| read_count(value, 1..=8),
            "bits of an object's hit count, and each hit keeps it for another round: 1 to 8";
    }
}

impl Policy for Clock {
    type Params = ClockParams;

    const ABOUT: &'static str = "evicts the oldest object, but gives requested ones another round";

    fn new(_capacity: Capacity, params: ClockParams, _seed: u64) -> Self {
        Self { queue: Queue::new(), hits: BySlot::new(), most: u8::MAX >> (8 - params.bits) }
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        self.queue.push_front(slot);
        self.hits.put(slot, 0);
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        let hits = &mut self.hits[slot];
        *hits += u8::from(*hits < self.most);
    }

    #[inline(always)]
    fn evict<R: Residents>(&mut self, _residents: &R) -> Option<Slot> {
        loop {
            let slot = self.queue.back()?;
            let Some(left) = self.hits[slot].checked_sub(1) else {
                return self.queue.pop_back();
            };
            self.hits[slot] = left;
            self.queue.move_to_front(slot);
        }
    }

    #[inline]
    fn on_remove<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        self.queue.remove(slot);
    }

    fn heap_bytes(&self) -> usize {
        self.queue.heap_bytes() + self.hits.heap_bytes()
    }

    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        self.queue.validate(residents)
    }
}
