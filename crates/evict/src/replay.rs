//! A cache without values, for replaying a trace whose objects were numbered from 0 beforehand.
//!
//! It keeps the same books as a [`Shard`](crate::Shard) and obeys the same policies, so that both give the same
//! hits. But an object's slot stands in an array, so that nothing is hashed, and the policy is known at compile
//! time, so that a request is a few instructions in the caller's loop.

use crate::parts::by_slot::BySlot;
use crate::policy::{Capacity, NONE, Object, Policy, Residents, Slot};
use crate::shard::{Contents, make_room};

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The object's number: below [`Shape::objects`].
    pub id: u32,
    /// What it weighs, in bytes, should it be stored now. A resident keeps the size that it was stored with.
    pub size: u64,
    /// What fetching it costs, in microseconds; 0 where it is unknown.
    pub cost: u32,
    /// The number of the request that asks for it next, counted from 1; `u64::MAX` for never. Only offline
    /// policies look at it.
    pub next: u64,
}

/// What a trace's requests tell apart. What none of them does is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many objects there are: fewer than `u32::MAX`.
    pub objects: u32,
    /// Whether sizes differ; if not, every size is taken as 1.
    pub sized: bool,
    /// Whether costs differ; if not, every cost is taken as 0.
    pub costed: bool,
}

/// The cache: see the module.
pub struct Replay<P: Policy> {
    policy: P,
    contents: Numbered,
    evictions: u64,
}

impl<P: Policy> Replay<P> {
    /// An empty cache for requests of `shape`. `seed` is for the policy.
    pub fn new(capacity: Capacity, shape: Shape, params: P::Params, seed: u64) -> Self {
        let policy = P::new(capacity, params, seed);
        Self { policy, contents: Numbered::new(capacity, shape), evictions: 0 }
    }

    /// Asks for an object, and stores it if it is not there. Whether it was there.
    #[inline(always)]
    pub fn request(&mut self, request: Request) -> bool {
        self.contents.now += 1;
        if P::OFFLINE {
            self.contents.next_of_newcomer = request.next;
        }
        let slot = self.contents.slots[request.id as usize];
        if slot == NONE {
            self.miss(request);
            return false;
        }
        if P::OFFLINE {
            self.contents.nexts.put(slot, request.next);
        }
        self.policy.on_hit(slot, &self.contents);
        true
    }

    #[inline(always)]
    fn miss(&mut self, request: Request) {
        let object = self.contents.shape.object(request);
        let capacity = self.contents.capacity;
        let weight = capacity.weigh(object.size);
        if weight > capacity.amount || !self.policy.admit(&object, &self.contents) {
            return;
        }
        let evictions = &mut self.evictions;
        if make_room(&mut self.policy, &mut self.contents, weight, |()| *evictions += 1) {
            let slot = self.contents.put(request.id, &object);
            if P::OFFLINE {
                self.contents.nexts.put(slot, request.next);
            }
            self.policy.on_insert(slot, &self.contents);
        }
    }

    /// How many objects had to leave for lack of room, so far.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.contents.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most objects that there were at once, so far.
    pub fn most(&self) -> usize {
        self.contents.ids.len()
    }

    /// The sum of the objects' weights, in the capacity's unit.
    pub fn used(&self) -> u64 {
        self.contents.used
    }

    /// Bytes allocated for the objects that are or were here at once: the policy's, numbers, sizes and costs.
    /// The 4 bytes by which every object of the trace finds its slot belong to the trace's numbering, and are
    /// left out.
    pub fn metadata_bytes(&self) -> usize {
        self.contents.heap_bytes() + self.policy.heap_bytes()
    }

    /// Checks every invariant; the error says which one is broken.
    pub fn validate(&self) -> Result<(), String> {
        self.contents.validate()?;
        self.policy.validate(&self.contents)
    }
}

