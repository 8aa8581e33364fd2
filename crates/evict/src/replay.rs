//! A cache without values, for replaying a trace whose objects were numbered from 0 beforehand.
//!
//! It counts like a [`Shard`](crate::Shard) and uses the same policies, so that both give the same hits. But an object's
//! slot is in an array, so that nothing is hashed, and the policy is known at compile time, so that a request is a few
//! instructions in the caller's loop.

use crate::numbered::{Alike, Attributes, Differing, Numbered};
use crate::policy::{Capacity, NOTED, Object, Policy, Residents, Slot};
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

/// What a trace's requests tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many objects there are: fewer than 2^31.
    pub objects: u32,
    /// Whether sizes differ; if not, every size is taken as 1.
    pub sized: bool,
    /// Whether costs differ; if not, every cost is taken as 0.
    pub costed: bool,
}

/// The cache: see the module. `A` is what it keeps of an object beside its number: [`Alike`] where that is nothing.
pub struct Replay<P: Policy, A: Attributes = Differing> {
    policy: P,
    contents: Numbered<A>,
    evictions: u64,
}

impl<P: Policy> Replay<P> {
    /// An empty cache for requests of `shape`: what none of them tells apart is not kept. `seed` is for the policy.
    pub fn new(capacity: Capacity, shape: Shape, params: P::Params, seed: u64) -> Self {
        Self::with(capacity, shape.objects, Differing::new(shape), params, seed)
    }
}

impl<P: Policy> Replay<P, Alike> {
    /// An empty cache for requests that tell nothing apart but `objects` objects, each of size 1. `seed` is for the
    /// policy.
    pub fn of_alike(capacity: Capacity, objects: u32, params: P::Params, seed: u64) -> Self {
        Self::with(capacity, objects, Alike, params, seed)
    }
}

impl<P: Policy, A: Attributes> Replay<P, A> {
    fn with(capacity: Capacity, objects: u32, attributes: A, params: P::Params, seed: u64) -> Self {
        let policy = P::new(capacity, params, seed);
        Self { policy, contents: Numbered::new(capacity, objects, attributes), evictions: 0 }
    }

    /// Asks for an object, and stores it if it is not there. Whether it was there.
    #[inline(always)]
    pub fn request(&mut self, request: Request) -> bool {
        self.serve(request, self.contents.slot(request.id))
    }

    /// Asks for one object after the other, as [`request`](Self::request) does. How many were there.
    ///
    /// Each is looked for before the one before it is served: so the processor, which often guesses wrong what is
    /// there, finds out soon. A miss may move the next one, which is then looked for again.
    #[inline(always)]
    pub fn requests(&mut self, requests: impl IntoIterator<Item = Request>) -> u64 {
        let mut requests = requests.into_iter();
        let Some(mut request) = requests.next() else { return 0 };
        let (mut slot, mut hits) = (self.contents.slot(request.id), 0);
        for next in requests {
            let ahead = self.contents.slot(next.id);
            let is_hit = self.serve(request, slot);
            slot = if is_hit { ahead } else { self.contents.slot(next.id) };
            hits += u64::from(is_hit);
            request = next;
        }
        hits + u64::from(self.serve(request, slot))
    }

    /// Serves `request`, whose object stands in `slot`.
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

    /// Puts an object where there is room, or where others have to leave for it.
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
        contents.replace(slot, id);
        *evictions += 1;
        Some(slot)
    }

    /// Whether an object is there. Nobody has asked for it by that.
    pub fn contains(&self, id: u32) -> bool {
        self.contents.slot(id) < NOTED
    }

    /// How many objects had to leave for lack of room, so far.
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.contents.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most objects that there were at once, so far.
    pub fn most(&self) -> usize {
        self.contents.most()
    }

    /// The sum of the objects' weights, in the capacity's unit.
    pub fn used(&self) -> u64 {
        self.contents.used()
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
