//! The objects of a replay, by number, with only the properties that the trace has.
//!
//! If a trace has no sizes or costs, that is known at compile time: a policy then gets a constant.

use std::cell::Cell;
use std::collections::HashMap;

use crate::parts::by_slot::BySlot;
use crate::policy::{By, Capacity, NONE, NOTED, Object, Residents, Slot};
use crate::request::{Request, Shape, spread};
use crate::shard::Contents;

/// The properties of an object that are stored in addition to its number.
pub trait Attributes: Send {
    /// Whether all objects have the same weight, so that one eviction makes room for any other object.
    const ARE_ALIKE: bool;

    /// Returns the size and the cost that are stored for an object requested with `size` and `cost`.
    fn of(&self, size: u64, cost: u32) -> (u64, u32);

    /// Stores size and cost for `slot`.
    fn put(&mut self, slot: Slot, size: u64, cost: u32);

    /// Returns the size of the object in `slot`.
    fn size(&self, slot: Slot) -> u64;

    /// Returns the cost to fetch the object in `slot`.
    fn cost(&self, slot: Slot) -> u32;

    /// Returns the bytes allocated.
    fn heap_bytes(&self) -> usize;
}

/// No attributes: every size is 1 and every cost 0.
pub struct UnitAttributes;

/// Sizes, costs or both, if they differ between objects.
pub struct ObjectAttributes {
    shape: Shape,
    /// By slot. 4 bytes are enough for most sizes; [`ELSEWHERE`] marks the others.
    sizes: BySlot<u32>,
    giants: HashMap<Slot, u64>,
    costs: BySlot<u32>,
}

/// The mark of a size that is stored among the giants.
const ELSEWHERE: u32 = u32::MAX;

impl Attributes for UnitAttributes {
    const ARE_ALIKE: bool = true;

    #[inline(always)]
    fn of(&self, _size: u64, _cost: u32) -> (u64, u32) {
        (1, 0)
    }

    #[inline(always)]
    fn put(&mut self, _slot: Slot, _size: u64, _cost: u32) {}

    #[inline(always)]
    fn size(&self, _slot: Slot) -> u64 {
        1
    }

    #[inline(always)]
    fn cost(&self, _slot: Slot) -> u32 {
        0
    }

    fn heap_bytes(&self) -> usize {
        0
    }
}

impl ObjectAttributes {
    pub(crate) fn new(shape: Shape) -> Self {
        Self { shape, sizes: BySlot::new(), giants: HashMap::new(), costs: BySlot::new() }
    }

    #[cold]
    fn put_giant(&mut self, slot: Slot, size: u64) -> u32 {
        self.giants.insert(slot, size);
        ELSEWHERE
    }

    #[cold]
    fn giant(&self, slot: Slot) -> u64 {
        self.giants[&slot]
    }
}

impl Attributes for ObjectAttributes {
    const ARE_ALIKE: bool = false;

    #[inline(always)]
    fn of(&self, size: u64, cost: u32) -> (u64, u32) {
        (if self.shape.sized { size } else { 1 }, if self.shape.costed { cost } else { 0 })
    }

    #[inline(always)]
    fn put(&mut self, slot: Slot, size: u64, cost: u32) {
        if self.shape.sized {
            let short = u32::try_from(size).ok().filter(|&size| size != ELSEWHERE);
            let size = short.unwrap_or_else(|| self.put_giant(slot, size));
            self.sizes.put(slot, size);
        }
        if self.shape.costed {
            self.costs.put(slot, cost);
        }
    }

    #[inline]
    fn size(&self, slot: Slot) -> u64 {
        if !self.shape.sized {
            return 1;
        }
        match self.sizes[slot] {
            ELSEWHERE => self.giant(slot),
            size => size.into(),
        }
    }

    #[inline]
    fn cost(&self, slot: Slot) -> u32 {
        if self.shape.costed { self.costs[slot] } else { 0 }
    }

    fn heap_bytes(&self) -> usize {
        let giants = self.giants.capacity() * size_of::<(Slot, u64)>();
        self.sizes.heap_bytes() + self.costs.heap_bytes() + giants
    }
}

/// The slot of each object.
pub(crate) struct SlotMap<A> {
    /// By object: its slot, or [`NONE`], or a policy's note and [`NOTED`]. Slot and note share a place, which halves
    /// the memory that a replay waits for.
    slots: Vec<Cell<Slot>>,
    /// By slot: the number of the object or, if the slot is vacant, the next vacant slot.
    ids: BySlot<u32>,
    attributes: A,
    nexts: BySlot<u64>,
    next_of_newcomer: u64,
    newcomer: u32,
    vacant: Slot,
    /// The width differs from that of `used`. With the same width the compiler would read both at once, and that read
    /// would wait for two writes.
    len: u32,
    used: u64,
    capacity: Capacity,
    now: u64,
}

impl<A: Attributes> SlotMap<A> {
    pub(crate) fn new(capacity: Capacity, objects: u32, attributes: A) -> Self {
        Self {
            slots: vec![Cell::new(NONE); objects as usize],
            ids: BySlot::new(),
            attributes,
            nexts: BySlot::new(),
            next_of_newcomer: u64::MAX,
            newcomer: 0,
            vacant: NONE,
            len: 0,
            used: 0,
            capacity,
            now: 0,
        }
    }

    /// Counts a request. `next` is stored if `is_offline` is set.
    #[inline(always)]
    pub(crate) fn tick(&mut self, next: u64, is_offline: bool) {
        self.now += 1;
        if is_offline {
            self.next_of_newcomer = next;
        }
    }

    /// Returns the slot of object `id`, or [`NOTED`] or more if it is not resident.
    #[inline(always)]
    pub(crate) fn slot(&self, id: u32) -> Slot {
        self.slots[id as usize].get()
    }

