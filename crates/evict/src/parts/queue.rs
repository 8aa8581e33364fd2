//! All residents in one list, for policies that need no other order.

use crate::parts::list::{Links, List};
use crate::policy::{Residents, Slot};

/// A [`List`] of every resident, newest first, with separate links.
pub(crate) struct Queue {
    links: Links,
    list: List,
}

impl Queue {
    pub(crate) const fn new() -> Self {
        Self { links: Links::new(), list: List::new() }
    }

    /// Adds `slot`, which must not be queued.
    #[inline]
    pub(crate) fn push_front(&mut self, slot: Slot) {
        self.list.push_front(&mut self.links, slot);
    }

    /// Removes and returns the last slot.
    #[inline]
    pub(crate) fn pop_back(&mut self) -> Option<Slot> {
        self.list.pop_back(&mut self.links)
    }

    /// Removes `slot`, which must be queued.
    #[inline]
    pub(crate) fn remove(&mut self, slot: Slot) {
        self.list.remove(&mut self.links, slot);
    }

    /// Moves `slot`, which must be queued, to the front.
    #[inline]
    pub(crate) fn move_to_front(&mut self, slot: Slot) {
        self.list.move_to_front(&mut self.links, slot);
    }

    /// Returns the last slot.
    #[inline]
    pub(crate) fn back(&self) -> Option<Slot> {
        self.list.back()
    }

    /// Returns the next newer slot before `slot`, which must be queued.
    #[inline]
    pub(crate) fn before(&self, slot: Slot) -> Option<Slot> {
        self.links.before(slot)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.links.heap_bytes()
    }

    /// Checks the list, and that it contains every resident.
    pub(crate) fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        let queued = self.list.validate(&self.links, residents)?;
        match queued == residents.len() {
            true => Ok(()),
            false => Err(format!("{queued} slots queued of {} residents", residents.len())),
        }
    }
}
