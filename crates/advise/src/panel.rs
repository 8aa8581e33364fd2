//! The shadows of one tier: each policy at each size, and no limit.

mod extent;

use hashbrown::HashSet;
use larder_evict::{By, Object, Spec};

use self::extent::ExtentCounts;
use crate::counts::{Sums, Traffic};
use crate::endless::Endless;
use crate::giant::Giant;
use crate::request::{Answer, Change, Request};
use crate::row::Row;
use crate::sample::Sample;
use crate::selection::Selection;
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
    seen: ExtentCounts,
    giant: Giant,
    /// The keys that have entered the shadows without a request: their next request does not count.
    unseen: HashSet<u64>,
    pub(crate) window: Window,
    answered: u64,
    /// The number of answered requests at which the number of objects is checked.
    checked: u64,
    /// The sample whose requests count. After a growth, those for the keys gained count from this number of answered requests.
    counted: Sample,
    warm: u64,
}

/// A request as it is shown to all shadows.
struct ShadowRequest {
    request: Request,
    /// Whether it counts, and in which group.
    counts: bool,
    group: Option<usize>,
    /// The requests that it stands for, and those for the shadow without a limit.
    asked: Sums,
    asked_endless: Sums,
    /// What its object takes of a shadow's room.
    part: u64,
    is_giant: bool,
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
            seen: ExtentCounts::default(),
            giant: Giant::default(),
            unseen: HashSet::new(),
            window: Window::new(0),
            answered: 0,
            checked: 0,
            counted: sample,
            warm: 0,
        };
        let others = others.iter().filter(|spec| **spec != running);
        panel.rows = std::iter::once(&running).chain(others).map(|spec| panel.row(spec)).collect();
        panel.start_window();
        panel
    }

    fn row(&self, spec: &Spec) -> Row {
        Row::new(spec, self.rooms(), &self.selection)
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
        self.rows.iter_mut().for_each(|row| row.set_sizes(rooms));
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
            rows.iter_mut().for_each(|row| row.review(key, selection));
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
        self.check();
        let key = request.object.key;
        let Some(counts) = self.admit(request) else { return };
        if !memory.is_hit() {
            let shown = self.shown(*request, counts);
            if let [shadow] = self.show(&[shown])[..]
                && counts
            {
                self.compare(request, shadow, real);
            }
            return;
        }
        if self.answered.is_multiple_of(TOUCHED) {
            self.rows.iter_mut().for_each(|row| row.touch(key));
        }
        if counts {
            let (group, asked) = self.share_of(request, self.counted.share());
            let (_, asked_endless) = self.share_of(request, self.endless_share());
            let interval = self.window.at(request.now);
            let limited = self.rows.len() * FACTORS.len();
            interval.shadows[..limited].iter_mut().for_each(|cell| cell.count(group, asked, asked));
            interval.seen.count(counts, group, (request, &asked));
            if group.is_none() || self.endless.counted.contains(key) {
                interval.shadows[limited].count(group, asked_endless, asked_endless);
                interval.seen_endless.count(counts, group, (request, &asked_endless));
            }
            self.compare(request, Answer::Hit, real);
        }
    }

    /// Compares the `real` answer of the cache to a request that [counts](Self::request) with that of its `shadow`. Of several
    /// requests, one was answered so, and the others by hits.
    pub fn compare(&mut self, request: &Request, shadow: Answer, real: Answer) {
        let (_, asked) = self.share_of(request, self.counted.share());
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
        let mut answer = None;
        self.request_all(std::slice::from_ref(request), |_, _, given| answer = Some(given));
        answer
    }

    /// Asks one shadow after another, so that each is in the processor's cache. Passes the place of each request that counts to
    /// `see`, with the answer of the running configuration's shadow. More than some hundred requests are too many at once.
    pub fn request_all(&mut self, requests: &[Request], mut see: impl FnMut(&mut Self, usize, Answer)) {
        self.check();
        let (mut all, mut counted) = (Vec::with_capacity(2 * requests.len()), Vec::new());
        for (at, request) in requests.iter().enumerate() {
            let Some(counts) = self.admit(request) else { continue };
            let each = request.bytes / u64::from(request.requests.max(1));
            if counts {
                counted.push((at, all.len()));
            }
            all.push(self.shown(Request { requests: 1, bytes: each, ..*request }, counts));
            if let Some(more) = request.requests.checked_sub(1).filter(|more| *more > 0) {
                let (bytes, change) = (request.bytes - each, Change::None);
                let later = Request { requests: more, bytes, change, is_forced: false, ..*request };
                all.push(self.shown(later, counts));
            }
        }
        let answers = self.show(&all);
        counted.into_iter().for_each(|(at, place)| see(self, at, answers[place]));
    }

    /// Returns whether a request for a selected object counts; `None` for one that is not selected.
    fn admit(&mut self, request: &Request) -> Option<bool> {
        let Object { key, size, .. } = request.object;
        let is_in_sample = self.selection.sample.contains(key);
        if !is_in_sample && !self.is_certain(request) {
            return None;
        }
        self.answered += 1;
        let is_large = self.selection.is_large(size);
        self.seen.all += 1;
        self.seen.large += u64::from(is_large);
        self.seen.heavy += u64::from(!is_large && !is_in_sample);
        let is_warm = self.counted.contains(key) || self.is_certain(request);
        Some(!self.unseen.remove(&key) && is_warm)
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

    fn shown(&mut self, request: Request, counts: bool) -> ShadowRequest {
        let Object { key, size, .. } = request.object;
        let (group, asked) = self.share_of(&request, self.counted.share());
        let (_, asked_endless) = self.share_of(&request, self.endless_share());
        let is_giant = counts && self.giant.count(key, asked.bytes);
        ShadowRequest {
            request,
            counts,
            group,
            asked,
            asked_endless,
            part: self.selection.part(key, size),
            is_giant,
        }
    }

    /// Returns the answers of the running configuration's shadow.
    fn show(&mut self, all: &[ShadowRequest]) -> Vec<Answer> {
        let mut answers = vec![Answer::Miss; all.len()];
        let Some(last) = all.last() else { return answers };
        let Self { rows, endless, window, running, giant, .. } = self;
        let shadows = rows.len() * FACTORS.len();
        let interval = window.at(last.request.now);
        let evicted = rows[*running].evictions();
        for (place, row) in rows.iter_mut().enumerate() {
            row.answer(all.iter().map(|shown| (&shown.request, shown.part)), |at, size, answer| {
                let ShadowRequest { request, counts, group, asked, is_giant, .. } = &all[at];
                if (place, size) == (*running, RUNNING) {
                    answers[at] = answer;
                }
                if *counts {
                    let (given, cell) = (request.given(answer, *asked), place * FACTORS.len() + size);
                    interval.shadows[cell].count(*group, *asked, given);
                    if *is_giant {
                        giant.hit(cell, given.bytes, shadows);
                    }
                }
            });
        }
        for ShadowRequest { request, counts, group, asked, asked_endless, .. } in all {
            interval.seen.count(*counts, *group, (request, asked));
            if group.is_none() || endless.sample.contains(request.object.key) {
                let given = request.given(endless.answer(request), *asked_endless);
                let counts = *counts && (group.is_none() || endless.counted.contains(request.object.key));
                interval.seen_endless.count(counts, *group, (request, asked_endless));
                if counts {
                    interval.shadows[shadows].count(*group, *asked_endless, given);
                }
            }
        }
        interval.evictions += rows[*running].evictions() - evicted;
        answers
    }

    /// Returns the number of requests that `request` stands for.
    pub fn stands_for(&self, request: &Request) -> f64 {
        self.share_of(request, self.counted.share()).1.requests
    }

    /// Returns the bytes allocated, spare room included.
    pub fn bytes(&self) -> usize {
        let rows = self.rows.iter().map(Row::bytes).sum::<usize>();
        rows + self.endless.bytes() + self.window.bytes()
    }

    pub(crate) fn policies(&self) -> impl Iterator<Item = &Spec> {
        self.rows.iter().map(|row| &row.spec)
    }

    /// Returns the numbers of objects in the shadows of each policy, by size.
    pub(crate) fn residents(&self) -> impl Iterator<Item = [usize; FACTORS.len()]> {
        self.rows.iter().map(Row::residents)
    }

    /// Returns the errors of byte hit ratios that the object with the most bytes may cause, by policy and size.
    pub(crate) fn errors_of_giant(&self, share: f64) -> impl Iterator<Item = [f64; FACTORS.len()]> {
        let unseen = (1.0 - share).sqrt();
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
        self.endless.counted.share().min(self.counted.share())
    }

    /// Returns the counts since `since` (UNIX seconds).
    pub(crate) fn sum(&self, since: u32) -> Interval {
        self.window.sum(since)
    }
}