    /// Begins to load the slot of object `id` into the processor's cache. This has no other effect.
    #[inline(always)]
    pub(crate) fn fetch(&self, id: u32) {
        #[cfg(target_arch = "x86_64")]
        if let Some(place) = self.slots.get(id as usize) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: every x86-64 processor has the instruction. It is a hint that neither changes memory nor faults,
            // and the address is that of an element.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = id;
    }

    /// Stores the time of the next request for the object in `slot`.
    #[inline(always)]
    pub(crate) fn expect(&mut self, slot: Slot, next: u64) {
        self.nexts.put(slot, next);
    }

    /// Returns the object that `request` would store. It must not be resident.
    #[inline(always)]
    pub(crate) fn newcomer(&mut self, request: Request) -> Object {
        self.newcomer = request.id;
        let (size, cost) = self.attributes.of(request.size, request.cost);
        Object { key: spread(request.id), size, cost }
    }

    /// Stores object `id`; there must be room for it.
    #[inline(always)]
    pub(crate) fn put(&mut self, id: u32, object: &Object) -> Slot {
        let slot = match self.vacant {
            NONE => self.len,
            slot => {
                self.vacant = self.ids[slot];
                slot
            }
        };
        self.ids.put(slot, id);
        self.attributes.put(slot, object.size, object.cost);
        self.slots[id as usize].set(slot);
        self.used += self.capacity.weigh(object.size);
        self.len += 1;
        slot
    }

    /// Replaces the object in `slot` with object `id`, which has the same weight. The former may have a note if
    /// `may_be_noted` is set.
    #[inline(always)]
    pub(crate) fn replace(&mut self, slot: Slot, id: u32, may_be_noted: bool) {
        let gone = std::mem::replace(&mut self.ids[slot], id);
        match may_be_noted {
            true => self.forget(gone, slot),
            false => self.slots[gone as usize].set(NONE),
        }
        self.slots[id as usize].set(slot);
    }

    /// Records that object `id` has left `slot`.
    #[inline(always)]
    fn forget(&self, id: u32, slot: Slot) {
        let place = &self.slots[id as usize];
        if place.get() == slot {
            place.set(NONE);
        }
    }

    /// Returns the largest number of objects that were resident at once.
    pub(crate) fn most(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.ids.heap_bytes() + self.attributes.heap_bytes() + self.nexts.heap_bytes()
    }

    pub(crate) fn validate(&self) -> Result<(), String> {
        let residents = (0..).zip(self.slots.iter().map(Cell::get)).filter(|&(_, slot)| slot < NOTED);
        let (mut count, mut used) = (0, 0);
        for (id, slot) in residents {
            if self.ids.get(slot) != Some(&id) {
                return Err(format!("object {id} is led to slot {slot}, where {:?} is", self.ids.get(slot)));
            }
            count += 1;
            used += self.weight(slot);
        }
        if (count, used) != (self.len, self.used) || used > self.capacity.amount {
            let (len, counted, amount) = (self.len, self.used, self.capacity.amount);
            return Err(format!("{count} objects use {used}, {len} and {counted} counted, {amount} allowed"));
        }
        Ok(())
    }
}

impl<A: Attributes> Contents for SlotMap<A> {
    type Value = ();

    #[inline(always)]
    fn has_room(&self, weight: u64) -> bool {
        weight <= self.capacity.amount - self.used
    }

    #[inline(always)]
    fn take(&mut self, slot: Slot) -> Option<()> {
        let id = std::mem::replace(&mut self.ids[slot], self.vacant);
        self.slots.get(id as usize).filter(|place| place.get() == slot || place.get() >= NOTED)?;
        self.forget(id, slot);
        self.vacant = slot;
        self.used -= self.weight(slot);
        self.len -= 1;
        Some(())
    }
}

impl<A: Attributes> Residents for SlotMap<A> {
    #[inline]
    fn object(&self, slot: Slot) -> Object {
        let (size, cost) = (self.attributes.size(slot), self.attributes.cost(slot));
        Object { key: spread(self.ids[slot]), size, cost }
    }

    #[inline]
    fn weight(&self, slot: Slot) -> u64 {
        match self.capacity.by {
            By::Bytes => self.attributes.size(slot),
            By::Entries => 1,
        }
    }

    fn contains(&self, slot: Slot) -> bool {
        let id = self.ids.get(slot);
        id.and_then(|&id| self.slots.get(id as usize)).is_some_and(|there| there.get() == slot)
    }

    #[inline]
    fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    fn used(&self) -> u64 {
        self.used
    }

    #[inline]
    fn capacity(&self) -> Capacity {
        self.capacity
    }

    #[inline(always)]
    fn number(&self, slot: Slot) -> Option<u32> {
        Some(self.ids[slot])
    }

    #[inline(always)]
    fn number_of_newcomer(&self) -> Option<u32> {
        Some(self.newcomer)
    }

    #[inline(always)]
    fn keep_note(&self, number: u32, note: u32) {
        self.slots[number as usize].set(NOTED | note);
    }

    #[inline(always)]
    fn note(&self, number: u32) -> u32 {
        // [`NONE`] becomes [`NO_NOTE`](crate::policy::NO_NOTE).
        self.slots[number as usize].get() & !NOTED
    }

    #[inline]
    fn now(&self) -> u64 {
        self.now
    }

    #[inline]
    fn next_of_newcomer(&self) -> u64 {
        self.next_of_newcomer
    }

    #[inline]
    fn next(&self, slot: Slot) -> u64 {
        self.nexts.get(slot).copied().unwrap_or(u64::MAX)
    }
}
