//! Residents on probation: new objects that wait in a queue until they are requested or leave.

use crate::parts::by_slot::BySlot;
use crate::parts::list::Links;
use crate::parts::segment::Segment;
use crate::parts::share::Share;
use crate::policy::{Capacity, Residents, Slot};

/// The queue, oldest last, and its share of the capacity.
///
/// It may exceed the share until room is needed. It takes 9 bytes for each object, and 1 byte if it was never used.
pub(crate) struct Probation {
    links: Links,
    queue: Segment,
    /// By slot, for every resident.
    is_queued: BySlot<bool>,
    share: Share,
}

impl Probation {
    pub(crate) const fn new(share: f64) -> Self {
        Self {
            links: Links::new(),
            queue: Segment::new(),
            is_queued: BySlot::new(),
            share: Share::new(share),
        }
    }

    /// Whether an object of `weight` fits into the share.
    #[inline]
    pub(crate) fn fits(&mut self, weight: u64, capacity: Capacity) -> bool {
        weight <= self.share.of(capacity)
    }

    /// Returns how much of the queue exceeds the share once an object of weight `incoming` is added.
    #[inline]
    pub(crate) fn excess(&mut self, incoming: u64, capacity: Capacity) -> u64 {
        self.queue.used().saturating_add(incoming).saturating_sub(self.share.of(capacity))
    }

    /// Notes a new resident that is not on probation.
    #[inline]
    pub(crate) fn pass(&mut self, slot: Slot) {
        self.is_queued.put(slot, false);
    }

    /// Adds a new resident.
    #[inline]
    pub(crate) fn push<R: Residents>(&mut self, slot: Slot, residents: &R) {
        self.is_queued.put(slot, true);
        self.queue.push_front(&mut self.links, slot, residents);
    }

    /// Removes and returns the oldest.
    #[inline]
    pub(crate) fn pop<R: Residents>(&mut self, residents: &R) -> Option<Slot> {
        let slot = self.queue.pop_back(&mut self.links, residents)?;
        self.is_queued[slot] = false;
        Some(slot)
    }

    /// Removes the resident in `slot` if it is on probation. Returns whether it was.
    pub(crate) fn remove<R: Residents>(&mut self, slot: Slot, residents: &R) -> bool {
        let was_queued = std::mem::take(&mut self.is_queued[slot]);
        if was_queued {
            self.queue.remove(&mut self.links, slot, residents);
        }
        was_queued
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.links.heap_bytes() + self.is_queued.heap_bytes()
    }

    /// Checks the queue and its weight. Returns the number of objects.
    pub(crate) fn validate<R: Residents>(&self, residents: &R) -> Result<usize, String> {
        let len = self.queue.validate(&self.links, residents)?;
        match self.queue.iter(&self.links).find(|&slot| !self.is_queued[slot]) {
            Some(slot) => Err(format!("slot {slot} is on probation and not marked for it")),
            None => Ok(len),
        }
    }
}
