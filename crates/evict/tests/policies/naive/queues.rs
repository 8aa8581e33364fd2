//! Policies of several queues, as their papers state them, in plain vectors: a queue is its keys, and the next to leave is
//! first. Where a paper counts pages, weights are summed.

use super::{Entry, Naive, Now};

/// Remembered keys with their weights, oldest first.
#[derive(Default)]
struct Remembered(Vec<(u64, u64)>);

impl Remembered {
    fn weight(&self) -> u64 {
        self.0.iter().map(|(_, weight)| weight).sum()
    }

    /// Forgets the oldest until at most `bound` is left.
    fn cut(&mut self, bound: u64) {
        while self.weight() > bound {
            self.0.remove(0);
        }
    }

    fn add(&mut self, key: u64, weight: u64, bound: u64) {
        let weight = weight.max(1);
        if weight <= bound {
            self.cut(bound - weight);
            self.0.push((key, weight));
        }
    }

    fn take(&mut self, key: u64) -> bool {
        let before = self.0.len();
        self.0.retain(|(other, _)| *other != key);
        self.0.len() < before
    }
}

fn weight(key: u64, cache: &[Entry], now: Now) -> u64 {
    let entry = cache.iter().find(|entry| entry.key == key).expect("a resident");
    now.capacity.weigh(entry.size)
}

fn used(queue: &[u64], cache: &[Entry], now: Now) -> u64 {
    queue.iter().map(|key| weight(*key, cache, now)).sum()
}

pub(super) fn place(key: u64, cache: &[Entry]) -> usize {
    cache.iter().position(|entry| entry.key == key).expect("a resident")
}

fn share(now: Now, share: f64) -> u64 {
    (now.capacity.amount as f64 * share) as u64
}

/// Removes `key` from `queue`. Returns whether it was in it.
pub(super) fn leave(queue: &mut Vec<u64>, key: u64) -> bool {
    let before = queue.len();
    queue.retain(|other| *other != key);
    queue.len() < before
}

/// The full version of 2Q.
#[derive(Default)]
pub(crate) struct TwoQ {
    a1in: Vec<u64>,
    am: Vec<u64>,
    a1out: Remembered,
    returns: bool,
    /// What the new object adds to `a1in` beyond the page by which the paper's queue may exceed its share.
    incoming: u64,
}

impl Naive for TwoQ {
    fn admits(&mut self, new: &Entry, _cache: &[Entry], now: Now) -> bool {
        self.returns = self.a1out.take(new.key);
        self.incoming = if self.returns { 0 } else { now.capacity.weigh(new.size).saturating_sub(1) };
        true
    }

    fn victim(&mut self, cache: &mut [Entry], now: Now) -> usize {
        let is_over = used(&self.a1in, cache, now) + self.incoming > share(now, 0.25);
        if !self.a1in.is_empty() && (is_over || self.am.is_empty()) {
            let key = self.a1in[0];
            self.a1out.add(key, weight(key, cache, now), share(now, 0.5));
            return place(key, cache);
        }
        place(self.am[0], cache)
    }

    fn on_enter(&mut self, new: &Entry, _now: Now) {
        let queue = if std::mem::take(&mut self.returns) { &mut self.am } else { &mut self.a1in };
        queue.push(new.key);
        self.incoming = 0;
    }

    fn on_hit(&mut self, entry: &Entry, _now: Now) {
        if leave(&mut self.am, entry.key) {
            self.am.push(entry.key);
        }
    }

    fn on_leave(&mut self, cache: &[Entry], place: usize, _now: Now) {
        leave(&mut self.a1in, cache[place].key);
        leave(&mut self.am, cache[place].key);
    }
}

/// S3-FIFO.
#[derive(Default)]
pub(crate) struct S3Fifo {
    small: Vec<u64>,
    main: Vec<u64>,
    ghosts: Remembered,
    returns: bool,
    /// Hits of residents, at most three.
    hits: std::collections::BTreeMap<u64, u8>,
}