/// The key that stands for the object numbered `id`: no two have the same, and all bits look random.
#[inline]
pub fn spread(id: u32) -> u64 {
    let mut key = u64::from(id).wrapping_add(0x9E37_79B9_7F4A_7C15);
    key = (key ^ key >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    key = (key ^ key >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    key ^ key >> 31
}

impl Shape {
    #[inline(always)]
    fn object(self, request: Request) -> Object {
        Object {
            key: spread(request.id),
            size: if self.sized { request.size } else { 1 },
            cost: if self.costed { request.cost } else { 0 },
        }
    }
}

/// Who is where.
struct Numbered {
    shape: Shape,
    /// By object: its slot, or [`NONE`].
    slots: Vec<Slot>,
    /// By slot: the object's number or, where the slot is vacant, the next vacant slot.
    ids: BySlot<u32>,
    sizes: BySlot<u64>,
    costs: BySlot<u32>,
    nexts: BySlot<u64>,
    next_of_newcomer: u64,
    vacant: Slot,
    len: usize,
    used: u64,
    capacity: Capacity,
    now: u64,
}

impl Numbered {
    fn new(capacity: Capacity, shape: Shape) -> Self {
        Self {
            shape,
            slots: vec![NONE; shape.objects as usize],
            ids: BySlot::new(),
            sizes: BySlot::new(),
            costs: BySlot::new(),
            nexts: BySlot::new(),
            next_of_newcomer: u64::MAX,
            vacant: NONE,
            len: 0,
            used: 0,
            capacity,
            now: 0,
        }
    }

    #[inline(always)]
    fn put(&mut self, id: u32, object: &Object) -> Slot {
        let slot = match self.vacant {
            NONE => self.len as Slot,
            slot => {
                self.vacant = self.ids[slot];
                slot
            }
        };
        self.ids.put(slot, id);
        if self.shape.sized {
            self.sizes.put(slot, object.size);
        }
        if self.shape.costed {
            self.costs.put(slot, object.cost);
        }
        self.slots[id as usize] = slot;
        self.used += self.capacity.weigh(object.size);
        self.len += 1;
        slot
    }

    #[inline]
    fn size(&self, slot: Slot) -> u64 {
        if self.shape.sized { self.sizes[slot] } else { 1 }
    }

    fn heap_bytes(&self) -> usize {
        self.ids.heap_bytes() + self.sizes.heap_bytes() + self.costs.heap_bytes() + self.nexts.heap_bytes()
    }

    fn validate(&self) -> Result<(), String> {
        let residents = (0..).zip(&self.slots).filter(|&(_, &slot)| slot != NONE);
        let (mut count, mut used) = (0, 0);
        for (id, &slot) in residents {
            if self.ids.get(slot) != Some(&id) {
                return Err(format!("object {id} is led to slot {slot}, where {:?} is", self.ids.get(slot)));
            }
            count += 1;
            used += self.capacity.weigh(self.size(slot));
        }
        if (count, used) != (self.len, self.used) || used > self.capacity.amount {
            let (len, counted, amount) = (self.len, self.used, self.capacity.amount);
            return Err(format!("{count} objects use {used}, {len} and {counted} counted, {amount} allowed"));
        }
        Ok(())
    }
}

impl Contents for Numbered {
    type Value = ();

    #[inline(always)]
    fn has_room(&self, weight: u64) -> bool {
        weight <= self.capacity.amount - self.used
    }

    #[inline(always)]
    fn take(&mut self, slot: Slot) -> Option<()> {
        let id = std::mem::replace(&mut self.ids[slot], self.vacant);
        let place = self.slots.get_mut(id as usize).filter(|place| **place == slot)?;
        *place = NONE;
        self.vacant = slot;
        self.used -= self.capacity.weigh(self.size(slot));
        self.len -= 1;
        Some(())
    }
}

impl Residents for Numbered {
    #[inline]
    fn object(&self, slot: Slot) -> Object {
        let cost = if self.shape.costed { self.costs[slot] } else { 0 };
        Object { key: spread(self.ids[slot]), size: self.size(slot), cost }
    }

    fn contains(&self, slot: Slot) -> bool {
        let id = self.ids.get(slot);
        id.and_then(|&id| self.slots.get(id as usize)).is_some_and(|&there| there == slot)
    }

    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn used(&self) -> u64 {
        self.used
    }

    #[inline]
    fn capacity(&self) -> Capacity {
        self.capacity
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
