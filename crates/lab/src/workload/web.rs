//! Web traffic like that of a trace: how popular pages are, how large, and how soon they come back.
//!
//! After ProWGen (M. Busari and C. Williamson, A synthetic workload generation tool for simulation evaluation of web proxy
//! caches, 2002): each page has a number of requests from the start; the next request goes either to a page close to the
//! top of a stack of recent pages, or to any page in proportion to the requests that it has left. Pages that are asked for
//! once have sizes of their own, since they are seldom as large, or as small, as the others.

use std::collections::VecDeque;

use rand::RngExt;

use super::Random;
use super::pages::Sizes;
use crate::trace::Trace;

/// How deep the stack of recent pages is.
const DEPTH: usize = 1_024;
/// At how many even steps a distribution is kept.
const STEPS: usize = 20;
/// How many requests of a trace are looked at for its reuse.
const FITTED: usize = 1_000_000;

/// The model.
#[derive(Clone, Debug, PartialEq)]
pub struct Web {
    /// How many requests there are.
    pub requests: u64,
    /// How many pages there are.
    pub objects: u32,
    /// The share of pages that are asked for once, 0 to 1.
    pub once: f64,
    /// The others' requests fall with their rank as `1 / rank^exponent`.
    pub exponent: f64,
    /// The share of requests that go to a recent page beyond what popularity alone explains, 0 to 1.
    pub near: f64,
    /// Places of such pages in the stack, the latest page being 0, in ascending order at even steps.
    pub depths: Vec<u64>,
    /// Sizes of pages asked for once, in bytes, in ascending order at even steps.
    pub once_sizes: Vec<u64>,
    /// Sizes of the others, in the same way.
    pub other_sizes: Vec<u64>,
}

impl Default for Web {
    /// As in `adaptsize_web`, a sample of web and CDN traffic.
    fn default() -> Self {
        Self {
            requests: 66_987,
            objects: 36_815,
            once: 0.0,
            exponent: 0.0,
            near: 0.0,
            depths: vec![],
            once_sizes: vec![],
            other_sizes: vec![],
        }
    }
}

impl Web {
    /// The model whose workloads look like `trace`.
    pub fn fit(trace: &Trace) -> Self {
        let mut counts = vec![0_u64; trace.shape().objects as usize];
        let mut sizes = vec![0; counts.len()];
        for at in 0..trace.len() {
            let id = trace.ids()[at] as usize;
            counts[id] += 1;
            sizes[id] = trace.size(at);
        }
        let of = |is_once: bool| {
            let pages = counts.iter().zip(&sizes).filter(move |&(&count, _)| (count == 1) == is_once);
            quantiles(pages.map(|(_, &size)| size).collect())
        };
        let (once_sizes, other_sizes) = (of(true), of(false));
        let depths = depths(trace.ids());
        let near = closeness(trace, &depths);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let others = counts.partition_point(|&count| count > 1);
        let once = if counts.is_empty() { 0.0 } else { 1.0 - others as f64 / counts.len() as f64 };
        Self {
            requests: trace.len() as u64,
            objects: trace.shape().objects,
            once,
            exponent: slope(&counts[..others]),
            near,
            depths: quantiles(depths),
            once_sizes,
            other_sizes,
        }
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "web: {} requests for {} pages, {:.4} of them once, the others by rank with exponent {:.3}; {:.4} of requests go \
             to a recent page, at depths {:?}; sizes at even steps: once {:?}, others {:?} bytes",
            self.requests,
            self.objects,
            self.once,
            self.exponent,
            self.near,
            self.depths,
            self.once_sizes,
            self.other_sizes
        )
    }

    /// How often each page is asked for, the most popular first.
    fn counts(&self) -> Vec<u64> {
        let once = (f64::from(self.objects) * self.once.clamp(0.0, 1.0)).round() as u32;
        let others = self.objects - once.min(self.objects);
        let spare = self.requests.saturating_sub(u64::from(once) + 2 * u64::from(others));
        let weight = |rank: u32| f64::from(rank).powf(-self.exponent);
        let total: f64 = (1..=others).map(weight).sum();
        let popular = (1..=others).map(|rank| 2 + (spare as f64 * weight(rank) / total) as u64);
        popular.chain((0..once).map(|_| 1)).collect()
    }

    /// The pages' sizes in bytes.
    pub(super) fn sizes(&self, random: &mut Random) -> Vec<u64> {
        let models = [&self.other_sizes, &self.once_sizes].map(|sizes| Sizes::Quantiles(sizes.clone()));
        self.counts().iter().map(|&count| models[usize::from(count == 1)].draw(random)).collect()
    }

    /// The pages' numbers in the order of the requests.
    pub(super) fn sequence(&self, mut random: Random) -> Box<dyn Iterator<Item = u32>> {
        let mut left = Remaining::new(&self.counts());
        let mut recent: VecDeque<u32> = VecDeque::with_capacity(DEPTH + 1);
        let depths = Sizes::Quantiles(self.depths.clone());
        let near = self.near.clamp(0.0, 1.0);
        Box::new(std::iter::from_fn(move || {
            let close = random.random_bool(near).then(|| depths.draw(&mut random) as usize);
            let close = close.and_then(|depth| recent.get(depth).copied()).filter(|&page| left.of(page) > 0);
            let page = match close {
                Some(page) => page,
                None => left.choose(&mut random)?,
            };
            left.take(page);
            remember(&mut recent, page);
            Some(page)
        }))
    }
}

