//! A cache whose victims are chosen by their future requests, or by a model that estimates them.

use std::collections::{BTreeSet, VecDeque};

use fastrand::Rng;

use crate::Trace;
use crate::trees::{Model, Row, Sample};

/// The choice in which future requests are used.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) candidates: Candidates,
    /// Whether a new object that is worth less than its victims is refused.
    pub(crate) admits: bool,
    /// The features that trees do not see, by their numbers.
    pub(crate) without: &'static [usize],
}

/// The residents among which the victims are chosen.
#[derive(Clone, Copy)]
pub(crate) enum Candidates {
    /// The next victims of the base policy, which is greedy dual with counts that survive eviction.
    Next(usize),
    /// Residents drawn at random.
    Random(usize),
}

/// The source of an object's worth.
pub(crate) enum Judge<'a> {
    /// The time to its next request.
    Future,
    /// A model that is given.
    Given(&'a Model),
    /// A model that is fitted again and again from the requests so far. Until the first, the base policy decides.
    Online,
}

/// A sample of the requests is labelled after as many requests as this share of the number of residents.
const HORIZON: f64 = 0.3;

/// The half-lives of the three counts of an object's requests, as shares of the number of residents.
const HALF_LIVES: [f64; 3] = [0.25, 1.0, 8.0];

/// Evicted objects are remembered until this many times the residents have been evicted.
const MEMORY: f64 = 8.0;

/// The most samples from which a model is fitted online.
const MOST_SAMPLES: usize = 32_768;

/// The number of equal parts of a trace by which misses are counted.
pub(crate) const PARTS: usize = 20;

/// Misses, in requests or bytes, by parts of the trace.
pub(crate) type Missed = [u64; PARTS];

/// The note for "never".
pub(crate) const NEVER: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Known {
    size: u64,
    count: u32,
    first: u32,
    last: u32,
    next: u32,
    gaps: [u32; 3],
    decayed: [f32; 3],
    /// The rank in the base policy, and the time it was given.
    rank: (u64, u32),
    /// Its place in `residents`, if it is resident.
    place: Option<u32>,
    /// The number of evictions when it left.
    left: u32,
}

const UNKNOWN: Known = Known {
    size: 0,
    count: 0,
    first: 0,
    last: 0,
    next: NEVER,
    gaps: [NEVER; 3],
    decayed: [0.0; 3],
    rank: (0, 0),
    place: None,
    left: 0,
};

struct Cache<'a> {
    trace: &'a Trace,
    place: Place,
    judge: Judge<'a>,
    counts_bytes: bool,
    capacity: u64,
    used: u64,
    known: Vec<Known>,
    residents: Vec<u32>,
    order: BTreeSet<(u64, u32, u32)>,
    level: f64,
    evictions: u32,
    now: u32,
    /// The number of residents, smoothed: the unit of times.
    unit: f64,
    rng: Rng,
    fitted: Option<Model>,
}

/// Samples whose labels are not yet known: time, next request, horizon and features.
#[derive(Default)]
struct Pending(VecDeque<(u32, u32, u32, Row)>);

impl Pending {
    fn label(&mut self, now: u32, samples: &mut Vec<Sample>) {
        while let Some(&(at, next, horizon, row)) = self.0.front() {
            if now - at < horizon {
                break;
            }
            self.0.pop_front();
            samples.push(Sample { row, is_requested: next <= at + horizon });
        }
    }
}

/// Replays `trace`. Returns the misses and the samples.
pub(crate) fn replay(
    trace: &Trace,
    capacity: u64,
    counts_bytes: bool,
    place: Place,
    judge: Judge,
) -> (Missed, Vec<Sample>) {
    let mut cache = Cache::new(trace, capacity, counts_bytes, place, judge);
    let (mut missed, mut samples, mut pending) = ([0; PARTS], Vec::new(), Pending::default());
    let (mut fitted_at, mut fits) = (0, 0);
    for (at, request) in trace.requests.iter().enumerate() {
        cache.now = at as u32;
        cache.sample(&mut pending);
        if !cache.request(request.id, at) {
            missed[trace.part(at)] += if counts_bytes { request.size } else { 1 };
        }
        pending.label(cache.now, &mut samples);
        if matches!(cache.judge, Judge::Online) {
            let pause =
                (4.0 * cache.unit).max(if fits == 0 { 2_000.0 } else { 4_000.0_f64.max(at as f64 / 2.0) });
            if (at - fitted_at) as f64 >= pause && samples.len() >= 500 {
                cache.fitted = Some(Model::fit(&samples[samples.len().saturating_sub(MOST_SAMPLES)..]));
                (fitted_at, fits) = (at, fits + 1);
            }
        }
    }
    (missed, samples)
}

