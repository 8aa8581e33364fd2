//! THE LIST of policies, and that of filters: one line each. Parsing, help, laws, golden counts, benches and
//! reports iterate them.

use std::marker::PhantomData;

use crate::filter::{Filter, Filtered, FilteredParams};
use crate::filters::*;
use crate::policies::*;
use crate::policy::{Capacity, Object, Param, Params, Policy, Residents, Slot};
use crate::shard::{AnyShard, Shard};
use crate::spec::{Spec, SpecError, read_params, tuned};

// How the lines of a list become listings, variants and the ways from and to their names.
macro_rules! list {
    ($list:ident, $spec:ident, $trait:ident, $what:literal: $($name:literal $type:ident $source:literal;)+) => {
        #[doc = concat!("Every ", $what, ", in the order of the list.")]
        pub const $list: &[Listing] = &[$(Listing {
            name: $name,
            about: <$type as $trait>::ABOUT,
            source: $source,
            cost: <$type as $trait>::COST,
            is_offline: <$type as $trait>::OFFLINE,
            params: <<$type as $trait>::Params as Params>::ALL,
            defaults: defaults::<<$type as $trait>::Params>,
        }),+];

        #[doc = concat!("A ", $what, " with its parameters.")]
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) enum $spec {
            $($type(<$type as $trait>::Params),)+
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
            pub(crate) fn read(name: &str, params: Option<&str>) -> Option<Result<Self, SpecError>> {
                match name {
                    $($name => Some(read_params(concat!($what, " '", $name, "'"), params).map(Self::$type)),)+
                    _ => None,
                }
            }

            /// The parameters that differ from their defaults, as `name=value`.
            pub(crate) fn tuned(&self) -> Vec<String> {
                match self {
                    $(Self::$type(params) => tuned(params),)+
                }
            }
        }
    };
}

// The policies' list, and how one of them is chosen.
macro_rules! registry {
    ($($name:literal $policy:ident $source:literal;)+) => {
        list! { POLICIES, PolicySpec, Policy, "policy": $($name $policy $source;)+ }

        impl PolicySpec {
            fn select<S: Select>(&self, code: S) -> S::Output {
                match self {
                    $(Self::$policy(params) => code.run::<$policy>(params.clone()),)+
                }
            }
        }
    };
}

// The filters' list, and any one of them in front of a policy.
macro_rules! filters {
    ($($name:literal $filter:ident $source:literal;)+) => {
        list! { FILTERS, FilterSpec, Filter, "filter": $($name $filter $source;)+ }

        /// A filter chosen at run time.
        pub(crate) enum AnyFilter {
            $($filter($filter),)+
        }

        impl Filter for AnyFilter {
            type Params = FilterSpec;

            const ABOUT: &'static str = "admits by a rule chosen at run time";

            fn new(params: FilterSpec, seed: u64) -> Self {
                match params {
                    $(FilterSpec::$filter(params) => Self::$filter($filter::new(params, seed)),)+
                }
            }

            #[inline]
            fn on_hit<R: Residents>(&mut self, slot: Slot, residents: &R) {
                match self {
                    $(Self::$filter(filter) => filter.on_hit(slot, residents),)+
                }
            }

            fn admit<R: Residents>(
                &mut self,
                new: &Object,
                residents: &R,
                victims: impl Iterator<Item = Object>,
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

registry! {
    "2q" TwoQ "T. Johnson, D. Shasha, 2Q: a low overhead high performance buffer management replacement algorithm, VLDB 1994";
    "adaptive" Adaptive "after L. Cherkasova, GDSF, 1998, and C. Waldspurger et al., miniature simulations, ATC 2017";
    "arc" Arc "N. Megiddo, D. S. Modha, ARC: a self-tuning, low overhead replacement cache, FAST 2003";
    "belady" Belady "L. A. Belady, A study of replacement algorithms for a virtual-storage computer, 1966";
    "beladysize" BeladySize "after L. A. Belady, with sizes";
    "clock" Clock "F. J. Corbato, A paging experiment with the Multics system, 1968";
    "fifo" Fifo "L. A. Belady, A study of replacement algorithms for a virtual-storage computer, 1966";
    "gds" Gds "P. Cao and S. Irani, Cost-aware WWW proxy caching algorithms, 1997";
    "gdsf" Gdsf "L. Cherkasova, Improving WWW proxies performance with Greedy-Dual-Size-Frequency caching policy, 1998";
    "hyperbolic" Hyperbolic "A. Blankstein et al., Hyperbolic caching: flexible caching for web applications, ATC 2017";
    "lecar" LeCaR "G. Vietri et al., Driving cache replacement with ML-based LeCaR, HotStorage 2018";
    "lfu" Lfu "A. V. Aho et al., Principles of optimal page replacement, 1971";
    "lfuda" Lfuda "M. Arlitt et al., Evaluating content management techniques for web proxy caches, 1999";
    "lhd" Lhd "N. Beckmann et al., LHD: improving cache hit rate by maximizing hit density, NSDI 2018";
    "lirs" Lirs "S. Jiang, X. Zhang, LIRS: an efficient low inter-reference recency set replacement policy, SIGMETRICS 2002";
    "lru" Lru "R. L. Mattson et al., Evaluation techniques for storage hierarchies, 1970";
    "lruk" LruK "E. J. O'Neil, P. E. O'Neil, G. Weikum, The LRU-K page replacement algorithm for database disk buffering, SIGMOD 1993";
    "maxs" Maxs "S. Williams et al., Removal policies in network caches for World-Wide Web documents, 1996";
    "rand" Rand "L. A. Belady, A study of replacement algorithms for a virtual-storage computer, 1966";
    "s3fifo" S3Fifo "J. Yang et al., FIFO queues are all you need for cache eviction, SOSP 2023";
    "sieve" Sieve "Y. Zhang et al., SIEVE is simpler than LRU, NSDI 2024";
    "slru" Slru "R. Karedla et al., Caching strategies to improve disk system performance, Computer 1994";
    "tinylfu" TinyLfu "G. Einziger, R. Friedman and B. Manes, TinyLFU: a highly efficient cache admission policy, 2017";
    "wtinylfu" WTinyLfu "G. Einziger, O. Eytan, R. Friedman and B. Manes, Adaptive software cache management, 2018";
}

filters! {
    "adaptsize" AdaptSize "D. Berger et al., AdaptSize: orchestrating the hot object memory cache in a CDN, 2017";
    "secondhit" SecondHit "B. Maggs and R. Sitaraman, Algorithmic nuggets in content delivery, 2015";
    "size" SizeLimit "the limits on object size that proxies have had since the 1990s";
    "tinylfu" Frequency "G. Einziger, R. Friedman and B. Manes, TinyLFU: a highly efficient cache admission policy, 2017";
}

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

fn defaults<P: Params>() -> Vec<String> {
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
