//! 2Q: one queue for objects with one request, another for those requested again.

use crate::params::{params, read_share};
use crate::parts::by_slot::BySlot;
use crate::parts::ghost::{Ghosts, Name};
use crate::parts::list::Links;
use crate::parts::segment::{Segment, validate_all};
use crate::parts::share::Share;
use crate::policy::{Capacity, Object, Policy, Residents, Slot};

/// The full version of the paper. New objects pass through a FIFO queue, `a1in`, in which hits change nothing,
/// and their keys become ghosts when they leave it. If a ghost is requested, the object enters an LRU queue, `am`.
///
/// An object larger than a queue's share is stored, too; `a1in` shrinks to its share when room is needed. The paper counts
/// pages, one of which may exceed the share. Here the weight of the new object counts, less 1, so that a large one makes
/// room in `a1in` before it enters, and pages are evicted as in the paper.
pub struct TwoQ {
    kin: Share,
    kout: Share,
    links: Links,
    a1in: Segment,
    a1out: Ghosts,
    am: Segment,
    is_in_am: BySlot<bool>,
    /// Whether the object admitted last was remembered.
    returning: bool,
    /// The weight, less 1, of the object admitted last if it enters `a1in`.
    incoming: u64,
}

params! {
    /// The parameters of [`TwoQ`].
    TwoQParams {
        kin: f64 = 0.25, read_share, "share of the capacity for objects that did not come back: 0 to 1";
        kout: f64 = 0.5, read_share,
            "size of the evicted objects whose keys are remembered, as a share of the capacity: 0 to 1";
    }
}

impl Policy for TwoQ {
    type Params = TwoQParams;

    const ABOUT: &'static str = "evicts new objects by FIFO, and those that were requested again by LRU";

    const KEEPS_NOTES: bool = true;

    fn new(_capacity: Capacity, params: TwoQParams, _seed: u64) -> Self {
        Self {
            kin: Share::new(params.kin),
            kout: Share::new(params.kout),
            links: Links::new(),
            a1in: Segment::new(),
            a1out: Ghosts::new(),
            am: Segment::new(),
            is_in_am: BySlot::new(),
            returning: false,
            incoming: 0,
        }
    }

    #[inline]
    fn admit<R: Residents>(&mut self, new: &Object, residents: &R) -> bool {
        self.returning = self.a1out.remove(Name::of_newcomer(new, residents), residents).is_some();
        let weight = residents.capacity().weigh(new.size);
        self.incoming = if self.returning { 0 } else { weight.saturating_sub(1) };
        true
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, residents: &R) {
        let returning = std::mem::take(&mut self.returning);
        self.incoming = 0;
        self.is_in_am.put(slot, returning);
        let queue = if returning { &mut self.am } else { &mut self.a1in };
        queue.push_front(&mut self.links, slot, residents);
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        if self.is_in_am[slot] {
            self.am.move_to_front(&mut self.links, slot);
        }
    }

    #[inline(always)]
    fn evict<R: Residents>(&mut self, residents: &R) -> Option<Slot> {
        let capacity = residents.capacity();
        let is_within = self.a1in.used().saturating_add(self.incoming) <= self.kin.of(capacity);
        if self.a1in.is_empty() || is_within && !self.am.is_empty() {
            return self.am.pop_back(&mut self.links, residents);
        }
        let slot = self.a1in.pop_back(&mut self.links, residents)?;
        let bound = self.kout.of(capacity);
        self.a1out.insert(Name::of(slot, residents), residents.weight(slot), (), bound, residents);
        Some(slot)
    }

    #[inline]
    fn on_remove<R: Residents>(&mut self, slot: Slot, residents: &R) {
        let queue = if self.is_in_am[slot] { &mut self.am } else { &mut self.a1in };
        queue.remove(&mut self.links, slot, residents);
    }

    fn heap_bytes(&self) -> usize {
        self.links.heap_bytes() + self.is_in_am.heap_bytes() + self.a1out.heap_bytes()
    }

    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        validate_all([&self.a1in, &self.am], &self.links, residents, |slot| {
            usize::from(self.is_in_am[slot])
        })?;
        self.a1out.validate(residents)
    }
}
