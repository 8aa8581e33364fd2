//! What the lists of policies and filters say, and how what a user names becomes a type.
//!
//! The lists are in `policies/mod.rs` and `filters/mod.rs`. Parsing, help, laws, golden counts, benches and reports
//! iterate them.

use std::marker::PhantomData;

use crate::filter::{Filtered, FilteredParams};
use crate::filters::{AnyFilter, FilterSpec};
use crate::policies::POLICIES;
use crate::policy::{Capacity, Param, Params, Policy};
use crate::shard::{AnyShard, Shard};
use crate::spec::Spec;

// How the lines of a list become listings, variants and the ways from and to their names.
macro_rules! list {
    ($list:ident, $spec:ident, $trait:ident, $what:literal: $($name:literal $module:ident::$type:ident $source:literal;)+) => {
        $(pub use $module::$type;)+

        #[doc = concat!("Every ", $what, ", in the order of the list.")]
        pub const $list: &[$crate::Listing] = &[$($crate::Listing {
            name: $name,
            about: <$type as $crate::$trait>::ABOUT,
            source: $source,
            cost: <$type as $crate::$trait>::COST,
            is_offline: <$type as $crate::$trait>::OFFLINE,
            params: <<$type as $crate::$trait>::Params as $crate::Params>::ALL,
            defaults: $crate::registry::defaults::<<$type as $crate::$trait>::Params>,
        }),+];

        #[doc = concat!("A ", $what, " with its parameters.")]
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) enum $spec {
            $($type(<$type as $crate::$trait>::Params),)+
        }

        impl $spec {
            #[doc = concat!("What a ", $what, " is called in messages.")]
            pub(crate) const WHAT: &'static str = $what;

            #[doc = concat!("Its name in [`", stringify!($list), "`].")]
            pub(crate) fn name(&self) -> &'static str {
                match self {
                    $(Self::$type(_) => $name,)+
                }
            }

            /// The one called `name`, tuned by `params`; `None` if there is none.
            pub(crate) fn read(name: &str, params: Option<&str>) -> Option<Result<Self, $crate::SpecError>> {
                match name {
                    $($name => Some($crate::spec::read_params(concat!($what, " '", $name, "'"), params).map(Self::$type)),)+
                    _ => None,
                }
            }

            /// The parameters that differ from their defaults, as `name=value`.
            pub(crate) fn tuned(&self) -> Vec<String> {
                match self {
                    $(Self::$type(params) => $crate::spec::tuned(params),)+
                }
            }
        }
    };
}

// The policies' list, and how one of them is chosen.
macro_rules! policies {
    ($($name:literal $module:ident::$policy:ident $source:literal;)+) => {
        $crate::registry::list! { POLICIES, PolicySpec, Policy, "policy": $($name $module::$policy $source;)+ }

        impl PolicySpec {
            /// Runs `code` with the policy's type.
            pub(crate) fn select<S: $crate::Select>(&self, code: S) -> S::Output {
                match self {
                    $(Self::$policy(params) => code.run::<$policy>(params.clone()),)+
                }
            }
        }
    };
}

// The filters' list, and any one of them in front of a policy.
macro_rules! filters {
    ($($name:literal $module:ident::$filter:ident $source:literal;)+) => {
        $crate::registry::list! { FILTERS, FilterSpec, Filter, "filter": $($name $module::$filter $source;)+ }

        /// A filter chosen at run time.
        pub(crate) enum AnyFilter {
            $($filter($filter),)+
        }

        impl $crate::Filter for AnyFilter {
            type Params = FilterSpec;

            const ABOUT: &'static str = "admits by a rule chosen at run time";

            fn new(params: FilterSpec, seed: u64) -> Self {
                match params {
                    $(FilterSpec::$filter(params) => Self::$filter(<$filter as $crate::Filter>::new(params, seed)),)+
                }
            }

            #[inline]
            fn on_hit<R: $crate::Residents>(&mut self, slot: $crate::Slot, residents: &R) {
                match self {
                    $(Self::$filter(filter) => filter.on_hit(slot, residents),)+
                }
            }

            fn admit<R: $crate::Residents>(
                &mut self,
                new: &$crate::Object,
                residents: &R,
                victims: impl Iterator<Item = $crate::Object>,
            ) -> bool {
                match self {
                    $(Self::$filter(filter) => filter.admit(new, residents, victims),)+
                }
            }

            fn heap_bytes(&self) -> usize {
                match self {
                    $(Self::$filter(filter) => filter.heap_bytes(),)+
                }
            }
        }
    };
}

