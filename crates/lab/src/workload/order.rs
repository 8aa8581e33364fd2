//! The order of requests for pages.

use std::ops::RangeInclusive;

use rand::RngExt;
use rand::seq::SliceRandom;
use rand_distr::{Distribution, Zipf};

use super::pages::{Sizes, Table};
use super::{Dataset, Random, Web};

/// An order of requests for numbered pages.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// Every page a random number of times, in random order (the Thrift report's workload 1: 7 to 16 times).
    Shuffle {
        /// Number of pages.
        pages: u32,
        /// The minimum and the maximum of requests for each page.
        copies: RangeInclusive<u32>,
    },
    /// A few small pages, then a couple of larger ones, then the largest, repeatedly (the Thrift report's workload 2: a
    /// user searches, looks at details, and downloads).
    Staged {
        /// Number of pages.
        pages: u32,
        /// Number of repetitions.
        rounds: u32,
        /// The probability that a page is one of the same kind from the round before, 0 to 1; 0 draws evenly.
        locality: f64,
    },
    /// Independent requests; the probability of the page with rank `r` is proportional to `1 / r^exponent`. Pages are
    /// numbered by rank, from 0.
    Zipf {
        /// Number of requests.
        requests: u64,
        /// Number of pages.
        pages: u32,
        /// 0 is even; the web has 0.6 to 1.
        exponent: f64,
    },
    /// The visits of two people in two months, by the ONC RPC report's figures.
    Browsing(Dataset),
    /// Popularity, sizes and reuse as in a trace.
    Web(Web),
    /// Zipf requests, and at intervals a walk over pages that are not requested again.
    Scan {
        /// The number of requests, including those of the walks.
        requests: u64,
        /// The number of pages without those of the walks.
        pages: u32,
        /// The exponent of the Zipf part.
        exponent: f64,
        /// The number of Zipf requests between two walks.
        every: u64,
        /// The number of pages in a walk.
        length: u64,
    },
    /// Zipf requests, until a new page draws a share of all requests for a while.
    Burst {
        /// Number of requests.
        requests: u64,
        /// The number of pages without the new one.
        pages: u32,
        /// The exponent of the Zipf part.
        exponent: f64,
        /// The first request of the burst and its end, counted from 0.
        span: (u64, u64),
        /// The share of these requests that are for the new page, 0 to 1.
        share: f64,
    },
}

impl Order {
    /// Returns the maximum number of pages.
    pub fn pages(&self) -> u32 {
        match self {
            Self::Shuffle { pages, .. } | Self::Staged { pages, .. } | Self::Zipf { pages, .. } => *pages,
            Self::Browsing(dataset) => dataset.pages(),
            Self::Web(web) => web.objects,
            Self::Scan { requests, pages, every, length, .. } => {
                let walks = requests / (every + length).max(1) + 1;
                pages.saturating_add(u32::try_from(walks * length).unwrap_or(u32::MAX))
            }
            Self::Burst { pages, .. } => pages.saturating_add(1),
        }
    }

    /// Returns one line about the model.
    pub fn describe(&self) -> String {
        match self {
            Self::Shuffle { pages, copies } => {
                let (least, most) = copies.clone().into_inner();
                format!("shuffle: {pages} pages, each {least} to {most} times, shuffled")
            }
            Self::Staged { pages, rounds, locality } => format!(
                "staged: {pages} pages, {rounds} rounds of {SMALL} small pages, {LARGER} larger ones and the largest; locality \
                 {locality}"
            ),
            Self::Zipf { requests, pages, exponent } => {
                format!("zipf: {requests} independent requests for {pages} pages, exponent {exponent}")
            }
            Self::Browsing(dataset) => dataset.describe(),
            Self::Web(web) => web.describe(),
            Self::Scan { requests, pages, exponent, every, length } => format!(
                "scan: {requests} requests; zipf over {pages} pages, exponent {exponent}; after every {every} of them \
                 a walk over {length} new pages"
            ),
            Self::Burst { requests, pages, exponent, span: (from, to), share } => format!(
                "burst: {requests} requests; zipf over {pages} pages, exponent {exponent}; from request {from} to \
                 {to} a share of {share} asks for one page that is new"
            ),
        }
    }

