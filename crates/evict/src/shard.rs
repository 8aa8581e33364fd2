//! A cache for one thread at a time: objects and values within a capacity, and the policy that selects victims.
//!
//! Only a shard counts bytes. Evicted values are returned to the caller, which can drop them outside a lock. The caller
//! also interprets values, and compares the full key behind a hash.
//!
//! Occasionally an insertion rebuilds the index, which takes about a millisecond for 65,536 objects: spread a larger
//! live cache over several shards.

use crate::index::Index;
use crate::policy::{Capacity, Object, Policy, Residents, Slot};
use crate::slab::Slab;

/// The result of an insertion.
#[derive(Debug, PartialEq, Eq)]
pub enum InsertResult<V> {
    /// The object is resident.
    Stored,
    /// The object is heavier than the whole capacity, and is returned. No object was evicted for it.
    TooLarge(V),
    /// The policy does not admit the object, and it is returned.
    Refused(V),
}

/// Values of type `V` by key, under a policy `P`. It shares no cache line with another shard.
#[repr(align(128))]
pub struct Shard<P: Policy, V> {
    policy: P,
    contents: ShardIndex<V>,
    params: P::Params,
    seed: u64,
    evictions: u64,
}

impl<P: Policy, V> Shard<P, V> {
    /// Returns an empty shard. `seed` is for the policy: the same seed and calls give the same results.
    pub fn new(capacity: Capacity, params: P::Params, seed: u64) -> Self {
        let policy = P::new(capacity, params.clone(), seed);
        Self { policy, contents: ShardIndex::new(capacity), params, seed, evictions: 0 }
    }

    /// Returns the bytes allocated in addition to the values themselves.
    pub(crate) fn overhead_bytes(&self) -> usize {
        self.contents.overhead_bytes() + self.policy.heap_bytes()
    }

    /// Returns a shard that takes over the contents, capacity and count of evictions of `old`, without the admission
    /// check: the next victim of the old policy is the oldest object here.
    pub(crate) fn succeed<Q: Policy>(old: &mut Shard<Q, V>, params: P::Params, seed: u64) -> Self {
        let mut shard = Self { evictions: old.evictions(), ..Self::new(old.capacity(), params, seed) };
        old.drain(&mut |object, value| {
            let slot = shard.contents.put(object, value);
            shard.policy.on_insert(slot, &shard.contents);
        });
        shard
    }

    /// Stores `value`, if `admits` a new object.
    fn store(
        &mut self,
        object: Object,
        value: V,
        dropped: &mut Vec<V>,
        admits: impl FnOnce(&mut Self, &Object) -> bool,
    ) -> InsertResult<V> {
        let replaced = self.remove(object.key);
        let is_miss = replaced.is_none();
        dropped.extend(replaced);
        let weight = self.contents.capacity.weigh(object.size);
        if weight > self.contents.capacity.amount {
            return InsertResult::TooLarge(value);
        }
        if is_miss && !admits(self, &object) || !self.make_room(weight, dropped) {
            return InsertResult::Refused(value);
        }
        let slot = self.contents.put(object, value);
        self.policy.on_insert(slot, &self.contents);
        InsertResult::Stored
    }

    fn make_room(&mut self, weight: u64, dropped: &mut Vec<V>) -> bool {
        let before = dropped.len();
        let made = make_room(&mut self.policy, &mut self.contents, weight, |value| dropped.push(value));
        self.evictions += (dropped.len() - before) as u64;
        made
    }
}

/// The residents as a policy sees them, with write access for the shard.
pub(crate) trait Contents: Residents {
    /// The value returned for an object that leaves.
    type Value;

    /// Whether `weight` more fits and a slot is available.
    fn has_room(&self, weight: u64) -> bool;

    /// Vacates `slot`. Returns `None` if it is vacant.
    fn take(&mut self, slot: Slot) -> Option<Self::Value>;
}

/// Evicts until `weight` more fits, and passes on the evicted values. Returns `false` if the policy has no victim to
/// offer.
#[inline]
pub(crate) fn make_room<P: Policy, C: Contents>(
    policy: &mut P,
    contents: &mut C,
    weight: u64,
    mut dropped: impl FnMut(C::Value),
) -> bool {
    while !contents.has_room(weight) {
        let victim = policy.evict(contents);
        let Some(value) = victim.and_then(|slot| contents.take(slot)) else {
            debug_assert!(victim.is_none(), "{victim:?} was chosen and is not resident");
            return false;
        };
        dropped(value);
    }
    true
}

impl<P: Policy, V> Shard<P, V> {
    /// Looks `key` up; a hit counts as a request.
    #[inline]
    pub fn get(&mut self, key: u64) -> Option<&V> {
        self.contents.now += 1;
        let slot = self.contents.find(key)?;
        self.policy.on_hit(slot, &self.contents);
        self.contents.slab.value(slot)
    }

