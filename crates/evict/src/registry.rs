//! The selection of a policy's type by the name that a user gives.

use std::marker::PhantomData;

use crate::filter::{FilteredParams, FilteredPolicy};
use crate::filters::{AnyFilter, FilterSpec};
use crate::listing::{Listing, PolicyVisitor};
use crate::policies::POLICIES;
use crate::policy::{Capacity, Policy};
use crate::shard::{AnyShard, Shard};
use crate::spec::Spec;

/// Code that puts a filter in front of the selected policy.
struct FilteredVisitor<S> {
    filter: FilterSpec,
    code: S,
}

impl<S: PolicyVisitor> PolicyVisitor for FilteredVisitor<S> {
    type Output = S::Output;

    fn run<P: Policy>(self, policy: P::Params) -> S::Output {
        self.code.run::<FilteredPolicy<AnyFilter, P>>(FilteredParams { filter: self.filter, policy })
    }
}

impl Spec {
    /// Returns the registry's entry for the policy.
    pub fn listing(&self) -> &'static Listing {
        let is_named = |listing: &&Listing| listing.name == self.name();
        POLICIES.iter().find(is_named).expect("every spec stands for a line of the list")
    }

    /// Runs `code` with the type of the policy, including the filter in front of it.
    pub fn select<S: PolicyVisitor>(&self, code: S) -> S::Output {
        match self.filter.clone() {
            None => self.policy.select(code),
            Some(filter) => self.policy.select(FilteredVisitor { filter, code }),
        }
    }

    /// Returns an empty shard under this policy. `seed` is for the policy's randomness.
    pub fn build<V: Send + 'static>(&self, capacity: Capacity, seed: u64) -> Box<dyn AnyShard<V>> {
        self.select(Build { capacity, seed, value: PhantomData })
    }

    /// Returns a shard under this policy with the contents, capacity and count of evictions of `old`, which is empty
    /// afterwards. No object is lost: objects are inserted in the order in which the old policy would evict them.
    pub fn succeed<V: Send + 'static>(&self, old: &mut dyn AnyShard<V>, seed: u64) -> Box<dyn AnyShard<V>> {
        self.select(SuccessionVisitor { old, seed })
    }
}

struct Build<V> {
    capacity: Capacity,
    seed: u64,
    value: PhantomData<V>,
}

struct SuccessionVisitor<'a, V> {
    old: &'a mut dyn AnyShard<V>,
    seed: u64,
}

impl<V: Send + 'static> PolicyVisitor for SuccessionVisitor<'_, V> {
    type Output = Box<dyn AnyShard<V>>;

    fn run<P: Policy>(self, params: P::Params) -> Self::Output {
        Box::new(Shard::<P, V>::succeed(self.old, params, self.seed))
    }
}

impl Default for FilterSpec {
    /// The filter that suits most policies.
    fn default() -> Self {
        Self::Frequency(())
    }
}

impl<V: Send + 'static> PolicyVisitor for Build<V> {
    type Output = Box<dyn AnyShard<V>>;

    fn run<P: Policy>(self, params: P::Params) -> Self::Output {
        Box::new(Shard::<P, V>::new(self.capacity, params, self.seed))
    }
}