impl<'a> Cache<'a> {
    fn new(trace: &'a Trace, capacity: u64, counts_bytes: bool, place: Place, judge: Judge<'a>) -> Self {
        Self {
            trace,
            place,
            judge,
            counts_bytes,
            capacity,
            used: 0,
            known: vec![UNKNOWN; trace.objects],
            residents: Vec::new(),
            order: BTreeSet::new(),
            level: 0.0,
            evictions: 0,
            now: 0,
            unit: 8.0,
            rng: Rng::with_seed(7),
            fitted: None,
        }
    }

    /// Takes samples: a resident for each request and, of some, the object requested before.
    fn sample(&mut self, pending: &mut Pending) {
        if self.residents.is_empty() || matches!(self.judge, Judge::Future) {
            return;
        }
        let resident = self.residents[self.rng.usize(..self.residents.len())];
        let latest = (self.rng.f64() < 0.3).then(|| self.trace.requests[self.now as usize - 1].id);
        let horizon = (HORIZON * self.unit).ceil() as u32;
        for id in std::iter::once(resident).chain(latest) {
            pending.0.push_back((self.now, self.known[id as usize].next, horizon, self.row(id)));
        }
    }

    /// Returns whether the request is a hit.
    fn request(&mut self, id: u32, at: usize) -> bool {
        let is_hit = self.known[id as usize].place.is_some();
        if is_hit {
            self.unrank(id);
        }
        self.note(id, at);
        if is_hit {
            self.rank(id);
        } else {
            self.miss(id);
        }
        let residents = self.residents.len() as f64;
        self.unit = if at < 20_000 { residents.max(8.0) } else { self.unit * 0.9999 + residents * 0.0001 };
        is_hit
    }

    fn note(&mut self, id: u32, at: usize) {
        let remembered = (MEMORY * self.residents.len() as f64) as u32;
        let half_lives = HALF_LIVES.map(|share| share * self.unit);
        let object = &mut self.known[id as usize];
        if object.place.is_none() {
            if self.evictions - object.left > remembered {
                *object = UNKNOWN;
            }
            object.size = self.trace.requests[at].size;
        }
        if object.count == 0 {
            object.first = self.now;
        } else {
            let gap = self.now - object.last;
            object.gaps = [gap, object.gaps[0], object.gaps[1]];
            for (count, half_life) in object.decayed.iter_mut().zip(half_lives) {
                *count *= (-f64::from(gap) / half_life).exp2() as f32;
            }
        }
        object.decayed.iter_mut().for_each(|count| *count += 1.0);
        object.count += 1;
        object.last = self.now;
        object.next = self.trace.next[at];
    }

    fn row(&self, id: u32) -> Row {
        let object = &self.known[id as usize];
        let log = |time: f64| (time / self.unit).max(1e-9).log2() as f32;
        let gap = |gap: u32| if gap == NEVER { 40.0 } else { log(f64::from(gap) + 1.0) };
        let age = f64::from(self.now - object.last);
        let decayed = |at: usize| {
            let count = f64::from(object.decayed[at]) * (-age / (HALF_LIVES[at] * self.unit)).exp2();
            count.max(1e-9).log2() as f32
        };
        let mean = f64::from(object.last - object.first) / f64::from(object.count.max(2) - 1);
        let mut row = [
            log(age + 1.0),
            gap(object.gaps[0]),
            gap(object.gaps[1]),
            gap(object.gaps[2]),
            (object.count as f32).log2(),
            (object.size.max(1) as f32).log2(),
            decayed(0),
            decayed(1),
            decayed(2),
            if object.count > 1 { log(mean + 1.0) } else { 40.0 },
        ];
        self.place.without.iter().for_each(|&feature| row[feature] = 0.0);
        row
    }

    /// Returns the benefit of keeping the object for a short time, per unit of weight.
    fn worth(&self, id: u32) -> f64 {
        let object = &self.known[id as usize];
        let model = match &self.judge {
            Judge::Future => None,
            Judge::Given(model) => Some(*model),
            Judge::Online => self.fitted.as_ref(),
        };
        let requests = match model {
            Some(model) => model.estimate(&self.row(id)),
            None if object.next == NEVER => 0.0,
            None => 1.0 / f64::from(object.next - self.now),
        };
        if self.counts_bytes { requests } else { requests / object.size as f64 }
    }