    /// Looks `key` up as [`get`](Self::get) does, for changes; the size of its object does not change.
    #[inline]
    pub fn get_mut(&mut self, key: u64) -> Option<&mut V> {
        self.contents.now += 1;
        let slot = self.contents.find(key)?;
        self.policy.on_hit(slot, &self.contents);
        self.contents.slab.cost_and_value(slot).map(|(_, value)| value)
    }

    /// Looks `key` up `count` times in sequence, as [`get`](Self::get) does. Returns whether it is resident.
    pub fn get_often(&mut self, key: u64, count: u32) -> bool {
        let Some(slot) = self.contents.find(key) else {
            self.contents.now += u64::from(count);
            return false;
        };
        if count == 0 || self.policy.on_hits(slot, count, &self.contents) {
            self.contents.now += u64::from(count);
            return true;
        }
        for _ in 0..count {
            self.contents.now += 1;
            self.policy.on_hit(slot, &self.contents);
        }
        true
    }

    /// Looks `key` up without informing the policy.
    #[inline]
    pub fn peek(&self, key: u64) -> Option<&V> {
        self.contents.slab.value(self.contents.find(key)?)
    }

    /// Returns the value of `key` for changes, without informing the policy; the size of its object does not change.
    pub fn peek_mut(&mut self, key: u64) -> Option<&mut V> {
        let slot = self.contents.find(key)?;
        self.contents.slab.cost_and_value(slot).map(|(_, value)| value)
    }

    /// Returns the value of an object of this key and size for changes. The object has this cost from now on, which the policy sees at
    /// its next request.
    pub fn renew(&mut self, object: Object) -> Option<&mut V> {
        let slot = self.contents.find(object.key)?;
        let is_same = self.contents.slab.object(slot)?.size == object.size;
        let (cost, value) = self.contents.slab.cost_and_value(slot).filter(|_| is_same)?;
        *cost = object.cost;
        Some(value)
    }

    /// Stores `value`, and evicts until it fits. The previous object with this key is removed in any case, even if the
    /// new object cannot be stored. Replaced and evicted values are added to `dropped`.
    pub fn insert(&mut self, object: Object, value: V, dropped: &mut Vec<V>) -> InsertResult<V> {
        self.store(object, value, dropped, Self::admits)
    }

    /// Makes the admission check of [`insert`](Self::insert) for an object that is not resident.
    pub fn admits(&mut self, object: &Object) -> bool {
        self.policy.admit(object, &self.contents)
    }

    /// Stores `value` as [`insert`](Self::insert) does, without the admission check: the object was admitted before, perhaps
    /// to another shard, whose contents are stored here, the next victim first.
    pub fn restore(&mut self, object: Object, value: V, dropped: &mut Vec<V>) -> InsertResult<V> {
        self.store(object, value, dropped, |_, _| true)
    }

    /// Removes and returns the value of `key`. This does not count as an eviction.
    pub fn remove(&mut self, key: u64) -> Option<V> {
        let slot = self.contents.find(key)?;
        self.policy.on_remove(slot, &self.contents);
        self.contents.take(slot)
    }

    /// Passes every key and value to `see`, in no particular order, without informing the policy.
    pub fn for_each(&self, see: &mut dyn FnMut(u64, &V)) {
        for (_, object, value) in self.contents.slab.iter() {
            see(object.key, value);
        }
    }

    /// Passes the keys and values of at most `most` slots to `see`, beginning at `from`, without informing the policy.
    /// Returns the slot to continue at, if there are more. The shard may change between two calls: a walk from 0 visits
    /// every object exactly once that is resident all the time.
    pub fn walk(&self, from: Slot, most: u32, see: &mut dyn FnMut(u64, &V)) -> Option<Slot> {
        let (slab, end) = (&self.contents.slab, from.saturating_add(most));
        for slot in from..end.min(slab.end()) {
            if let (Some(object), Some(value)) = (slab.object(slot), slab.value(slot)) {
                see(object.key, value);
            }
        }
        (end < slab.end()).then_some(end)
    }

    /// Returns the sum of the objects' weights, in the unit of the capacity: never above its amount.
    #[inline]
    pub fn used(&self) -> u64 {
        self.contents.used
    }

    /// Returns the sum of the objects' sizes, in bytes, for either unit of the capacity.
    pub fn bytes(&self) -> u64 {
        self.contents.bytes.try_into().unwrap_or(u64::MAX)
    }

