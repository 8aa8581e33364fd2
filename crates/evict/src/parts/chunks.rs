//! A growing array that never moves its elements.
//!
//! A plain vector doubles, so that a full cache would briefly need three times its memory. This array grows by one
//! chunk at a time. Only the first chunk grows by doubling, so that a small cache stays small.

use std::ops::{Index, IndexMut};

use crate::policy::Slot;

const BITS: u32 = 12;
const CHUNK: usize = 1 << BITS;

/// Elements by [`Slot`], in chunks of 4,096.
pub(crate) struct Chunks<T> {
    chunks: Vec<Vec<T>>,
}

impl<T> Chunks<T> {
    pub(crate) const fn new() -> Self {
        Self { chunks: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        match self.chunks.last() {
            Some(last) => (self.chunks.len() - 1) * CHUNK + last.len(),
            None => 0,
        }
    }

    pub(crate) fn push(&mut self, element: T) {
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK => last.push(element),
            Some(_) => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(element);
                self.chunks.push(chunk);
            }
            None => self.chunks.push(vec![element]),
        }
    }

    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> Option<&T> {
        self.chunks.get(chunk(slot))?.get(offset(slot))
    }

    pub(crate) fn into_iter(self) -> impl Iterator<Item = T> {
        self.chunks.into_iter().flatten()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &T)> {
        (0..).zip(self.chunks.iter().flatten())
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let elements: usize = self.chunks.iter().map(Vec::capacity).sum();
        elements * size_of::<T>() + self.chunks.capacity() * size_of::<Vec<T>>()
    }
}

#[inline]
fn chunk(slot: Slot) -> usize {
    (slot >> BITS) as usize
}

#[inline]
fn offset(slot: Slot) -> usize {
    slot as usize & (CHUNK - 1)
}

impl<T> Index<Slot> for Chunks<T> {
    type Output = T;

    #[inline]
    fn index(&self, slot: Slot) -> &T {
        &self.chunks[chunk(slot)][offset(slot)]
    }
}

impl<T> IndexMut<Slot> for Chunks<T> {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut T {
        &mut self.chunks[chunk(slot)][offset(slot)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_elements_where_they_were_put() {
        let mut chunks = Chunks::new();
        for i in 0..3 * CHUNK + 5 {
            assert_eq!(chunks.len(), i);
            chunks.push(i);
        }
        assert!(chunks.iter().all(|(slot, &element)| slot as usize == element));
        assert_eq!(chunks[CHUNK as Slot], CHUNK);
        assert_eq!(chunks.get(3 * CHUNK as Slot + 5), None);
        assert_eq!(chunks.into_iter().count(), 3 * CHUNK + 5);
    }

    #[test]
    fn grows_by_no_more_than_a_chunk() {
        let mut chunks = Chunks::new();
        let mut before = 0;
        for i in 0..20 * CHUNK as u64 {
            chunks.push(i);
            let grown = chunks.heap_bytes() - before;
            assert!(grown <= CHUNK * size_of::<u64>() + 64 * size_of::<Vec<u64>>(), "{grown} bytes at {i}");
            before = chunks.heap_bytes();
        }
    }

    #[test]
    fn a_few_elements_need_little_room() {
        let mut chunks = Chunks::new();
        (0..7_u64).for_each(|element| chunks.push(element));
        assert_eq!(chunks.len(), 7);
        assert!(chunks.heap_bytes() < 256);
    }
}
