//! THE LIST of policies: one line each. Parsing, help, laws, golden counts, benches and reports iterate it.

use std::marker::PhantomData;

use crate::policies::*;
use crate::policy::{Capacity, Param, Params, Policy};
use crate::shard::{AnyShard, Shard};
use crate::spec::{SpecError, read_params, tuned};

// How a line of the list becomes a listing, a variant and the ways from and to its name.
macro_rules! registry {
    ($($name:literal $policy:ident $source:literal;)+) => {
        /// Every policy, in the order of the list.
        pub const POLICIES: &[Listing] = &[$(Listing {
            name: $name,
            about: <$policy as Policy>::ABOUT,
            source: $source,
            cost: <$policy as Policy>::COST,
            is_offline: <$policy as Policy>::OFFLINE,
            params: <<$policy as Policy>::Params as Params>::ALL,
        }),+];

        /// A policy with its parameters, as a user names them: `lru`, or `name:param=value,param=value`.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Spec {
            $(#[doc = concat!("`", $name, "`: see [`", stringify!($policy), "`].")]
            $policy(<$policy as Policy>::Params),)+
        }

        impl Spec {
            /// The policy's name in [`POLICIES`].
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$policy(_) => $name,)+
                }
            }

            /// Runs `code` with the policy's type.
            pub fn select<S: Select>(&self, code: S) -> S::Output {
                match self {
                    $(Self::$policy(params) => code.run::<$policy>(params.clone()),)+
                }
            }

            /// The policy called `name`, tuned by `params`; `None` if no policy is called so.
            pub(crate) fn read(name: &str, params: Option<&str>) -> Option<Result<Self, SpecError>> {
                match name {
                    $($name => Some(read_params($name, params).map(Self::$policy)),)+
                    _ => None,
                }
            }

            /// The parameters that differ from their defaults, as `name=value`.
            pub(crate) fn tuned(&self) -> Vec<String> {
                match self {
                    $(Self::$policy(params) => tuned(params),)+
                }
            }
        }
    };
}

registry! {
    "2q" TwoQ "T. Johnson, D. Shasha, 2Q: a low overhead high performance buffer management replacement algorithm, VLDB 1994";
    "arc" Arc "N. Megiddo, D. S. Modha, ARC: a self-tuning, low overhead replacement cache, FAST 2003";
    "belady" Belady "L. A. Belady, A study of replacement algorithms for a virtual-storage computer, 1966";
    "beladysize" BeladySize "after L. A. Belady, with sizes";
    "clock" Clock "F. J. Corbato, A paging experiment with the Multics system, 1968";
    "fifo" Fifo "L. A. Belady, A study of replacement algorithms for a virtual-storage computer, 1966";
    "gds" Gds "P. Cao and S. Irani, Cost-aware WWW proxy caching algorithms, 1997";
    "gdsf" Gdsf "L. Cherkasova, Improving WWW proxies performance with Greedy-Dual-Size-Frequency caching policy, 1998";
    "lfu" Lfu "A. V. Aho et al., Principles of optimal page replacement, 1971";
    "lfuda" Lfuda "M. Arlitt et al., Evaluating content management techniques for web proxy caches, 1999";
    "lirs" Lirs "S. Jiang, X. Zhang, LIRS: an efficient low inter-reference recency set replacement policy, SIGMETRICS 2002";
    "lru" Lru "R. L. Mattson et al., Evaluation techniques for storage hierarchies, 1970";
    "maxs" Maxs "S. Williams et al., Removal policies in network caches for World-Wide Web documents, 1996";
    "rand" Rand "L. A. Belady, A study of replacement algorithms for a virtual-storage computer, 1966";
    "s3fifo" S3Fifo "J. Yang et al., FIFO queues are all you need for cache eviction, SOSP 2023";
    "sieve" Sieve "Y. Zhang et al., SIEVE is simpler than LRU, NSDI 2024";
    "slru" Slru "R. Karedla et al., Caching strategies to improve disk system performance, Computer 1994";
}

/// What the registry says of a policy.
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
}

/// Code that wants the policy of a [`Spec`] as a type, so that the compiler makes one copy for each.
pub trait Select {
    /// What it gives back.
    type Output;

    /// Called once, with the type and parameters that the spec stands for.
    fn run<P: Policy>(self, params: P::Params) -> Self::Output;
}

impl Spec {
    /// What the registry says of the policy.
    pub fn listing(&self) -> &'static Listing {
        let is_named = |listing: &&Listing| listing.name == self.name();
        POLICIES.iter().find(is_named).expect("every spec stands for a line of the list")
    }

    /// An empty shard under this policy. `seed` is for the policy's randomness.
    pub fn build<V: Send + 'static>(&self, capacity: Capacity, seed: u64) -> Box<dyn AnyShard<V>> {
        self.select(Build { capacity, seed, value: PhantomData })
    }
}

struct Build<V> {
    capacity: Capacity,
    seed: u64,
    value: PhantomData<V>,
}

impl<V: Send + 'static> Select for Build<V> {
    type Output = Box<dyn AnyShard<V>>;

    fn run<P: Policy>(self, params: P::Params) -> Self::Output {
        Box::new(Shard::<P, V>::new(self.capacity, params, self.seed))
    }
}
