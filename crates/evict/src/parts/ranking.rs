//! Residents by rank: the rule of `adaptive`, both in the cache itself and in each of its ghosts.
//!
//! The rank of an object is the level at its last request plus its worth: its known number of requests per unit of the
//! capacity, raised to an exponent. The level is the rank of the latest victim, so that worth ages. Exponent 0 is LRU,
//! 1 is greedy dual (GDSF, or LFU with aging if sizes do not count).
//!
//! Two details differ from the literature. Counts survive eviction ([`Counts`]). And a hit does not update the heap: it
//! only notes the level, and the heap is updated when the object comes up for eviction, which selects the same victims.
//!
//! New objects may have to pass probation, as in the small queue of S3-FIFO (J. Yang et al., SOSP 2023): they share 5% of
//! the capacity in the order of their arrival, and are ranked only if they were requested there. Objects that are not
//! requested again then evict no ranked object and do not raise the level, so that part of a loop larger than the cache
//! stays.

use larder_words::named;

use crate::params::Params;
use crate::parts::by_slot::BySlot;
use crate::parts::counts::Counts;
use crate::parts::heap::{Heap, ascending};
use crate::parts::probation::Probation;
use crate::policy::{Capacity, Object, Policy, Residents, Slot};

named! {
    /// The misses to minimise.
    #[derive(Default)]
    pub(crate) enum Objective, name {
        /// Serves as many requests as possible from the cache.
        #[default]
        Requests = "requests",
        /// Serves as many bytes as possible from the cache.
        Bytes = "bytes",
    }
}

impl Objective {
    /// Returns the benefit of a hit, in the unit of the objective.
    #[inline]
    pub(crate) fn benefit(self, size: u64) -> u64 {
        match self {
            Self::Requests => 1,
            Self::Bytes => size.max(1),
        }
    }

    /// Reads an objective, for [`Params::set`].
    pub(crate) fn read(value: &str) -> Result<Self, String> {
        Self::of_name(value).ok_or_else(|| "requests or bytes".into())
    }
}

/// The weight of worth in comparison with recency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Exponent {
    /// No weight, as in LRU.
    Zero,
    /// The weight in greedy dual.
    #[default]
    One,
    /// A larger weight, for popularity and sizes that hardly change.
    OneAndHalf,
}

/// The new objects that enter on probation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Newcomers {
    /// None: a new object is ranked at once.
    #[default]
    None,
    /// Those whose counts are not remembered.
    Unknown,
    /// All.
    All,
}

/// The share of the capacity for objects on probation.
const PROBATION: f64 = 0.05;

/// The parameters of a [`Ranking`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Measure {
    pub(crate) objective: Objective,
    pub(crate) exponent: Exponent,
    pub(crate) on_probation: Newcomers,
}

/// A user can set no parameter here: the measure follows from [`Objective`].
impl Params for Measure {}

impl Measure {
    #[inline]
    fn worth(&self, count: u8, object: &Object, capacity: Capacity) -> f64 {
        let spared = f64::from(count) * self.objective.benefit(object.size) as f64;
        let density = spared / capacity.weigh(object.size).max(1) as f64;
        match self.exponent {
            Exponent::Zero => 1.0,
            Exponent::One => density,
            Exponent::OneAndHalf => density * density.sqrt(),
        }
    }
}

/// The order of the residents.
///
/// A new object with a lower rank than its victims is refused. But its count is remembered, so that an object with
/// repeated requests is eventually admitted.
pub(crate) struct Ranking {
    measure: Measure,
    /// The rank of the latest victim, plus one step of a float for every object requested since: equals leave by least
    /// recent use, and the steps have no weight.
    level: f64,
    /// By slot: the level at its last request.
    bases: BySlot<f64>,
    counts: BySlot<u8>,
    /// By rank at the heap's last update: never above the current rank.
    heap: Heap,
    gone: Counts,
    /// The residents outside the heap. Their base is 0 until they are requested.
    probation: Probation,
    /// The weight of the object admitted last if it enters on probation; otherwise 0.
    incoming: u64,
    /// Whether room was ever needed. Until then, no object enters on probation.
    was_full: bool,
    /// A buffer for [`Policy::admit`], kept to reuse its allocation.
    outranked: Vec<(Slot, u64)>,
}

