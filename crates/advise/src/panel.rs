//! The shadows of one tier: each policy at each size, and no limit.

use hashbrown::HashSet;
use larder_evict::{By, Capacity, Object, Spec};

use crate::counts::{Sums, Traffic};
use crate::endless::Endless;
use crate::request::{Answer, Request};
use crate::sample::Sample;
use crate::shadow::Shadow;
use crate::stack::LruStack;
use crate::window::{Interval, Window};

/// The policies that the running one is usually compared with.
const USUAL: [&str; 7] = ["adaptive", "fifo", "gdsf", "lru", "s3fifo", "sieve", "wtinylfu"];
/// The sizes relative to that of the running cache, as fractions, and the position of that one.
pub(crate) const FACTORS: [(u64, u64); 5] = [(1, 4), (1, 2), (1, 1), (2, 1), (4, 1)];
pub(crate) const RUNNING: usize = 2;

/// The most objects in all shadows of a panel: about 100 bytes each.
const MOST_OBJECTS: usize = 100_000;
/// The requests between two checks of that number.
const CHECKED: u64 = 64;

/// A size of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// As the config names it, in bytes or entries.
    pub named: u64,
    /// The part of it for stored responses.
    pub kept: u64,
    /// The largest response that it stores, in bytes.
    pub largest: u64,
}

/// The properties of a panel.
#[derive(Clone, Debug)]
pub struct PanelSettings {
    /// The unit of sizes.
    pub by: By,
    /// The sizes, from a quarter of the running one to four times as much.
    pub sizes: [Size; FACTORS.len()],
    /// The running policy.
    pub running: Spec,
    /// The policies to compare it with.
    pub others: Vec<Spec>,
    /// The first sample, which becomes smaller if it has too many keys.
    pub sample: Sample,
}

/// The shadows of a tier, and their counts of the last hours.
pub struct Panel {
    by: By,
    sizes: [Size; FACTORS.len()],
    /// The share of each size that the running cache uses at present.
    usable: f64,
    rows: Vec<Row>,
    /// The position of the running policy.
    running: usize,
    endless: Endless,
    sample: Sample,
    /// The keys that are in every sample.
    heavy: HashSet<u64>,
    /// The keys that have entered the shadows without a request: their next request does not count.
    unseen: HashSet<u64>,
    pub(crate) window: Window,
    answered: u64,
}

/// The shadows of one policy.
struct Row {
    spec: Spec,
    shadows: Shadows,
}

enum Shadows {
    Lru(Box<LruStack<{ FACTORS.len() }>>),
    Any(Box<[Shadow; FACTORS.len()]>),
}

impl Panel {
    /// Returns the policies that the running one is usually compared with.
    pub fn usual_policies() -> Vec<Spec> {
        USUAL.iter().filter_map(|name| Spec::parse(name).ok()).collect()
    }

    /// Returns the sizes beside one of `amount`, from a quarter of it to four times as much. `parts` returns the part of a size for
    /// stored responses, and the largest of them.
    pub fn sizes_beside(amount: u64, parts: impl Fn(u64) -> (u64, u64)) -> [Size; FACTORS.len()] {
        FACTORS.map(|(times, part)| {
            let named = (amount / part).saturating_mul(times).max(1);
            let (kept, largest) = parts(named);
            Size { named, kept, largest }
        })
    }

    /// Returns a panel with empty shadows.
    pub fn new(settings: PanelSettings) -> Self {
        let PanelSettings { by, sizes, running, others, sample } = settings;
        let mut panel = Self {
            by,
            sizes,
            usable: 1.0,
            rows: Vec::new(),
            running: 0,
            endless: Endless::new(sample),
            sample,
            heavy: HashSet::new(),
            unseen: HashSet::new(),
            window: Window::new(0),
            answered: 0,
        };
        let others = others.iter().filter(|spec| **spec != running);
        panel.rows = std::iter::once(&running).chain(others).map(|spec| panel.row(spec)).collect();
        panel.start_window();
        panel
    }

    fn row(&self, spec: &Spec) -> Row {
        let is_lru = Spec::parse("lru").is_ok_and(|lru| lru == *spec);
        let (rooms, by) = (self.rooms(), self.by);
        let shadow = |(amount, _)| Shadow::new(spec, Capacity { by, amount }, self.sample.multiplier());
        let mut shadows = match is_lru {
            true => Shadows::Lru(Box::new(LruStack::new())),
            false => Shadows::Any(Box::new(rooms.map(shadow))),
        };
        shadows.set_sizes(rooms);
        Row { spec: spec.clone(), shadows }
    }

