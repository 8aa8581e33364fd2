//! The measurements of clusters, and their requests.

use larder_lab::workload::{self, Latency, Order, Pages, Rate, Sizes};

use super::conditions::Cell;
use crate::course::{Course, Page};
use crate::size::Size;

/// Working sets: the name, a description, and the capacity of each node in percent of the pages.
pub(super) const SETS: [(&str, &str, u64); 3] = [
    ("one", "fits one node", 150),
    ("three", "fits three nodes, not one", 40),
    ("none", "does not fit three nodes", 10),
];
/// The set that fits in one node.
pub(super) const ONE: &str = SETS[0].0;
/// The set that is too large for one node and fits in three.
pub(super) const THREE: &str = SETS[1].0;

/// A page, which takes 2 ms from an origin.
const PAGE: Page = Page { size: 4 << 10, cost: 2_000 };
/// The exponent of popularity: the popularity of a page is 1 over its rank to this power.
const EXPONENT: f64 = 0.9;

/// The extent of the measurements.
pub(super) struct Plan {
    pub(super) pages: u32,
    /// Requests that fill memories after one request for each page.
    warming: usize,
    /// Requests of one client.
    alone: usize,
    /// Requests of many clients.
    busy: usize,
    pub(super) clients: usize,
    pub(super) repetitions: u64,
    /// The simulated numbers of nodes, ascending.
    pub(super) simulated: &'static [u16],
    is_full: bool,
}

impl Plan {
    pub(super) fn new(size: Size) -> Self {
        let quick = Self {
            pages: 1_000,
            warming: 3_000,
            alone: 1_500,
            busy: 4_000,
            clients: 12,
            repetitions: 3,
            simulated: &[1, 2, 3, 5, 10, 20, 50],
            is_full: false,
        };
        match size {
            Size::Smoke => {
                Self { pages: 60, warming: 200, alone: 50, busy: 300, clients: 6, repetitions: 1, ..quick }
            }
            Size::Quick => quick,
            Size::Full => Self {
                pages: 2_000,
                warming: 8_000,
                alone: 4_000,
                busy: 16_000,
                repetitions: 5,
                simulated: &[1, 2, 3, 5, 10, 20, 50, 100],
                is_full: true,
                ..quick
            },
        }
    }

    /// Returns the capacity of each node in percent of a set's pages.
    pub(super) fn percent(&self, set: &str) -> u64 {
        SETS.iter().find(|(name, ..)| *name == set).map_or(100, |(.., percent)| *percent)
    }

    /// Returns the requests of all clients: each page once, so that everything that fits is stored, and then by
    /// popularity.
    pub(super) fn course(&self, seed: u64) -> Course {
        let requests = (self.warming + self.alone + self.busy) as u64;
        let order = Order::Zipf { requests, pages: self.pages, exponent: EXPONENT };
        let pages = Pages { sizes: Sizes::Fixed(PAGE.size), latency: Latency::Constant(PAGE.cost) };
        // Only the order is used: pages that the workload leaves out are requested once, too.
        let drawn = Course::new(workload::pages(&order, &pages, Rate(100.0), seed));
        let mut course = Course::once(self.pages, PAGE);
        course.order.extend(drawn.order);
        course
    }

    /// Returns three parts of `order`: the requests that fill memories, those of one client, and those of many.
    pub(super) fn parts<'a>(&self, order: &'a [u32]) -> [&'a [u32]; 3] {
        let (warming, rest) = order.split_at(order.len() - self.alone - self.busy);
        let (alone, busy) = rest.split_at(self.alone);
        [warming, alone, busy]
    }

    /// Returns the measurements with a repetition's requests. The quick run leaves out measurements that decide no
    /// claim.
    pub(super) fn cells(&self, repetition: u64) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (set, ..) in SETS {
            for (nodes, copies) in [(1, false), (2, false), (2, true), (3, false), (3, true)] {
                let decides = nodes != 2 || set == ONE || (set == THREE && copies);
                if decides || self.is_full {
                    cells.push(Cell { set: set.to_owned(), nodes, copies, apart: false, repetition });
                }
            }
        }
        cells.push(Cell { set: ONE.to_owned(), nodes: 3, copies: false, apart: true, repetition });
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_is_asked_for_before_anything_counts() {
        let plan = Plan::new(Size::Quick);
        let course = plan.course(1);
        let [warming, alone, busy] = plan.parts(&course.order);
        assert_eq!((alone.len(), busy.len()), (plan.alone, plan.busy));
        assert!((0..plan.pages).all(|page| warming.contains(&page)));
        assert_eq!(course.pages.len(), plan.pages as usize);
    }

    #[test]
    fn a_full_run_has_every_cluster_of_every_set() {
        assert_eq!(Plan::new(Size::Full).cells(0).len(), SETS.len() * 5 + 1);
        let quick = Plan::new(Size::Quick).cells(0);
        for (set, ..) in SETS {
            let has = |nodes| quick.iter().any(|cell| cell.set == set && cell.nodes == nodes);
            assert!(has(1) && has(3), "{set}");
        }
    }
}
