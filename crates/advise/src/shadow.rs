//! A shadow: a cache of one policy and size, without contents.

use larder_evict::{AnyShard, Capacity, InsertResult, Object, Spec};

use crate::request::{Answer, Change, Request, StoredCopy};

/// The shadow of a cache under the very code of its policy.
pub(crate) struct Shadow {
    cache: Box<dyn AnyShard<Kept>>,
    /// The capacity for the keys of the sample.
    room: u64,
    /// The size of the largest object that is stored, in bytes.
    largest: u64,
    /// What heavy objects take beyond their part of the room.
    excess: u64,
    dropped: Vec<Kept>,
}

/// A copy, and what it takes of a shadow beyond its part.
#[derive(Clone, Copy)]
struct Kept {
    copy: StoredCopy,
    excess: u64,
}

impl Shadow {
    pub(crate) fn new(spec: &Spec, capacity: Capacity, seed: u64) -> Self {
        let cache = spec.build(capacity, seed);
        Self { cache, room: capacity.amount, largest: u64::MAX, excess: 0, dropped: Vec::new() }
    }

    /// Sets the capacity for the keys of the sample, and the size of the largest object.
    pub(crate) fn set_room(&mut self, room: u64, largest: u64) {
        (self.room, self.largest) = (room, largest);
        self.fit();
    }

    /// Answers `request`. An object in every sample is in this shadow with its own size, since policies look at that; but it must not
    /// take more room from the others than its `part`, as though they were all there. So the shadow grows by the difference as
    /// long as it has the object.
    pub(crate) fn answer(&mut self, request: &Request, part: Option<u64>) -> Answer {
        let Object { key, size, .. } = request.object;
        if request.change == Change::Removed {
            self.remove(key);
        }
        if self.cache.get(key).is_some() {
            let kept = self.cache.peek_mut(key);
            return kept.map_or(Answer::Miss, |kept| kept.copy.answer(request));
        }
        let weight = self.cache.capacity().weigh(size);
        let excess = part.map_or(0, |part| weight.saturating_sub(part));
        if request.freshness.is_none() || size > self.largest || weight - excess > self.room {
            return Answer::Miss;
        }
        self.excess += excess;
        self.fit();
        let kept = Kept { copy: request.copy(request.now), excess };
        match self.cache.insert(request.object, kept, &mut self.dropped) {
            InsertResult::Stored => {}
            InsertResult::TooLarge(kept) | InsertResult::Refused(kept) => self.dropped.push(kept),
        }
        self.fit();
        Answer::Miss
    }

    pub(crate) fn remove(&mut self, key: u64) {
        self.dropped.extend(self.cache.remove(key));
        self.fit();
    }

    /// Keeps the objects whose keys `stays` selects.
    pub(crate) fn retain(&mut self, stays: impl Fn(u64) -> bool) {
        let mut gone = Vec::new();
        self.cache.for_each(&mut |key, _| {
            if !stays(key) {
                gone.push(key);
            }
        });
        gone.into_iter().for_each(|key| self.remove(key));
    }

    pub(crate) fn len(&self) -> usize {
        self.cache.len()
    }

    pub(crate) fn evictions(&self) -> u64 {
        self.cache.evictions()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.cache.len() * size_of::<Kept>()
            + (self.cache.overhead_per_object() * self.cache.len() as f64) as usize
    }

    /// Returns the room of heavy objects that have left, and sets the capacity accordingly.
    fn fit(&mut self) {
        loop {
            for kept in self.dropped.drain(..) {
                self.excess -= kept.excess;
            }
            let amount = self.room.saturating_add(self.excess);
            if self.cache.capacity().amount == amount {
                return;
            }
            self.cache.set_capacity(amount, &mut self.dropped);
        }
    }
}