    fn miss(&mut self, id: u32) {
        let size = self.known[id as usize].size;
        let needed = (self.used + size).saturating_sub(self.capacity);
        if size > self.capacity {
            return;
        }
        let foresees = !matches!(self.judge, Judge::Online) || self.fitted.is_some();
        let (victims, keeps) = match foresees {
            _ if needed == 0 => (Vec::new(), false),
            true => self.foreseen_victims(id, needed),
            false => self.victims_of_base(id, needed),
        };
        if keeps {
            self.known[id as usize].left = self.evictions;
            return;
        }
        for victim in victims {
            self.evict(victim);
        }
        self.rank(id);
        self.known[id as usize].place = Some(self.residents.len() as u32);
        self.residents.push(id);
        self.used += size;
    }

    /// Returns the victims, and whether they stay since the new object is worth less.
    fn foreseen_victims(&mut self, id: u32, needed: u64) -> (Vec<u32>, bool) {
        let mut candidates: Vec<_> = self.candidates().into_iter().map(|id| (self.worth(id), id)).collect();
        candidates.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut freed, mut lost, mut victims) = (0, 0.0, Vec::new());
        let mut take = |worth: f64, victim: u32, size: u64| {
            if freed < needed && !victims.contains(&victim) {
                freed += size;
                lost += worth * size as f64;
                victims.push(victim);
            }
            freed >= needed
        };
        let mut is_enough = false;
        for (worth, victim) in candidates {
            is_enough = take(worth, victim, self.known[victim as usize].size);
        }
        let mut others = self.order.iter();
        while let (false, Some(&(_, _, victim))) = (is_enough, others.next()) {
            is_enough = take(self.worth(victim), victim, self.known[victim as usize].size);
        }
        let saved = self.worth(id) * self.known[id as usize].size as f64;
        (victims, self.place.admits && saved < lost)
    }

    fn candidates(&mut self) -> Vec<u32> {
        match self.place.candidates {
            Candidates::Random(number) if self.residents.len() > number => {
                let residents = &self.residents;
                let mut drawn: Vec<_> =
                    (0..number).map(|_| residents[self.rng.usize(..residents.len())]).collect();
                drawn.sort_unstable();
                drawn.dedup();
                drawn
            }
            Candidates::Random(number) | Candidates::Next(number) => {
                self.order.iter().take(number).map(|&(_, _, id)| id).collect()
            }
        }
    }

    /// Returns the victims of the base policy, and whether the new object ranks below them.
    fn victims_of_base(&mut self, id: u32, needed: u64) -> (Vec<u32>, bool) {
        let (mut freed, mut highest, mut victims) = (0, 0.0, Vec::new());
        for &(rank, _, victim) in &self.order {
            if freed >= needed {
                break;
            }
            freed += self.known[victim as usize].size;
            highest = f64::from_bits(rank);
            victims.push(victim);
        }
        let rank = self.level + self.base_worth(id);
        if rank < highest {
            self.level = rank;
        }
        (victims, rank < highest)
    }

    fn base_worth(&self, id: u32) -> f64 {
        let object = &self.known[id as usize];
        let count = f64::from(object.count.min(255));
        if self.counts_bytes { count } else { count / object.size as f64 }
    }

    fn rank(&mut self, id: u32) {
        if self.level == 0.0 {
            self.level = 16.0 * self.base_worth(id);
        }
        let rank = ((self.level + self.base_worth(id)).to_bits(), self.now);
        self.known[id as usize].rank = rank;
        self.order.insert((rank.0, rank.1, id));
    }

    fn unrank(&mut self, id: u32) {
        let (rank, at) = self.known[id as usize].rank;
        self.order.remove(&(rank, at, id));
    }

    fn evict(&mut self, id: u32) {
        self.unrank(id);
        let object = &mut self.known[id as usize];
        self.level = self.level.max(f64::from_bits(object.rank.0));
        self.used -= object.size;
        object.left = self.evictions;
        self.evictions += 1;
        let Some(place) = object.place.take() else { return };
        self.residents.swap_remove(place as usize);
        if let Some(&moved) = self.residents.get(place as usize) {
            self.known[moved as usize].place = Some(place);
        }
    }
}
