//! LRU-K: least recently used k times.

use crate::parts::by_slot::BySlot;
use crate::parts::ghost::Ghosts;
use crate::parts::heap::Heap;
use crate::policy::{Capacity, Object, Param, Params, Policy, Residents, Slot, read_count, read_share};

/// Evicts the object whose k-th last request is the longest ago: first those asked for less than k times, by
/// LRU. The requests of evicted objects are remembered for a while. Every request counts, the paper's period of
/// correlated references is 0.
pub struct LruK {
    params: LruKParams,
    /// By the time of the k-th last request, 0 for never.
    heap: Heap,
    histories: BySlot<History>,
    ghosts: Ghosts<History>,
    /// What was remembered of the object admitted last.
    returning: History,
}

/// When an object was asked for last and the time before, 0 for never: lookups, counted modulo 2^32.
type History = [u32; 2];

const NEVER: History = [0; 2];

/// How [`LruK`] is tuned.
#[derive(Clone, Debug, PartialEq)]
pub struct LruKParams {
    k: u32,
    ghost: f64,
}

impl Default for LruKParams {
    fn default() -> Self {
        Self { k: 2, ghost: 0.25 }
    }
}

impl Params for LruKParams {
    const ALL: &'static [Param] = &[
        Param { name: "k", about: "which of the last requests counts: 1 to 3" },
        Param { name: "ghost", about: "share of the capacity whose worth of requests is remembered: 0 to 1" },
    ];

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "k" => self.k = read_count(value, 1..=NEVER.len() as u32 + 1)?,
            _ => self.ghost = read_share(value)?,
        }
        Ok(())
    }

    fn get(&self, name: &str) -> String {
        match name {
            "k" => self.k.to_string(),
            _ => self.ghost.to_string(),
        }
    }
}

impl LruK {
    /// The time of the k-th last request of an object that is asked for now, 0 for never, and its history then.
    #[inline]
    fn asked<R: Residents>(&self, [last, before]: History, residents: &R) -> (u64, History) {
        let now = residents.now();
        let kth = match self.params.k {
            1 => now,
            2 => at(last, now),
            _ => at(before, now),
        };
        (kth, [now as u32, last])
    }
}

/// The full time of which `time` is the lower half, from what it is `now`.
#[inline]
fn at(time: u32, now: u64) -> u64 {
    match time {
        0 => 0,
        _ => now.saturating_sub((now as u32).wrapping_sub(time).into()),
    }
}

impl Policy for LruK {
    type Params = LruKParams;

    const ABOUT: &'static str = "evicts what has not been asked for k times the longest";
    const COST: &'static str = "O(log n)";

    fn new(_capacity: Capacity, params: LruKParams, _seed: u64) -> Self {
        let (heap, histories) = (Heap::new(), BySlot::new());
        Self { params, heap, histories, ghosts: Ghosts::new(), returning: NEVER }
    }

    #[inline]
    fn admit<R: Residents>(&mut self, new: &Object, _residents: &R) -> bool {
        self.returning = self.ghosts.remove(new.key).unwrap_or(NEVER);
        true
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, residents: &R) {
        let before = std::mem::replace(&mut self.returning, NEVER);
        let (kth, history) = self.asked(before, residents);
        self.histories.put(slot, history);
        self.heap.push(slot, kth);
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, residents: &R) {
        let (kth, history) = self.asked(self.histories[slot], residents);
        self.histories[slot] = history;
        self.heap.update(slot, kth);
    }

    #[inline]
    fn evict<R: Residents>(&mut self, residents: &R) -> Option<Slot> {
        let (slot, _) = self.heap.pop()?;
        let bound = residents.capacity().share(self.params.ghost);
        let (key, weight) = (residents.object(slot).key, residents.weight(slot));
        self.ghosts.insert(key, weight, self.histories[slot], bound);
        Some(slot)
    }

    #[inline]
    fn on_remove<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        self.heap.remove(slot);
    }

    fn heap_bytes(&self) -> usize {
        self.heap.heap_bytes() + self.histories.heap_bytes() + self.ghosts.heap_bytes()
    }

    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        self.heap.validate(residents)?;
        self.ghosts.validate()
    }
}
