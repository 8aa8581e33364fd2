//! Objects and their values, by slot.
//!
//! An object and its value share one place with the link to the next vacant slot, which replaces them after removal: a
//! hit finds key and value together, and the free list takes no memory.

use crate::parts::chunks::Chunks;
use crate::policy::{NONE, Object, Slot};

// The object's fields are listed separately, so that the discriminant fits beside `cost`.
enum Cell<V> {
    Taken { key: u64, size: u64, cost: u32, value: V },
    Vacant { next: Slot },
}

/// Objects and values, and which slots are vacant.
pub(crate) struct Slab<V> {
    places: Chunks<Cell<V>>,
    vacant: Slot,
    len: usize,
}

impl<V> Slab<V> {
    pub(crate) const fn new() -> Self {
        Self { places: Chunks::new(), vacant: NONE, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the first slot that was never taken.
    pub(crate) fn end(&self) -> Slot {
        self.places.len() as Slot
    }

    /// Whether all possible slots are taken.
    pub(crate) fn is_full(&self) -> bool {
        self.len == NONE as usize
    }

    /// Stores an object and its value in a vacant slot; the slab must not be full.
    pub(crate) fn insert(&mut self, object: Object, value: V) -> Slot {
        let Object { key, size, cost } = object;
        let taken = Cell::Taken { key, size, cost, value };
        self.len += 1;
        if self.vacant == NONE {
            self.places.push(taken);
            return (self.places.len() - 1) as Slot;
        }
        let slot = self.vacant;
        if let Cell::Vacant { next } = std::mem::replace(&mut self.places[slot], taken) {
            self.vacant = next;
        }
        slot
    }

    /// Vacates `slot`. Returns `None` if it is vacant.
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<(Object, V)> {
        self.object(slot)?;
        let gone = std::mem::replace(&mut self.places[slot], Cell::Vacant { next: self.vacant });
        self.vacant = slot;
        self.len -= 1;
        taken(gone)
    }

    #[inline]
    pub(crate) fn object(&self, slot: Slot) -> Option<Object> {
        match self.places.get(slot)? {
            &Cell::Taken { key, size, cost, .. } => Some(Object { key, size, cost }),
            Cell::Vacant { .. } => None,
        }
    }

    #[inline]
    pub(crate) fn value(&self, slot: Slot) -> Option<&V> {
        match self.places.get(slot)? {
            Cell::Taken { value, .. } => Some(value),
            Cell::Vacant { .. } => None,
        }
    }

    /// Returns the cost and the value at `slot`, for changes.
    pub(crate) fn cost_and_value(&mut self, slot: Slot) -> Option<(&mut u32, &mut V)> {
        self.object(slot)?;
        match &mut self.places[slot] {
            Cell::Taken { cost, value, .. } => Some((cost, value)),
            Cell::Vacant { .. } => None,
        }
    }

    /// Returns the taken slots with their objects and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, Object, &V)> {
        self.places.iter().filter_map(|(slot, place)| match place {
            &Cell::Taken { key, size, cost, ref value } => Some((slot, Object { key, size, cost }, value)),
            Cell::Vacant { .. } => None,
        })
    }

    pub(crate) fn into_values(self) -> impl Iterator<Item = V> {
        self.places.into_iter().filter_map(|place| taken(place).map(|(_, value)| value))
    }

    /// Returns the bytes allocated, without the places of the values.
    pub(crate) fn overhead_bytes(&self) -> usize {
        self.places.heap_bytes() - self.len * size_of::<V>()
    }

    /// Checks that the chain of vacant slots contains every vacant slot.
    pub(crate) fn validate(&self) -> Result<(), String> {
        let taken = self.iter().count();
        if taken != self.len {
            return Err(format!("{taken} slots are taken, {} counted", self.len));
        }
        let vacancies = self.places.len() - taken;
        let mut slot = self.vacant;
        for _ in 0..vacancies {
            match self.places.get(slot) {
                Some(Cell::Vacant { next }) => slot = *next,
                _ => return Err(format!("the chain of {vacancies} vacant slots leads to {slot}")),
            }
        }
        match slot {
            NONE => Ok(()),
            slot => Err(format!("the chain of {vacancies} vacant slots goes on to {slot}")),
        }
    }
}

fn taken<V>(place: Cell<V>) -> Option<(Object, V)> {
    match place {
        Cell::Taken { key, size, cost, value } => Some((Object { key, size, cost }, value)),
        Cell::Vacant { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(key: u64) -> Object {
        Object { key, size: 2 * key, cost: 3 }
    }

    #[test]
    fn a_place_takes_24_bytes_beyond_its_value() {
        assert_eq!(size_of::<Cell<u64>>(), 24 + 8);
        assert_eq!(size_of::<Cell<Box<u8>>>(), 24 + 8);
        assert_eq!(size_of::<Cell<[usize; 2]>>(), 24 + 16);
    }

    #[test]
    fn vacant_slots_are_used_again() {
        let mut slab = Slab::new();
        let slots: Vec<_> = (0..5).map(|key| slab.insert(object(key), key)).collect();
        assert_eq!(slots, [0, 1, 2, 3, 4]);
        assert_eq!(slab.remove(1), Some((object(1), 1)));
        assert_eq!(slab.remove(3), Some((object(3), 3)));
        assert_eq!(slab.remove(3), None);
        assert_eq!(slab.validate(), Ok(()));
        assert_eq!(
            [slab.insert(object(7), 7), slab.insert(object(8), 8), slab.insert(object(9), 9)],
            [3, 1, 5]
        );
        assert_eq!(slab.validate(), Ok(()));
        assert_eq!((slab.object(3), slab.value(1)), (Some(object(7)), Some(&8)));
    }
}