    /// Returns the sizes of the pages in bytes: the model's own if it has some, or otherwise drawn from `sizes`.
    pub(crate) fn sizes(&self, sizes: &Sizes, random: &mut Random) -> Vec<u64> {
        match self {
            Self::Browsing(dataset) => dataset.sizes(random),
            Self::Web(web) => web.sizes(random),
            _ => sizes.draw_all(self.pages(), random),
        }
    }

    /// Returns the pages' numbers in the order of the requests.
    pub(crate) fn sequence(&self, table: &Table, random: &mut Random) -> Box<dyn Iterator<Item = u32>> {
        let mut random = fork(random);
        match *self {
            Self::Shuffle { pages, ref copies } => {
                Box::new(shuffle(pages, copies.clone(), random).into_iter())
            }
            Self::Staged { rounds, locality, .. } => staged(table.by_size(), rounds, locality, random),
            Self::Zipf { requests, pages, exponent } => {
                let ranks = ranks(pages, exponent);
                Box::new((0..requests).map(move |_| rank(&ranks, &mut random)))
            }
            Self::Browsing(dataset) => Box::new(dataset.sequence(random).into_iter()),
            Self::Web(ref web) => web.sequence(random),
            Self::Scan { requests, pages, exponent, every, length } => {
                let ranks = ranks(pages, exponent);
                let mut next = pages;
                let cycle = (every + length).max(1);
                Box::new((0..requests).map(move |at| {
                    if at % cycle < every {
                        return rank(&ranks, &mut random);
                    }
                    next += 1;
                    next - 1
                }))
            }
            Self::Burst { requests, pages, exponent, span: (from, to), share } => {
                let ranks = ranks(pages, exponent);
                let share = share.clamp(0.0, 1.0);
                Box::new((0..requests).map(move |at| {
                    let is_sudden = (from..to).contains(&at) && random.random_bool(share);
                    if is_sudden { pages } else { rank(&ranks, &mut random) }
                }))
            }
        }
    }
}

/// The numbers of small and of larger pages in a round, before the largest of all.
const SMALL: usize = 5;
const LARGER: usize = 2;

/// Returns a separate generator, so that the numbers drawn from one do not affect the other.
fn fork(random: &mut Random) -> Random {
    rand_chacha::rand_core::SeedableRng::seed_from_u64(random.random())
}

fn shuffle(pages: u32, copies: RangeInclusive<u32>, mut random: Random) -> Vec<u32> {
    let (least, most) = copies.into_inner();
    let mut sequence = Vec::new();
    for page in 0..pages {
        let count = random.random_range(least..=most.max(least));
        sequence.extend(std::iter::repeat_n(page, count as usize));
    }
    sequence.shuffle(&mut random);
    sequence
}

/// Returns the staged order. The smaller seven tenths are small, all others but the largest are larger. With a
/// probability of `locality`, a page is one of the same kind from the round before.
fn staged(
    by_size: Vec<u32>,
    rounds: u32,
    locality: f64,
    mut random: Random,
) -> Box<dyn Iterator<Item = u32>> {
    let Some((&largest, others)) = by_size.split_last() else { return Box::new(std::iter::empty()) };
    let others = others.to_vec();
    let split = by_size.len() * 7 / 10;
    // An invalid share counts as 0.
    let locality = if locality > 0.0 { locality.min(1.0) } else { 0.0 };
    let mut before = [Vec::new(), Vec::new()];
    Box::new((0..rounds).flat_map(move |_| {
        let (small, larger) = others.split_at(split.min(others.len()));
        let mut round = Vec::with_capacity(SMALL + LARGER + 1);
        for (before, (pool, count)) in before.iter_mut().zip([(small, SMALL), (larger, LARGER)]) {
            if pool.is_empty() {
                continue;
            }
            let drawn: Vec<u32> = (0..count)
                .map(|_| {
                    let again = locality > 0.0 && !before.is_empty() && random.random_bool(locality);
                    let from = if again { &before[..] } else { pool };
                    from[random.random_range(0..from.len())]
                })
                .collect();
            round.extend_from_slice(&drawn);
            *before = drawn;
        }
        round.push(largest);
        round
    }))
}

fn ranks(pages: u32, exponent: f64) -> Zipf<f64> {
    let pages = f64::from(pages.max(1));
    // Any exponent from 0 is valid; an invalid one counts as 0, which is even.
    Zipf::new(pages, exponent).or_else(|_| Zipf::new(pages, 0.0)).expect("at least one page")
}

fn rank(ranks: &Zipf<f64>, random: &mut Random) -> u32 {
    ranks.sample(random) as u32 - 1
}
