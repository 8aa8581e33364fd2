//! The selection of a policy's type by the name that a user gives.

use crate::any_policy::AnyPolicy;
use crate::filter::{FilteredParams, FilteredPolicy};
use crate::filters::{AnyFilter, FilterSpec};
use crate::listing::{Listing, PolicyVisitor};
use crate::policies::POLICIES;
use crate::policy::{Capacity, Policy};
use crate::shard::Shard;
use crate::spec::Spec;

/// A shard whose policy was chosen at run time. [`Spec::build`] creates it.
pub type AnyShard<V> = Shard<AnyPolicy, V>;

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

    /// Runs `code` with the type of the policy, including the filter in front of it: for loops over many requests, since
    /// the compiler makes a copy of the code for each policy. Others use [`AnyPolicy`].
    pub fn select<S: PolicyVisitor>(&self, code: S) -> S::Output {
        match self.filter.clone() {
            None => self.policy.select(code),
            Some(filter) => self.policy.select(FilteredVisitor { filter, code }),
        }
    }

    /// Returns an empty shard under this policy. `seed` is for the policy's randomness.
    pub fn build<V>(&self, capacity: Capacity, seed: u64) -> AnyShard<V> {
        Shard::new(capacity, self.clone(), seed)
    }

    /// Returns a shard under this policy with the contents, capacity and count of evictions of `old`, which is empty
    /// afterwards. No object is lost: objects are inserted in the order in which the old policy would evict them.
    pub fn succeed<V>(&self, old: &mut AnyShard<V>, seed: u64) -> AnyShard<V> {
        Shard::succeed(old, self.clone(), seed)
    }
}

impl Default for FilterSpec {
    /// The filter that suits most policies.
    fn default() -> Self {
        Self::Frequency(())
    }
}
