//! The GreedyDual family: worth with aging.
//!
//! Each resident has a priority: its worth at its last request, plus the age of the cache then. The object with the
//! lowest priority is evicted, and its priority becomes the age. So objects without requests sink, regardless of their
//! worth.
//!
//! The policies differ in the worth, in whether the number of requests counts, and in whether a new object has to be worth
//! more than those that it would replace. An object of size 0 is worth as much as one of 1.

use std::fmt::{self, Display};
use std::marker::PhantomData;

use larder_words::named;

use crate::params::{Params, params, read_count};
use crate::parts::by_slot::BySlot;
use crate::parts::heap::{Heap, ascending};
use crate::policy::{Capacity, Object, Policy, Residents, Slot};

/// The properties that distinguish a policy of the family.
pub trait Worth: Send + 'static {
    /// The parameters that a user can tune.
    type Params: Params;

    /// One line that describes the policy.
    const ABOUT: &'static str;

    /// Whether requests since the object was stored increase its worth.
    const COUNTS: bool;

    /// Whether a new object competes with its victims. If it loses, it is refused and they stay, but the cache ages as
    /// though it had been stored and evicted: objects without requests cannot keep others out for long.
    const REFUSES: bool = false;

    /// Whether the heap has a run. This is worth the memory if new objects are many and alike.
    const HAS_RUN: bool = false;

    /// Returns the worth of `object` after `times` requests.
    fn worth(params: &Self::Params, object: &Object, times: u32) -> f64;
}

/// Evicts the object with the lowest priority and, among equals, the least recently requested.
pub struct GreedyDual<W: Worth> {
    heap: Heap,
    /// By slot: the number of requests since the object was stored; empty if they do not count.
    times: BySlot<u32>,
    age: f64,
    /// The age when the new object was admitted, before its victims were evicted: the base of its priority.
    age_at_admission: Option<f64>,
    params: W::Params,
    worth: PhantomData<W>,
}

/// GreedyDual-Size: keeps objects with a high cost for their size, even if they are rarely requested.
pub type Gds = GreedyDual<CostPerByte>;

/// GreedyDual-Size with Frequency: keeps objects with many requests and a high cost for their size. A new object that
/// is worth less than its victims is refused.
pub type Gdsf = GreedyDual<CountedCostPerByte>;

/// LFU with dynamic ageing: objects that were popular in the past are evicted in the end. Ignores sizes.
pub type Lfuda = GreedyDual<Count>;

/// The worth in [`Gds`].
pub struct CostPerByte;

/// The worth in [`Gdsf`].
pub struct CountedCostPerByte;

/// The worth in [`Lfuda`].
pub struct Count;

impl Worth for CostPerByte {
    type Params = Cost;

    const ABOUT: &'static str = "evicts objects that are cheap to fetch for their size, and long unused";
    const COUNTS: bool = false;

    #[inline]
    fn worth(params: &Cost, object: &Object, _times: u32) -> f64 {
        params.of(object) / object.size.max(1) as f64
    }
}

impl Worth for CountedCostPerByte {
    type Params = Cost;

    const ABOUT: &'static str =
        "evicts objects that are rarely requested, cheap to fetch for their size, and long unused";
    const COUNTS: bool = true;
    const REFUSES: bool = true;
    const HAS_RUN: bool = true;

    #[inline]
    fn worth(params: &Cost, object: &Object, times: u32) -> f64 {
        f64::from(times) * params.of(object) / object.size.max(1) as f64
    }
}

impl Worth for Count {
    type Params = ();

    const ABOUT: &'static str = "evicts the least frequently requested object, with aging";
    const COUNTS: bool = true;

    #[inline]
    fn worth(_params: &(), _object: &Object, times: u32) -> f64 {
        f64::from(times)
    }
}

named! {
    /// What a fetch costs.
    #[derive(Default)]
    pub(crate) enum CostUnit, name {
        /// The same cost for all objects, one second: minimises the number of fetches.
        #[default]
        Same = "1",
        /// The time of the last fetch, and at least a microsecond: minimises the time spent fetching.
        Latency = "latency",
        /// A packet each way and one for every 536 bytes, a second each: minimises the number of packets. From P. Cao
        /// and S. Irani.
        Bytes = "bytes",
        /// A fee for the request and a price for each byte: minimises the bill of an object storage.
        Money = "money",
    }
}

/// The bytes that cost as much as a request where a million requests cost 0.40 and a gigabyte 0.09.
const FEE: u32 = 4_444;

