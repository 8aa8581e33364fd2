//! The shadows of one tier: each policy at each size, and no limit.

use hashbrown::HashSet;
use larder_evict::{By, Capacity, Object, Spec};

use crate::counts::{Sums, Traffic};
use crate::endless::Endless;
use crate::giant::Giant;
use crate::request::{Answer, Change, Request};
use crate::sample::{Sample, units};
use crate::selection::Selection;
use crate::shadow::Shadow;
use crate::stack::LruStack;
use crate::window::{Interval, Window};

/// The policies that the running one is usually compared with.
const USUAL: [&str; 7] = ["adaptive", "fifo", "gdsf", "lru", "s3fifo", "sieve", "wtinylfu"];
/// The sizes relative to that of the running cache, as fractions, and the position of that one.
pub(crate) const FACTORS: [(u64, u64); 5] = [(1, 4), (1, 2), (1, 1), (2, 1), (4, 1)];
pub(crate) const RUNNING: usize = 2;

/// The most objects in all shadows of a panel: about 100 bytes each.
const MOST_OBJECTS: usize = 90_000;
/// One in this many requests that memory answers counts as a use in the tier behind it.
const TOUCHED: u64 = 16;
/// The requests between two checks of that number.
const CHECKED: u64 = 64;
/// The part of the objects in shadows, and of their requests, that large ones may be: they are in every sample.
const LARGE_SHARE: f64 = 1.0 / 3.0;

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
    /// The part of the memory for shadows that these may take: 1 for all.
    pub share: f64,
}

/// The shadows of a tier, and their counts of the last hours.
pub struct Panel {
    sizes: [Size; FACTORS.len()],
    /// The share of each size that the running cache uses at present.
    usable: f64,
    /// The most objects in all shadows.
    most: usize,
    rows: Vec<Row>,
    /// The position of the running policy.
    running: usize,
    endless: Endless,
    selection: Selection,
    /// The requests seen since the selection became smaller, and those of them for large objects.
    seen: (u64, u64),
    giant: Giant,
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
        let PanelSettings { by, sizes, running, others, sample, share } = settings;
        let mut panel = Self {
            sizes,
            usable: 1.0,
            most: (MOST_OBJECTS as f64 * share) as usize,
            rows: Vec::new(),
            running: 0,
            endless: Endless::new(sample),
            selection: Selection::new(by, sample),
            seen: (0, 0),
            giant: Giant::default(),
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
        let (rooms, by, seed) = (self.rooms(), self.selection.by, self.sample().multiplier());
        let shadow = |(room, _)| Shadow::new(spec, Capacity { by, amount: units(room) }, seed);
        let mut shadows = match is_lru {
            true => Shadows::Lru(Box::new(LruStack::new())),
            false => Shadows::Any(Box::new(rooms.map(shadow))),
        };
        shadows.set_sizes(rooms);
        Row { spec: spec.clone(), shadows }
    }

    /// Returns the capacity of each size for the keys of the sample, in fractions, and the size of the largest object.
    fn rooms(&self) -> [(u64, u64); FACTORS.len()] {
        let room = |kept: u64| if self.usable < 1.0 { (kept as f64 * self.usable) as u64 } else { kept };
        self.sizes.map(|size| (self.sample().part(room(size.kept)), size.largest))
    }

    fn start_window(&mut self) {
        self.window = Window::new(self.rows.len() * FACTORS.len() + 1);
    }

    /// Returns the sample. Requests for other keys are of use only if they are heavy, or if their responses are large.
    pub fn sample(&self) -> Sample {
        self.selection.sample
    }

