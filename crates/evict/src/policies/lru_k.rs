//! LRU-K with k = 2, beyond which the paper finds little to gain: by the last request but one.

use crate::parts::by_slot::BySlot;
use crate::parts::ghost::Ghosts;
use crate::parts::heap::Heap;
use crate::policy::{Capacity, Object, Param, Params, Policy, Residents, Slot, read_share};

/// Evicts the object whose last request but one is the longest ago: first those asked for only once, by LRU.
/// When evicted objects were asked for is remembered for a while. Every request counts: the paper's period of
/// correlated references is 0.
pub struct LruK {
    params: LruKParams,
    /// By the time of the last request but one, 0 for never.
    heap: Heap,
    last: BySlot<Time>,
    ghosts: Ghosts<Time>,
    /// When the object admitted last was asked for before, if that was remembered.
    returning: Option<Time>,
}

/// Lookups, counted modulo 2^32.
type Time = u32;

/// How [`LruK`] is tuned.
#[derive(Clone, Debug, PartialEq)]
pub struct LruKParams {
    ghost: f64,
}

impl Default for LruKParams {
    fn default() -> Self {
        Self { ghost: 0.25 }
    }
}

impl Params for LruKParams {
    const ALL: &'static [Param] = &[Param {
        name: "ghost",
        about: "share of the capacity whose worth of requests is remembered: 0 to 1",
    }];

    fn set(&mut self, _ghost: &str, value: &str) -> Result<(), String> {
        self.ghost = read_share(value)?;
        Ok(())
    }

    fn get(&self, _ghost: &str) -> String {
        self.ghost.to_string()
    }
}

/// The full time of which `time` is the lower half, from what it is `now`.
#[inline]
fn full(time: Time, now: u64) -> u64 {
    now.saturating_sub((now as Time).wrapping_sub(time).into())
}

impl Policy for LruK {
    type Params = LruKParams;

    const ABOUT: &'static str = "evicts what was asked for a second last time the longest ago";
    const COST: &'static str = "O(log n)";

    fn new(_capacity: Capacity, params: LruKParams, _seed: u64) -> Self {
        Self { params, heap: Heap::new(), last: BySlot::new(), ghosts: Ghosts::new(), returning: None }
    }

    #[inline]
    fn admit<R: Residents>(&mut self, new: &Object, _residents: &R) -> bool {
        self.returning = self.ghosts.remove(new.key);
        true
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, residents: &R) {
        let now = residents.now();
        self.last.put(slot, now as Time);
        self.heap.push(slot, self.returning.take().map_or(0, |last| full(last, now)));
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, residents: &R) {
        let now = residents.now();
        let last = std::mem::replace(&mut self.last[slot], now as Time);
        self.heap.update(slot, full(last, now));
    }

    #[inline]
    fn evict<R: Residents>(&mut self, residents: &R) -> Option<Slot> {
        let (slot, _) = self.heap.pop()?;
        let bound = residents.capacity().share(self.params.ghost);
        self.ghosts.insert(residents.object(slot).key, residents.weight(slot), self.last[slot], bound);
        Some(slot)
    }

    #[inline]
    fn on_remove<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        self.heap.remove(slot);
    }

    fn heap_bytes(&self) -> usize {
        self.heap.heap_bytes() + self.last.heap_bytes() + self.ghosts.heap_bytes()
    }

    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        self.heap.validate(residents)?;
        self.ghosts.validate()
    }
}
