//! W-TinyLFU: new objects enter a small window; its victims stay only if they are requested more often than the victims of
//! the main part.
//!
//! G. Einziger, R. Friedman and B. Manes, TinyLFU: a highly efficient cache admission policy, 2017; the window
//! adapts by hill climbing after Einziger, Eytan, Friedman and Manes, Adaptive software cache management, 2018.

use larder_words::with_defaults;

use crate::filters::outweighs;
use crate::params::{params, read_bool, read_count, read_share};
use crate::parts::by_slot::BySlot;
use crate::parts::list::Links;
use crate::parts::segment::{Segment, validate_all};
use crate::parts::sketch::Sketch;
use crate::policy::{Capacity, Object, Policy, Residents, Slot};

/// The protected segment's share of the main part.
const PROTECTED: f64 = 0.8;
/// The minimum and maximum of the adaptive window, as shares of the capacity.
const WINDOWS: (f64, f64) = (0.001, 0.8);
/// The climber's first step, as a share of the capacity; the remaining share of a step at the next one; and the change
/// of the hit ratio that restarts the climber.
const STEP: f64 = 0.0625;
const DECAY: f64 = 0.98;
const RESTART: f64 = 0.05;

/// An LRU window in front of a segmented LRU, probation and protected, with a [`Sketch`] that decides which objects
/// pass from the window: those with more requests than all their victims together.
///
/// An object heavier than the window does not enter it: it has to outweigh its victims at once, and is otherwise
/// refused. If there is room for an object, it is never refused.
pub struct WTinyLfu {
    links: Links,
    parts: BySlot<Part>,
    /// By [`Part`].
    segments: [Segment; 3],
    sketch: Sketch,
    /// The weight that was admitted to the window and has not entered it yet.
    incoming: u64,
    share: f64,
    /// The limits for the latest capacity; `None` after a change of `share`.
    limits: Option<Limits>,
    period: u32,
    climber: Option<Climber>,
}

/// The maximum weights in a cache of the capacity `amount`.
#[derive(Clone, Copy)]
struct Limits {
    amount: u64,
    /// More than 0, unless the window's share is 0.
    window: u64,
    main: u64,
    protected: u64,
}

/// The queue of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Window,
    Probation,
    Protected,
}

params! {
    /// The parameters of W-TinyLFU: the division of the capacity.
    WTinyLfuParams {
        /// The window's share of the capacity; the initial share, if the window adapts.
        window: f64 = 0.01, read_window, "the window's share of the capacity: 0 to 0.8";
        /// Whether the window adapts.
        adaptive: bool = true, read_bool, "whether the window adapts: true or false";
        /// The number of lookups for each resident between two adaptations.
        period: u32 = 1, |value| read_count(value, 1..=100),
            "lookups for each resident until the window adapts again: 1 to 100 (the paper: 10)";
    }
}

fn read_window(value: &str) -> Result<f64, String> {
    let share = read_share(value).ok().filter(|share| *share <= WINDOWS.1);
    share.ok_or_else(|| "a share from 0 to 0.8".into())
}

impl Policy for WTinyLfu {
    type Params = WTinyLfuParams;

    const ABOUT: &'static str = "a small LRU window for new objects; its victims enter a segmented LRU if they are requested more often than \
         those that they replace";

    const FETCHES_AHEAD: bool = true;

    fn new(_capacity: Capacity, params: WTinyLfuParams, _seed: u64) -> Self {
        Self {
            links: Links::new(),
            parts: BySlot::new(),
            segments: [const { Segment::new() }; 3],
            sketch: Sketch::new(),
            incoming: 0,
            share: params.window,
            limits: None,
            period: params.period,
            climber: params.adaptive.then(Climber::default),
        }
    }

    // The methods of a request are inlined always: then they share what they read.
    #[inline(always)]
    fn admit<R: Residents>(&mut self, new: &Object, residents: &R) -> bool {
        self.sketch.fit(residents.len());
        self.sketch.record(new.key);
        if let Some(climber) = &mut self.climber {
            let step = climber.climb(residents.now(), self.sketch.residents() * self.period as usize);
            if step != 0.0 {
                self.share = (self.share + step).clamp(WINDOWS.0, WINDOWS.1);
                self.limits = None;
            }
        }
        let capacity = residents.capacity();
        let weight = capacity.weigh(new.size);
        if weight <= self.limits(capacity).window {
            self.incoming = weight;
            return true;
        }
        self.incoming = 0;
        let needed = weight.saturating_sub(capacity.amount.saturating_sub(residents.used()));
        self.outweighs(new.key, needed, residents)
    }