impl Ranking {
    /// Changes the measure, and ranks the objects on probation. The level is scaled in proportion to the residents'
    /// worth, so that their ages keep their weight against it.
    pub(crate) fn change<R: Residents>(&mut self, measure: Measure, residents: &R) {
        while let Some(slot) = self.probation.pop(residents) {
            if self.bases[slot] == 0.0 {
                self.bases[slot] = self.level;
            }
            self.heap.push(slot, 0);
        }
        let before = self.total_worth(residents);
        self.measure = measure;
        let scale = self.total_worth(residents) / before;
        if scale.is_finite() {
            self.level *= scale;
            self.heap.slots().for_each(|slot| self.bases[slot] *= scale);
        }
        let Self { measure, bases, counts, heap, .. } = self;
        heap.rerank(|slot| {
            let worth = measure.worth(counts[slot], &residents.object(slot), residents.capacity());
            ascending(bases[slot] + worth)
        });
    }

    /// Returns the total worth. The sum is by slot, not in the heap's order, since that order would affect the
    /// rounding.
    fn total_worth<R: Residents>(&self, residents: &R) -> f64 {
        let slots = (0..self.counts.len() as Slot).filter(|&slot| residents.contains(slot));
        slots.map(|slot| self.worth(slot, residents)).sum()
    }

    #[inline]
    fn worth<R: Residents>(&self, slot: Slot, residents: &R) -> f64 {
        self.measure.worth(self.counts[slot], &residents.object(slot), residents.capacity())
    }

    /// Returns the next victim and its rank, after updating the heap with every hit that matters.
    #[inline]
    fn lowest<R: Residents>(&mut self, residents: &R) -> Option<(Slot, f64)> {
        loop {
            let (slot, known) = self.heap.first()?;
            let rank = self.bases[slot] + self.worth(slot, residents);
            if ascending(rank) <= known {
                return Some((slot, rank));
            }
            self.heap.update(slot, ascending(rank));
        }
    }

    /// Whether the residents that rank no higher than `rank` make up `needed` of the capacity.
    fn outranks<R: Residents>(&mut self, rank: f64, needed: u64, residents: &R) -> bool {
        let mut freed = 0;
        let mut outranked = std::mem::take(&mut self.outranked);
        let is_enough = loop {
            if freed >= needed {
                break true;
            }
            match self.lowest(residents) {
                Some((slot, lowest)) if lowest <= rank => {
                    freed += residents.weight(slot);
                    if freed < needed {
                        outranked.extend(self.heap.pop());
                    }
                }
                Some(_) => break false,
                None => break true,
            }
        };
        outranked.drain(..).for_each(|(slot, known)| self.heap.push(slot, known));
        self.outranked = outranked;
        is_enough
    }

    /// Whether an object that was requested `count` times enters on probation. If only requests count, an object of more
    /// than the average weight does not: it would take the place of several.
    #[inline]
    fn is_tried<R: Residents>(&mut self, count: u8, weight: u64, residents: &R) -> bool {
        let is_concerned = match self.measure.on_probation {
            Newcomers::None => false,
            Newcomers::Unknown => count == 1,
            Newcomers::All => true,
        };
        let is_average = || weight.saturating_mul(residents.len() as u64) <= residents.used();
        is_concerned
            && self.probation.fits(weight, residents.capacity())
            && (self.measure.objective == Objective::Bytes || is_average())
    }

    /// Evicts the oldest object on probation without a request, if their share is used up or no others are left. Those
    /// with a request are ranked.
    #[inline]
    fn evict_on_probation<R: Residents>(&mut self, residents: &R) -> Option<Slot> {
        while self.probation.excess(self.incoming, residents.capacity()) > 0 || self.heap.len() == 0 {
            let slot = self.probation.pop(residents)?;
            if self.bases[slot] == 0.0 {
                return Some(slot);
            }
            self.heap.push(slot, ascending(self.bases[slot] + self.worth(slot, residents)));
        }
        None
    }

    #[inline]
    fn evict_ranked<R: Residents>(&mut self, residents: &R) -> Option<Slot> {
        let (slot, rank) = self.lowest(residents)?;
        self.heap.pop();
        self.level = self.level.max(rank);
        Some(slot)
    }

    #[inline]
    fn step(&mut self) {
        self.level = self.level.next_up();
    }

