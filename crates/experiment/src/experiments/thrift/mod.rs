//! Two workloads over Thrift, under three policies: repeats the report on an RPC proxy with Apache Thrift.
//!
//! Workload 1 requests every page 7 to 16 times, shuffled; workload 2 requests a few small pages, then larger ones, then the
//! largest, repeatedly. Capacity counts bytes.

mod claims;
mod pictures;
mod queue;

use larder_evict::By;
use larder_lab::workload::{self, Latency, Order, Pages, Rate, Sizes};
use larder_load::Via;

use super::cell::those;
use super::cell::{Cell, CellResult, DirectCost, Trial, part, side_by_side, straight, straight_table};
use super::lists::List;
use crate::course::Course;
use crate::findings::Findings;
use crate::origin::Model;
use crate::size::Size;
use crate::{Bench, ClaimSource, Halt, Journal};

/// Returns the seed report as the source of what `sentence` claims.
const fn seed(sentence: &'static str) -> ClaimSource {
    ClaimSource::Seed("the seed report (Thadhani and Dsilva, RPC-based proxy server)", sentence)
}

const POLICIES: [&str; 3] = ["lru", "maxs", "rand"];
const SHUFFLED: &str = "shuffled";
const STAGED: &str = "staged";
const COURSES: [(&str, &str); 2] = [(SHUFFLED, "Workload 1, shuffled"), (STAGED, "Workload 2, staged")];
const PER_SIZE: &str = "per-size";
const LATENCIES: [(&str, &str); 2] =
    [(PER_SIZE, "misses cost by size"), ("constant", "all misses cost the same")];
/// The percentages of the requests for small and larger pages of workload 2 that repeat a page of the round before.
const LOCALITIES: [u32; 6] = [0, 20, 40, 60, 80, 90];
/// The factor by which misses took longer in the authors' measurements: seconds over the Internet, in place of some
/// milliseconds.
const SLOW: f64 = 200.0;

/// Repetitions of measurements that are less important for the claims.
const FEW: u64 = 3;
/// Page sizes in bytes at even steps of their distribution: most are small, one in ten is large, and none exceeds a
/// small cache.
const SIZES: [u64; 11] = [500, 2_000, 4_000, 6_000, 8_000, 11_000, 15_000, 20_000, 28_000, 60_000, 700_000];

/// The extent of the measurements.
struct Plan {
    pages: u32,
    rounds: u32,
    percents: &'static [u32],
    latencies: &'static [(&'static str, &'static str)],
    repetitions: u64,
    /// The repetitions of RAND, whose hits are not comparable with simulated ones list by list.
    of_rand: u64,
    /// The minimum cost of a miss, in microseconds.
    start: u32,
    /// The rate in bytes a second for the additional cost, if size counts.
    rate: u64,
    /// The number of simulated lists of requests.
    lists: u64,
}

impl Plan {
    fn new(size: Size) -> Self {
        let quick = Self {
            pages: 40,
            rounds: 50,
            percents: &[10, 20, 40, 70],
            latencies: &LATENCIES[..1],
            // With two policies, courses and four sizes, enough cases to compare with the simulation.
            repetitions: 4,
            of_rand: 1,
            start: 1_000,
            rate: 100 << 20,
            lists: 200,
        };
        match size {
            Size::Smoke => Self { pages: 4, rounds: 5, percents: &[40], repetitions: 1, lists: 3, ..quick },
            Size::Quick => quick,
            Size::Full => Self {
                pages: 60,
                rounds: 90,
                percents: &[5, 10, 20, 40, 60, 80],
                latencies: &LATENCIES,
                repetitions: 5,
                of_rand: 5,
                lists: 500,
                ..quick
            },
        }
    }

    fn course(&self, name: &str, latency: &str, seed: u64) -> Course {
        self.local((name, 0), latency, seed)
    }

    fn local(&self, (name, locality): (&str, u32), latency: &str, seed: u64) -> Course {
        let locality = f64::from(locality) / 100.0;
        let order = match name {
            SHUFFLED => Order::Shuffle { pages: self.pages, copies: 7..=16 },
            _ => Order::Staged { pages: self.pages, rounds: self.rounds, locality },
        };
        let latency = match latency {
            "constant" => Latency::Constant(self.start * 2),
            _ => Latency::PerSize { start: self.start, rate: self.rate },
        };
        let pages = Pages { sizes: Sizes::Quantiles(SIZES.to_vec()), latency };
        Course::new(workload::pages(&order, &pages, Rate(100.0), seed))
    }
}