    /// Returns the bytes sent for a request from which it is of use for any key.
    pub fn large_sent(&self) -> u64 {
        self.selection.large_sent()
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

    /// Puts the `keys` into every sample, and removes those that were and are no longer. The `largest` has the most bytes.
    pub fn set_heavy(&mut self, keys: &[u64], largest: Option<u64>) {
        self.giant.set(largest.filter(|key| keys.contains(key)));
        let keys: HashSet<u64> = keys.iter().copied().collect();
        let before = std::mem::replace(&mut self.selection.heavy, keys);
        let Self { rows, endless, selection, unseen, .. } = self;
        for &key in selection.heavy.symmetric_difference(&before) {
            match selection.heavy.contains(&key) && !selection.sample.contains(key) {
                true => _ = unseen.insert(key),
                false => _ = unseen.remove(&key),
            }
            endless.review(key, selection);
            rows.iter_mut().for_each(|row| row.shadows.review(key, selection));
        }
    }

    /// Counts what the cache has really done until `now` (UNIX seconds), and the requests of the sample that were `lost`.
    pub fn count(&mut self, now: u32, traffic: Traffic, lost: u64) {
        let interval = self.window.at(now);
        interval.traffic += traffic;
        interval.lost += lost;
    }

    /// Asks all shadows of a tier behind memory, which has given this answer. What memory answers is a hit whatever this tier has;
    /// some of these requests count as uses here. `real` is what the cache did.
    pub fn request_behind(&mut self, request: &Request, memory: Answer, real: Answer) {
        let key = request.object.key;
        let Some(counts) = self.admit(request) else { return };
        if !memory.is_hit() {
            let shadow = self.answer(request, counts);
            if counts {
                self.compare(request, shadow, real);
            }
            return;
        }
        if self.answered.is_multiple_of(TOUCHED) {
            self.rows.iter_mut().for_each(|row| row.shadows.touch(key));
        }
        if counts {
            let (group, asked) = self.share_of(request, self.sample().share());
            let cells = &mut self.window.at(request.now).shadows;
            cells.iter_mut().for_each(|cell| cell.count(group, asked, asked));
            self.compare(request, Answer::Hit, real);
        }
    }

    /// Compares the `real` answer of the cache to a request that [counts](Self::request) with that of its `shadow`. Of several
    /// requests, one was answered so, and the others by hits.
    pub fn compare(&mut self, request: &Request, shadow: Answer, real: Answer) {
        let (_, asked) = self.share_of(request, self.sample().share());
        let one = asked * (1.0 / f64::from(request.requests.max(1)));
        let group = self.sample().group(request.object.key);
        let interval = self.window.at(request.now);
        interval.wrong[group] += request.given(shadow, one) - request.given(real, one);
        if request.freshness.is_none() {
            interval.unstorable += asked.requests;
        }
    }

    /// Asks all shadows. Returns the answer of the running configuration's, if the request counts.
    pub fn request(&mut self, request: &Request) -> Option<Answer> {
        let counts = self.admit(request)?;
        let each = request.bytes / u64::from(request.requests.max(1));
        let answer = self.answer(&Request { requests: 1, bytes: each, ..*request }, counts);
        if let Some(more) = request.requests.checked_sub(1).filter(|more| *more > 0) {
            let bytes = request.bytes - each;
            let change = Change::None;
            let later = Request { requests: more, bytes, change, is_forced: false, ..*request };
            self.answer(&later, counts);
        }
        counts.then_some(answer)
    }

    /// Returns whether a request for a selected object counts; `None` for one that is not selected.
    fn admit(&mut self, request: &Request) -> Option<bool> {
        if self.answered.is_multiple_of(CHECKED) {
            self.fit();
        }
        let Object { key, size, .. } = request.object;
        let is_in_sample = self.selection.sample.contains(key);
        if !is_in_sample && !self.is_certain(request) {
            return None;
        }
        self.answered += 1;
        self.seen.0 += 1;
        self.seen.1 += u64::from(self.selection.is_large(size));
        Some(!self.unseen.remove(&key))
    }

    /// Whether any sample would have this request.
    fn is_certain(&self, request: &Request) -> bool {
        let Request { object, requests, bytes, .. } = *request;
        self.selection.is_exact(object.key, object.size)
            && self.selection.is_certain(object.key, bytes / u64::from(requests.max(1)))
    }

    /// Returns the group of a request in a sample of this share, and the requests that it stands for.
    fn share_of(&self, request: &Request, share: f64) -> (Option<usize>, Sums) {
        let Request { object, requests, bytes, .. } = *request;
        let is_certain = self.is_certain(request);
        let each = if is_certain { 1.0 } else { 1.0 / share };
        let requests = f64::from(requests) * each;
        let micros = requests * f64::from(object.cost);
        let asked = Sums { requests, bytes: bytes as f64 * each, micros };
        ((!is_certain).then(|| self.sample().group(object.key)), asked)
    }

    fn answer(&mut self, request: &Request, counts: bool) -> Answer {
        let Object { key, size, .. } = request.object;
        let (group, asked) = self.share_of(request, self.sample().share());
        let (_, asked_endless) = self.share_of(request, self.endless_share());
        let Self { rows, endless, selection, window, running, giant, .. } = self;
        let shadows = rows.len() * FACTORS.len();
        let mut giant = giant.count(key, asked.bytes, shadows).into_iter().flatten();
        let part = selection.part(key, size);
        let interval = window.at(request.now);
        let evicted = rows[*running].shadows.evictions();
        let mut cells = interval.shadows.iter_mut();
        let mut of_running = Answer::Miss;
        for (place, row) in rows.iter_mut().enumerate() {
            let answers = row.shadows.answer(request, part);
            if place == *running {
                of_running = answers[RUNNING];
            }
            for (answer, cell) in answers.into_iter().zip(cells.by_ref()).filter(|_| counts) {
                let given = request.given(answer, asked);
                cell.count(group, asked, given);
                giant.by_ref().take(1).for_each(|hit| *hit += given.bytes);
            }
        }
        if group.is_none() || endless.sample.contains(key) {
            let given = request.given(endless.answer(request), asked_endless);
            if let Some(cell) = cells.next().filter(|_| counts) {
                cell.count(group, asked_endless, given);
            }
        }
        interval.evictions += rows[*running].shadows.evictions() - evicted;
        of_running
    }

    /// Returns the number of requests that `request` stands for.
    pub fn stands_for(&self, request: &Request) -> f64 {
        self.share_of(request, self.sample().share()).1.requests
    }

    /// Makes the selection smaller while the shadows have too many objects.
    fn fit(&mut self) {
        while self.rows.iter().map(|row| row.shadows.len()).sum::<usize>() > self.most {
            self.thin();
        }
        while self.endless.fit(&self.selection) {
            if self.endless_share() < self.sample().share() / 16.0 {
                self.selection.raise_large();
                self.review();
            }
        }
    }

    /// Makes the selection no larger than that of `other`, of which this panel sees the requests.
    pub fn narrow(&mut self, other: &Self) {
        if self.selection.narrow(&other.selection) {
            self.review();
        }
    }

    /// Halves the sample, or leaves out more of the large objects if they are too large a part of what shadows have or see.
    pub fn thin(&mut self) {
        let seen = self.seen.1 as f64 > LARGE_SHARE * self.seen.0 as f64;
        self.seen = (0, 0);
        let mut is_less = false;
        if self.sample().share() < 1.0 && seen {
            self.selection.raise_large();
            is_less = true;
        }
        while self.large_share() > LARGE_SHARE {
            self.selection.raise_large();
            is_less = self.sample().share() < 1.0;
        }
        if !is_less {
            self.selection.sample = self.sample().half();
        }
        self.review();
    }

    /// Returns the part of the selected objects in shadows that are large.
    fn large_share(&self) -> f64 {
        let (mut all, mut large) = (0_u32, 0_u32);
        for row in &self.rows {
            row.shadows.for_each(&mut |key, size| {
                all += u32::from(self.selection.contains(key, size));
                large += u32::from(self.selection.is_large(size));
            });
        }
        f64::from(large) / f64::from(all.max(1))
    }

    /// Removes what is no longer selected, and makes the rest take its part of the room.
    fn review(&mut self) {
        let Self { rows, endless, selection, .. } = self;
        endless.review_all(selection);
        for row in rows {
            let mut objects = Vec::with_capacity(row.shadows.len());
            row.shadows.for_each(&mut |key, size| objects.push((selection.contains(key, size), key)));
            // First what leaves, so that the rest has room.
            objects.sort_unstable();
            objects.dedup();
            objects.into_iter().for_each(|(_, key)| row.shadows.review(key, selection));
        }
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

    /// Returns the numbers of objects in the shadows of each policy, by size.
    pub(crate) fn residents(&self) -> impl Iterator<Item = [usize; FACTORS.len()]> {
        self.rows.iter().map(|row| match &row.shadows {
            Shadows::Lru(stack) => stack.caches().map(|cache| cache.objects),
            Shadows::Any(shadows) => shadows.each_ref().map(Shadow::len),
        })
    }

    /// Returns the errors of byte hit ratios that the object with the most bytes may cause, by policy and size.
    pub(crate) fn errors_of_giant(&self) -> impl Iterator<Item = [f64; FACTORS.len()]> {
        let unseen = (1.0 - self.sample().share()).sqrt();
        (0..self.rows.len()).map(move |place| self.giant.errors(place).map(|error| error * unseen))
    }

    pub(crate) fn sizes(&self) -> &[Size; FACTORS.len()] {
        &self.sizes
    }

    pub(crate) fn unit(&self) -> By {
        self.selection.by
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

    fn answer(&mut self, request: &Request, part: u64) -> [Answer; FACTORS.len()] {
        match self {
            Self::Lru(stack) => stack.answer(request, part),
            Self::Any(shadows) => shadows.each_mut().map(|shadow| shadow.answer(request, part)),
        }
    }

    fn review(&mut self, key: u64, selection: &Selection) {
        match self {
            Self::Lru(stack) => stack.review(key, selection),
            Self::Any(shadows) => shadows.iter_mut().for_each(|shadow| shadow.review(key, selection)),
        }
    }

    /// Passes the key and size of each object to `see`, once for each cache that has it.
    fn for_each(&self, see: &mut dyn FnMut(u64, u64)) {
        match self {
            Self::Lru(stack) => stack.for_each(see),
            Self::Any(shadows) => shadows.iter().for_each(|shadow| shadow.for_each(see)),
        }
    }

    fn touch(&mut self, key: u64) {
        match self {
            Self::Lru(stack) => stack.touch(key),
            Self::Any(shadows) => shadows.iter_mut().for_each(|shadow| shadow.touch(key)),
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
