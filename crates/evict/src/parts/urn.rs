//! Resident slots for random sampling, each with a note `T`.
//!
//! Slots and notes are adjacent without gaps, so that a draw is one memory access. This takes 8 bytes for each object,
//! and the note.

use std::ops::{Index, IndexMut};

use fastrand::Rng;

use crate::params::{Param, Params, read_count};
use crate::parts::by_slot::BySlot;
use crate::policy::{Residents, Slot};

/// The urn, and the random generator for draws.
pub(crate) struct Urn<T> {
    /// By place. Only the first `len` entries are valid.
    entries: BySlot<(Slot, T)>,
    /// By slot: its place.
    places: BySlot<u32>,
    len: u32,
    rng: Rng,
}

impl<T: Copy> Urn<T> {
    pub(crate) fn new(seed: u64) -> Self {
        Self { entries: BySlot::new(), places: BySlot::new(), len: 0, rng: Rng::with_seed(seed) }
    }

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Adds `slot`, which must be absent.
    #[inline]
    pub(crate) fn insert(&mut self, slot: Slot, note: T) {
        self.entries.put(self.len, (slot, note));
        self.places.put(slot, self.len);
        self.len += 1;
    }

    /// Removes `slot`. Returns whether it was present.
    #[inline]
    pub(crate) fn remove(&mut self, slot: Slot) -> bool {
        let Some(place) = self.place(slot) else { return false };
        self.len -= 1;
        let last = self.entries[self.len];
        self.entries[place] = last;
        self.places[last.0] = place;
        true
    }

    #[inline]
    pub(crate) fn draw(&mut self) -> Option<Slot> {
        let place = (self.len > 0).then(|| self.rng.u32(..self.len))?;
        Some(self.entries[place].0)
    }

    /// Draws `samples` slots with replacement, and returns the one with the lowest rank. Examines all slots instead if
    /// that takes no more work. Of equals, the first one seen is returned.
    #[inline]
    pub(crate) fn lowest<K: PartialOrd>(
        &mut self,
        samples: u32,
        rank: impl Fn(Slot, &T) -> K,
    ) -> Option<Slot> {
        let draws_all = self.len <= samples;
        let mut lowest = None;
        for draw in 0..samples.min(self.len) {
            let place = if draws_all { draw } else { self.rng.u32(..self.len) };
            let (slot, note) = &self.entries[place];
            let rank = rank(*slot, note);
            if lowest.as_ref().is_none_or(|(_, low)| rank < *low) {
                lowest = Some((*slot, rank));
            }
        }
        lowest.map(|(slot, _)| slot)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.entries.heap_bytes() + self.places.heap_bytes()
    }

    /// Checks that every slot is at its place, and is resident.
    pub(crate) fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        for place in 0..self.len {
            let (slot, _) = self.entries[place];
            if self.places.get(slot) != Some(&place) {
                return Err(format!(
                    "slot {slot} stands at {place} and is sought at {:?}",
                    self.places.get(slot)
                ));
            }
            if !residents.contains(slot) {
                return Err(format!("slot {slot} can be drawn and is not resident"));
            }
        }
        Ok(())
    }

    /// Also checks that it holds as many slots as there are residents.
    pub(crate) fn validate_holds_all<R: Residents>(&self, residents: &R) -> Result<(), String> {
        self.validate(residents)?;
        match self.len() == residents.len() {
            true => Ok(()),
            false => Err(format!("{} slots to draw of {} residents", self.len(), residents.len())),
        }
    }

    #[inline]
    fn place(&self, slot: Slot) -> Option<u32> {
        let place = *self.places.get(slot)?;
        (place < self.len && self.entries[place].0 == slot).then_some(place)
    }
}

impl<T: Copy> Index<Slot> for Urn<T> {
    type Output = T;

    /// Returns the note of `slot`, which must be present.
    #[inline]
    fn index(&self, slot: Slot) -> &T {
        &self.entries[self.places[slot]].1
    }
}

impl<T: Copy> IndexMut<Slot> for Urn<T> {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut T {
        &mut self.entries[self.places[slot]].1
    }
}

/// The number of residents examined for each victim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Samples<const DEFAULT: u32>(u32);

impl<const DEFAULT: u32> Samples<DEFAULT> {
    pub(crate) fn count(&self) -> u32 {
        self.0
    }
}

impl<const DEFAULT: u32> Default for Samples<DEFAULT> {
    fn default() -> Self {
        Self(DEFAULT)
    }
}

impl<const DEFAULT: u32> Params for Samples<DEFAULT> {
    const ALL: &'static [Param] =
        &[Param { name: "samples", about: "residents looked at for each victim: 1 to 65536" }];

    fn set(&mut self, _samples: &str, value: &str) -> Result<(), String> {
        self.0 = read_count(value, 1..=65_536)?;
        Ok(())
    }

    fn get(&self, _samples: &str) -> String {
        self.0.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_each_about_as_often() {
        let mut urn = Urn::new(1);
        (0..20).for_each(|slot| urn.insert(slot, ()));
        (0..10).for_each(|slot| assert!(urn.remove(slot * 2)));
        assert!(!urn.remove(4));
        let mut drawn = [0; 20];
        (0..10_000).filter_map(|_| urn.draw()).for_each(|slot| drawn[slot as usize] += 1);
        assert!(drawn.iter().step_by(2).all(|&times| times == 0));
        assert!(drawn.iter().skip(1).step_by(2).all(|times| (850..1_150).contains(times)), "{drawn:?}");
    }

    #[test]
    fn notes_move_with_their_slots() {
        let mut urn = Urn::new(1);
        (0..9).for_each(|slot| urn.insert(slot, slot * 10));
        urn.remove(0);
        urn[8] += 1;
        assert_eq!((urn[8], urn[3], urn.len()), (81, 30, 8));
    }

    #[test]
    fn looks_at_all_where_that_is_no_more_work() {
        let mut urn = Urn::new(1);
        assert_eq!(urn.lowest(8, |_, &note| note), None);
        (0..8).for_each(|slot| urn.insert(slot, (slot + 5) % 8));
        assert_eq!(urn.lowest(8, |_, &note| note), Some(3));
        (8..800).for_each(|slot| urn.insert(slot, slot));
        let slots = (0..100).filter_map(|_| urn.lowest(8, |_, &note| note));
        let mean = slots.sum::<u32>() / 100;
        assert!((50..150).contains(&mean), "the lowest of 8 from 800: {mean} on average");
    }
}
