//! A hash table from keys to slots.
//!
//! Keys are already hashes, so the table uses them unchanged: hashbrown takes the position from their low bits and the
//! tag from the top 7. Spread keys over shards by the bits between these. The table holds only slots, with 4 bytes and
//! a tag for each; keys are compared in the objects.
//!
//! By default, hashbrown doubles a table that is more than half full when removals have littered it, and a cache at its
//! capacity always is. So this code rebuilds the table: at the size that its contents need, after the old table is
//! freed, and in the order of the objects, which reads memory in sequence.

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

    /// Makes room for one more slot. `residents` are all slots and keys in the table.
    pub(crate) fn make_room(&mut self, residents: impl Iterator<Item = (Slot, u64)>) {
        if !self.has_room() {
            self.rebuild(self.len(), residents);
        }
    }

    /// Rebuilds the table with only `residents`, `len` of them, and room for an eighth more.
    pub(crate) fn rebuild(&mut self, len: usize, residents: impl Iterator<Item = (Slot, u64)>) {
        // The old table is freed first, so that both tables never exist at the same time. The spare eighth bounds the
        // frequency of rebuilds: on average, an insertion pays for moving at most 8 slots.
        self.0 = HashTable::new();
        self.0 = HashTable::with_capacity(len + len / 8 + 1);
        for (slot, key) in residents {
            self.insert(key, slot);
        }
    }

    /// Adds `slot` for `key`. The key must be absent, and the table must have room for it.
    #[inline]
    pub(crate) fn insert(&mut self, key: u64, slot: Slot) {
        self.0.insert_unique(key, slot, |_| unreachable!("room was made before"));
    }

    #[inline]
    pub(crate) fn remove(&mut self, key: u64, slot: Slot) -> bool {
        self.take(key, |other| other == slot).is_some()
    }

    /// Finds and removes a slot.
    #[inline]
    pub(crate) fn take(&mut self, key: u64, is_key: impl Fn(Slot) -> bool) -> Option<Slot> {
        self.0.find_entry(key, |&slot| is_key(slot)).map(|found| found.remove().0).ok()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the bytes allocated by an index with room for `len` slots.
    pub(crate) fn bytes_for(len: usize) -> usize {
        HashTable::<Slot>::with_capacity(len).allocation_size()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.allocation_size()
    }
}