impl Naive for S3Fifo {
    fn admits(&mut self, new: &Entry, _cache: &[Entry], _now: Now) -> bool {
        self.returns = self.ghosts.take(new.key);
        true
    }

    fn victim(&mut self, cache: &mut [Entry], now: Now) -> usize {
        let main_share = now.capacity.amount - share(now, 0.1);
        let from_small = used(&self.main, cache, now) <= main_share;
        while from_small && !self.small.is_empty() {
            let key = self.small[0];
            if self.hits[&key] < 2 {
                self.ghosts.add(key, weight(key, cache, now), share(now, 0.9));
                return place(key, cache);
            }
            self.small.remove(0);
            self.main.push(key);
            self.hits.insert(key, 0);
        }
        loop {
            let key = self.main[0];
            if self.hits[&key] == 0 {
                return place(key, cache);
            }
            *self.hits.get_mut(&key).expect("a resident") -= 1;
            self.main.rotate_left(1);
        }
    }

    fn on_enter(&mut self, new: &Entry, _now: Now) {
        let queue = if std::mem::take(&mut self.returns) { &mut self.main } else { &mut self.small };
        queue.push(new.key);
        self.hits.insert(new.key, 0);
    }

    fn on_hit(&mut self, entry: &Entry, _now: Now) {
        let hits = self.hits.get_mut(&entry.key).expect("a resident");
        *hits = (*hits + 1).min(3);
    }

    fn on_leave(&mut self, cache: &[Entry], place: usize, _now: Now) {
        leave(&mut self.small, cache[place].key);
        leave(&mut self.main, cache[place].key);
    }
}

/// ARC: `T1`, `T2`, `B1`, `B2` and `p` of the paper.
#[derive(Default)]
pub(crate) struct Arc {
    t1: Vec<u64>,
    t2: Vec<u64>,
    b1: Remembered,
    b2: Remembered,
    p: f64,
    /// The weight of the new object, and the case of the paper: the list that remembers it, if any.
    incoming: u64,
    case: Case,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Case {
    B1,
    B2,
    #[default]
    New,
}

impl Naive for Arc {
    fn admits(&mut self, new: &Entry, _cache: &[Entry], now: Now) -> bool {
        let (b1, b2) = (self.b1.weight() as f64, self.b2.weight() as f64);
        let (c, pages) = (now.capacity.amount as f64, now.capacity.weigh(new.size) as f64);
        self.case = Case::New;
        if self.b1.take(new.key) {
            self.case = Case::B1;
            self.p = (self.p + pages * (b2 / b1).max(1.0)).min(c);
        } else if self.b2.take(new.key) {
            self.case = Case::B2;
            self.p = (self.p - pages * (b1 / b2).max(1.0)).max(0.0);
        }
        self.incoming = now.capacity.weigh(new.size);
        true
    }

    fn victim(&mut self, cache: &mut [Entry], now: Now) -> usize {
        let c = now.capacity.amount;
        let t1 = used(&self.t1, cache, now);
        if self.case == Case::New {
            // Case IV: L1 = T1 and B1 keep within c, and both lists within 2c.
            if t1 + self.b1.weight() + self.incoming > c && !self.b1.0.is_empty() {
                self.b1.cut(c.saturating_sub(t1 + self.incoming));
            } else if t1 + self.incoming > c {
                return place(self.t1[0], cache);
            } else {
                let others = t1 + used(&self.t2, cache, now) + self.b1.weight() + self.incoming;
                self.b2.cut((2 * c).saturating_sub(others));
            }
        }
        // REPLACE.
        let is_over = t1 as f64 > self.p || self.case == Case::B2 && t1 as f64 == self.p;
        if !self.t1.is_empty() && is_over || self.t2.is_empty() {
            self.b1.add(self.t1[0], weight(self.t1[0], cache, now), c);
            return place(self.t1[0], cache);
        }
        self.b2.add(self.t2[0], weight(self.t2[0], cache, now), c);
        place(self.t2[0], cache)
    }

