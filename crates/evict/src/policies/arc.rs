//! ARC: a recency list and a frequency list, whose sizes follow the hits on recently evicted objects.

use crate::parts::by_slot::BySlot;
use crate::parts::ghost::{Ghosts, Name};
use crate::parts::list::Links;
use crate::parts::segment::{Segment, validate_all};
use crate::policy::{Capacity, Object, Policy, Residents, Slot};

/// Two LRU queues, `t1` for objects requested once and `t2` for those requested again, and the keys recently
/// evicted from them, `b1` and `b2`. A request for a key in `b1` shows that `t1` should have been larger, and the target
/// for it grows; for one in `b2`, it shrinks.
///
/// The paper counts pages; here objects have weights: a returning object moves the target by its weight times the
/// paper's number of pages. Objects of any size are stored.
pub struct Arc {
    links: Links,
    t1: Segment,
    t2: Segment,
    b1: Ghosts,
    b2: Ghosts,
    is_in_t2: BySlot<bool>,
    /// The target for the weight of `t1`: `p` in the paper.
    target: f64,
    incoming: LastAdmission,
}

/// The object admitted last.
struct LastAdmission {
    weight: u64,
    /// The ghost list that contained the object, if any.
    from: GhostList,
}

#[derive(Clone, Copy, PartialEq)]
enum GhostList {
    Nowhere,
    B1,
    B2,
}

const NO_OBJECT: LastAdmission = LastAdmission { weight: 0, from: GhostList::Nowhere };

impl Arc {
    /// Makes room in the directory for a new object. Returns whether to forget the victim, because `t1` alone fills its
    /// half of the directory.
    #[inline]
    fn trim(&mut self, capacity: u64) -> bool {
        let weight = self.incoming.weight;
        let half = capacity.saturating_sub(self.t1.used()).saturating_sub(weight);
        if self.b1.used() > half {
            self.b1.truncate(half);
        } else if self.b1.used() == 0 && self.t1.used() > capacity - weight.min(capacity) {
            return true;
        } else {
            let others = [self.t1.used(), self.t2.used(), self.b1.used(), weight];
            let others = others.into_iter().fold(0, u64::saturating_add);
            self.b2.truncate(capacity.saturating_mul(2).saturating_sub(others));
        }
        false
    }

    /// Whether the next victim comes from `t1`.
    #[inline]
    fn takes_from_t1(&self) -> bool {
        let used = self.t1.used() as f64;
        let is_over = used > self.target || self.incoming.from == GhostList::B2 && used == self.target;
        !self.t1.is_empty() && is_over || self.t2.is_empty()
    }

    #[inline]
    fn evict_t1<R: Residents>(&mut self, is_forgotten: bool, residents: &R) -> Option<Slot> {
        let slot = self.t1.pop_back(&mut self.links, residents)?;
        if !is_forgotten {
            remember(&mut self.b1, slot, residents);
        }
        Some(slot)
    }
}

#[inline]
fn remember<R: Residents>(ghosts: &mut Ghosts, slot: Slot, residents: &R) {
    ghosts.insert(
        Name::of(slot, residents),
        residents.weight(slot),
        (),
        residents.capacity().amount,
        residents,
    );
}

impl Policy for Arc {
    type Params = ();

    const ABOUT: &'static str =
        "divides the cache between recently and repeatedly requested objects, by hits on ghosts";

    const KEEPS_NOTES: bool = true;

    fn new(_capacity: Capacity, _params: (), _seed: u64) -> Self {
        Self {
            links: Links::new(),
            t1: Segment::new(),
            t2: Segment::new(),
            b1: Ghosts::new(),
            b2: Ghosts::new(),
            is_in_t2: BySlot::new(),
            target: 0.0,
            incoming: NO_OBJECT,
        }
    }

    #[inline]
    fn admit<R: Residents>(&mut self, new: &Object, residents: &R) -> bool {
        let weight = residents.capacity().weigh(new.size);
        let (b1, b2) = (self.b1.used() as f64, self.b2.used() as f64);
        let from = if self.b1.remove(Name::of_newcomer(new, residents), residents).is_some() {
            let most = residents.capacity().amount as f64;
            self.target = (self.target + weight as f64 * (b2 / b1).max(1.0)).min(most);
            GhostList::B1
        } else if self.b2.remove(Name::of_newcomer(new, residents), residents).is_some() {
            self.target = (self.target - weight as f64 * (b1 / b2).max(1.0)).max(0.0);
            GhostList::B2
        } else {
            GhostList::Nowhere
        };
        self.incoming = LastAdmission { weight, from };
        true
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, residents: &R) {
        let returns = std::mem::replace(&mut self.incoming, NO_OBJECT).from != GhostList::Nowhere;
        self.is_in_t2.put(slot, returns);
        let queue = if returns { &mut self.t2 } else { &mut self.t1 };
        queue.push_front(&mut self.links, slot, residents);
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, residents: &R) {
        if std::mem::replace(&mut self.is_in_t2[slot], true) {
            self.t2.move_to_front(&mut self.links, slot);
        } else {
            self.t1.remove(&mut self.links, slot, residents);
            self.t2.push_front(&mut self.links, slot, residents);
        }
    }

    #[inline(always)]
    fn evict<R: Residents>(&mut self, residents: &R) -> Option<Slot> {
        let is_new = self.incoming.from == GhostList::Nowhere;
        if is_new && self.trim(residents.capacity().amount) {
            return self.evict_t1(true, residents);
        }
        if self.takes_from_t1() {
            return self.evict_t1(false, residents);
        }
        let slot = self.t2.pop_back(&mut self.links, residents)?;
        remember(&mut self.b2, slot, residents);
        Some(slot)
    }

    #[inline]
    fn on_remove<R: Residents>(&mut self, slot: Slot, residents: &R) {
        let queue = if self.is_in_t2[slot] { &mut self.t2 } else { &mut self.t1 };
        queue.remove(&mut self.links, slot, residents);
    }

    fn heap_bytes(&self) -> usize {
        let ghosts = self.b1.heap_bytes() + self.b2.heap_bytes();
        self.links.heap_bytes() + self.is_in_t2.heap_bytes() + ghosts
    }

    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        validate_all([&self.t1, &self.t2], &self.links, residents, |slot| usize::from(self.is_in_t2[slot]))?;
        self.b1.validate(residents)?;
        self.b2.validate(residents)
    }
}
