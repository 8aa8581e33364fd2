//! Doubly linked lists over slots.
//!
//! The links are stored separately from the lists. A slot is in at most one of the lists that share [`Links`], so a
//! policy with several queues needs only 8 bytes for each object. [`List::remove`] does not check that the slot is in
//! that list; [`List::validate`] detects an error.

use crate::parts::by_slot::BySlot;
use crate::policy::{NONE, Residents, Slot};

#[derive(Clone, Copy)]
struct Link {
    prev: Slot,
    next: Slot,
}

/// The neighbours of every slot.
pub(crate) struct Links(BySlot<Link>);

impl Links {
    pub(crate) const fn new() -> Self {
        Self(BySlot::new())
    }

    /// Returns the neighbour of `slot`, which is in a list, towards the front.
    #[inline]
    pub(crate) fn before(&self, slot: Slot) -> Option<Slot> {
        some(self.0[slot].prev)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}

/// A list of slots, newest first by convention.
pub(crate) struct List {
    front: Slot,
    back: Slot,
}

impl List {
    pub(crate) const fn new() -> Self {
        Self { front: NONE, back: NONE }
    }

    /// Adds `slot`, which must be in no list.
    #[inline]
    pub(crate) fn push_front(&mut self, links: &mut Links, slot: Slot) {
        links.0.put(slot, Link { prev: NONE, next: self.front });
        match self.front {
            NONE => self.back = slot,
            front => links.0[front].prev = slot,
        }
        self.front = slot;
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.back == NONE
    }

    /// Whether the list has exactly one slot.
    #[inline]
    pub(crate) fn is_single(&self) -> bool {
        self.back == self.front && !self.is_empty()
    }

    /// Returns the last slot.
    #[inline]
    pub(crate) fn back(&self) -> Option<Slot> {
        some(self.back)
    }

    /// Removes and returns the last slot.
    #[inline]
    pub(crate) fn pop_back(&mut self, links: &mut Links) -> Option<Slot> {
        let slot = self.back()?;
        let links = links.0.places();
        self.back = links[slot as usize].prev;
        match self.back {
            NONE => self.front = NONE,
            back => links[back as usize].next = NONE,
        }
        Some(slot)
    }

    /// Removes `slot`, which must be in this list.
    #[inline]
    pub(crate) fn remove(&mut self, links: &mut Links, slot: Slot) {
        let links = links.0.places();
        let Link { prev, next } = links[slot as usize];
        match prev {
            NONE => self.front = next,
            _ => links[prev as usize].next = next,
        }
        match next {
            NONE => self.back = prev,
            _ => links[next as usize].prev = prev,
        }
    }

    /// Moves `slot`, which must be in this list, to the front.
    #[inline]
    pub(crate) fn move_to_front(&mut self, links: &mut Links, slot: Slot) {
        if slot == self.front {
            return;
        }
        let front = std::mem::replace(&mut self.front, slot);
        // A slot that is not the first has a predecessor, so this has fewer cases than a removal and an insertion.
        let links = links.0.places();
        let Link { prev, next } = links[slot as usize];
        links[slot as usize] = Link { prev: NONE, next: front };
        links[prev as usize].next = next;
        match next {
            NONE => self.back = prev,
            _ => links[next as usize].prev = prev,
        }
        links[front as usize].prev = slot;
    }

    /// Returns the slots, first to last.
    pub(crate) fn iter<'a>(&self, links: &'a Links) -> impl Iterator<Item = Slot> + use<'a> {
        // Bounded, so that a corrupt list does not cause an endless loop.
        std::iter::successors(some(self.front), move |&slot| some(links.0.get(slot)?.next))
            .take(links.0.len() + 1)
    }

    /// Checks that the links are consistent and that every slot is resident. Returns the number of slots.
    pub(crate) fn validate<R: Residents>(&self, links: &Links, residents: &R) -> Result<usize, String> {
        let mut prev = NONE;
        let mut count = 0;
        for slot in self.iter(links) {
            let link = links.0.get(slot).ok_or_else(|| format!("slot {slot} has no links"))?;
            if link.prev != prev {
                return Err(format!("slot {slot} follows {prev} but points back to {}", link.prev));
            }
            if !residents.contains(slot) {
                return Err(format!("slot {slot} is listed and not resident"));
            }
            prev = slot;
            count += 1;
        }
        match prev == self.back {
            true => Ok(count),
            false => Err(format!("{count} slots up to {prev}, where the last should be {}", self.back)),
        }
    }
}

#[inline]
fn some(slot: Slot) -> Option<Slot> {
    (slot != NONE).then_some(slot)
}