    /// Returns the number of objects.
    #[inline]
    pub fn len(&self) -> usize {
        self.contents.slab.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the capacity.
    #[inline]
    pub fn capacity(&self) -> Capacity {
        self.contents.capacity
    }

    /// Changes the amount of the capacity and moves objects that no longer fit into `dropped`.
    pub fn set_capacity(&mut self, amount: u64, dropped: &mut Vec<V>) {
        self.contents.capacity.amount = amount;
        let _all_fits = self.make_room(0, dropped);
    }

    /// Returns the number of objects evicted for lack of room so far.
    #[inline]
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Moves all values into `dropped`, frees the memory, and resets the policy. The counts of evictions and of lookups
    /// continue.
    pub fn clear(&mut self, dropped: &mut Vec<V>) {
        let capacity = self.contents.capacity;
        self.policy = P::new(capacity, self.params.clone(), self.seed);
        let emptied = ShardIndex { now: self.contents.now, ..ShardIndex::new(capacity) };
        dropped.extend(std::mem::replace(&mut self.contents, emptied).slab.into_values());
    }

    /// Removes all objects, in the order in which the policy would evict them. This does not count as eviction.
    pub fn drain(&mut self, take: &mut dyn FnMut(Object, V)) {
        while let Some(slot) = self.policy.evict(&self.contents) {
            let object = self.contents.object(slot);
            let Some(value) = self.contents.take(slot) else { return };
            take(object, value);
        }
    }

    /// Returns the bytes allocated per object in addition to the value itself: key, size, cost, index, policy, and
    /// spare room. 0 when empty.
    pub fn overhead_per_object(&self) -> f64 {
        match self.len() {
            0 => 0.0,
            objects => self.overhead_bytes() as f64 / objects as f64,
        }
    }

    /// Checks every invariant, in time proportional to the contents; the error names the broken one.
    pub fn validate(&self) -> Result<(), String> {
        self.contents.validate()?;
        self.policy.validate(&self.contents)
    }
}

/// All parts of a shard except the policy; they are separate, so that the policy can read them during its own changes.
struct ShardIndex<V> {
    index: Index,
    slab: Slab<V>,
    used: u64,
    /// Under a capacity in entries, sizes are unlimited: their sum may exceed a `u64`.
    bytes: u128,
    capacity: Capacity,
    now: u64,
}

impl<V> ShardIndex<V> {
    const fn new(capacity: Capacity) -> Self {
        Self { index: Index::new(), slab: Slab::new(), used: 0, bytes: 0, capacity, now: 0 }
    }

    #[inline]
    fn find(&self, key: u64) -> Option<Slot> {
        self.index.find(key, |slot| self.slab.object(slot).is_some_and(|object| object.key == key))
    }

    fn put(&mut self, object: Object, value: V) -> Slot {
        self.index.make_room(self.slab.iter().map(|(slot, object, _)| (slot, object.key)));
        let slot = self.slab.insert(object, value);
        self.index.insert(object.key, slot);
        self.used += self.capacity.weigh(object.size);
        self.bytes += u128::from(object.size);
        slot
    }

    fn overhead_bytes(&self) -> usize {
        self.slab.overhead_bytes() + self.index.heap_bytes()
    }

    fn validate(&self) -> Result<(), String> {
        self.slab.validate()?;
        let (mut used, mut bytes) = (0, 0_u128);
        for (slot, object, _) in self.slab.iter() {
            used += self.capacity.weigh(object.size);
            bytes += u128::from(object.size);
            if self.find(object.key) != Some(slot) {
                return Err(format!(
                    "the index leads key {} to {:?}, not to {slot}",
                    object.key,
                    self.find(object.key)
                ));
            }
        }
        if self.index.len() != self.slab.len() {
            return Err(format!("the index holds {} of {} objects", self.index.len(), self.slab.len()));
        }
        if bytes != self.bytes {
            return Err(format!("{bytes} bytes held, {} counted", self.bytes));
        }
        if used != self.used || used > self.capacity.amount {
            return Err(format!("{used} used, {} counted, {} allowed", self.used, self.capacity.amount));
        }
        Ok(())
    }
}

impl<V> Contents for ShardIndex<V> {
    type Value = V;

    fn has_room(&self, weight: u64) -> bool {
        let free = self.capacity.amount.checked_sub(self.used);
        free.is_some_and(|free| weight <= free) && !self.slab.is_full()
    }

    fn take(&mut self, slot: Slot) -> Option<V> {
        let (object, value) = self.slab.remove(slot)?;
        self.index.remove(object.key, slot);
        self.used -= self.capacity.weigh(object.size);
        self.bytes -= u128::from(object.size);
        Some(value)
    }
}

impl<V> Residents for ShardIndex<V> {
    #[inline]
    fn object(&self, slot: Slot) -> Object {
        match self.slab.object(slot) {
            Some(object) => object,
            None => panic!("slot {slot} is vacant"),
        }
    }

    fn contains(&self, slot: Slot) -> bool {
        self.slab.object(slot).is_some()
    }

    fn len(&self) -> usize {
        self.slab.len()
    }

    fn used(&self) -> u64 {
        self.used
    }

    fn capacity(&self) -> Capacity {
        self.capacity
    }

    fn now(&self) -> u64 {
        self.now
    }
}
