//! The shadows of one policy: one for each size.

use larder_evict::{Capacity, Spec};

use crate::panel::{FACTORS, RUNNING};
use crate::request::{Answer, Request};
use crate::sample::units;
use crate::selection::Selection;
use crate::shadow::Shadow;
use crate::stack::LruStack;

/// The shadows of a policy.
pub(crate) struct Row {
    pub(crate) spec: Spec,
    shadows: Shadows,
}

enum Shadows {
    Lru(Box<LruStack<{ FACTORS.len() }>>),
    Any(Box<[Shadow; FACTORS.len()]>),
}

impl Row {
    /// Returns empty shadows with these [rooms](Self::set_sizes).
    pub(crate) fn new(spec: &Spec, rooms: [(u64, u64); FACTORS.len()], selection: &Selection) -> Self {
        let is_lru = Spec::parse("lru").is_ok_and(|lru| lru == *spec);
        let (by, seed) = (selection.by, selection.sample.multiplier());
        let shadow = |(room, _)| Shadow::new(spec, Capacity { by, amount: units(room) }, seed);
        let shadows = match is_lru {
            true => Shadows::Lru(Box::new(LruStack::new())),
            false => Shadows::Any(Box::new(rooms.map(shadow))),
        };
        let mut row = Self { spec: spec.clone(), shadows };
        row.set_sizes(rooms);
        row
    }

    /// Sets the capacity of each size for the keys of the sample, in fractions, and the size of the largest object.
    pub(crate) fn set_sizes(&mut self, rooms: [(u64, u64); FACTORS.len()]) {
        match &mut self.shadows {
            Shadows::Lru(stack) => stack.set_sizes(rooms),
            Shadows::Any(shadows) => {
                let rooms = shadows.iter_mut().zip(rooms);
                rooms.for_each(|(shadow, (room, largest))| shadow.set_room(room, largest));
            }
        }
    }

    /// Answers several requests, for objects that take these parts of the room, and passes each answer to `see`: its place among the
    /// requests, and the place of the size.
    pub(crate) fn answer<'r>(
        &mut self,
        requests: impl Iterator<Item = (&'r Request, u64)> + Clone,
        mut see: impl FnMut(usize, usize, Answer),
    ) {
        match &mut self.shadows {
            Shadows::Lru(stack) => {
                for (at, (request, part)) in requests.enumerate() {
                    let answers = stack.answer(request, part).into_iter().enumerate();
                    answers.for_each(|(size, answer)| see(at, size, answer));
                }
            }
            // One shadow after another, so that each is in the processor's cache.
            Shadows::Any(shadows) => {
                for (size, shadow) in shadows.iter_mut().enumerate() {
                    for (at, (request, part)) in requests.clone().enumerate() {
                        see(at, size, shadow.answer(request, part));
                    }
                }
            }
        }
    }

    pub(crate) fn review(&mut self, key: u64, selection: &Selection) {
        match &mut self.shadows {
            Shadows::Lru(stack) => stack.review(key, selection),
            Shadows::Any(shadows) => shadows.iter_mut().for_each(|shadow| shadow.review(key, selection)),
        }
    }

    /// Passes the key, the size and the part of the room of each object to `see`, once for each cache that has it.
    pub(crate) fn for_each(&self, see: &mut dyn FnMut(u64, u64, u64)) {
        match &self.shadows {
            Shadows::Lru(stack) => stack.for_each(see),
            Shadows::Any(shadows) => shadows.iter().for_each(|shadow| shadow.for_each(see)),
        }
    }

    pub(crate) fn touch(&mut self, key: u64) {
        match &mut self.shadows {
            Shadows::Lru(stack) => stack.touch(key),
            Shadows::Any(shadows) => shadows.iter_mut().for_each(|shadow| shadow.touch(key)),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match &self.shadows {
            Shadows::Lru(stack) => stack.len(),
            Shadows::Any(shadows) => shadows.iter().map(Shadow::len).sum(),
        }
    }

    /// Returns the numbers of objects, by size.
    pub(crate) fn residents(&self) -> [usize; FACTORS.len()] {
        match &self.shadows {
            Shadows::Lru(stack) => stack.caches().map(|cache| cache.objects),
            Shadows::Any(shadows) => shadows.each_ref().map(Shadow::len),
        }
    }

    /// Returns the number of objects that the running size has evicted.
    pub(crate) fn evictions(&self) -> u64 {
        match &self.shadows {
            Shadows::Lru(stack) => stack.caches()[RUNNING].evictions,
            Shadows::Any(shadows) => shadows[RUNNING].evictions(),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        match &self.shadows {
            Shadows::Lru(stack) => stack.bytes(),
            Shadows::Any(shadows) => shadows.iter().map(Shadow::bytes).sum(),
        }
    }
}
