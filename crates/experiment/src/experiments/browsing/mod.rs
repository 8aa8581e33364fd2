//! Two people's browsing over ONC RPC, under five policies: repeats the report on a web proxy with Sun RPC.
//!
//! Capacity counts URLs. The datasets are generated from the report's figures (`larder workload browsing`).

mod anomaly;
mod claims;
mod pictures;

use larder_evict::By;
use larder_lab::workload::{self, Dataset, Latency, Order, Pages, Random, Rate, Sizes};
use larder_load::Via;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use super::cell::{Cell, CellResult, DirectCost, Trial, part, side_by_side, straight, straight_table};
use super::lists::List;
use crate::course::Course;
use crate::findings::Findings;
use crate::origin::Model;
use crate::size::Size;
use crate::{Bench, ClaimSource, Halt, Journal};

/// Returns the seed report as the source of what `sentence` claims.
const fn seed(sentence: &'static str) -> ClaimSource {
    ClaimSource::Seed("the seed report (Kumar and Viswanathan, RPC-based web proxy server)", sentence)
}

const POLICIES: [&str; 5] = ["lru", "lfu", "fifo", "rand", "maxs"];
/// The policy's name if no response may be stored.
const NONE: &str = "none";
const COURSES: [(&str, &str); 2] = [("one", "Dataset 1"), ("two", "Dataset 2")];
const COST: &str = "per-size";
/// The percentages of the visits whose places in the list are exchanged at random: from the fitted distances between
/// visits to none at all.
const LOOSE: [u32; 4] = [0, 25, 50, 100];
/// The sizes at which the policies' differences are simulated, from one URL (1%) to all URLs.
const ALL_SIZES: [u32; 9] = [1, 5, 10, 20, 30, 40, 50, 80, 100];
/// The rate of the server's connection in the report, in bytes a second: 830 Mbit/s.
const LINE: u64 = 830_000_000 / 8;

/// The extent of the measurements.
struct Plan {
    percents: &'static [u32],
    repetitions: u64,
    /// The repetitions of RAND, whose hits are not comparable with simulated ones list by list.
    of_rand: u64,
    latency: Latency,
    /// The maximum number of requests; further ones are omitted.
    requests: usize,
    /// The number of datasets that are searched for Belady's anomaly, in addition to those of the repetitions.
    searched: u64,
    /// The number of lists of requests whose hit ratios are simulated.
    lists: u64,
}

impl Plan {
    fn new(size: Size) -> Self {
        let latency = Latency::PerSize { start: 1_000, rate: LINE };
        let (percents, requests) = (&[10, 20, 30, 40, 50, 80][..], usize::MAX);
        match size {
            Size::Smoke => {
                let (repetitions, of_rand) = (1, 1);
                Self { percents: &[10], repetitions, of_rand, latency, requests: 30, searched: 1, lists: 3 }
            }
            Size::Quick => Self {
                percents: &[10, 20, 30, 80],
                // With four policies, two courses and four sizes, enough cases to compare with the simulation.
                repetitions: 2,
                of_rand: 1,
                latency,
                requests,
                searched: 60,
                lists: 200,
            },
            Size::Full => {
                let latency = Latency::PerSize { start: 2_500, rate: LINE };
                let (repetitions, of_rand) = (4, 4);
                Self { percents, repetitions, of_rand, latency, requests, searched: 200, lists: 500 }
            }
        }
    }

    /// Returns the course of which a percentage of the visits have exchanged their places.
    fn loosened(&self, name: &str, loose: u32, seed: u64) -> Course {
        let mut course = self.course(name, seed);
        let mut random = Random::seed_from_u64(seed);
        let places: Vec<usize> =
            (0..course.order.len()).filter(|_| random.random_range(0..100) < loose).collect();
        let mut visits: Vec<u32> = places.iter().map(|&place| course.order[place]).collect();
        visits.shuffle(&mut random);
        places.into_iter().zip(visits).for_each(|(place, page)| course.order[place] = page);
        course
    }

    fn course(&self, name: &str, seed: u64) -> Course {
        let dataset = if name == "one" { Dataset::One } else { Dataset::Two };
        let pages = Pages { sizes: Sizes::Web, latency: self.latency };
        let mut course = Course::new(workload::pages(&Order::Browsing(dataset), &pages, Rate(100.0), seed));
        course.order.truncate(self.requests);
        course
    }
}

/// The requests, for the pictures.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct RequestList {
    course: String,
    order: Vec<u32>,
    sizes: Vec<u64>,
}

pub(super) fn measure(bench: &mut Bench) -> Result<(), Halt> {
    let (scale, plan) = (bench.scale, Plan::new(bench.scale.size));
    let names = COURSES.map(|(name, _)| name);
    let first = |name: &str| plan.course(name, scale.of(0));
    bench.measure(
        &names,
        |name| format!("asked/{name}"),
        |_, name| {
            let Course { pages, order } = first(name);
            let sizes = pages.iter().map(|page| page.size).collect();
            Ok(RequestList { course: (*name).to_owned(), order, sizes })
        },
    )?;
    bench.measure(
        &names,
        |name| format!("straight/{name}"),
        |bench, name| straight(bench, name, &first(name)),
    )?;
    anomaly::measure(bench, &plan)?;
    simulate(bench, &plan)?;
    bench.measure_together(&cells(&plan), key, |bench, cell| {
        let course = plan.course(&cell.course, scale.of(cell.repetition));
        let pages = course.pages.len() as u64;
        let is_storable = cell.policy != NONE;
        let trial = Trial {
            model: Model { is_storable, ..Model::of(&course.pages) },
            via: Via::Onc,
            capacity: part(By::Entries, pages, cell.percent),
            course: &course,
        };
        trial.take(bench, cell)
    })
}

