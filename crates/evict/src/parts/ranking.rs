//! Residents by rank: the rule of `adaptive`, both in the cache itself and in each of its ghosts.
//!
//! The rank of an object is the level at its last request plus its worth: its known number of requests per unit of the
//! capacity, raised to an exponent. The level is the rank of the latest victim, so that worth ages. Exponent 0 is LRU,
//! 1 is greedy dual (GDSF, or LFU with aging if sizes do not count).
//!
//! Two details differ from the literature. Counts survive eviction ([`Counts`]). And a hit does not update the heap: it
//! only notes the level, and the heap is updated when the object comes up for eviction, which selects the same victims.

use crate::parts::by_slot::BySlot;
use crate::parts::counts::Counts;
use crate::parts::heap::{Heap, ascending};
use crate::policy::{Capacity, Object, Param, Params, Policy, Residents, Slot};

/// The misses to minimise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Objective {
    /// Serves as many requests as possible from the cache.
    #[default]
    Requests,
    /// Serves as many bytes as possible from the cache.
    Bytes,
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

/// The parameters of a [`Ranking`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Measure {
    pub(crate) objective: Objective,
    pub(crate) exponent: Exponent,
}

/// A user can set no parameter here: the measure follows from [`Objective`].
impl Params for Measure {
    const ALL: &'static [Param] = &[];

    fn set(&mut self, _name: &str, _value: &str) -> Result<(), String> {
        Err("no parameter".into())
    }

    fn get(&self, _name: &str) -> String {
        String::new()
    }
}

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
    /// A buffer for [`Policy::admit`], kept to reuse its allocation.
    outranked: Vec<(Slot, u64)>,
}

impl Ranking {
    /// Changes the exponent. The level is scaled in proportion to the residents' worth, so that their ages keep their
    /// weight against it.
    pub(crate) fn change<R: Residents>(&mut self, exponent: Exponent, residents: &R) {
        let before = self.total_worth(residents);
        self.measure.exponent = exponent;
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
        let needed = capacity.weigh(new.size).saturating_sub(free);
        let is_admitted = self.outranks(rank, needed, residents);
        if !is_admitted {
            self.level = rank;
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
        self.step();
        self.bases.put(slot, self.level);
        self.counts.put(slot, count);
        self.heap.push(slot, ascending(self.level + worth));
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        self.step();
        self.bases[slot] = self.level;
        self.counts[slot] = self.counts[slot].saturating_add(1);
    }

    #[inline]
    fn evict<R: Residents>(&mut self, residents: &R) -> Option<Slot> {
        let (slot, rank) = self.lowest(residents)?;
        self.heap.pop();
        self.level = self.level.max(rank);
        self.gone.put(residents.object(slot).key, self.counts[slot], residents.len());
        Some(slot)
    }

    fn on_remove<R: Residents>(&mut self, slot: Slot, residents: &R) {
        self.heap.remove(slot);
        self.gone.put(residents.object(slot).key, self.counts[slot], residents.len());
    }

    fn heap_bytes(&self) -> usize {
        let lists = self.bases.heap_bytes() + self.counts.heap_bytes() + self.heap.heap_bytes();
        lists + self.gone.heap_bytes() + self.outranked.capacity() * size_of::<(Slot, u64)>()
    }

    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        self.heap.validate(residents)?;
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
