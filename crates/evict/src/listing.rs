//! The lists of policies and filters.
//!
//! The lists are in `policies/mod.rs` and `filters/mod.rs`. Parsing, help, laws, golden counts, benches and reports
//! iterate them.

use crate::params::{Param, Params};
use crate::policy::Policy;

// Generates the listings, the variants, and the conversions from and to names.
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
            defaults: $crate::listing::defaults::<<$type as $crate::$trait>::Params>,
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

            /// Returns the item called `name`, tuned by `params`, or `None` if there is none.
            pub(crate) fn read(name: &str, params: Option<&str>) -> Option<Result<Self, $crate::SpecError>> {
                match name {
                    $($name => Some($crate::params::read_params(concat!($what, " '", $name, "'"), params).map(Self::$type)),)+
                    _ => None,
                }
            }

            /// Returns the parameters that differ from their defaults, as `name=value`.
            pub(crate) fn tuned(&self) -> Vec<String> {
                match self {
                    $(Self::$type(params) => $crate::params::tuned(params),)+
                }
            }
        }
    };
}

// Generates the policies' list and the selection of one policy.
macro_rules! policies {
    ($($name:literal $module:ident::$policy:ident $source:literal;)+) => {
        $crate::listing::list! { POLICIES, PolicySpec, Policy, "policy": $($name $module::$policy $source;)+ }

        impl PolicySpec {
            /// Runs `code` with the policy's type.
            pub(crate) fn select<S: $crate::PolicyVisitor>(&self, code: S) -> S::Output {
                match self {
                    $(Self::$policy(params) => code.run::<$policy>(params.clone()),)+
                }
            }
        }
    };
}

// Generates the filters' list, and a type for any filter in front of a policy.
macro_rules! filters {
    ($($name:literal $module:ident::$filter:ident $source:literal;)+) => {
        $crate::listing::list! { FILTERS, FilterSpec, Filter, "filter": $($name $module::$filter $source;)+ }

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

            #[inline(never)]
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

/// The registry's entry for a policy or a filter.
#[derive(Clone, Copy, Debug)]
pub struct Listing {
    /// The name that users write.
    pub name: &'static str,
    /// One line that describes the item.
    pub about: &'static str,
    /// The publication that describes it.
    pub source: &'static str,
    /// The cost of the most expensive operation, for n residents: `O(1)`, `O(log n)`, `O(samples)`.
    pub cost: &'static str,
    /// Whether it needs the future requests, which only a replay knows.
    pub is_offline: bool,
    /// The tunable parameters.
    pub params: &'static [Param],
    /// Returns the default value of each parameter.
    pub defaults: fn() -> Vec<String>,
}

/// Returns the default values of the parameters of `P`.
pub(crate) fn defaults<P: Params>() -> Vec<String> {
    let defaults = P::default();
    P::ALL.iter().map(|param| defaults.get(param.name)).collect()
}

/// Code that needs the policy of a [`Spec`](crate::Spec) as a type, so that the compiler makes one copy for each policy.
pub trait PolicyVisitor {
    /// The result of the code.
    type Output;

    /// Runs the code once, with the type and parameters that the spec stands for.
    fn run<P: Policy>(self, params: P::Params) -> Self::Output;
}
