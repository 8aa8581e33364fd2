//! Policies that evict by a priority which an object has from its last request on.

use std::marker::PhantomData;

use crate::parts::heap::Heap;
use crate::policy::{Capacity, Policy, Residents, Slot};

/// The property that distinguishes such a policy.
pub trait Priority: Send + 'static {
    /// One line that describes the policy.
    const ABOUT: &'static str;

    /// Whether the priority depends on future requests.
    const OFFLINE: bool = false;

    /// Returns the priority of the object in `slot`, which is requested now.
    fn of<R: Residents>(slot: Slot, residents: &R) -> u64;
}

/// Evicts the object with the lowest priority and, among equals, the least recently requested.
pub struct ByPriority<P>(Heap, PhantomData<P>);

impl<P: Priority> Policy for ByPriority<P> {
    type Params = ();

    const ABOUT: &'static str = P::ABOUT;
    const OFFLINE: bool = P::OFFLINE;
    const COST: &'static str = "O(log n)";

    fn new(_capacity: Capacity, _params: (), _seed: u64) -> Self {
        Self(Heap::new(), PhantomData)
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, residents: &R) {
        self.0.push(slot, P::of(slot, residents));
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, residents: &R) {
        self.0.update(slot, P::of(slot, residents));
    }

    #[inline]
    fn evict<R: Residents>(&mut self, _residents: &R) -> Option<Slot> {
        self.0.pop().map(|(victim, _)| victim)
    }

    #[inline]
    fn on_remove<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        self.0.remove(slot);
    }

    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        self.0.validate(residents)
    }
}