    /// Sets the initial level well above an object's worth: high enough for steps, but not higher, so that it stays
    /// exact against the worth of others.
    #[inline]
    fn start(&mut self, worth: f64) {
        if self.level == 0.0 {
            self.level = 16.0 * worth;
        }
    }
}

impl Policy for Ranking {
    type Params = Measure;

    const ABOUT: &'static str = "evicts the object with the least worth";

    const COST: &'static str = "O(log n)";

    fn new(_capacity: Capacity, measure: Measure, _seed: u64) -> Self {
        Self {
            measure,
            level: 0.0,
            bases: BySlot::new(),
            counts: BySlot::new(),
            heap: Heap::new(),
            gone: Counts::new(),
            probation: Probation::new(PROBATION),
            incoming: 0,
            was_full: false,
            outranked: Vec::new(),
        }
    }

    fn admit<R: Residents>(&mut self, new: &Object, residents: &R) -> bool {
        let capacity = residents.capacity();
        let count = self.gone.get(new.key).saturating_add(1);
        let worth = self.measure.worth(count, new, capacity);
        self.start(worth);
        let rank = self.level + worth;
        let free = capacity.amount.saturating_sub(residents.used());
        let weight = capacity.weigh(new.size);
        let mut needed = weight.saturating_sub(free);
        self.was_full |= needed > 0;
        self.incoming = 0;
        if self.was_full && self.is_tried(count, weight, residents) {
            self.incoming = weight;
            needed = needed.saturating_sub(self.probation.excess(weight, capacity));
        }
        let is_admitted = self.outranks(rank, needed, residents);
        if !is_admitted {
            self.level = rank;
            self.incoming = 0;
            self.gone.put(new.key, count, residents.len());
        }
        is_admitted
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, residents: &R) {
        let object = residents.object(slot);
        let count = self.gone.take(object.key).saturating_add(1);
        let worth = self.measure.worth(count, &object, residents.capacity());
        self.start(worth);
        self.counts.put(slot, count);
        if std::mem::take(&mut self.incoming) > 0 {
            self.bases.put(slot, 0.0);
            return self.probation.push(slot, self.heap.places_mut(), residents);
        }
        self.step();
        self.bases.put(slot, self.level);
        self.heap.push(slot, ascending(self.level + worth));
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        self.step();
        self.bases[slot] = self.level;
        self.counts[slot] = self.counts[slot].saturating_add(1);
    }

    #[inline]
    fn on_hits<R: Residents>(&mut self, slot: Slot, count: u32, _residents: &R) -> bool {
        // So many steps: floats above 0 are in the order of their bits.
        self.level = f64::from_bits(self.level.to_bits() + u64::from(count));
        self.bases[slot] = self.level;
        self.counts[slot] = self.counts[slot].saturating_add(u8::try_from(count).unwrap_or(u8::MAX));
        true
    }

    #[inline]
    fn evict<R: Residents>(&mut self, residents: &R) -> Option<Slot> {
        let slot = match self.evict_on_probation(residents) {
            Some(slot) => slot,
            None => self.evict_ranked(residents)?,
        };
        self.gone.put(residents.object(slot).key, self.counts[slot], residents.len());
        Some(slot)
    }

    fn on_remove<R: Residents>(&mut self, slot: Slot, residents: &R) {
        if !self.probation.remove(slot, self.heap.places_mut(), residents) {
            self.heap.remove(slot);
        }
        self.gone.put(residents.object(slot).key, self.counts[slot], residents.len());
    }

    fn heap_bytes(&self) -> usize {
        let lists = self.bases.heap_bytes() + self.counts.heap_bytes() + self.heap.heap_bytes();
        let others = self.gone.heap_bytes() + self.probation.heap_bytes();
        lists + others + self.outranked.capacity() * size_of::<(Slot, u64)>()
    }

    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        let on_probation = self.probation.validate(self.heap.places(), residents)?;
        self.heap.validate_but(on_probation, residents)?;
        for slot in self.heap.slots() {
            let base = self.bases[slot];
            if !(base > 0.0 && base <= self.level && base.is_finite()) {
                return Err(format!("slot {slot} ranks from {base}, the level is {}", self.level));
            }
            if self.counts[slot] == 0 {
                return Err(format!("slot {slot} is counted 0 times"));
            }
        }
        Ok(())
    }
}
