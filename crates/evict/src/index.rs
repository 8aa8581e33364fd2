//! From a key to its slot, by hash table.
//!
//! Keys are hashes already, so they are used as they are: hashbrown places by their low bits and tags by
//! their top 7. Spread keys over shards by the bits between these. The table holds slots
//! alone, 4 bytes and a tag each; keys are compared where the objects are.
//!
//! Left to itself, hashbrown doubles when removals have littered a table that is more than half full, as a
//! cache at its capacity always is. So the table is rebuilt here: at the size that its contents call for,
//! after the old one is gone, and in the objects' order, which reads memory in sequence.

use hashbrown::HashTable;

use crate::policy::Slot;

pub(crate) struct Index(HashTable<Slot>);

impl Index {
    pub(crate) const fn new() -> Self {
        Self(HashTable::new())
    }

    #[inline]
    pub(crate) fn find(&self, key: u64, is_key: impl Fn(Slot) -> bool) -> Option<Slot> {
        self.0.find(key, |&slot| is_key(slot)).copied()
    }

    /// Whether one more slot can be inserted.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.0.len() < self.0.capacity()
    }

    /// Sees to it that one more slot has room; `residents` are all slots and keys that are in.
    pub(crate) fn make_room(&mut self, residents: impl Iterator<Item = (Slot, u64)>) {
        if !self.has_room() {
            self.rebuild(self.len(), residents);
        }
    }

    /// Holds only `residents`, `len` of them, with room for an eighth more.
    pub(crate) fn rebuild(&mut self, len: usize, residents: impl Iterator<Item = (Slot, u64)>) {
        // Emptied first, so that the old table and the new one are never there at once. The spare eighth
        // bounds how often this happens: over time, an insertion pays for at most 8 slots' moves.
        self.0 = HashTable::new();
        self.0 = HashTable::with_capacity(len + len / 8 + 1);
        for (slot, key) in residents {
            self.insert(key, slot);
        }
    }

    /// Adds `slot` for `key`, which is not there yet and for which there is room.
    #[inline]
    pub(crate) fn insert(&mut self, key: u64, slot: Slot) {
        self.0.insert_unique(key, slot, |_| unreachable!("room was made before"));
    }

    #[inline]
    pub(crate) fn remove(&mut self, key: u64, slot: Slot) -> bool {
        self.take(key, |other| other == slot).is_some()
    }

    /// Finds a slot and removes it.
    #[inline]
    pub(crate) fn take(&mut self, key: u64, is_key: impl Fn(Slot) -> bool) -> Option<Slot> {
        self.0.find_entry(key, |&slot| is_key(slot)).map(|found| found.remove().0).ok()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// What an index with room for `len` slots takes.
    pub(crate) fn bytes_for(len: usize) -> usize {
        HashTable::<Slot>::with_capacity(len).allocation_size()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.allocation_size()
    }
}
