//! Web traffic like that of a trace: the popularity of pages, their sizes, and the time until they are requested again.
//!
//! After ProWGen (M. Busari and C. Williamson, A synthetic workload generation tool for simulation evaluation of web
//! proxy caches, 2002): each page has a number of requests from the start. The next request goes either to a page close
//! to the top of a stack of recent pages (the first from there down that has requests left), or to any page in
//! proportion to the requests that it has left. Pages with a single request have a separate distribution of sizes,
//! since they are seldom as large, or as small, as the others.

use std::collections::VecDeque;

use larder_words::with_defaults;
use rand::RngExt;

use super::Random;
use super::pages::Sizes;
use crate::trace::Trace;

/// The depth of the stack of recent pages.
const DEPTH: usize = 1_024;
/// The number of even steps at which a distribution is stored.
const STEPS: usize = 20;
/// The number of requests of a trace that are examined for its reuse.
const FITTED: usize = 1_000_000;

with_defaults! {
    /// The model. The default is that of `adaptsize_web`, a sample of web and CDN traffic.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Web {
        /// Number of requests.
        pub requests: u64 = 66_987,
        /// Number of pages.
        pub objects: u32 = 36_815,
        /// The share of pages that are requested once, 0 to 1.
        pub once: f64 = 0.811,
        /// The exponent of the other pages: their requests fall with their rank as `1 / rank^exponent`.
        pub exponent: f64 = 0.7875,
        /// The share of requests that go to a recent page in addition to the effect of popularity, 0 to 1.
        pub near: f64 = 0.1061,
        /// Positions of such pages in the stack, the latest page being 0, in ascending order at even steps.
        pub depths: Vec<u64> = vec![0, 0, 0, 1, 2, 3, 6, 9, 13, 21, 31, 46, 64, 90, 127, 175, 247, 335, 499, 686, 1_023],
        /// Sizes of pages that are requested once, in bytes, in ascending order at even steps.
        pub once_sizes: Vec<u64> = vec![
            1, 172, 284, 438, 668, 933, 1_206, 1_529, 1_929, 2_396, 2_916, 3_603, 4_428, 5_255, 6_505,
            8_192, 9_902, 12_254, 16_453, 25_126, 4_092_928,
        ],
        /// Sizes of the others, in the same form.
        pub other_sizes: Vec<u64> = vec![
            1, 85, 187, 285, 415, 586, 799, 1_032, 1_293, 1_545, 1_898, 2_375, 2_954, 3_785, 4_873,
            6_330, 8_097, 10_238, 14_617, 22_915, 794_122,
        ],
    }
}

impl Web {
    /// Returns the model whose workloads resemble `trace`.
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

    /// Returns the number of requests of each page, the most popular first.
    fn counts(&self) -> Vec<u64> {
        let once = (f64::from(self.objects) * self.once.clamp(0.0, 1.0)).round() as u32;
        let others = self.objects - once.min(self.objects);
        let wanted = self.requests.saturating_sub(u64::from(once)) as f64;
        let count = |rank: u32, top: f64| (top * f64::from(rank).powf(-self.exponent)).max(2.0);
        // The most popular page's count is chosen to give the right sum.
        let (mut least, mut most) = (0.0, wanted);
        for _ in 0..40 {
            let top = (least + most) / 2.0;
            let sum: f64 = (1..=others).map(|rank| count(rank, top)).sum();
            if sum < wanted { least = top } else { most = top }
        }
        let mut before = 0.0;
        let popular = (1..=others).map(|rank| {
            let sum = before + count(rank, least);
            let whole = sum.round() - f64::round(before);
            before = sum;
            whole as u64
        });
        popular.chain((0..once).map(|_| 1)).collect()
    }

    /// Returns the pages' sizes in bytes.
    pub(super) fn sizes(&self, random: &mut Random) -> Vec<u64> {
        let models = [&self.other_sizes, &self.once_sizes].map(|sizes| Sizes::Quantiles(sizes.clone()));
        self.counts().iter().map(|&count| models[usize::from(count == 1)].draw(random)).collect()
    }

    /// Returns the pages' numbers in the order of the requests.
    pub(super) fn sequence(&self, mut random: Random) -> Box<dyn Iterator<Item = u32>> {
        let mut left = RequestSums::new(&self.counts());
        let mut recent: VecDeque<u32> = VecDeque::with_capacity(DEPTH + 1);
        let depths = Sizes::Quantiles(self.depths.clone());
        let near = self.near.clamp(0.0, 1.0);
        Box::new(std::iter::from_fn(move || {
            let depth = random.random_bool(near).then(|| depths.draw(&mut random) as usize);
            let close =
                depth.and_then(|depth| recent.iter().skip(depth).find(|&&page| left.of(page) > 0).copied());
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

/// The remaining requests of pages, with their sums in a binary indexed tree.
struct RequestSums {
    counts: Vec<u64>,
    sums: Vec<u64>,
    total: u64,
}

impl RequestSums {
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

    /// Returns a page with requests left, in proportion to them; `None` if there is none.
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

/// Moves `page` to the top of the stack. Returns its previous position, if it had one.
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

/// Returns the positions in the stack at which requests find their pages, for those that do.
fn depths(ids: &[u32]) -> Vec<u64> {
    let mut recent = VecDeque::with_capacity(DEPTH + 1);
    ids.iter().take(FITTED).filter_map(|&id| remember(&mut recent, id)).map(|depth| depth as u64).collect()
}

/// Returns the additional share of the requests that find their page in the stack, in comparison with a random order.
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

/// Returns the exponent of `counts`, most popular first: least squares over the logarithms of count and rank, at ranks
/// that double, so that the many rare pages do not outweigh the few popular ones.
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rand_chacha::rand_core::SeedableRng;

    use super::*;
    use crate::trace::{Builder, Options, Record, read};

    fn adaptsize_web() -> Trace {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/adaptsize_web.oracleGeneral.zst");
        read(&path, &Options::default()).expect("a shipped trace").0
    }

    #[test]
    fn the_default_is_fitted_to_a_shipped_trace() {
        let (fitted, default) = (Web::fit(&adaptsize_web()), Web::default());
        let rounded = |share: f64| (share * 1e4).round() / 1e4;
        let (once, exponent, near) = (rounded(fitted.once), rounded(fitted.exponent), rounded(fitted.near));
        assert_eq!(Web { once, exponent, near, ..fitted }, default);
    }

    #[test]
    fn a_generated_web_trace_resembles_the_fitted_one() {
        let original = Web::fit(&adaptsize_web());
        let mut random = Random::seed_from_u64(3);
        let sizes = original.sizes(&mut random);
        let mut builder = Builder::default();
        for page in original.sequence(random) {
            let record = Record { key: u64::from(page), time: 0, size: sizes[page as usize], cost: 0 };
            builder.push_number(record).expect("a small trace");
        }
        let made = Web::fit(&builder.finish());
        let close = |a: f64, b: f64, most: f64| assert!((a - b).abs() <= most, "{a} against {b}");
        close(made.requests as f64, original.requests as f64, original.requests as f64 * 0.02);
        assert_eq!(made.objects, original.objects);
        close(made.once, original.once, 0.001);
        close(made.exponent, original.exponent, 0.05);
        close(made.near, original.near, 0.05);
        for (made, original) in made.other_sizes.iter().zip(&original.other_sizes).skip(1).take(18) {
            close((*made as f64).ln(), (*original as f64).ln(), 0.3);
        }
    }
}
