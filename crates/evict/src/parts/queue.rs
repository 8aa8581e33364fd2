//! All residents in one list, for policies that need no other order.

use crate::parts::list::{Links, List};
use crate::policy::{Residents, Slot};

/// A [`List`] of every resident, newest first, with links of its own.
pub(crate) struct Queue {
    links: Links,
    list: List,
}

impl Queue {
    pub(crate) const fn new() -> Self {
        Self { links: Links::new(), list: List::new() }
    }

    /// Adds `slot`, which is not queued.
    #[inline]
    pub(crate) fn push_front(&mut self, slot: Slot) {
        self.list.push_front(&mut self.links, slot);
    }

    /// Takes the last slot out.
    #[inline]
    pub(crate) fn pop_back(&mut self) -> Option<Slot> {
        self.list.pop_back(&mut self.links)
    }

    /// Takes `slot` out, which is queued.
    #[inline]
    pub(crate) fn remove(&mut self, slot: Slot) {
        self.list.remove(&mut self.links, slot);
    }

    /// Makes `slot`, which is queued, the first.
    #[inline]
    pub(crate) fn move_to_front(&mut self, slot: Slot) {
        self.list.move_to_front(&mut self.links, slot);
    }

    /// The last slot.
    #[inline]
    pub(crate) fn back(&self) -> Option<Slot> {
        self.list.back()
    }

    /// The slot before `slot`, which is queued: one that is newer.
    #[inline]
    pub(crate) fn before(&self, slot: Slot) -> Option<Slot> {
        self.links.before(slot)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.links.heap_bytes()
    }

    /// Checks the list, and that every resident is in it.
    pub(crate) fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        let queued = self.list.validate(&self.links, residents)?;
        match queued == residents.len() {
            true => Ok(()),
            false => Err(format!("{queued} slots queued of {} residents", residents.len())),
        }
    }
}
