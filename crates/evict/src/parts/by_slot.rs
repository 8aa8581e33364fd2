//! An array with an element for every slot that was ever used.
//!
//! It grows by an eighth, not by doubling: a cache that stops growing at its capacity should not hold twice the memory
//! that it needs.

use std::ops::{Index, IndexMut};

use crate::policy::Slot;

/// A policy's data for each object, by [`Slot`].
pub(crate) struct BySlot<T>(Vec<T>);

impl<T: Copy> BySlot<T> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Writes `element` at `slot`. Lower places that were never written are filled with `element`, too.
    #[inline]
    pub(crate) fn put(&mut self, slot: Slot, element: T) {
        match self.0.get_mut(slot as usize) {
            Some(place) => *place = element,
            None => self.grow(slot, element),
        }
    }

    #[cold]
    fn grow(&mut self, slot: Slot, element: T) {
        let len = slot as usize + 1;
        if len > self.0.capacity() {
            self.0.reserve_exact(len - self.0.len() + len / 8);
        }
        self.0.resize(len, element);
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&T> {
        self.0.get(slot as usize)
    }

    /// Returns all elements, for several writes with one lookup.
    #[inline]
    pub(crate) fn places(&mut self) -> &mut [T] {
        &mut self.0
    }

    /// Returns the number of places: the largest number of slots that were taken at once.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<T>()
    }
}

impl<T> Index<Slot> for BySlot<T> {
    type Output = T;

    #[inline]
    fn index(&self, slot: Slot) -> &T {
        &self.0[slot as usize]
    }
}

impl<T> IndexMut<Slot> for BySlot<T> {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut T {
        &mut self.0[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_by_an_eighth() {
        let mut array = BySlot::new();
        for slot in 0..100_000 {
            array.put(slot, u64::from(slot));
            let most = (slot as usize + 1) * 9 / 8 + 8;
            assert!(array.heap_bytes() <= most * size_of::<u64>(), "{} bytes at {slot}", array.heap_bytes());
        }
        assert!((0..100_000).all(|slot| array[slot] == u64::from(slot)));
        assert_eq!(array.get(100_000), None);
    }
}