/// Requests that pages have left, with their sums in a binary indexed tree.
struct Remaining {
    counts: Vec<u64>,
    sums: Vec<u64>,
    total: u64,
}

impl Remaining {
    fn new(counts: &[u64]) -> Self {
        let mut sums = counts.to_vec();
        for at in 0..sums.len() {
            let parent = at | (at + 1);
            if parent < sums.len() {
                sums[parent] += sums[at];
            }
        }
        Self { counts: counts.to_vec(), sums, total: counts.iter().sum() }
    }

    fn of(&self, page: u32) -> u64 {
        self.counts[page as usize]
    }

    fn take(&mut self, page: u32) {
        self.counts[page as usize] -= 1;
        self.total -= 1;
        let mut at = page as usize;
        while at < self.sums.len() {
            self.sums[at] -= 1;
            at |= at + 1;
        }
    }

    /// A page with requests left, in proportion to them; `None` once there is none.
    fn choose(&self, random: &mut Random) -> Option<u32> {
        if self.total == 0 {
            return None;
        }
        let mut rest = random.random_range(0..self.total);
        let mut at = 0;
        let mut step = self.sums.len().next_power_of_two();
        while step > 0 {
            if let Some(&sum) = self.sums.get(at + step - 1)
                && sum <= rest
            {
                rest -= sum;
                at += step;
            }
            step /= 2;
        }
        Some(at as u32)
    }
}

/// Moves `page` to the top of the stack; its place there before, if it had one.
fn remember(recent: &mut VecDeque<u32>, page: u32) -> Option<usize> {
    let place = recent.iter().position(|&other| other == page);
    match place {
        Some(place) => drop(recent.remove(place)),
        None if recent.len() == DEPTH => drop(recent.pop_back()),
        None => {}
    }
    recent.push_front(page);
    place
}

/// Where in the stack the requests find their pages, those that do.
fn depths(ids: &[u32]) -> Vec<u64> {
    let mut recent = VecDeque::with_capacity(DEPTH + 1);
    ids.iter().take(FITTED).filter_map(|&id| remember(&mut recent, id)).map(|depth| depth as u64).collect()
}

/// By how much more of the requests find their page in the stack than if they came shuffled.
fn closeness(trace: &Trace, found: &[u64]) -> f64 {
    let mut shuffled = trace.ids()[..trace.len().min(FITTED)].to_vec();
    let mut random: Random = rand_chacha::rand_core::SeedableRng::seed_from_u64(0);
    rand::seq::SliceRandom::shuffle(shuffled.as_mut_slice(), &mut random);
    let by_chance = depths(&shuffled).len();
    (found.len() as f64 - by_chance as f64).max(0.0) / shuffled.len().max(1) as f64
}

fn quantiles(mut values: Vec<u64>) -> Vec<u64> {
    values.sort_unstable();
    match values.len().checked_sub(1) {
        Some(last) => (0..=STEPS).map(|step| values[last * step / STEPS]).collect(),
        None => Vec::new(),
    }
}

/// The exponent of `counts`, most popular first: least squares over the logarithms of count and rank, at ranks that
/// double, so that the many rare pages do not outvote the few popular ones.
fn slope(counts: &[u64]) -> f64 {
    let ranks = std::iter::successors(Some(1_usize), |rank| rank.checked_mul(2))
        .take_while(|&rank| rank <= counts.len());
    let points: Vec<(f64, f64)> =
        ranks.map(|rank| ((rank as f64).ln(), (counts[rank - 1] as f64).ln())).collect();
    let n = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0 / n, sum.1 + point.1 / n));
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let common: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    if spread > 0.0 { (-common / spread).max(0.0) } else { 0.0 }
}