/// Returns the name of a dataset's lists that are simulated at [`ALL_SIZES`].
fn of_all_sizes(name: &str) -> String {
    format!("{name}-sizes")
}

/// Simulates many lists of each dataset. Capacity counts URLs, so their sizes matter only for MAXS.
fn simulate(bench: &mut Bench, plan: &Plan) -> Result<(), Halt> {
    let scale = bench.scale;
    let kinds = COURSES.iter().flat_map(|(name, _)| {
        let loose = LOOSE.map(|loose| (*name, (*name).to_owned(), loose, plan.percents));
        loose.into_iter().chain([(*name, of_all_sizes(name), 0, &ALL_SIZES[..])])
    });
    let lists: Vec<_> =
        kinds.flat_map(|kind| (0..plan.lists).map(move |number| (kind.clone(), number))).collect();
    bench.measure_together(
        &lists,
        |((_, title, loose, _), number)| List::key(title, *loose, *number),
        |_, ((name, title, loose, percents), number)| {
            let course = plan.loosened(name, *loose, scale.of(*number));
            let trace = course.trace();
            let capacity = |percent| part(By::Entries, course.pages.len() as u64, percent);
            List::new((title, *loose, *number), (&course, &trace), &POLICIES, (percents, 1.0), capacity)
        },
    )
}

fn cells(plan: &Plan) -> Vec<Cell> {
    let mut cells = Vec::new();
    let cell = |course: &str, policy: &str, percent, repetition| Cell {
        course: course.to_owned(),
        latency: COST.to_owned(),
        policy: policy.to_owned(),
        percent,
        repetition,
    };
    for repetition in 0..plan.repetitions {
        for (course, _) in COURSES {
            cells.push(cell(course, NONE, 0, repetition));
            for &percent in plan.percents {
                let policies =
                    POLICIES.into_iter().filter(|policy| *policy != "rand" || repetition < plan.of_rand);
                cells.extend(policies.map(|policy| cell(course, policy, percent, repetition)));
            }
        }
    }
    cells
}

fn key(cell: &Cell) -> String {
    let Cell { course, policy, percent, repetition, .. } = cell;
    format!("cell/{course}/{repetition}/{percent:02}/{policy}")
}

pub(super) fn conclude(journal: &Journal) -> Findings {
    let cells: Vec<CellResult> = journal.all("cell/");
    let mut findings = Findings { setup: setup(), ..Findings::default() };
    for asked in journal.all::<RequestList>("asked/") {
        findings.figures.extend(pictures::trace(&asked));
    }
    findings.figures.extend(pictures::sizes(&cells));
    let lists: Vec<List> = journal.all("list/");
    findings.findings.extend(claims::claims(&cells, &lists, &journal.all::<RequestList>("asked/")));
    findings.figures.extend(pictures::leads(&lists));
    let (figures, found) = anomaly::conclude(journal);
    findings.figures.extend(figures);
    findings.findings.extend(found);
    let (figure, agreement) = side_by_side("browsing-simulated", "Browsing", &cells);
    findings.findings.push(agreement);
    if !cells.is_empty() {
        findings.figures.push(figure);
    }
    findings.figures.extend(pictures::timelines(&cells));
    findings.tables.push(straight_table(
        "Browsing: straight to the origin, without the proxy",
        &journal.all::<DirectCost>("straight/"),
    ));
    findings
}

fn setup() -> Vec<String> {
    let data = "The authors did not publish the browsing histories. The datasets here have the published figures: 997 visits to \
     68 URLs, 446 of them to one URL of 20 kB; and 985 visits to 74 URLs, distributed evenly. The distance between visits to the \
     same URL is not published. It is fitted to the seed report's times without a cache, and to the small gain of larger caches. \
     Fitted lists can confirm other claims of the seed report, and cannot refute them; further lists exchange the places of \
     visits, to show how verdicts depend on the fit. Each repetition has its own list. Live hits equal simulated hits, so the simulation of many lists decides claims about hit \
     ratios, and the live runs confirm a sample.";
    let way = "One client requests one page after the other over ONC RPC (TCP). A request is a hit if the origin received none \
     meanwhile. Capacity is a number of URLs, independent of the sizes of their pages; MAXS compares sizes of content. A miss takes a constant time (0.7 s in \
     the seed report, some milliseconds here) and the page's size over the seed report's line of 830 Mbit/s. For the runs \
     without a cache, the origin forbids storing.";
    vec![data.to_owned(), way.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loosened_lists_have_the_same_visits_in_other_places() {
        let plan = Plan::new(Size::Quick);
        let fitted = plan.course("two", 7).order;
        let counts = |order: &[u32]| {
            let mut counts = [0; 74];
            order.iter().for_each(|page| counts[*page as usize] += 1);
            counts
        };
        let moved = LOOSE.map(|loose| {
            let order = plan.loosened("two", loose, 7).order;
            assert_eq!(counts(&order), counts(&fitted));
            order.iter().zip(&fitted).filter(|(one, other)| one != other).count()
        });
        assert_eq!(moved[0], 0);
        assert!(moved.is_sorted() && moved[3] > 900, "{moved:?}");
    }
}