/// The bytes that cost as much as a request. `None`: not named, so that prices may set them; named ones stay, even if they equal [`FEE`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fee(Option<u32>);

impl Fee {
    fn read(value: &str) -> Result<Self, String> {
        let count = || read_count(value, 0..=u32::MAX).map_err(|expected| format!("auto or {expected}"));
        Ok(Self(if value == "auto" { None } else { Some(count()?) }))
    }
}

impl Display for Fee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(fee) => fee.fmt(f),
            None => f.write_str("auto"),
        }
    }
}

const SECOND: f64 = 1e6;

params! {
    /// The assumed cost of fetching an object again.
    Cost {
        cost: CostUnit = CostUnit::default(),
            |value| CostUnit::of_name(value).ok_or_else(|| "1, latency, bytes or money".to_owned()),
            "cost of a fetch: 1 (all equal), latency (its time), bytes (packets sent) or money (a fee and its bytes); default 1";
        fee: Fee = Fee(None), Fee::read,
            "bytes that cost as much as the fee of a request, with cost=money; default auto: by [cost], or 4444";
    }
}

impl Cost {
    #[inline]
    fn of(&self, object: &Object) -> f64 {
        match self.cost {
            CostUnit::Same => SECOND,
            CostUnit::Latency => f64::from(object.cost.max(1)),
            CostUnit::Bytes => (2.0 + object.size as f64 / 536.0) * SECOND,
            CostUnit::Money => f64::from(self.fee.0.unwrap_or(FEE)) + object.size as f64,
        }
    }
}

impl<W: Worth> GreedyDual<W> {
    /// Whether the objects with a priority of at most `limit` make up `needed` of the capacity. Mostly the first of them
    /// is enough.
    #[inline]
    fn outranks<R: Residents>(&self, limit: u64, needed: u64, residents: &R) -> bool {
        match self.heap.first() {
            Some((slot, lowest)) if lowest <= limit => {
                residents.weight(slot) >= needed || self.outranks_several(limit, needed, residents)
            }
            _ => false,
        }
    }

    fn outranks_several<R: Residents>(&self, limit: u64, needed: u64, residents: &R) -> bool {
        let mut freed = 0;
        self.heap.show_lowest(limit, |slot| {
            freed += residents.weight(slot);
            freed < needed
        });
        freed >= needed
    }
}

impl<W: Worth> Policy for GreedyDual<W> {
    type Params = W::Params;

    const ABOUT: &'static str = W::ABOUT;
    const COST: &'static str = "O(log n)";

    const FETCHES_AHEAD: bool = true;

    fn new(_capacity: Capacity, params: W::Params, _seed: u64) -> Self {
        Self {
            heap: if W::HAS_RUN { Heap::with_run() } else { Heap::new() },
            times: BySlot::new(),
            age: 0.0,
            age_at_admission: None,
            params,
            worth: PhantomData,
        }
    }

    #[inline]
    fn admit<R: Residents>(&mut self, new: &Object, residents: &R) -> bool {
        if !W::REFUSES {
            return true;
        }
        let capacity = residents.capacity();
        let weight = capacity.weigh(new.size);
        let needed = residents.used().saturating_add(weight).saturating_sub(capacity.amount);
        let priority = self.age + W::worth(&self.params, new, 1);
        let is_worthy = needed == 0 || self.outranks(ascending(priority), needed, residents);
        match is_worthy {
            true => self.age_at_admission = Some(self.age),
            false => self.age = priority,
        }
        is_worthy
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, residents: &R) {
        if W::COUNTS {
            self.times.put(slot, 1);
        }
        let age = self.age_at_admission.take().unwrap_or(self.age);
        let worth = W::worth(&self.params, &residents.object(slot), 1);
        self.heap.push(slot, ascending(age + worth));
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, residents: &R) {
        let mut times = 1;
        if W::COUNTS {
            times = self.times[slot].saturating_add(1);
            self.times[slot] = times;
        }
        let worth = W::worth(&self.params, &residents.object(slot), times);
        self.heap.update(slot, ascending(self.age + worth));
    }

    #[inline]
    fn evict<R: Residents>(&mut self, _residents: &R) -> Option<Slot> {
        let (victim, priority) = self.heap.pop()?;
        self.age = self.age.max(f64::from_bits(priority));
        Some(victim)
    }

    #[inline]
    fn on_remove<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        self.heap.remove(slot);
    }

    fn heap_bytes(&self) -> usize {
        self.heap.heap_bytes() + self.times.heap_bytes()
    }

    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        self.heap.validate(residents)
    }
}
