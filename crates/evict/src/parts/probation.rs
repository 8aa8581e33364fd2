//! Residents on probation: new objects that wait in a queue until they are requested or leave.
//!
//! They are in no [`Heap`](crate::parts::heap::Heap), whose array of places holds their numbers in the queue meanwhile. So
//! the queue takes no memory for the residents that are not on probation.

use crate::parts::heap::{APART, Places};
use crate::parts::share::Share;
use crate::policy::{Capacity, NONE, Residents, Slot};

/// The number of unused entries that are tolerated.
const FEW: usize = 32;

/// The queue, and its share of the capacity.
///
/// It may exceed the share until room is needed.
pub(crate) struct Probation {
    /// The slots, oldest first; [`NONE`] for one that was removed from the middle.
    slots: Vec<Slot>,
    /// The index of the oldest; those before it have left.
    start: usize,
    /// The number of the first entry. A slot keeps its number; numbers wrap below [`APART`].
    first: u32,
    len: usize,
    /// The sum of the weights.
    used: u64,
    share: Share,
}

impl Probation {
    pub(crate) const fn new(share: f64) -> Self {
        Self { slots: Vec::new(), start: 0, first: 0, len: 0, used: 0, share: Share::new(share) }
    }

    /// Whether an object of `weight` fits into the share.
    #[inline]
    pub(crate) fn fits(&mut self, weight: u64, capacity: Capacity) -> bool {
        weight <= self.share.of(capacity)
    }

    /// Returns how much of the queue exceeds the share once an object of weight `incoming` is added.
    #[inline]
    pub(crate) fn excess(&mut self, incoming: u64, capacity: Capacity) -> u64 {
        self.used.saturating_add(incoming).saturating_sub(self.share.of(capacity))
    }

    /// Adds a new resident.
    #[inline]
    pub(crate) fn push<R: Residents>(&mut self, slot: Slot, places: &mut Places, residents: &R) {
        places.put(slot, self.first.wrapping_add(self.slots.len() as u32) | APART);
        self.slots.push(slot);
        self.len += 1;
        self.used += residents.weight(slot);
    }

    /// Removes and returns the oldest. Its place is invalid until it enters the heap.
    #[inline]
    pub(crate) fn pop<R: Residents>(&mut self, residents: &R) -> Option<Slot> {
        let slot = *self.slots.get(self.start)?;
        self.leave(slot, residents);
        self.skip(self.start + 1);
        Some(slot)
    }

    /// Removes the resident in `slot` if it is on probation. Returns whether it was.
    pub(crate) fn remove<R: Residents>(&mut self, slot: Slot, places: &mut Places, residents: &R) -> bool {
        let Some(at) = self.find(slot, places) else { return false };
        self.leave(slot, residents);
        self.slots[at] = NONE;
        self.skip(self.start);
        if self.slots.len() - self.start > 2 * self.len + FEW {
            self.close_gaps(places);
        }
        true
    }

    #[inline]
    fn leave<R: Residents>(&mut self, slot: Slot, residents: &R) {
        self.len -= 1;
        self.used -= residents.weight(slot);
    }

    /// Sets the start to `start` or to the first slot after it, and frees the entries before it once they are many.
    #[inline]
    fn skip(&mut self, start: usize) {
        self.start = start;
        while self.slots.get(self.start) == Some(&NONE) {
            self.start += 1;
        }
        if self.start > self.slots.len() / 2 + FEW {
            self.trim();
        }
    }

    #[cold]
    fn trim(&mut self) {
        self.slots.drain(..self.start);
        self.first = self.first.wrapping_add(self.start as u32);
        self.start = 0;
    }

    #[cold]
    fn close_gaps(&mut self, places: &mut Places) {
        self.trim();
        self.slots.retain(|&slot| slot != NONE);
        for (at, &slot) in (0..).zip(&self.slots) {
            places[slot] = self.first.wrapping_add(at) | APART;
        }
    }

    /// Returns the index of `slot`, if it is on probation.
    #[inline]
    fn find(&self, slot: Slot, places: &Places) -> Option<usize> {
        let place = *places.get(slot)?;
        (place & APART != 0).then(|| (place.wrapping_sub(self.first) & !APART) as usize)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }

    /// Checks the queue and its weight. Returns the number of objects.
    pub(crate) fn validate<R: Residents>(&self, places: &Places, residents: &R) -> Result<usize, String> {
        let (mut len, mut used) = (0, 0);
        let entries = (0..).zip(&self.slots).skip(self.start).filter(|&(_, &slot)| slot != NONE);
        for (at, &slot) in entries {
            if self.find(slot, places) != Some(at) || !residents.contains(slot) {
                return Err(format!(
                    "slot {slot} is on probation at {at}, and not resident or not found there"
                ));
            }
            len += 1;
            used += residents.weight(slot);
        }
        match (len, used) == (self.len, self.used) {
            true => Ok(len),
            false => Err(format!(
                "{len} objects on probation weigh {used}, {} and {} counted",
                self.len, self.used
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{By, Object};

    /// Residents in every slot, each of weight 1.
    struct Everywhere;

    impl Residents for Everywhere {
        fn object(&self, slot: Slot) -> Object {
            Object { key: slot.into(), size: 1, cost: 0 }
        }

        fn contains(&self, _slot: Slot) -> bool {
            true
        }

        fn len(&self) -> usize {
            usize::MAX
        }

        fn used(&self) -> u64 {
            u64::MAX
        }

        fn capacity(&self) -> Capacity {
            Capacity { by: By::Entries, amount: 1_000 }
        }

        fn now(&self) -> u64 {
            0
        }
    }

    #[test]
    fn the_oldest_leave_first_whichever_others_are_removed() {
        let (mut probation, mut places) = (Probation::new(0.5), Places::new());
        let mut expected = std::collections::VecDeque::new();
        for slot in 0..10_000 {
            probation.push(slot, &mut places, &Everywhere);
            expected.push_back(slot);
            if slot % 3 > 0 {
                let at = slot as usize * 7 % expected.len();
                assert!(probation.remove(expected.remove(at).expect("it waits"), &mut places, &Everywhere));
            }
            if slot % 4 == 0 {
                assert_eq!(probation.pop(&Everywhere), expected.pop_front());
            }
            assert_eq!(probation.validate(&places, &Everywhere), Ok(expected.len()));
        }
        assert!(probation.heap_bytes() < 16 * expected.len() + 1_024, "{} bytes", probation.heap_bytes());
        assert_eq!(
            std::iter::from_fn(|| probation.pop(&Everywhere)).collect::<Vec<_>>(),
            Vec::from(expected)
        );
        assert_eq!(probation.excess(501, Everywhere.capacity()), 1);
    }
}