    #[inline(always)]
    fn on_insert<R: Residents>(&mut self, slot: Slot, residents: &R) {
        self.incoming = 0;
        let limits = self.limits(residents.capacity());
        match residents.weight(slot) <= limits.window {
            true => self.push(Part::Window, slot, residents),
            false => self.push(Part::Probation, slot, residents),
        }
        while let Some(last) = self.leaving(limits)
            && self.excess(residents.weight(last), limits) == 0
        {
            self.move_to(Part::Probation, last, residents);
        }
    }

    #[inline(always)]
    fn on_hit<R: Residents>(&mut self, slot: Slot, residents: &R) {
        self.sketch.record(residents.object(slot).key);
        if let Some(climber) = &mut self.climber {
            climber.hits += 1;
        }
        match self.parts[slot] {
            Part::Probation => self.protect(slot, residents),
            part => self.segments[part as usize].move_to_front(&mut self.links, slot),
        }
    }

    #[inline(always)]
    fn evict<R: Residents>(&mut self, residents: &R) -> Option<Slot> {
        let limits = self.limits(residents.capacity());
        while self.excess(0, limits) == 0
            && let Some(candidate) = self.leaving(limits)
        {
            let needed = self.excess(residents.weight(candidate), limits);
            if let Some(victim) = self.only_victim(needed, residents) {
                return Some(self.remove_one(candidate, victim, residents));
            }
            if !self.outweighs(residents.object(candidate).key, needed, residents) {
                return Some(self.take(candidate, residents));
            }
            self.move_to(Part::Probation, candidate, residents);
        }
        let last = self.back(Part::Probation).or(self.back(Part::Protected)).or(self.back(Part::Window))?;
        Some(self.take(last, residents))
    }

    #[inline]
    fn on_remove<R: Residents>(&mut self, slot: Slot, residents: &R) {
        self.take(slot, residents);
    }

    fn heap_bytes(&self) -> usize {
        self.links.heap_bytes() + self.parts.heap_bytes() + self.sketch.heap_bytes()
    }

    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        validate_all(&self.segments, &self.links, residents, |slot| self.parts[slot] as usize)
    }
}

impl WTinyLfu {
    #[inline]
    fn limits(&mut self, capacity: Capacity) -> Limits {
        match self.limits {
            Some(limits) if limits.amount == capacity.amount => limits,
            _ => self.limit(capacity),
        }
    }

    #[cold]
    fn limit(&mut self, capacity: Capacity) -> Limits {
        let amount = capacity.amount;
        let main = capacity.share(1.0 - self.share).min(amount);
        let protected = (main as f64 * PROTECTED) as u64;
        *self.limits.insert(Limits { amount, window: amount - main, main, protected })
    }

    #[inline]
    fn used(&self, part: Part) -> u64 {
        self.segments[part as usize].used()
    }

    #[inline]
    fn back(&self, part: Part) -> Option<Slot> {
        self.segments[part as usize].back()
    }

    /// Returns the excess of the main part over its limit if `weight` is added.
    #[inline]
    fn excess(&self, weight: u64, limits: Limits) -> u64 {
        let main = self.used(Part::Probation) + self.used(Part::Protected);
        (main + weight).saturating_sub(limits.main)
    }

    /// Returns the last slot of the window, if the window exceeds its limit or will exceed it.
    #[inline]
    fn leaving(&self, limits: Limits) -> Option<Slot> {
        let will_hold = self.used(Part::Window).saturating_add(self.incoming);
        if will_hold > limits.window { self.back(Part::Window) } else { None }
    }

    /// Whether `candidate` was requested more often than the next victims with a total weight of `needed`.
    #[inline]
    fn outweighs<R: Residents>(&self, candidate: u64, needed: u64, residents: &R) -> bool {
        if needed == 0 {
            return true;
        }
        match self.only_victim(needed, residents) {
            Some(victim) => self.is_more_frequent(candidate, victim, residents),
            None => self.outweighs_several(candidate, needed, residents),
        }
    }

