//! The shadow of a cache under the very code of its policy.

use larder_evict::{AnyShard, Capacity, InsertResult, Object, Spec};

use crate::request::{Answer, Change, Request, StoredCopy};
use crate::sample::{fractions, units};
use crate::selection::Selection;

/// A cache without contents.
pub(crate) struct Shadow {
    cache: AnyShard<ResidentCopy>,
    /// The capacity for the keys of the sample, in fractions.
    room: u64,
    /// The size of the largest object that is stored, in bytes.
    largest: u64,
    /// What objects in every sample take beyond their part of the room, in fractions.
    excess: u64,
    dropped: Vec<ResidentCopy>,
}

/// A copy, the size of its object in bytes, and what it takes of a shadow beyond its part.
#[derive(Clone, Copy)]
struct ResidentCopy {
    copy: StoredCopy,
    size: u64,
    excess: u64,
}

impl Shadow {
    pub(crate) fn new(spec: &Spec, capacity: Capacity, seed: u64) -> Self {
        let cache = spec.build(capacity, seed);
        Self { cache, room: fractions(capacity.amount), largest: u64::MAX, excess: 0, dropped: Vec::new() }
    }

    /// Sets the capacity for the keys of the sample, in fractions, and the size of the largest object.
    pub(crate) fn set_room(&mut self, room: u64, largest: u64) {
        (self.room, self.largest) = (room, largest);
        self.fit();
    }

    /// Answers `request` for an object that takes this `part` of the room. An object in every sample is in this shadow with its own
    /// size, since policies look at that; but it must not take more room from the others than its part, as though they were
    /// all there. So the shadow grows by the difference as long as it has the object.
    pub(crate) fn answer(&mut self, request: &Request, part: u64) -> Answer {
        let Object { key, size, .. } = request.object;
        if request.change == Change::Removed {
            self.remove(key);
        }
        if let Some(kept) = self.cache.get_mut(key) {
            return kept.copy.answer(request);
        }
        if request.freshness.is_none() || size > self.largest || part > self.room {
            return Answer::Miss;
        }
        let excess = self.excess_of(size, part);
        self.excess += excess;
        self.fit();
        let kept = ResidentCopy { copy: request.copy(request.now), size, excess };
        match self.cache.insert(request.object, kept, &mut self.dropped) {
            InsertResult::Stored => {}
            InsertResult::TooLarge(kept) | InsertResult::Refused(kept) => self.dropped.push(kept),
        }
        self.fit();
        Answer::Miss
    }

    fn excess_of(&self, size: u64, part: u64) -> u64 {
        fractions(self.cache.capacity().weigh(size)).saturating_sub(part)
    }

    /// Removes an object if it is no longer selected, and otherwise makes it take its part of the room.
    pub(crate) fn review(&mut self, key: u64, selection: &Selection) {
        let Some(&ResidentCopy { size, excess: before, .. }) = self.cache.peek(key) else { return };
        if !selection.contains(key, size) {
            return self.remove(key);
        }
        let excess = self.excess_of(size, selection.part(key, size));
        if excess != before
            && let Some(kept) = self.cache.peek_mut(key)
        {
            kept.excess = excess;
            self.excess = self.excess - before + excess;
            self.fit();
        }
    }

    /// Passes the key, the size and the part of the room of each object to `see`.
    pub(crate) fn for_each(&self, see: &mut dyn FnMut(u64, u64, u64)) {
        let capacity = self.cache.capacity();
        let part = |size, excess| fractions(capacity.weigh(size)) - excess;
        self.cache
            .for_each(&mut |key, &ResidentCopy { size, excess, .. }| see(key, size, part(size, excess)));
    }

    /// Counts a use of an object that another tier has answered.
    pub(crate) fn touch(&mut self, key: u64) {
        self.cache.get(key);
    }

    fn remove(&mut self, key: u64) {
        self.dropped.extend(self.cache.remove(key));
        self.fit();
    }

    pub(crate) fn len(&self) -> usize {
        self.cache.len()
    }

    pub(crate) fn evictions(&self) -> u64 {
        self.cache.evictions()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.cache.len() * size_of::<ResidentCopy>()
            + (self.cache.overhead_per_object() * self.cache.len() as f64) as usize
    }

    /// Returns the room of objects that have left, and sets the capacity accordingly.
    fn fit(&mut self) {
        loop {
            for kept in self.dropped.drain(..) {
                self.excess -= kept.excess;
            }
            let amount = units(self.room.saturating_add(self.excess));
            if self.cache.capacity().amount == amount {
                return;
            }
            self.cache.set_capacity(amount, &mut self.dropped);
        }
    }
}
