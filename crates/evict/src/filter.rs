//! Admission: decides which objects enter, before any policy.
//!
//! A [`Filter`] sees every request and decides on each miss. [`FilteredPolicy`] puts one in front of a policy, and is a policy
//! itself. A filter may refuse any object, even if there is room.

use std::collections::VecDeque;

use crate::params::{Param, Params};
use crate::policy::{Capacity, Object, Policy, Residents, Slot, forward};

/// A rule that decides which objects are admitted.
pub trait Filter: Sized + Send + 'static {
    /// The parameters that a user can tune.
    type Params: Default + Clone + std::fmt::Debug + PartialEq + Send;

    /// One line that describes the filter, for help, docs and reports.
    const ABOUT: &'static str;

    /// The cost of the most expensive operation, in addition to the policy's.
    const COST: &'static str = "O(1)";

    /// Whether the filter needs the future requests, which only a replay knows.
    const OFFLINE: bool = false;

    /// Returns a filter without any history. All its randomness comes from `seed`.
    fn new(params: Self::Params, seed: u64) -> Self;

    /// Notes a request for the object in `slot`.
    fn on_hit<R: Residents>(&mut self, _slot: Slot, _residents: &R) {}

    /// Whether `new` is admitted. The cache calls this once per miss. `victims` are the objects that `new` would
    /// replace, in the order of eviction; there are none if there is room. Each victim is chosen only when the filter
    /// examines it.
    fn admit<R: Residents>(
        &mut self,
        new: &Object,
        residents: &R,
        victims: impl Iterator<Item = Object>,
    ) -> bool;

    /// Returns the bytes that the filter has allocated.
    fn heap_bytes(&self) -> usize;
}

/// A policy `P` behind a filter `F`: the policy receives only admitted objects.
///
/// Victims that the filter examines are removed from the policy's order and wait here; they are evicted next. If a
/// waiting object is requested, it returns to the policy as if it had just been inserted and requested. With LRU, that
/// is its correct position.
pub struct FilteredPolicy<F, P> {
    filter: F,
    policy: P,
    waiting: VecDeque<Slot>,
}

/// The parameters of a [`FilteredPolicy`] policy. Reading and setting by name applies to the policy's parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FilteredParams<F, P> {
    /// The parameters of the filter.
    pub filter: F,
    /// The parameters of the policy.
    pub policy: P,
}

impl<F, P: Params> Params for FilteredParams<F, P>
where
    F: Default + Clone + std::fmt::Debug + PartialEq + Send,
{
    const ALL: &'static [Param] = P::ALL;

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        self.policy.set(name, value)
    }

    fn get(&self, name: &str) -> String {
        self.policy.get(name)
    }
}

impl<F: Filter, P: Policy> FilteredPolicy<F, P> {
    /// Returns the waiting `slot` to the policy.
    #[cold]
    fn restore<R: Residents>(&mut self, slot: Slot, residents: &R) {
        let object = residents.object(slot);
        let _stays_anyway =
            self.policy.admit(&object, &RemainingResidents { residents, hidden: &self.waiting });
        self.waiting.retain(|&other| other != slot);
        let rest = RemainingResidents { residents, hidden: &self.waiting };
        self.policy.on_insert(slot, &rest);
        self.policy.on_hit(slot, &rest);
    }

    #[inline]
    fn waits(&self, slot: Slot) -> bool {
        !self.waiting.is_empty() && self.waiting.contains(&slot)
    }
}

impl<F: Filter, P: Policy> Policy for FilteredPolicy<F, P> {
    type Params = FilteredParams<F::Params, P::Params>;

    const ABOUT: &'static str = F::ABOUT;

    const OFFLINE: bool = F::OFFLINE || P::OFFLINE;

    const FETCHES_AHEAD: bool = P::FETCHES_AHEAD;

    const KEEPS_NOTES: bool = P::KEEPS_NOTES;

    const COST: &'static str = F::COST;

