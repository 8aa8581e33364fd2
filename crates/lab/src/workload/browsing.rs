//! Two months of two people's browsing, by the figures in the ONC RPC report.
//!
//! Counts are exact. For properties that the report shows in pictures without numbers - the first visits of pages, the
//! clustering of requests - this model is used. First visits: page `k` of `n` first appears after `(k / n)^bend` of all
//! requests, so that with a bend below 1 the rate of new pages increases, and with a bend above 1 most of them appear
//! early. Most of a page's other visits immediately follow an earlier one, most others are within the same session, and
//! a few are at any time after the first. Their numbers are fitted to the report's times: without a cache, 4 and 2
//! times those of the slowest policy with room for a tenth of the pages, and little gain beyond room for 20% and 30%.
//! Datasets with less clustering cannot have both.

use rand::RngExt;
use rand::seq::SliceRandom;
use rand_distr::{Distribution, Exp};

use super::Random;

/// The size of the most visited pages, in bytes: the report's 20 KB.
const COMMON: u64 = 20 * 1024;

/// The density of immediate visits and of those in a session: the number that would fill the whole time.
const AT_ONCE: f64 = 6_000.0;
const SESSION: f64 = 150.0;
/// The share of a page's later visits that belong to no session.
const STRAY: f64 = 0.05;

/// One of the report's two datasets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dataset {
    /// 997 visits to 68 pages, 446 of them (44.7%) to one page; 75% are to pages within 20 KB, including that one,
    /// which has 20 KB.
    One,
    /// 985 visits to 74 pages, evenly; 62% are to pages within 20 KB.
    Two,
}

impl Dataset {
    /// Returns the number of pages.
    pub fn pages(self) -> u32 {
        match self {
            Self::One => 68,
            Self::Two => 74,
        }
    }

    /// Returns the number of visits.
    pub fn requests(self) -> u32 {
        match self {
            Self::One => 997,
            Self::Two => 985,
        }
    }

    pub(super) fn describe(self) -> String {
        let (pages, requests) = (self.pages(), self.requests());
        let (share, top) = match self {
            Self::One => {
                (75, "446 of them to one page, the others ever fewer the later a page is first seen")
            }
            Self::Two => (62, "spread evenly"),
        };
        let (bend, repeats) = (self.bend(), self.repeats() * 100.0);
        format!(
            "browsing: {requests} visits to {pages} pages, {top}; {share}% of visits within {COMMON} bytes; first visits \
             bent by {bend}; {repeats:.0}% of the others at once after an earlier one, and all but {:.0}% in its session",
            STRAY * 100.0
        )
    }

    /// Returns the visits by page, in the order in which the pages are first visited.
    fn counts(self) -> Vec<u32> {
        let (pages, requests) = (self.pages(), self.requests());
        match self {
            Self::Two => {
                (0..pages).map(|page| requests / pages + u32::from(page < requests % pages)).collect()
            }
            Self::One => {
                // Every page has one visit; the others are distributed in proportion to 1 / (page + 1).
                const TOP: u32 = 446;
                let others = pages - 1;
                let spare = requests - TOP - others;
                let weights: f64 = (1..=others).map(|page| 1.0 / f64::from(page)).sum();
                let share = |page: u32| (f64::from(spare) / f64::from(page) / weights) as u32;
                let mut counts: Vec<u32> =
                    std::iter::once(TOP).chain((1..=others).map(|page| 1 + share(page))).collect();
                let short = (requests - counts.iter().sum::<u32>()) as usize;
                counts[1..=short].iter_mut().for_each(|count| *count += 1);
                counts
            }
        }
    }

    /// Returns the pages in the order of the visits.
    pub(super) fn sequence(self, mut random: Random) -> Vec<u32> {
        let [at_once, session] = [AT_ONCE, SESSION].map(|density| Exp::new(density).expect("positive"));
        let mut visits: Vec<(f64, u32)> = Vec::new();
        for (page, &count) in (0_u32..).zip(&self.counts()) {
            let first = (f64::from(page) / f64::from(self.pages())).powf(self.bend());
            let mut last = first;
            visits.push((first, page));
            for _ in 1..count {
                let kind: f64 = random.random();
                let gap = if kind < self.repeats() { &at_once } else { &session };
                let next = last + gap.sample(&mut random);
                let is_near = kind < 1.0 - STRAY && next < 1.0;
                last = if is_near { next } else { random.random_range(first..1.0) };
                visits.push((last, page));
            }
        }
        visits.sort_by(|a, b| a.0.total_cmp(&b.0));
        visits.into_iter().map(|(_, page)| page).collect()
    }

    /// Returns the sizes of the pages in bytes. Pages are made small, in random order, until the share of visits to
    /// small ones is reached, and the others are made large.
    pub(super) fn sizes(self, random: &mut Random) -> Vec<u64> {
        let counts = self.counts();
        let mut pages: Vec<u32> = (1..self.pages()).collect();
        pages.shuffle(random);
        pages.insert(0, 0); // the page of dataset one with nearly half of all visits
        let mut missing = self.requests() * self.small_share() / 1_000;
        let mut sizes = vec![0; counts.len()];
        for page in pages {
            let count = counts[page as usize];
            let is_small = count <= missing;
            missing -= if is_small { count } else { 0 };
            sizes[page as usize] = match (is_small, page) {
                (true, 0) => COMMON,
                (true, _) => random.random_range(COMMON / 20..=COMMON),
                (false, _) => random.random_range(COMMON + 1..=COMMON * 20),
            };
        }
        sizes
    }

    fn bend(self) -> f64 {
        match self {
            Self::One => 1.3,
            Self::Two => 2.0,
        }
    }

    /// Returns the share of a page's visits that immediately follow an earlier one.
    fn repeats(self) -> f64 {
        match self {
            Self::One => 0.8,
            Self::Two => 0.6,
        }
    }

    /// Returns the visits per 1,000 that are to pages within [`COMMON`].
    fn small_share(self) -> u32 {
        match self {
            Self::One => 755,
            Self::Two => 622,
        }
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    fn random() -> Random {
        Random::seed_from_u64(5)
    }

    #[test]
    fn the_reports_figures_are_met() {
        let published = [(Dataset::One, 997, 68, 446, 75.0), (Dataset::Two, 985, 74, 14, 62.0)];
        for (dataset, requests, pages, top, share) in published {
            let (visits, sizes) = (dataset.sequence(random()), dataset.sizes(&mut random()));
            let mut counts = vec![0; pages];
            visits.iter().for_each(|&page| counts[page as usize] += 1);
            assert_eq!((visits.len(), counts.iter().filter(|&&count| count > 0).count()), (requests, pages));
            assert_eq!(counts.iter().max(), Some(&top));
            let small = visits.iter().filter(|&&page| sizes[page as usize] <= COMMON).count();
            let percent = small as f64 * 100.0 / requests as f64;
            assert!((share..share + 1.0).contains(&percent), "{dataset:?}: {percent}%");
        }
    }

    #[test]
    fn pages_are_first_seen_in_order_and_early() {
        for dataset in [Dataset::One, Dataset::Two] {
            let visits = dataset.sequence(random());
            let mut frontier = 0;
            for &page in &visits {
                assert!(page <= frontier, "{dataset:?}: page {page} before {frontier}");
                frontier = frontier.max(page + 1);
            }
        }
    }
}
