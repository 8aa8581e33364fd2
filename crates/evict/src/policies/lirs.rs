//! LIRS: ranks objects by the time between their last two requests, not by the time since the last one.

use crate::params::{params, read_share};
use crate::parts::by_slot::BySlot;
use crate::parts::ghost::Ghosts;
use crate::parts::list::Links;
use crate::parts::segment::{Segment, validate_all};
use crate::policy::{Capacity, Object, Policy, Residents, Slot};

/// Most of the cache is for objects of low inter-reference recency, `lir`; the rest, `hir`, is a queue from which
/// victims are taken. If an object of the queue, resident or remembered, is requested again sooner than the stalest of
/// `lir`, it takes the place of the stalest, which joins the queue.
///
/// The paper's stack `S` does not exist as such: an object is in it if its last request is later than that of the
/// stalest of `lir`. So the times of the last requests suffice, and there is no pruning. The objects that leave the
/// queue were last requested in the order in which they leave, so the ghosts are in order, too, and the oldest are
/// removed first. An object larger than the share of `lir` stays in the queue.
pub struct Lirs {
    params: LirsParams,
    links: Links,
    /// By recency.
    lir: Segment,
    /// `Q` in the paper.
    hir: Segment,
    /// Objects that left the queue, with the times of their last requests.
    ghosts: Ghosts<Time>,
    last: BySlot<Time>,
    is_lir: BySlot<bool>,
    /// Whether the object admitted last was remembered and in the stack.
    returning: bool,
}

/// Lookups, counted modulo 2^32. An object without a request for four billion lookups looks recent again.
type Time = u32;

params! {
    /// The parameters of [`Lirs`].
    LirsParams {
        hir: f64 = 0.01, read_share, "share of the capacity for the queue of victims: 0 to 1";
        ghost: f64 = 1.0, read_share,
            "size of the evicted objects whose keys are remembered, as a share of the capacity: 0 to 1";
    }
}

impl Lirs {
    /// Returns the limit of `lir`: the queue has at least 1 of the capacity's unit.
    #[inline]
    fn lir_share<R: Residents>(&self, residents: &R) -> u64 {
        let capacity = residents.capacity();
        capacity.amount.saturating_sub(capacity.share(self.params.hir).max(1))
    }

    /// Whether an object last requested at `time` is in the stack.
    #[inline]
    fn is_in_stack<R: Residents>(&self, time: Time, residents: &R) -> bool {
        let age = |time| (residents.now() as Time).wrapping_sub(time);
        self.lir.back().is_some_and(|stalest| age(time) < age(self.last[stalest]))
    }

    #[inline]
    fn promote<R: Residents>(&mut self, slot: Slot, residents: &R) {
        self.is_lir[slot] = true;
        self.lir.push_front(&mut self.links, slot, residents);
        self.demote(residents);
    }

    /// Moves the stalest of `lir` to the queue until `lir` is within its share.
    #[inline]
    fn demote<R: Residents>(&mut self, residents: &R) {
        while self.lir.used() > self.lir_share(residents) {
            let Some(slot) = self.lir.pop_back(&mut self.links, residents) else { break };
            self.is_lir[slot] = false;
            self.hir.push_front(&mut self.links, slot, residents);
        }
    }
}

impl Policy for Lirs {
    type Params = LirsParams;

    const ABOUT: &'static str = "keeps objects with the shortest time between two requests";

    fn new(_capacity: Capacity, params: LirsParams, _seed: u64) -> Self {
        Self {
            params,
            links: Links::new(),
            lir: Segment::new(),
            hir: Segment::new(),
            ghosts: Ghosts::new(),
            last: BySlot::new(),
            is_lir: BySlot::new(),
            returning: false,
        }
    }

    #[inline]
    fn admit<R: Residents>(&mut self, new: &Object, residents: &R) -> bool {
        let last = self.ghosts.remove(new.key, residents);
        self.returning = last.is_some_and(|time| self.is_in_stack(time, residents));
        true
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, residents: &R) {
        self.last.put(slot, residents.now() as Time);
        self.is_lir.put(slot, false);
        let room = self.lir_share(residents).checked_sub(residents.weight(slot));
        let returning = std::mem::take(&mut self.returning);
        let is_lir = room.is_some_and(|room| returning || self.lir.used() <= room);
        match is_lir {
            true => self.promote(slot, residents),
            false => self.hir.push_front(&mut self.links, slot, residents),
        }
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, residents: &R) {
        let last = std::mem::replace(&mut self.last[slot], residents.now() as Time);
        if self.is_lir[slot] {
            self.lir.move_to_front(&mut self.links, slot);
        } else if self.is_in_stack(last, residents) && residents.weight(slot) <= self.lir_share(residents) {
            self.hir.remove(&mut self.links, slot, residents);
            self.promote(slot, residents);
        } else {
            self.hir.move_to_front(&mut self.links, slot);
        }
    }

    #[inline]
    fn evict<R: Residents>(&mut self, residents: &R) -> Option<Slot> {
        self.demote(residents);
        let Some(slot) = self.hir.pop_back(&mut self.links, residents) else {
            return self.lir.pop_back(&mut self.links, residents);
        };
        let last = self.last[slot];
        if self.is_in_stack(last, residents) {
            let bound = residents.capacity().share(self.params.ghost);
            self.ghosts.insert(residents.object(slot).key, residents.weight(slot), last, bound, residents);
        }
        Some(slot)
    }

    #[inline]
    fn on_remove<R: Residents>(&mut self, slot: Slot, residents: &R) {
        let queue = if self.is_lir[slot] { &mut self.lir } else { &mut self.hir };
        queue.remove(&mut self.links, slot, residents);
    }

    fn heap_bytes(&self) -> usize {
        let by_slot = self.last.heap_bytes() + self.is_lir.heap_bytes();
        self.links.heap_bytes() + by_slot + self.ghosts.heap_bytes()
    }

    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        validate_all([&self.hir, &self.lir], &self.links, residents, |slot| usize::from(self.is_lir[slot]))?;
        self.ghosts.validate(residents)
    }
}
