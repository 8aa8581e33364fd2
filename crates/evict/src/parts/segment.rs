//! A list with the total weight of its objects: one of several queues in a cache.

use crate::parts::list::{Links, List};
use crate::policy::{Residents, Slot};

/// A [`List`] and the sum of its objects' weights, in the capacity's unit.
pub(crate) struct Segment {
    list: List,
    used: u64,
}

impl Segment {
    pub(crate) const fn new() -> Self {
        Self { list: List::new(), used: 0 }
    }

    /// Returns the sum of the weights.
    #[inline]
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Whether there are no objects.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the last slot.
    #[inline]
    pub(crate) fn back(&self) -> Option<Slot> {
        self.list.back()
    }

    /// Adds `slot`, which must be in no list of these `links`.
    #[inline]
    pub(crate) fn push_front<R: Residents>(&mut self, links: &mut Links, slot: Slot, residents: &R) {
        self.list.push_front(links, slot);
        self.used += residents.weight(slot);
    }

    /// Removes and returns the last slot.
    #[inline]
    pub(crate) fn pop_back<R: Residents>(&mut self, links: &mut Links, residents: &R) -> Option<Slot> {
        let slot = self.list.pop_back(links)?;
        self.used -= residents.weight(slot);
        Some(slot)
    }

    /// Removes `slot`, which must be in this list.
    #[inline]
    pub(crate) fn remove<R: Residents>(&mut self, links: &mut Links, slot: Slot, residents: &R) {
        self.list.remove(links, slot);
        self.used -= residents.weight(slot);
    }

    /// Moves `slot`, which must be in this list, to the front.
    #[inline]
    pub(crate) fn move_to_front(&mut self, links: &mut Links, slot: Slot) {
        self.list.move_to_front(links, slot);
    }

    /// Returns the slots, first to last.
    pub(crate) fn iter<'a>(&self, links: &'a Links) -> impl Iterator<Item = Slot> + use<'a> {
        self.list.iter(links)
    }

    /// Returns the slots, last to first.
    pub(crate) fn iter_back<'a>(&self, links: &'a Links) -> impl Iterator<Item = Slot> + use<'a> {
        std::iter::successors(self.back(), |&slot| links.before(slot))
    }

    /// Checks the list and the sum. Returns the number of objects.
    pub(crate) fn validate<R: Residents>(&self, links: &Links, residents: &R) -> Result<usize, String> {
        let len = self.list.validate(links, residents)?;
        let used: u64 = self.iter(links).map(|slot| residents.weight(slot)).sum();
        match used == self.used {
            true => Ok(len),
            false => Err(format!("a queue's objects weigh {used}, {} counted", self.used)),
        }
    }
}

/// Checks each of the `segments`, that every resident is in one of them, and that `place` returns the right one.
pub(crate) fn validate_all<'a, R: Residents>(
    segments: impl IntoIterator<Item = &'a Segment>,
    links: &Links,
    residents: &R,
    place: impl Fn(Slot) -> usize,
) -> Result<(), String> {
    let mut queued = 0;
    for (at, segment) in segments.into_iter().enumerate() {
        queued += segment.validate(links, residents)?;
        if let Some(slot) = segment.iter(links).find(|&slot| place(slot) != at) {
            return Err(format!("slot {slot} is in queue {at} and marked for queue {}", place(slot)));
        }
    }
    match queued == residents.len() {
        true => Ok(()),
        false => Err(format!("{queued} slots queued of {} residents", residents.len())),
    }
}