    /// Returns the next victim if it makes enough room, and some is `needed`.
    #[inline]
    fn only_victim<R: Residents>(&self, needed: u64, residents: &R) -> Option<Slot> {
        self.back(Part::Probation).filter(|&victim| needed > 0 && residents.weight(victim) >= needed)
    }

    #[inline(always)]
    fn is_more_frequent<R: Residents>(&self, candidate: u64, victim: Slot, residents: &R) -> bool {
        self.sketch.exceeds(candidate, self.sketch.estimate(residents.object(victim).key))
    }

    /// Removes and returns the less frequent of `candidate`, the last of the window, and `victim`, the last on
    /// probation. If the candidate stays, it is on probation.
    #[inline(always)]
    fn remove_one<R: Residents>(&mut self, candidate: Slot, victim: Slot, residents: &R) -> Slot {
        let stays = self.is_more_frequent(residents.object(candidate).key, victim, residents);
        self.segments[Part::Window as usize].pop_back(&mut self.links, residents);
        if !stays {
            return candidate;
        }
        self.push(Part::Probation, candidate, residents);
        self.segments[Part::Probation as usize].pop_back(&mut self.links, residents);
        victim
    }

    fn outweighs_several<R: Residents>(&self, candidate: u64, mut needed: u64, residents: &R) -> bool {
        let parts = [Part::Probation, Part::Protected, Part::Window];
        let slots = parts.into_iter().flat_map(|part| self.segments[part as usize].iter_back(&self.links));
        let victims = slots.map_while(|slot| {
            let victim = (needed > 0).then(|| residents.object(slot))?;
            needed = needed.saturating_sub(residents.weight(slot));
            Some(victim)
        });
        outweighs(&self.sketch, candidate, victims)
    }

    /// Moves `slot` from probation to the protected segment, and moves the excess there back.
    fn protect<R: Residents>(&mut self, slot: Slot, residents: &R) {
        self.move_to(Part::Protected, slot, residents);
        let limit = self.limits(residents.capacity()).protected;
        while self.used(Part::Protected) > limit
            && let Some(last) = self.back(Part::Protected)
        {
            self.move_to(Part::Probation, last, residents);
        }
    }

    #[inline]
    fn move_to<R: Residents>(&mut self, part: Part, slot: Slot, residents: &R) {
        self.take(slot, residents);
        self.push(part, slot, residents);
    }

    #[inline]
    fn push<R: Residents>(&mut self, part: Part, slot: Slot, residents: &R) {
        self.parts.put(slot, part);
        self.segments[part as usize].push_front(&mut self.links, slot, residents);
    }

    #[inline]
    fn take<R: Residents>(&mut self, slot: Slot, residents: &R) -> Slot {
        self.segments[self.parts[slot] as usize].remove(&mut self.links, slot, residents);
        slot
    }
}

with_defaults! {
    /// Finds the window with most hits: continues in a direction in which hits increase, and reverses it otherwise. The
    /// first period is only observed.
    struct Climber {
        hits: u64 = 0,
        since: u64 = 0,
        hit_ratio: f64 = 0.0,
        step: f64 = STEP,
    }
}

impl Climber {
    /// Returns the change of the window's share at lookup `now`: 0 until a period of lookups is over. Periods are a
    /// tenth of those in the paper unless the user sets them, so that short traces and new caches adapt, too.
    fn climb(&mut self, now: u64, period: usize) -> f64 {
        let lookups = now - self.since;
        if lookups < period as u64 {
            return 0.0;
        }
        let hit_ratio = self.hits as f64 / lookups as f64;
        let change = hit_ratio - self.hit_ratio;
        let step = if change >= 0.0 { self.step } else { -self.step };
        let next = if change.abs() >= RESTART { STEP.copysign(step) } else { step * DECAY };
        *self = Self { hits: 0, since: now, hit_ratio, step: next };
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_climber_turns_when_hits_get_fewer() {
        let mut climber = Climber::default();
        let mut now = 0;
        let mut climb = |hits| {
            now += 100;
            climber.hits = hits;
            climber.climb(now, 100)
        };
        assert_eq!(climb(50), STEP);
        assert_eq!(climb(52), STEP);
        assert_eq!(climb(51), -STEP * DECAY);
        assert_eq!(climb(52), -STEP * DECAY * DECAY);
        assert_eq!(climb(20), STEP * DECAY * DECAY * DECAY);
        assert_eq!(climb(21), STEP);
        assert_eq!(climber.climb(650, 100), 0.0);
    }
}
