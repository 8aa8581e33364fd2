//! A hash table with a fixed number of places, which keeps frequently used entries.
//!
//! A key has four possible places. If all are taken, a new key reduces the credit of the entries there, and replaces an
//! entry without credit. An entry gains credit when it is used. So a flood of keys that occur once does not displace
//! entries in use.

/// Possible places of a key.
const WAYS: usize = 4;
/// The maximum number of new keys that an entry outlives.
const MOST_CREDIT: u8 = 15;

#[derive(Debug)]
pub(crate) struct Table<V> {
    slots: Box<[Option<Slot<V>>]>,
}

#[derive(Debug)]
struct Slot<V> {
    key: u64,
    credit: u8,
    value: V,
}

impl<V> Table<V> {
    /// Returns an empty table with at least `places` places.
    pub(crate) fn new(places: usize) -> Self {
        let buckets = places.div_ceil(WAYS).max(1);
        Self { slots: (0..buckets * WAYS).map(|_| None).collect() }
    }

    pub(crate) fn get(&self, key: u64) -> Option<&V> {
        self.bucket(key).iter().flatten().find(|slot| slot.key == key).map(|slot| &slot.value)
    }

    pub(crate) fn get_mut(&mut self, key: u64) -> Option<&mut V> {
        let slot = self.bucket_mut(key).iter_mut().flatten().find(|slot| slot.key == key);
        slot.map(|slot| &mut slot.value)
    }

    /// Returns the value of `key`, or inserts the result of `new` if there is none. Returns `None` if there is no place
    /// for it.
    pub(crate) fn entry(&mut self, key: u64, new: impl FnOnce() -> V) -> Option<&mut V> {
        let bucket = self.bucket_mut(key);
        let known = bucket.iter().position(|slot| slot.as_ref().is_some_and(|slot| slot.key == key));
        let at = match known {
            Some(at) => at,
            None => {
                let is_free = |slot: &Option<Slot<V>>| slot.as_ref().is_none_or(|slot| slot.credit == 0);
                let Some(at) = bucket.iter().position(is_free) else {
                    bucket.iter_mut().flatten().for_each(|slot| slot.credit -= 1);
                    return None;
                };
                bucket[at] = Some(Slot { key, credit: 0, value: new() });
                at
            }
        };
        let slot = bucket[at].as_mut()?;
        slot.credit = (slot.credit + 1).min(MOST_CREDIT);
        Some(&mut slot.value)
    }

    pub(crate) fn remove(&mut self, key: u64) {
        for slot in self.bucket_mut(key) {
            if slot.as_ref().is_some_and(|slot| slot.key == key) {
                *slot = None;
            }
        }
    }

    /// Iterates over keys, credits and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u8, &V)> {
        self.slots.iter().flatten().map(|slot| (slot.key, slot.credit, &slot.value))
    }

    /// Puts an entry of another table into a free place of its bucket, if there is one.
    pub(crate) fn put(&mut self, key: u64, credit: u8, value: V) {
        let bucket = self.bucket_mut(key);
        let is_known = bucket.iter().flatten().any(|slot| slot.key == key);
        if let Some(free) = bucket.iter_mut().find(|slot| slot.is_none()).filter(|_| !is_known) {
            *free = Some(Slot { key, credit: credit.min(MOST_CREDIT), value });
        }
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.slots.iter().flatten().map(|slot| &slot.value)
    }

    /// Returns the bytes of all places.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }

    fn first(&self, key: u64) -> usize {
        (key % (self.slots.len() / WAYS) as u64) as usize * WAYS
    }

    fn bucket(&self, key: u64) -> &[Option<Slot<V>>] {
        let first = self.first(key);
        &self.slots[first..first + WAYS]
    }

    fn bucket_mut(&mut self, key: u64) -> &mut [Option<Slot<V>>] {
        let first = self.first(key);
        &mut self.slots[first..first + WAYS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_in_use_outlives_a_flood_of_unique_keys() {
        let mut table = Table::new(8);
        let bytes = table.bytes();
        for round in 0..1_000_u64 {
            table.entry(3, || "used");
            table.entry(1_000 + round, || "once");
        }
        assert_eq!((table.get(3), table.bytes()), (Some(&"used"), bytes));
        assert!(table.values().count() <= 8);
        // Entries that are no longer used are replaced.
        for round in 0..100_u64 {
            table.entry(9_001 + 2 * round, || "once");
        }
        assert_eq!(table.get(3), None);
    }

    #[test]
    fn a_removed_table_entry_is_created_again() {
        let mut table = Table::new(4);
        *table.entry(1, || 5).expect("room") += 1;
        assert_eq!(table.get_mut(1), Some(&mut 6));
        table.remove(1);
        assert_eq!(table.get(1), None);
        assert_eq!(table.entry(1, || 7), Some(&mut 7));
    }
}