pub(super) fn measure(bench: &mut Bench) -> Result<(), Halt> {
    let (scale, plan) = (bench.scale, Plan::new(bench.scale.size));
    let courses = COURSES.iter().flat_map(|(course, _)| (0..plan.repetitions).map(move |at| (*course, at)));
    let courses: Vec<_> = courses.collect();
    let of = |course: &str, latency: &str, at: u64| plan.course(course, latency, scale.of(at));
    simulate(bench, &plan)?;
    queue::measure(bench)?;
    let firsts: Vec<_> = courses.iter().filter(|(_, at)| *at == 0).copied().collect();
    bench.measure(
        &firsts,
        |(course, _)| format!("straight/{course}"),
        |bench, (name, at)| straight(bench, name, &of(name, PER_SIZE, *at)),
    )?;
    let mut cells = Vec::new();
    for (latency, _) in plan.latencies {
        // If all misses cost the same, a few repetitions show the common properties of all policies.
        let often = if *latency == LATENCIES[0].0 { plan.repetitions } else { FEW };
        for &(course, repetition) in courses.iter().filter(|(_, at)| *at < often) {
            for &percent in plan.percents {
                let place = (percent, repetition);
                let policies =
                    POLICIES.into_iter().filter(|policy| *policy != "rand" || repetition < plan.of_rand);
                cells.extend(policies.map(|policy| cell((course, latency), policy, place)));
            }
        }
    }
    bench.measure_together(&cells, key, |bench, cell| {
        let course = of(&cell.course, &cell.latency, cell.repetition);
        let trial = Trial {
            model: Model::of(&course.pages),
            via: Via::Thrift,
            capacity: part(By::Bytes, course.content(), cell.percent),
            course: &course,
        };
        trial.take(bench, cell)
    })
}

/// Simulates many lists of each workload, and of each locality of the second.
fn simulate(bench: &mut Bench, plan: &Plan) -> Result<(), Halt> {
    let scale = bench.scale;
    let local = LOCALITIES.map(|locality| (STAGED, locality));
    let kinds = [(SHUFFLED, 0)].into_iter().chain(local);
    let lists: Vec<_> = kinds.flat_map(|kind| (0..plan.lists).map(move |number| (kind, number))).collect();
    bench.measure_together(
        &lists,
        |((name, locality), number)| List::key(name, *locality, *number),
        |_, &((name, locality), number)| {
            let course = plan.local((name, locality), PER_SIZE, scale.of(number));
            let (id, trace) = ((name, locality, number), course.trace());
            let capacity = |percent| part(By::Bytes, course.content(), percent);
            List::new(id, (&course, &trace), &POLICIES, (plan.percents, SLOW), capacity)
        },
    )
}

fn cell((course, latency): (&str, &str), policy: &str, (percent, repetition): (u32, u64)) -> Cell {
    let [course, latency, policy] = [course, latency, policy].map(str::to_owned);
    Cell { course, latency, policy, percent, repetition }
}

fn key(cell: &Cell) -> String {
    let Cell { course, latency, policy, percent, repetition } = cell;
    format!("cell/{course}/{latency}/{repetition}/{percent}/{policy}")
}

pub(super) fn conclude(journal: &Journal) -> Findings {
    let cells: Vec<CellResult> = journal.all("cell/");
    let mut findings = Findings { setup: setup(), ..Findings::default() };
    for (course, title) in COURSES {
        for (latency, cost) in LATENCIES {
            let of = those(&cells, |cell| cell.course == course && cell.latency == latency);
            if !of.is_empty() {
                findings.figures.extend(pictures::of((course, title), (latency, cost), &of));
            }
        }
    }
    let (figure, agreement) = side_by_side("thrift-simulated", "Thrift", &cells);
    let lists: Vec<List> = journal.all("list/");
    findings.findings = claims::claims(&cells, &lists);
    findings.findings.extend(queue::claims(journal));
    findings.findings.push(agreement);
    if !cells.is_empty() {
        findings.figures.push(figure);
    }
    findings.figures.extend(pictures::locality(&lists));
    findings.tables.push(straight_table(
        "Thrift: straight to the origin, without the proxy",
        &journal.all::<DirectCost>("straight/"),
    ));
    findings.tables.push(pictures::averages(&cells));
    findings
}

fn setup() -> Vec<String> {
    let sizes = "Pages have sizes from 500 bytes to 700 kB; nine in ten are smaller than 60 kB. A miss takes a constant time and \
     the page's size over a fixed rate. The full run also measures misses of equal cost.";
    let way = "One client requests one page after the other over Thrift (framed, binary). A request is a hit if the origin \
     received none meanwhile. Capacity counts bytes of content (memory.count = \"content\"), as a share of all pages' content. Each \
     repetition has its own list of requests, which all policies and sizes share.";
    let lists = "Live hits equal simulated hits, so the simulation of many lists decides claims about hit ratios, and the live \
     runs confirm a sample. Workload 2 has a locality: the probability that a small or larger page repeats a page of the \
     previous round. The seed report does not state the locality of its workload.";
    vec![sizes.to_owned(), way.to_owned(), lists.to_owned()]
}
