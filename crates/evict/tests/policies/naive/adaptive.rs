//! `adaptive` in plain vectors: every rank is computed on demand, and every question is answered by a scan of all
//! residents.
//!
//! A resident's rank is the level at its last request plus its worth. The object with the lowest rank leaves, and the
//! level rises to its rank. New objects may have to wait in a queue for their first request before they are ranked.
//! Ghosts obey the same rule with other exponents and other new objects in the queue, for a sample of the keys, and the
//! ghost with the fewest misses leads.

use larder_evict::{By, Capacity};

use super::{Entry, Naive, Now};

/// The exponents, and the highest count of a new object on probation.
const CANDIDATES: [(f64, u8); 5] = [(0.0, 0), (1.0, 0), (1.5, 0), (1.0, u8::MAX), (1.0, 1)];
/// The share of the capacity for objects on probation.
const PROBATION: f64 = 0.05;
const FIRST: usize = 1;
/// The maximum number of residents in the sample; the minimum number of lookups between two decisions.
const SAMPLE: usize = 128;
const HEARING: usize = 256;

/// The benefit of a hit.
pub(crate) trait Objective: Default {
    const ARE_BYTES: bool;

    fn benefit(size: u64) -> u64;
}

#[derive(Default)]
pub(crate) struct ByRequests;

impl Objective for ByRequests {
    const ARE_BYTES: bool = false;

    fn benefit(_size: u64) -> u64 {
        1
    }
}

#[derive(Default)]
pub(crate) struct ByBytes;

impl Objective for ByBytes {
    const ARE_BYTES: bool = true;

    fn benefit(size: u64) -> u64 {
        size.max(1)
    }
}

/// A ranked object.
#[derive(Clone)]
struct Ranked {
    key: u64,
    size: u64,
    count: u8,
    /// The level at the object's last request; 0 for an object on probation without a request.
    base: f64,
    /// The object's rank when it last came up for eviction, and the number of that check: objects whose ranks are equal
    /// after rounding leave in that order.
    known: f64,
    looked_at: u64,
    is_on_probation: bool,
}

/// The counts of evicted objects: rows of eight, newest first, selected by the lowest bits of the keys.
#[derive(Default)]
struct Gone(Vec<Vec<(u64, u8)>>);

impl Gone {
    fn row(&mut self, key: u64) -> Option<&mut Vec<(u64, u8)>> {
        let rows = self.0.len() as u64;
        (rows > 0).then(|| &mut self.0[(key % rows) as usize])
    }

    fn get(&mut self, key: u64) -> u8 {
        let found = self.row(key).and_then(|row| row.iter().find(|(other, _)| *other == key));
        found.map_or(0, |(_, count)| *count)
    }

    fn take(&mut self, key: u64) -> u8 {
        let count = self.get(key);
        if let Some(row) = self.row(key) {
            row.retain(|(other, _)| *other != key);
        }
        count
    }

    /// Stores `count`, and doubles the rows if there is no room for `residents`.
    fn put(&mut self, key: u64, count: u8, residents: usize) {
        while self.0.len() * 8 < residents {
            match self.0.len() {
                0 => self.0.push(Vec::new()),
                _ => self.0.extend(self.0.clone()),
            }
        }
        if let Some(row) = self.row(key) {
            row.retain(|(other, _)| *other != key);
            row.truncate(7);
            row.insert(0, (key, count));
        }
    }
}

/// Residents and their ranks for one exponent.
struct Ranking<O> {
    exponent: f64,
    most_on_probation: u8,
    level: f64,
    /// The slots on probation, oldest first.
    queue: Vec<usize>,
    /// The weight of the object admitted last if it enters on probation; otherwise 0.
    incoming: u64,
    was_full: bool,
    /// The number of victims on probation.
    failed: usize,
    /// The residents by slot. A new object takes the slot that was vacated last.
    slots: Vec<Option<Ranked>>,
    vacant: Vec<usize>,
    gone: Gone,
    looks: u64,
    objective: std::marker::PhantomData<O>,
}

impl<O: Objective> Ranking<O> {
    fn new((exponent, most_on_probation): (f64, u8)) -> Self {
        Self {
            exponent,
            most_on_probation,
            level: 0.0,
            queue: Vec::new(),
            incoming: 0,
            was_full: false,
            failed: 0,
            slots: Vec::new(),
            vacant: Vec::new(),
            gone: Gone::default(),
            looks: 0,
            objective: std::marker::PhantomData,
        }
    }

    fn residents(&self) -> impl Iterator<Item = &Ranked> {
        self.slots.iter().flatten()
    }

    fn len(&self) -> usize {
        self.residents().count()
    }

    fn used(&self, capacity: Capacity) -> u64 {
        self.residents().map(|it| capacity.weigh(it.size)).sum()
    }

