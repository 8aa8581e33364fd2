//! A cache without values, for the replay of a trace whose objects were numbered from 0 beforehand.
//!
//! It counts like a [`Shard`](crate::Shard) and uses the same policies, so that both have the same hits. But an array
//! holds the slot of each object, so that no key is hashed, and the policy is known at compile time, so that a request
//! is a few instructions in the caller's loop.

use crate::numbered::{Attributes, ObjectAttributes, SlotMap, UnitAttributes};
use crate::policy::{Capacity, NOTED, Object, Policy, Residents, Slot};
use crate::request::{Request, Shape};
use crate::shard::{Contents, make_room};

/// The cache: see the module. `A` holds the attributes of objects in addition to their numbers: [`UnitAttributes`] if there are
/// none.
pub struct Replay<P: Policy, A: Attributes = ObjectAttributes> {
    policy: P,
    contents: SlotMap<A>,
    evictions: u64,
}

/// The number of requests between the one whose slot is fetched from memory and the one being served.
const FETCHED_AHEAD: usize = 16;

impl<P: Policy> Replay<P> {
    /// Returns an empty cache for requests of `shape`. It does not store properties that `shape` excludes. `seed` is
    /// for the policy.
    pub fn new(capacity: Capacity, shape: Shape, params: P::Params, seed: u64) -> Self {
        Self::with(capacity, shape.objects, ObjectAttributes::new(shape), params, seed)
    }
}

impl<P: Policy> Replay<P, UnitAttributes> {
    /// Returns an empty cache for requests for `objects` objects, each of size 1 and without costs. `seed` is for the
    /// policy.
    pub fn of_alike(capacity: Capacity, objects: u32, params: P::Params, seed: u64) -> Self {
        Self::with(capacity, objects, UnitAttributes, params, seed)
    }
}

impl<P: Policy, A: Attributes> Replay<P, A> {
    fn with(capacity: Capacity, objects: u32, attributes: A, params: P::Params, seed: u64) -> Self {
        let policy = P::new(capacity, params, seed);
        Self { policy, contents: SlotMap::new(capacity, objects, attributes), evictions: 0 }
    }

    /// Requests an object, and stores it on a miss. Returns whether it was a hit.
    #[inline(always)]
    pub fn request(&mut self, request: Request) -> bool {
        self.serve(request, self.contents.slot(request.id))
    }

    /// Requests objects in sequence, as [`request`](Self::request) does. Returns the number of hits.
    ///
    /// Each object is looked up before the preceding one is served: the processor often mispredicts whether an object
    /// is resident, and so detects this early. A miss may move the next object, which is then looked up again.
    #[inline(always)]
    pub fn requests(&mut self, mut requests: impl Iterator<Item = Request> + Clone) -> u64 {
        let mut later = requests.clone();
        later.nth(FETCHED_AHEAD - 1);
        let Some(mut request) = requests.next() else { return 0 };
        let (mut slot, mut hits) = (self.contents.slot(request.id), 0);
        for next in requests {
            if P::FETCHES_AHEAD
                && let Some(later) = later.next()
            {
                self.contents.fetch(later.id);
            }
            let ahead = self.contents.slot(next.id);
            let is_hit = self.serve(request, slot);
            slot = if is_hit { ahead } else { self.contents.slot(next.id) };
            hits += u64::from(is_hit);
            request = next;
        }
        hits + u64::from(self.serve(request, slot))
    }

    /// Serves `request` for the object in `slot`.
    #[inline(always)]
    fn serve(&mut self, request: Request, slot: Slot) -> bool {
        self.contents.tick(request.next, P::OFFLINE);
        if slot >= NOTED {
            self.miss(request);
            return false;
        }
        if P::OFFLINE {
            self.contents.expect(slot, request.next);
        }
        self.policy.on_hit(slot, &self.contents);
        true
    }

    #[inline(always)]
    fn miss(&mut self, request: Request) {
        let object = self.contents.newcomer(request);
        let capacity = self.contents.capacity();
        let weight = capacity.weigh(object.size);
        if weight > capacity.amount || !self.policy.admit(&object, &self.contents) {
            return;
        }
        if let Some(slot) = self.store(request.id, &object, weight) {
            if P::OFFLINE {
                self.contents.expect(slot, request.next);
            }
            self.policy.on_insert(slot, &self.contents);
        }
    }

    /// Stores an object where there is room, or evicts others for it.
    #[inline(always)]
    fn store(&mut self, id: u32, object: &Object, weight: u64) -> Option<Slot> {
        let Self { policy, contents, evictions } = self;
        if !A::ARE_ALIKE {
            let has_room = make_room(policy, contents, weight, |()| *evictions += 1);
            return has_room.then(|| contents.put(id, object));
        }
        if contents.has_room(weight) {
            return Some(contents.put(id, object));
        }
        let slot = policy.evict(contents)?;
        contents.replace(slot, id, P::KEEPS_NOTES);
        *evictions += 1;
        Some(slot)
    }

    /// Whether an object is resident. This does not count as a request.
    pub fn contains(&self, id: u32) -> bool {
        self.contents.slot(id) < NOTED
    }

    /// Returns the number of objects evicted for lack of room so far.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Returns the number of resident objects.
    pub fn len(&self) -> usize {
        self.contents.len()
    }

    /// Whether no object is resident.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the largest number of objects resident at once so far.
    pub fn most(&self) -> usize {
        self.contents.most()
    }

    /// Returns the sum of the weights of all objects, in the unit of the capacity.
    pub fn used(&self) -> u64 {
        self.contents.used()
    }

    /// Returns the bytes allocated for all objects that are or were resident at once: the policy's bytes, numbers,
    /// sizes and costs. The 4 bytes that map each object of the trace to its slot belong to the numbering of the trace,
    /// and are excluded.
    pub fn metadata_bytes(&self) -> usize {
        self.contents.heap_bytes() + self.policy.heap_bytes()
    }

    /// Checks every invariant; the error names the broken one.
    pub fn validate(&self) -> Result<(), String> {
        self.contents.validate()?;
        self.policy.validate(&self.contents)
    }
}