    fn new(capacity: Capacity, params: Self::Params, seed: u64) -> Self {
        let filter = F::new(params.filter, seed);
        Self { filter, policy: P::new(capacity, params.policy, seed), waiting: VecDeque::new() }
    }

    fn admit<R: Residents>(&mut self, new: &Object, residents: &R) -> bool {
        let capacity = residents.capacity();
        let free = capacity.amount.saturating_sub(residents.used());
        let needed = capacity.weigh(new.size).saturating_sub(free);
        let (policy, waiting) = (&mut self.policy, &mut self.waiting);
        // Behind a pointer, so that each policy has no copy of all filters.
        let victims: &mut dyn Iterator<Item = Object> =
            &mut Victims { policy, waiting, residents, seen: 0, needed };
        self.filter.admit(new, residents, victims)
            && self.policy.admit(new, &RemainingResidents { residents, hidden: &self.waiting })
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, residents: &R) {
        self.policy.on_insert(slot, &RemainingResidents { residents, hidden: &self.waiting });
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, residents: &R) {
        self.filter.on_hit(slot, residents);
        match self.waits(slot) {
            true => self.restore(slot, residents),
            false => self.policy.on_hit(slot, &RemainingResidents { residents, hidden: &self.waiting }),
        }
    }

    #[inline]
    fn evict<R: Residents>(&mut self, residents: &R) -> Option<Slot> {
        self.waiting.pop_front().or_else(|| self.policy.evict(residents))
    }

    fn on_remove<R: Residents>(&mut self, slot: Slot, residents: &R) {
        match self.waits(slot) {
            true => self.waiting.retain(|&other| other != slot),
            false => self.policy.on_remove(slot, &RemainingResidents { residents, hidden: &self.waiting }),
        }
    }

    fn heap_bytes(&self) -> usize {
        self.filter.heap_bytes() + self.policy.heap_bytes() + self.waiting.capacity() * size_of::<Slot>()
    }

    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        if let Some(slot) = self.waiting.iter().find(|&&slot| !residents.contains(slot)) {
            return Err(format!("slot {slot} waits to leave and is not resident"));
        }
        self.policy.validate(&RemainingResidents { residents, hidden: &self.waiting })
    }
}

/// The victims of a new object; each is chosen when the filter examines it.
struct Victims<'a, P, R> {
    policy: &'a mut P,
    waiting: &'a mut VecDeque<Slot>,
    residents: &'a R,
    seen: usize,
    /// The weight to be freed in addition to the victims seen so far.
    needed: u64,
}

impl<P: Policy, R: Residents> Iterator for Victims<'_, P, R> {
    type Item = Object;

    #[inline]
    fn next(&mut self) -> Option<Object> {
        if self.needed == 0 {
            return None;
        }
        if self.seen == self.waiting.len() {
            let rest = RemainingResidents { residents: self.residents, hidden: self.waiting };
            let victim = self.policy.evict(&rest)?;
            self.waiting.push_back(victim);
        }
        let object = self.residents.object(self.waiting[self.seen]);
        self.seen += 1;
        self.needed = self.needed.saturating_sub(self.residents.capacity().weigh(object.size));
        Some(object)
    }
}

/// The residents without the waiting victims, which the inner policy has already removed.
struct RemainingResidents<'a, R> {
    residents: &'a R,
    hidden: &'a VecDeque<Slot>,
}

impl<R: Residents> Residents for RemainingResidents<'_, R> {
    forward! { self => self.residents;
        fn object(slot: Slot) -> Object;
        fn capacity() -> Capacity;
        fn now() -> u64;
        fn next(slot: Slot) -> u64;
        fn next_of_newcomer() -> u64;
    }

    fn contains(&self, slot: Slot) -> bool {
        self.residents.contains(slot) && !self.hidden.contains(&slot)
    }

    #[inline]
    fn len(&self) -> usize {
        self.residents.len() - self.hidden.len()
    }

    fn used(&self) -> u64 {
        let hidden = self.hidden.iter().map(|&slot| self.residents.weight(slot));
        self.residents.used() - hidden.sum::<u64>()
    }
}