    fn place(&self, key: u64) -> Option<usize> {
        self.slots.iter().position(|slot| slot.as_ref().is_some_and(|it| it.key == key))
    }

    fn worth(&self, count: u8, size: u64, capacity: Capacity) -> f64 {
        let density = f64::from(count) * O::benefit(size) as f64 / capacity.weigh(size).max(1) as f64;
        match self.exponent {
            0.0 => 1.0,
            1.0 => density,
            _ => density * density.sqrt(),
        }
    }

    /// Returns by how much the objects on probation would exceed their share with one more of weight `incoming`.
    fn excess(&self, incoming: u64, capacity: Capacity) -> u64 {
        let weigh = |slot: &usize| capacity.weigh(self.slots[*slot].as_ref().expect("taken").size);
        let used: u64 = self.queue.iter().map(weigh).sum();
        (used + incoming).saturating_sub((capacity.amount as f64 * PROBATION) as u64)
    }

    /// Whether a new object goes on probation: not with a size above the average, if sizes do not count as benefit.
    fn is_tried(&self, count: u8, weight: u64, capacity: Capacity) -> bool {
        let is_small = weight <= (capacity.amount as f64 * PROBATION) as u64
            && (O::ARE_BYTES || weight * self.len() as u64 <= self.used(capacity));
        self.was_full && count <= self.most_on_probation && is_small
    }

    fn rank(&self, it: &Ranked, capacity: Capacity) -> f64 {
        it.base + self.worth(it.count, it.size, capacity)
    }

    fn start(&mut self, worth: f64) {
        if self.level == 0.0 {
            self.level = 16.0 * worth;
        }
    }

    /// Returns the slot and the rank of the next victim, without those in `spared`.
    fn lowest(&mut self, spared: &[usize], capacity: Capacity) -> Option<(usize, f64)> {
        let is_ranked = |slot: &usize| self.slots[*slot].as_ref().is_some_and(|it| !it.is_on_probation);
        let slots = (0..self.slots.len()).filter(|slot| is_ranked(slot) && !spared.contains(slot));
        let slots: Vec<_> = slots.collect();
        loop {
            let known =
                |slot: usize| self.slots[slot].as_ref().map(|it| (it.known, it.looked_at)).expect("taken");
            let by_known = |a: &&usize, b: &&usize| known(**a).partial_cmp(&known(**b)).expect("numbers");
            let slot = *slots.iter().min_by(by_known)?;
            let rank_of = |slot: usize| self.rank(self.slots[slot].as_ref().expect("taken"), capacity);
            let rank = rank_of(slot);
            if rank <= known(slot).0 {
                assert!(slots.iter().all(|&other| rank_of(other) >= rank), "another ranks lower");
                return Some((slot, rank));
            }
            self.look_at(slot, rank);
        }
    }

    fn look_at(&mut self, slot: usize, rank: f64) {
        self.looks += 1;
        let it = self.slots[slot].as_mut().expect("a slot that is taken");
        (it.known, it.looked_at) = (rank, self.looks);
    }

    fn admits(&mut self, key: u64, size: u64, capacity: Capacity) -> bool {
        let count = self.gone.get(key).saturating_add(1);
        let worth = self.worth(count, size, capacity);
        self.start(worth);
        let rank = self.level + worth;
        let weight = capacity.weigh(size);
        let mut needed = (self.used(capacity) + weight).saturating_sub(capacity.amount);
        self.was_full |= needed > 0;
        self.incoming = if self.is_tried(count, weight, capacity) { weight } else { 0 };
        if self.incoming > 0 {
            needed = needed.saturating_sub(self.excess(weight, capacity));
        }
        let (mut freed, mut outranked) = (0, Vec::new());
        while freed < needed
            && let Some((slot, lowest)) = self.lowest(&outranked, capacity)
            && lowest <= rank
        {
            freed += capacity.weigh(self.slots[slot].as_ref().expect("taken").size);
            if freed < needed {
                outranked.push(slot);
            }
        }
        for slot in outranked {
            self.look_at(slot, self.slots[slot].as_ref().expect("taken").known);
        }
        if freed < needed {
            self.level = rank;
            self.incoming = 0;
            let residents = self.len();
            self.gone.put(key, count, residents);
        }
        freed >= needed
    }

    fn enter(&mut self, key: u64, size: u64, capacity: Capacity) {
        let count = self.gone.take(key).saturating_add(1);
        let worth = self.worth(count, size, capacity);
        self.start(worth);
        let slot = self.vacant.pop().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        let is_on_probation = std::mem::take(&mut self.incoming) > 0;
        let new = Ranked { key, size, count, base: 0.0, known: 0.0, looked_at: 0, is_on_probation };
        self.slots[slot] = Some(new);
        if is_on_probation {
            return self.queue.push(slot);
        }
        self.level = self.level.next_up();
        self.slots[slot].as_mut().expect("taken").base = self.level;
        self.look_at(slot, self.level + worth);
    }