pub(crate) use {filters, list, policies};

/// What the registry says of a policy or a filter.
#[derive(Clone, Copy, Debug)]
pub struct Listing {
    /// What a user calls it.
    pub name: &'static str,
    /// One line that says what it does.
    pub about: &'static str,
    /// Where it was described.
    pub source: &'static str,
    /// What its dearest operation costs, for n residents: `O(1)`, `O(log n)`, `O(samples)`.
    pub cost: &'static str,
    /// Whether it needs to know the future, which only a replay does.
    pub is_offline: bool,
    /// What can be tuned in it.
    pub params: &'static [Param],
    /// Gives what each of the parameters is unless it is tuned.
    pub defaults: fn() -> Vec<String>,
}

/// What `P`'s parameters are unless they are tuned.
pub(crate) fn defaults<P: Params>() -> Vec<String> {
    let defaults = P::default();
    P::ALL.iter().map(|param| defaults.get(param.name)).collect()
}

/// Code that wants the policy of a [`Spec`] as a type, so that the compiler makes one copy for each.
pub trait Select {
    /// What it gives back.
    type Output;

    /// Called once, with the type and parameters that the spec stands for.
    fn run<P: Policy>(self, params: P::Params) -> Self::Output;
}

/// Puts a filter in front of the policy that is chosen.
struct Behind<S> {
    filter: FilterSpec,
    code: S,
}

impl<S: Select> Select for Behind<S> {
    type Output = S::Output;

    fn run<P: Policy>(self, policy: P::Params) -> S::Output {
        self.code.run::<Filtered<AnyFilter, P>>(FilteredParams { filter: self.filter, policy })
    }
}

impl Spec {
    /// What the registry says of the policy.
    pub fn listing(&self) -> &'static Listing {
        let is_named = |listing: &&Listing| listing.name == self.name();
        POLICIES.iter().find(is_named).expect("every spec stands for a line of the list")
    }

    /// Runs `code` with the type of the policy, the filter in front of it included.
    pub fn select<S: Select>(&self, code: S) -> S::Output {
        match self.filter.clone() {
            None => self.policy.select(code),
            Some(filter) => self.policy.select(Behind { filter, code }),
        }
    }

    /// An empty shard under this policy. `seed` is for the policy's randomness.
    pub fn build<V: Send + 'static>(&self, capacity: Capacity, seed: u64) -> Box<dyn AnyShard<V>> {
        self.select(Build { capacity, seed, value: PhantomData })
    }

    /// A shard under this policy with the contents of `old`, which is empty afterwards, and its capacity and
    /// count of evictions. Nothing leaves: what the old policy would have evicted first has come first here.
    pub fn succeed<V: Send + 'static>(&self, old: &mut dyn AnyShard<V>, seed: u64) -> Box<dyn AnyShard<V>> {
        self.select(Succeed { old, seed })
    }
}

struct Build<V> {
    capacity: Capacity,
    seed: u64,
    value: PhantomData<V>,
}

struct Succeed<'a, V> {
    old: &'a mut dyn AnyShard<V>,
    seed: u64,
}

impl<V: Send + 'static> Select for Succeed<'_, V> {
    type Output = Box<dyn AnyShard<V>>;

    fn run<P: Policy>(self, params: P::Params) -> Self::Output {
        Box::new(Shard::<P, V>::succeed(self.old, params, self.seed))
    }
}

impl Default for FilterSpec {
    /// The one that suits most policies.
    fn default() -> Self {
        Self::Frequency(())
    }
}

impl<V: Send + 'static> Select for Build<V> {
    type Output = Box<dyn AnyShard<V>>;

    fn run<P: Policy>(self, params: P::Params) -> Self::Output {
        Box::new(Shard::<P, V>::new(self.capacity, params, self.seed))
    }
}