    fn on_enter(&mut self, new: &Entry, _now: Now) {
        let queue = if self.case == Case::New { &mut self.t1 } else { &mut self.t2 };
        queue.push(new.key);
        (self.case, self.incoming) = (Case::New, 0);
    }

    fn on_hit(&mut self, entry: &Entry, _now: Now) {
        leave(&mut self.t1, entry.key);
        leave(&mut self.t2, entry.key);
        self.t2.push(entry.key);
    }

    fn on_leave(&mut self, cache: &[Entry], place: usize, _now: Now) {
        leave(&mut self.t1, cache[place].key);
        leave(&mut self.t2, cache[place].key);
    }
}

/// LIRS: the stack `S`, pruned so that its bottom is of `LIR`, and the queue `Q` of the paper.
#[derive(Default)]
pub(crate) struct Lirs {
    /// Keys by recency, the most recent last: of `LIR`, residents of `Q`, and evicted ones.
    s: Vec<u64>,
    q: Vec<u64>,
    lir: Vec<u64>,
    /// The evicted keys in `s`.
    evicted: Remembered,
    returns: bool,
    /// The weights of the residents.
    weights: std::collections::BTreeMap<u64, u64>,
}

impl Lirs {
    fn lir_share(now: Now) -> u64 {
        now.capacity.amount.saturating_sub(share(now, 0.01).max(1))
    }

    fn lir_weight(&self) -> u64 {
        self.lir.iter().map(|key| self.weights[key]).sum()
    }

    /// Puts `key` on top of the stack.
    fn touch(&mut self, key: u64) {
        leave(&mut self.s, key);
        self.s.push(key);
        self.prune();
    }

    /// Removes from the bottom what is not of `LIR`.
    fn prune(&mut self) {
        while self.s.first().is_some_and(|bottom| !self.lir.contains(bottom)) {
            self.s.remove(0);
        }
        let s = &self.s;
        self.evicted.0.retain(|(key, _)| s.contains(key));
    }

    /// Makes `key` one of `LIR`, and moves others from the bottom to the queue until they fit.
    fn promote(&mut self, key: u64, now: Now) {
        leave(&mut self.q, key);
        self.lir.push(key);
        self.touch(key);
        while self.lir_weight() > Self::lir_share(now) {
            let bottom = self.s.remove(0);
            leave(&mut self.lir, bottom);
            self.q.push(bottom);
            self.prune();
        }
    }
}

impl Naive for Lirs {
    fn admits(&mut self, new: &Entry, _cache: &[Entry], _now: Now) -> bool {
        self.returns = self.evicted.take(new.key);
        true
    }

    fn victim(&mut self, cache: &mut [Entry], now: Now) -> usize {
        let Some(&key) = self.q.first() else { return place(self.s[0], cache) };
        if self.s.contains(&key) {
            self.evicted.add(key, self.weights[&key], now.capacity.amount);
        }
        place(key, cache)
    }

    fn on_enter(&mut self, new: &Entry, now: Now) {
        let weight = now.capacity.weigh(new.size);
        self.weights.insert(new.key, weight);
        let fits = weight <= Self::lir_share(now);
        let has_room = self.lir_weight() + weight <= Self::lir_share(now);
        if fits && (std::mem::take(&mut self.returns) || has_room) {
            return self.promote(new.key, now);
        }
        self.returns = false;
        self.q.push(new.key);
        self.touch(new.key);
    }

    fn on_hit(&mut self, entry: &Entry, now: Now) {
        let (key, fits) = (entry.key, self.weights[&entry.key] <= Self::lir_share(now));
        if self.lir.contains(&key) {
            self.touch(key);
        } else if self.s.contains(&key) && fits {
            self.promote(key, now);
        } else {
            leave(&mut self.q, key);
            self.q.push(key);
            self.touch(key);
        }
    }

    fn on_leave(&mut self, cache: &[Entry], place: usize, _now: Now) {
        let key = cache[place].key;
        leave(&mut self.q, key);
        if leave(&mut self.lir, key) {
            leave(&mut self.s, key);
            self.prune();
        }
    }
}