    /// Returns the capacity of each size for the keys of the sample, and the size of the largest object.
    fn rooms(&self) -> [(u64, u64); FACTORS.len()] {
        let room = |kept: u64| if self.usable < 1.0 { (kept as f64 * self.usable) as u64 } else { kept };
        self.sizes.map(|size| (self.sample.part(room(size.kept)), size.largest))
    }

    fn start_window(&mut self) {
        self.window = Window::new(self.rows.len() * FACTORS.len() + 1);
    }

    /// Returns the sample. Requests for other keys are of use only if they are heavy.
    pub fn sample(&self) -> Sample {
        self.sample
    }

    /// Returns the running policy.
    pub fn policy(&self) -> &Spec {
        &self.rows[self.running].spec
    }

    /// Notes that another policy runs now, which has kept the contents. The window begins again if there were no shadows of it.
    pub fn run(&mut self, spec: &Spec) {
        match self.rows.iter().position(|row| row.spec == *spec) {
            Some(row) => self.running = row,
            None => {
                self.rows.push(self.row(spec));
                self.running = self.rows.len() - 1;
                self.start_window();
            }
        }
    }

    /// Notes the share of the size that the running cache uses at present.
    pub fn use_share(&mut self, usable: f64) {
        if (usable - self.usable).abs() > 0.01 {
            self.usable = usable;
            self.resize();
        }
    }

    fn resize(&mut self) {
        let rooms = self.rooms();
        self.rows.iter_mut().for_each(|row| row.shadows.set_sizes(rooms));
    }

    /// Puts the `keys` into every sample, and removes those that were and are no longer.
    pub fn set_heavy(&mut self, keys: &[u64]) {
        let keys: HashSet<u64> = keys.iter().copied().collect();
        let changed: Vec<_> = keys.symmetric_difference(&self.heavy).copied().collect();
        for key in changed {
            let is_known = self.sample.contains(key) || keys.contains(&key);
            self.rows.iter_mut().for_each(|row| row.shadows.remove(key));
            self.endless.remove(key);
            match is_known {
                true => self.unseen.insert(key),
                false => self.unseen.remove(&key),
            };
        }
        self.heavy = keys;
    }

    /// Counts what the cache has really done until `now` (UNIX seconds), and the requests of the sample that were `lost`.
    pub fn count(&mut self, now: u32, traffic: Traffic, lost: u64) {
        let interval = self.window.at(now);
        interval.traffic += traffic;
        interval.lost += lost;
    }

    /// Asks all shadows. Returns the answer of the running configuration's, if the request counts.
    pub fn request(&mut self, request: &Request) -> Option<Answer> {
        let key = request.object.key;
        let is_heavy = self.heavy.contains(&key);
        if !is_heavy && !self.sample.contains(key) {
            return None;
        }
        let counts = !self.unseen.remove(&key);
        let each = request.bytes / u64::from(request.requests.max(1));
        let answer = self.answer(&Request { requests: 1, bytes: each, ..*request }, is_heavy, counts);
        if let Some(more) = request.requests.checked_sub(1).filter(|more| *more > 0) {
            let later = Request {
                requests: more,
                bytes: request.bytes - each,
                change: crate::Change::None,
                ..*request
            };
            self.answer(&later, is_heavy, counts);
        }
        self.answered += 1;
        if self.answered.is_multiple_of(CHECKED) {
            self.fit();
        }
        counts.then_some(answer)
    }

