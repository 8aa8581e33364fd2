//! A policy chosen at run time.
//!
//! A live cache calls its policy a few times for each request, so a call through a pointer costs it little, and all
//! caches of the program share one copy of each policy's code. Replays, whose requests take a few instructions, know the
//! policy at compile time ([`Spec::select`]).

use crate::filter::{FilteredParams, FilteredPolicy};
use crate::filters::AnyFilter;
use crate::listing::PolicyVisitor;
use crate::params::Params;
use crate::policy::{Capacity, Object, Policy, Residents, Slot};
use crate::spec::Spec;

/// The policy that a [`Spec`] names, including the filter in front of it. It shares no cache line with anything else.
pub struct AnyPolicy(Box<dyn DynPolicy>);

/// The methods of a [`Policy`], as they can be called through a pointer.
trait DynPolicy: Send {
    fn admit(&mut self, new: &Object, residents: &dyn Residents) -> bool;
    fn on_insert(&mut self, slot: Slot, residents: &dyn Residents);
    fn on_hit(&mut self, slot: Slot, residents: &dyn Residents);
    fn on_hits(&mut self, slot: Slot, count: u32, residents: &dyn Residents) -> bool;
    fn evict(&mut self, residents: &dyn Residents) -> Option<Slot>;
    fn on_remove(&mut self, slot: Slot, residents: &dyn Residents);
    fn heap_bytes(&self) -> usize;
    fn validate(&self, residents: &dyn Residents) -> Result<(), String>;
}

/// A policy on cache lines of its own.
#[repr(align(128))]
struct Aligned<P>(P);

impl<P: Policy> DynPolicy for Aligned<P> {
    fn admit(&mut self, new: &Object, residents: &dyn Residents) -> bool {
        self.0.admit(new, &residents)
    }

    fn on_insert(&mut self, slot: Slot, residents: &dyn Residents) {
        self.0.on_insert(slot, &residents);
    }

    fn on_hit(&mut self, slot: Slot, residents: &dyn Residents) {
        self.0.on_hit(slot, &residents);
    }

    fn on_hits(&mut self, slot: Slot, count: u32, residents: &dyn Residents) -> bool {
        self.0.on_hits(slot, count, &residents)
    }

    fn evict(&mut self, residents: &dyn Residents) -> Option<Slot> {
        self.0.evict(&residents)
    }

    fn on_remove(&mut self, slot: Slot, residents: &dyn Residents) {
        self.0.on_remove(slot, &residents);
    }

    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    fn validate(&self, residents: &dyn Residents) -> Result<(), String> {
        self.0.validate(&residents)
    }
}

/// Code that creates a policy behind a pointer.
struct Boxing {
    capacity: Capacity,
    seed: u64,
}

impl PolicyVisitor for Boxing {
    type Output = Box<dyn DynPolicy>;

    fn run<P: Policy>(self, params: P::Params) -> Self::Output {
        Box::new(Aligned(P::new(self.capacity, params, self.seed)))
    }
}

impl Policy for AnyPolicy {
    type Params = Spec;

    const ABOUT: &'static str = "follows a policy chosen at run time";

    const OFFLINE: bool = true;

    const KEEPS_NOTES: bool = true;

    // Not inlined, so that other crates have no copies of the policies' code.
    #[inline(never)]
    fn new(capacity: Capacity, Spec { filter, policy }: Spec, seed: u64) -> Self {
        let boxing = Boxing { capacity, seed };
        Self(match filter {
            None => policy.select(boxing),
            Some(filter) => {
                let policy = Spec { filter: None, policy };
                boxing.run::<FilteredPolicy<AnyFilter, Self>>(FilteredParams { filter, policy })
            }
        })
    }

    fn admit<R: Residents>(&mut self, new: &Object, residents: &R) -> bool {
        self.0.admit(new, residents)
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, residents: &R) {
        self.0.on_insert(slot, residents);
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, residents: &R) {
        self.0.on_hit(slot, residents);
    }

    #[inline]
    fn on_hits<R: Residents>(&mut self, slot: Slot, count: u32, residents: &R) -> bool {
        self.0.on_hits(slot, count, residents)
    }

    #[inline]
    fn evict<R: Residents>(&mut self, residents: &R) -> Option<Slot> {
        self.0.evict(residents)
    }

    #[inline]
    fn on_remove<R: Residents>(&mut self, slot: Slot, residents: &R) {
        self.0.on_remove(slot, residents);
    }

    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        self.0.validate(residents)
    }
}

/// A spec is given as a whole: none of it can be set by name.
impl Params for Spec {}
