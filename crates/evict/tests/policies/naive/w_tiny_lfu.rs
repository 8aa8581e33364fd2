//! W-TinyLFU, after G. Einziger, R. Friedman and B. Manes, and Einziger, Eytan, Friedman and Manes for the climber, in
//! plain vectors: a queue is its keys, and the next to leave is first. Where the papers count pages, weights are summed.

use std::collections::HashMap;

use super::queues::{leave, place};
use super::tiny_lfu::Counts;
use super::{Entry, Naive, Now, used};

const FIRST_STEP: f64 = 0.0625;

pub(crate) struct WTinyLfu {
    counts: Counts,
    window: Vec<u64>,
    probation: Vec<u64>,
    protected: Vec<u64>,
    /// The weights of the residents.
    weights: HashMap<u64, u64>,
    /// The weight of a new object on its way into the window.
    incoming: u64,
    /// The window's share of the capacity.
    share: f64,
    /// What the climber knows: hits and the time since its last step, the hit ratio before, and its next step.
    hits: u64,
    since: u64,
    hit_ratio: f64,
    step: f64,
}

/// The maximum weights of the parts.
struct Limits {
    window: u64,
    main: u64,
    protected: u64,
}

impl Default for WTinyLfu {
    fn default() -> Self {
        Self {
            counts: Counts::default(),
            window: Vec::new(),
            probation: Vec::new(),
            protected: Vec::new(),
            weights: HashMap::new(),
            incoming: 0,
            share: 0.01,
            hits: 0,
            since: 0,
            hit_ratio: 0.0,
            step: FIRST_STEP,
        }
    }
}

impl WTinyLfu {
    fn limits(&self, now: Now) -> Limits {
        let main = (now.capacity.amount as f64 * (1.0 - self.share)) as u64;
        Limits { window: now.capacity.amount - main, main, protected: (main as f64 * 0.8) as u64 }
    }

    fn weigh(&self, queue: &[u64]) -> u64 {
        queue.iter().map(|key| self.weights[key]).sum()
    }

    /// Returns the weight by which probation and protected exceed `limit` with `more`.
    fn excess(&self, more: u64, limit: u64) -> u64 {
        (self.weigh(&self.probation) + self.weigh(&self.protected) + more).saturating_sub(limit)
    }

    /// Whether `candidate` was requested more often than all together that leave for this weight.
    fn outweighs(&self, candidate: u64, mut needed: u64) -> bool {
        let mut requests = 0;
        for key in self.probation.iter().chain(&self.protected).chain(&self.window) {
            if needed > 0 {
                needed = needed.saturating_sub(self.weights[key]);
                requests += self.counts.of(*key);
            }
        }
        self.counts.of(candidate) > requests
    }

    /// Moves the window's limit by a step once as many lookups are over as there was room for objects: further if there
    /// were as many hits as before, back otherwise.
    fn climb(&mut self, lookups: u64, room: usize) {
        let period = lookups - self.since;
        if period < room as u64 {
            return;
        }
        let hit_ratio = self.hits as f64 / period as f64;
        let change = hit_ratio - self.hit_ratio;
        let step = if change < 0.0 { -self.step } else { self.step };
        self.share = (self.share + step).clamp(0.001, 0.8);
        self.step = if change.abs() < 0.05 { step * 0.98 } else { FIRST_STEP * step.signum() };
        (self.hits, self.since, self.hit_ratio) = (0, lookups, hit_ratio);
    }
}

impl Naive for WTinyLfu {
    fn admits(&mut self, new: &Entry, cache: &[Entry], now: Now) -> bool {
        let room = self.counts.count_miss(new.key, cache.len());
        self.climb(now.lookups, room);
        let weight = now.capacity.weigh(new.size);
        if weight <= self.limits(now).window {
            self.incoming = weight;
            return true;
        }
        let needed = (used(cache, now.capacity) + weight).saturating_sub(now.capacity.amount);
        needed == 0 || self.outweighs(new.key, needed)
    }

    fn victim(&mut self, cache: &mut [Entry], now: Now) -> usize {
        let limits = self.limits(now);
        while self.excess(0, limits.main) == 0
            && self.weigh(&self.window) + self.incoming > limits.window
            && let Some(&candidate) = self.window.first()
        {
            let needed = self.excess(self.weights[&candidate], limits.main);
            if needed > 0 && !self.outweighs(candidate, needed) {
                return place(candidate, cache);
            }
            let first = self.probation.first().copied();
            self.window.remove(0);
            self.probation.push(candidate);
            if let Some(victim) = first.filter(|victim| needed > 0 && self.weights[victim] >= needed) {
                return place(victim, cache);
            }
        }
        let mut queues = [&self.probation, &self.protected, &self.window].into_iter();
        place(*queues.find_map(|queue| queue.first()).expect("a cache that is not empty"), cache)
    }

    fn on_enter(&mut self, new: &Entry, now: Now) {
        let (weight, limits) = (now.capacity.weigh(new.size), self.limits(now));
        self.incoming = 0;
        self.weights.insert(new.key, weight);
        let queue = if weight <= limits.window { &mut self.window } else { &mut self.probation };
        queue.push(new.key);
        while self.weigh(&self.window) > limits.window
            && self.excess(self.weights[&self.window[0]], limits.main) == 0
        {
            self.probation.push(self.window.remove(0));
        }
    }

    fn on_hit(&mut self, entry: &Entry, now: Now) {
        self.counts.count(entry.key);
        self.hits += 1;
        if leave(&mut self.window, entry.key) {
            return self.window.push(entry.key);
        }
        let is_promoted = leave(&mut self.probation, entry.key);
        leave(&mut self.protected, entry.key);
        self.protected.push(entry.key);
        // The limit may have fallen: that alone demotes nothing.
        while is_promoted && self.weigh(&self.protected) > self.limits(now).protected {
            self.probation.push(self.protected.remove(0));
        }
    }

    fn on_leave(&mut self, cache: &[Entry], place: usize, _now: Now) {
        for queue in [&mut self.window, &mut self.probation, &mut self.protected] {
            leave(queue, cache[place].key);
        }
    }
}