    fn answer(&mut self, request: &Request, is_heavy: bool, counts: bool) -> Answer {
        let Self { rows, endless, sample, window, running, by, .. } = self;
        let Object { key, size, .. } = request.object;
        let weight = Capacity { by: *by, amount: 0 }.weigh(size);
        let part = is_heavy.then(|| sample.part(weight));
        let group = (!is_heavy).then(|| sample.group(key));
        let asked = |share: f64| {
            let for_each = if is_heavy { 1.0 } else { 1.0 / share };
            Sums { requests: f64::from(request.requests) * for_each, bytes: request.bytes as f64 * for_each }
        };
        let interval = window.at(request.now);
        let evicted = rows[*running].shadows.evictions();
        let mut cells = interval.shadows.iter_mut();
        let mut of_running = Answer::Miss;
        for (place, row) in rows.iter_mut().enumerate() {
            let answers = row.shadows.answer(request, weight, part);
            if place == *running {
                of_running = answers[RUNNING];
            }
            for (answer, cell) in answers.into_iter().zip(cells.by_ref()).filter(|_| counts) {
                cell.count(group, asked(sample.share()), answer.is_hit() || request.is_shared);
            }
        }
        if is_heavy || endless.sample.contains(key) {
            let is_hit = endless.answer(request).is_hit() || request.is_shared;
            if let Some(cell) = cells.next().filter(|_| counts) {
                cell.count(group, asked(endless.sample.share()), is_hit);
            }
        }
        interval.evictions += rows[*running].shadows.evictions() - evicted;
        of_running
    }

    /// Halves the sample while the shadows have too many objects.
    fn fit(&mut self) {
        while self.rows.iter().map(|row| row.shadows.len()).sum::<usize>() > MOST_OBJECTS {
            self.thin();
        }
        let heavy = &self.heavy;
        self.endless.fit(|key| heavy.contains(&key));
    }

    /// Halves the sample.
    pub fn thin(&mut self) {
        self.sample = self.sample.half();
        let sample = self.sample;
        if self.endless.sample.share() > sample.share() {
            self.endless.sample = sample;
        }
        // Heavy objects come back with their next request, in their part of the new room.
        self.rows
            .iter_mut()
            .for_each(|row| row.shadows.retain(|key| sample.contains(key) && !self.heavy.contains(&key)));
        self.unseen.extend(self.heavy.iter().copied());
        self.resize();
    }

    /// Returns the bytes allocated, spare room included.
    pub fn bytes(&self) -> usize {
        let rows = self.rows.iter().map(|row| row.shadows.bytes()).sum::<usize>();
        rows + self.endless.bytes() + self.window.bytes()
    }

    pub(crate) fn policies(&self) -> impl Iterator<Item = &Spec> {
        self.rows.iter().map(|row| &row.spec)
    }

    pub(crate) fn sizes(&self) -> &[Size; FACTORS.len()] {
        &self.sizes
    }

    pub(crate) fn unit(&self) -> By {
        self.by
    }

    pub(crate) fn running(&self) -> usize {
        self.running
    }

    pub(crate) fn endless_share(&self) -> f64 {
        self.endless.sample.share()
    }

    /// Returns the counts since `since` (UNIX seconds).
    pub(crate) fn sum(&self, since: u32) -> Interval {
        self.window.sum(since)
    }
}

impl Shadows {
    fn set_sizes(&mut self, rooms: [(u64, u64); FACTORS.len()]) {
        match self {
            Self::Lru(stack) => stack.set_sizes(rooms),
            Self::Any(shadows) => {
                shadows
                    .iter_mut()
                    .zip(rooms)
                    .for_each(|(shadow, (room, largest))| shadow.set_room(room, largest));
            }
        }
    }

    fn answer(&mut self, request: &Request, weight: u64, part: Option<u64>) -> [Answer; FACTORS.len()] {
        match self {
            Self::Lru(stack) => stack.answer(request, part.unwrap_or(weight)),
            Self::Any(shadows) => shadows.each_mut().map(|shadow| shadow.answer(request, part)),
        }
    }

    fn remove(&mut self, key: u64) {
        match self {
            Self::Lru(stack) => stack.remove(key),
            Self::Any(shadows) => shadows.iter_mut().for_each(|shadow| shadow.remove(key)),
        }
    }

    fn retain(&mut self, stays: impl Fn(u64) -> bool + Copy) {
        match self {
            Self::Lru(stack) => stack.retain(stays),
            Self::Any(shadows) => shadows.iter_mut().for_each(|shadow| shadow.retain(stays)),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Lru(stack) => stack.len(),
            Self::Any(shadows) => shadows.iter().map(Shadow::len).sum(),
        }
    }

    /// Returns the number of objects that the running size has evicted.
    fn evictions(&self) -> u64 {
        match self {
            Self::Lru(stack) => stack.caches()[RUNNING].evictions,
            Self::Any(shadows) => shadows[RUNNING].evictions(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Lru(stack) => stack.bytes(),
            Self::Any(shadows) => shadows.iter().map(Shadow::bytes).sum(),
        }
    }
}