    fn hit(&mut self, key: u64) {
        self.level = self.level.next_up();
        let slot = self.place(key).expect("a resident");
        let it = self.slots[slot].as_mut().expect("taken");
        (it.base, it.count) = (self.level, it.count.saturating_add(1));
    }

    /// Removes `key`, which is evicted or leaves for another reason.
    fn leave(&mut self, key: u64) {
        let residents = self.len();
        let slot = self.place(key).expect("a resident");
        let count = self.slots[slot].take().expect("taken").count;
        self.queue.retain(|other| *other != slot);
        self.vacant.push(slot);
        self.gone.put(key, count, residents);
    }

    /// Returns the key of the next victim, and raises the level.
    fn victim(&mut self, capacity: Capacity) -> u64 {
        while !self.queue.is_empty()
            && (self.excess(self.incoming, capacity) > 0 || self.queue.len() == self.len())
        {
            let slot = self.queue.remove(0);
            let it = self.slots[slot].as_mut().expect("taken");
            it.is_on_probation = false;
            if it.base == 0.0 {
                self.failed += 1;
                return it.key;
            }
            let it = self.slots[slot].clone().expect("taken");
            self.look_at(slot, self.rank(&it, capacity));
        }
        let (slot, rank) = self.lowest(&[], capacity).expect("a cache that is not empty");
        self.level = self.level.max(rank);
        self.slots[slot].as_ref().expect("taken").key
    }

    fn make_room(&mut self, weight: u64, capacity: Capacity) {
        while self.used(capacity) + weight > capacity.amount {
            let victim = self.victim(capacity);
            self.leave(victim);
        }
    }

    /// Changes the candidate, ends all probation, and scales the level in proportion to the residents' worth.
    fn change(&mut self, (exponent, most_on_probation): (f64, u8), capacity: Capacity) {
        for slot in std::mem::take(&mut self.queue) {
            let it = self.slots[slot].as_mut().expect("taken");
            it.is_on_probation = false;
            it.base = if it.base == 0.0 { self.level } else { it.base };
            self.look_at(slot, 0.0);
        }
        self.most_on_probation = most_on_probation;
        let total =
            |it: &Self| -> f64 { it.residents().map(|one| it.worth(one.count, one.size, capacity)).sum() };
        let before = total(self);
        self.exponent = exponent;
        let scale = total(self) / before;
        let scale = if scale.is_finite() { scale } else { 1.0 };
        self.level *= scale;
        for slot in 0..self.slots.len() {
            if let Some(mut it) = self.slots[slot].take() {
                it.base *= scale;
                it.known = self.rank(&it, capacity);
                self.slots[slot] = Some(it);
            }
        }
    }
}

/// A cache without bodies, and its misses since the latest decision, recently, and over a longer time.
struct Ghost<O> {
    ranking: Ranking<O>,
    capacity: Capacity,
    missed: f64,
    missed_recently: f64,
    missed_long: f64,
}

impl<O: Objective> Ghost<O> {
    fn hear(&mut self, key: u64, size: u64) {
        if self.ranking.place(key).is_some() {
            return self.ranking.hit(key);
        }
        self.missed += O::benefit(size) as f64;
        let weight = self.capacity.weigh(size);
        if weight <= self.capacity.amount && self.ranking.admits(key, size, self.capacity) {
            self.ranking.make_room(weight, self.capacity);
            self.ranking.enter(key, size, self.capacity);
        }
    }
}

pub(crate) struct Adaptive<O> {
    residents: Ranking<O>,
    ghosts: [Ghost<O>; 5],
    leader: usize,
    /// The sample is one key in 2 to the power of this number.
    pub(crate) thinning: u32,
    heard: usize,
    /// The cache's own misses in the sample since the latest decision.
    missed: f64,
    /// By how much probation missed more than the best candidate without.
    excess: f64,
    /// The number of changes of the candidate.
    pub(crate) changes: usize,
}

impl<O: Objective> Default for Adaptive<O> {
    fn default() -> Self {
        Self::new(Capacity { by: By::Entries, amount: 0 })
    }
}

impl<O: Objective> Adaptive<O> {
    /// Returns the number of victims on probation so far.
    pub(crate) fn failed_probation(&self) -> usize {
        self.residents.failed
    }

    fn is_in_sample(&self, key: u64) -> bool {
        key.wrapping_mul(0x9E37_79B9_7F4A_7C15) <= u64::MAX >> self.thinning
    }

