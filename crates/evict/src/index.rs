//! From a key to its slot, by hash table.
//!
//! Keys are hashes already, so they are used as they are: hashbrown places by their low bits and tags by
//! their top 7. Whoever spreads keys over shards should do so by bits between these. The table holds slots
//! alone, 4 bytes and a tag each; keys are compared where the objects are.

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

    /// Adds `slot` for `key`, which is not there yet; `key_of` knows the keys of all slots.
    pub(crate) fn insert(&mut self, key: u64, slot: Slot, key_of: impl Fn(Slot) -> u64) {
        self.0.insert_unique(key, slot, |&slot| key_of(slot));
    }

    pub(crate) fn remove(&mut self, key: u64, slot: Slot) -> bool {
        self.0.find_entry(key, |&other| other == slot).map(|found| found.remove()).is_ok()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.allocation_size()
    }
}