    fn hear(&mut self, key: u64, size: u64, is_hit: bool) {
        if self.is_in_sample(key) {
            self.heard += 1;
            self.missed += if is_hit { 0.0 } else { O::benefit(size) as f64 };
            self.ghosts.iter_mut().for_each(|ghost| ghost.hear(key, size));
        }
    }

    fn thin(&mut self, capacity: Capacity) {
        self.thinning += 1;
        for which in 0..self.ghosts.len() {
            let keys = self.ghosts[which].ranking.residents().map(|it| it.key);
            let left_out: Vec<_> = keys.filter(|key| !self.is_in_sample(*key)).collect();
            left_out.into_iter().for_each(|key| self.ghosts[which].ranking.leave(key));
        }
        self.fit_ghosts(capacity);
    }

    fn judge(&mut self, capacity: Capacity) {
        self.heard = 0;
        for ghost in &mut self.ghosts {
            ghost.missed_recently = ghost.missed_recently / 2.0 + ghost.missed;
            ghost.missed_long = ghost.missed_long * 0.99 + ghost.missed;
        }
        let recently = |at: usize| self.ghosts[at].missed_recently;
        let least_of = |places: &[usize]| {
            let least = places.iter().map(|at| recently(*at)).fold(f64::INFINITY, f64::min);
            *places.iter().find(|at| recently(**at) == least).expect("candidates")
        };
        let (plain, others): (Vec<_>, Vec<_>) = (0..5).partition(|&at| CANDIDATES[at].1 == 0);
        self.excess *= 0.99;
        if others.contains(&self.leader) {
            self.excess += self.missed - self.ghosts[least_of(&plain)].missed;
        }
        // A candidate with probation must have missed less than the others over the longer time, and must have kept
        // its promise.
        let least = plain.iter().map(|at| self.ghosts[*at].missed_long).fold(f64::INFINITY, f64::min);
        let tolerance = 0.005 * least + 0.1 * recently(least_of(&plain));
        let is_worth_it = |at: &usize| self.ghosts[*at].missed_long < least && self.excess <= tolerance;
        let may_lead: Vec<_> = (0..5).filter(|at| plain.contains(at) || is_worth_it(at)).collect();
        let best = least_of(&may_lead);
        let begins_probation = others.contains(&best) && plain.contains(&self.leader);
        let margin = if begins_probation { 0.977 } else { 0.98 };
        if recently(best) < margin * recently(self.leader) || !may_lead.contains(&self.leader) {
            self.leader = best;
            self.changes += 1;
            self.residents.change(CANDIDATES[best], capacity);
        }
        self.missed = 0.0;
        self.ghosts.iter_mut().for_each(|ghost| ghost.missed = 0.0);
        self.fit_ghosts(capacity);
    }

    fn fit_ghosts(&mut self, capacity: Capacity) {
        for ghost in &mut self.ghosts {
            ghost.capacity.amount = capacity.amount >> self.thinning;
            ghost.ranking.make_room(0, ghost.capacity);
        }
    }
}

impl<O: Objective> Naive for Adaptive<O> {
    fn new(capacity: Capacity) -> Self {
        let ghost = |candidate| Ghost {
            ranking: Ranking::new(candidate),
            capacity,
            missed: 0.0,
            missed_recently: 0.0,
            missed_long: 0.0,
        };
        Self {
            residents: Ranking::new(CANDIDATES[FIRST]),
            ghosts: CANDIDATES.map(ghost),
            leader: FIRST,
            thinning: 0,
            heard: 0,
            missed: 0.0,
            excess: 0.0,
            changes: 0,
        }
    }

    fn victim(&mut self, cache: &mut [Entry], now: Now) -> usize {
        let victim = self.residents.victim(now.capacity);
        cache.iter().position(|entry| entry.key == victim).expect("a resident")
    }

    fn admits(&mut self, new: &Entry, cache: &[Entry], now: Now) -> bool {
        self.hear(new.key, new.size, false);
        if cache.len() >> self.thinning > SAMPLE {
            self.thin(now.capacity);
        }
        let have_heard_all = self.ghosts.iter().all(|ghost| self.heard >= ghost.ranking.len());
        if self.heard >= HEARING && have_heard_all {
            self.judge(now.capacity);
        }
        self.residents.admits(new.key, new.size, now.capacity)
    }

    fn on_hit(&mut self, entry: &Entry, _now: Now) {
        self.residents.hit(entry.key);
        self.hear(entry.key, entry.size, true);
    }

    fn on_enter(&mut self, new: &Entry, now: Now) {
        self.residents.enter(new.key, new.size, now.capacity);
    }

    fn on_leave(&mut self, cache: &[Entry], place: usize, _now: Now) {
        self.residents.leave(cache[place].key);
    }
}
