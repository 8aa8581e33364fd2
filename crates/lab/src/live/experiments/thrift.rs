//! Two workloads over Thrift, under three policies: the report on an RPC proxy with Apache Thrift.
//!
//! Workload 1 requests every page 7 to 16 times, shuffled; workload 2 requests a few small pages, then larger ones, then the
//! largest, repeatedly. Capacity counts bytes.

use larder_evict::By;

use super::Experiment;
use super::cell::{
    Cell, Measured, Trial, contrast, curves, part, percents, side_by_side, those, weigh, weighed,
};
use super::cell::{Straight, mean, straight, straight_table};
use crate::live::bench::Size;
use crate::live::course::Course;
use crate::live::findings::{Figure, Finding, Findings, Grid};
use crate::live::load::Via;
use crate::live::origin::Model;
use crate::live::{Bench, Contrast, Halt, Journal};
use crate::plot::{Axis, Unit};
use crate::workload::{self, Latency, Order, Pages, Rate, Sizes};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "thrift",
    title: "Which policy for an RPC proxy with Apache Thrift",
    shows: "hit ratio and access time of LRU, MAXS and RAND against cache size, on two workloads over Thrift",
    seconds: (40, 205),
    measure,
    conclude,
    missing: || None,
};

const REPORT: &str = "Thadhani and Dsilva, RPC-based proxy server";
const POLICIES: [&str; 3] = ["lru", "maxs", "rand"];
const COURSES: [(&str, &str); 2] = [("shuffled", "Workload 1, shuffled"), ("staged", "Workload 2, staged")];
const LATENCIES: [(&str, &str); 2] =
    [("per-size", "misses cost by size"), ("constant", "all misses cost the same")];

/// Repetitions of what is not at the centre of the claims.
const FEW: u64 = 3;
/// Page sizes in bytes at even steps of their distribution: most are small, one in ten is large, none is more than a
/// small cache takes in.
const SIZES: [u64; 11] = [500, 2_000, 4_000, 6_000, 8_000, 11_000, 15_000, 20_000, 28_000, 60_000, 700_000];

/// How much is measured.
struct Plan {
    pages: u32,
    rounds: u32,
    percents: &'static [u32],
    latencies: &'static [(&'static str, &'static str)],
    repetitions: u64,
    /// What a miss costs at least, in microseconds.
    start: u32,
    /// Bytes a second of what it costs beyond, where size counts.
    rate: u64,
}

impl Plan {
    fn new(size: Size) -> Self {
        let quick = Self {
            pages: 40,
            rounds: 50,
            percents: &[10, 20, 40, 70],
            latencies: &LATENCIES[..1],
            repetitions: 3,
            start: 1_000,
            rate: 100 << 20,
        };
        match size {
            Size::Smoke => Self { pages: 4, rounds: 5, percents: &[40], repetitions: 1, ..quick },
            Size::Quick => quick,
            Size::Full => Self {
                pages: 60,
                rounds: 90,
                percents: &[5, 10, 20, 40, 60, 80],
                latencies: &LATENCIES,
                repetitions: 5,
                ..quick
            },
        }
    }

    fn course(&self, name: &str, latency: &str, seed: u64) -> Course {
        let order = match name {
            "shuffled" => Order::Shuffle { pages: self.pages, copies: 7..=16 },
            _ => Order::Staged { pages: self.pages, rounds: self.rounds },
        };
        let latency = match latency {
            "constant" => Latency::Constant(self.start * 2),
            _ => Latency::PerSize { start: self.start, rate: self.rate },
        };
        let pages = Pages { sizes: Sizes::Quantiles(SIZES.to_vec()), latency };
        Course::new(workload::pages(&order, &pages, Rate(100.0), seed))
    }
}

fn measure(bench: &mut Bench) -> Result<(), Halt> {
    let (scale, plan) = (bench.scale, Plan::new(bench.scale.size));
    let courses = COURSES.iter().flat_map(|(course, _)| (0..plan.repetitions).map(move |at| (*course, at)));
    let courses: Vec<_> = courses.collect();
    let of = |course: &str, latency: &str, at: u64| plan.course(course, latency, scale.of(at));
    weigh(bench, &courses, |name, at| of(name, "per-size", at))?;
    let firsts: Vec<_> = courses.iter().filter(|(_, at)| *at == 0).copied().collect();
    bench.measure(
        &firsts,
        |(course, _)| format!("straight/{course}"),
        |bench, (name, at)| straight(bench, name, &of(name, "per-size", *at)),
    )?;
    let mut cells = Vec::new();
    for (latency, _) in plan.latencies {
        // What all policies have in common where misses cost the same, a few repetitions tell.
        let often = if *latency == LATENCIES[0].0 { plan.repetitions } else { FEW };
        for &(course, repetition) in courses.iter().filter(|(_, at)| *at < often) {
            for &percent in plan.percents {
                cells.extend(POLICIES.map(|policy| Cell {
                    course: course.to_owned(),
                    latency: (*latency).to_owned(),
                    policy: policy.to_owned(),
                    percent,
                    repetition,
                }));
            }
        }
    }
    bench.measure(&cells, key, |bench, cell| {
        let course = of(&cell.course, &cell.latency, cell.repetition);
        let weights = weighed(bench, cell);
        let trial = Trial {
            model: Model::of(&course.pages),
            via: Via::Thrift,
            capacity: part(By::Bytes, course.distinct(|page| weights.of(page)), cell.percent),
            trace: &weights.trace(&course),
            course: &course,
        };
        trial.take(bench, cell)
    })
}

fn key(cell: &Cell) -> String {
    let Cell { course, latency, policy, percent, repetition } = cell;
    format!("cell/{course}/{latency}/{repetition}/{percent}/{policy}")
}

fn conclude(journal: &Journal) -> Findings {
    let cells: Vec<Measured> = journal.all("cell/");
    let mut findings = Findings { setup: setup(), ..Findings::default() };
    for (course, title) in COURSES {
        for (latency, cost) in LATENCIES {
            let of = those(&cells, |cell| cell.course == course && cell.latency == latency);
            if !of.is_empty() {
                findings.figures.extend(pictures((course, title), (latency, cost), &of));
            }
        }
    }
    let (figure, agreement) = side_by_side("thrift-simulated", &cells);
    findings.findings.extend(shuffled(&cells));
    findings.findings.extend(staged(&cells));
    findings.findings.push(growth(&cells));
    findings.findings.push(agreement);
    if !cells.is_empty() {
        findings.figures.push(figure);
    }
    findings.tables.push(straight_table(&journal.all::<Straight>("straight/")));
    findings.tables.push(averages(&cells));
    findings
}

fn setup() -> Vec<String> {
    let sizes = "Pages have sizes from 500 bytes to 700 kB, of which nine in ten are below 60 kB. A page that misses takes \
         a start and then its size over a fixed rate; in the full run the same is measured with a cost that does not depend on \
         the size.";
    let way = "One client asks for one page after the other over Thrift (framed, binary); a request is a hit if the origin \
         saw none meanwhile. Capacity counts bytes, heads and bookkeeping included, and is a share of what all pages take \
         together. Each repetition has a workload of its own, which all policies and sizes share, so that differences are \
         taken pair by pair.";
    vec![sizes.to_owned(), way.to_owned()]
}

fn pictures(
    (course, title): (&str, &str),
    (latency, cost): (&str, &str),
    cells: &[&Measured],
) -> [Figure; 2] {
    let ratio = Axis::linear("hit ratio", Unit::Share);
    let time = Axis::linear("mean access time in ms", Unit::Count);
    let best = |value: fn(&Measured) -> f64, sign: f64| {
        let sizes = percents(cells);
        let at = |percent: &u32| {
            let means =
                POLICIES.map(|policy| (policy, mean(cells, policy, *percent, value).map(|mean| mean.mean)));
            let known = means.iter().filter_map(|(policy, mean)| Some((*policy, sign * (*mean)?)));
            let first = known.max_by(|a, b| a.1.total_cmp(&b.1));
            first.map(|(policy, _)| format!("{} at {percent}%", policy.to_uppercase()))
        };
        sizes.iter().filter_map(at).collect::<Vec<_>>().join(", ")
    };
    [
        curves(
            (&format!("thrift-{course}-{latency}-hits"), &format!("{title}: hit ratio")),
            cells,
            &POLICIES,
            (ratio, 4),
            |measured| measured.hit_ratio,
            format!(
                "Hits over requests against cache size; {cost}. Ahead: {}.",
                best(|cell| cell.hit_ratio, 1.0)
            ),
        ),
        curves(
            (&format!("thrift-{course}-{latency}-time"), &format!("{title}: access time")),
            cells,
            &POLICIES,
            (time, 3),
            |measured| measured.mean_ms,
            format!(
                "What the client waits on average; {cost}. Fastest: {}.",
                best(|cell| cell.mean_ms, -1.0)
            ),
        ),
    ]
}

/// Points of hit ratio by which one policy is ahead of another.
fn ahead(cells: &[Measured], course: &str, policies: (&str, &str)) -> Contrast {
    let of = those(cells, |cell| cell.course == course && cell.latency == "per-size");
    contrast(&of, policies, |measured| measured.hit_ratio)
}

/// Milliseconds that one policy is slower than another.
fn slower(cells: &[Measured], (course, latency): (&str, &str), policies: (&str, &str)) -> Contrast {
    let of = those(cells, |cell| cell.course == course && cell.latency == latency);
    contrast(&of, policies, |measured| measured.mean_ms)
}

const POINTS: (f64, &str) = (100.0, "points of hit ratio");
const MILLISECONDS: (f64, &str) = (1.0, "ms");

fn shuffled(cells: &[Measured]) -> Vec<Finding> {
    let over_lru = ahead(cells, "shuffled", ("maxs", "lru"));
    let rand = ahead(cells, "shuffled", ("rand", "maxs"));
    let rand_over_lru = ahead(cells, "shuffled", ("rand", "lru"));
    let faster = slower(cells, ("shuffled", "per-size"), ("lru", "maxs"));
    vec![
        Finding::of_contrast(
            "Workload 1: MAXS has a better hit ratio than LRU",
            REPORT,
            &over_lru,
            POINTS,
            format!(
                "Requests are shuffled, so that what was asked for last says nothing of what comes next, and LRU's order is \
                 as good as any. What counts is how many pages find room: MAXS gives up one large page where others give up \
                 many small ones, and a few large pages take most of the bytes.{}",
                where_ahead(&over_lru)
            ),
        ),
        Finding::of_contrast(
            "Workload 1: RAND has the best hit ratio (what the authors expected before they measured)",
            REPORT,
            &rand,
            POINTS,
            format!(
                "Who gives up any page gives up a large one seldom, and so holds fewer pages than MAXS. The difference is \
                 against MAXS; against LRU it is {}: where requests are shuffled, neither knows what comes next.",
                rand_over_lru.overall().map_or_else(
                    || "not measured".to_owned(),
                    |overall| crate::live::findings::told(&overall, 100.0, "points")
                )
            ),
        ),
        Finding::of_contrast(
            "Workload 1: MAXS has a lower mean access time than LRU",
            REPORT,
            &faster,
            MILLISECONDS,
            "More hits save time, but MAXS misses the large pages, and those take longest where cost grows with size. The \
             difference is LRU's time less MAXS's: its sign says which weighs more."
                .to_owned(),
        ),
    ]
}

fn staged(cells: &[Measured]) -> Vec<Finding> {
    let ratio = ahead(cells, "staged", ("lru", "maxs"));
    let time = slower(cells, ("staged", "per-size"), ("lru", "maxs"));
    let even = slower(cells, ("staged", "constant"), ("lru", "maxs"));
    let even = even.overall().map_or_else(
        || "the full run measures it".to_owned(),
        |overall| crate::live::findings::told(&overall, 1.0, "ms"),
    );
    vec![
        Finding::of_contrast(
            "Workload 2: LRU has a better hit ratio than MAXS",
            REPORT,
            &ratio,
            POINTS,
            format!(
                "Each round ends with the largest page. MAXS gives that page up whenever room is needed and so misses it once \
                 a round, one request in eight; for that it keeps more of the small pages, which are drawn evenly and gain \
                 nothing from LRU's order.{}",
                where_ahead(&ratio)
            ),
        ),
        Finding::of_contrast(
            "Workload 2: MAXS has a lower mean access time than LRU all the same",
            REPORT,
            &time,
            MILLISECONDS,
            format!(
                "What MAXS misses is the page that costs most, and what it gains are many that cost little. The difference is \
                 LRU's time less MAXS's, where a miss costs by its size; where all misses cost the same, time follows the hit \
                 ratio: {even}."
            ),
        ),
    ]
}

fn where_ahead(contrast: &Contrast) -> String {
    match contrast.sides() {
        (above, below) if above.is_empty() && below.is_empty() => String::new(),
        (above, below) => {
            let told =
                |sizes: Vec<&str>| if sizes.is_empty() { "no size".to_owned() } else { sizes.join(", ") };
            format!(" Surely so at {}, surely the contrary at {}.", told(above), told(below))
        }
    }
}

/// Whether more room brings more hits, by policy, from the smallest size to the largest.
fn growth(cells: &[Measured]) -> Finding {
    let mut contrast = Contrast::default();
    for (course, _) in COURSES {
        for policy in POLICIES {
            let of = those(cells, |cell| (cell.course.as_str(), cell.policy.as_str()) == (course, policy));
            let sizes: Vec<u32> = percents(&of).into_iter().collect();
            let (Some(&least), Some(&most)) = (sizes.first(), sizes.last()) else { continue };
            let at = |percent: u32| of.iter().filter(move |measured| measured.cell.percent == percent);
            let gain = |(small, large): (&&Measured, &&Measured)| large.hit_ratio - small.hit_ratio;
            if least < most {
                let gains = at(least).zip(at(most)).map(|(small, large)| gain((small, large))).collect();
                contrast.add(&format!("{policy} ({course})"), gains);
            }
        }
    }
    let text = "With fewer pages to give up, fewer requests find theirs gone. The difference is the hit ratio of the largest \
         cache less that of the smallest."
        .to_owned();
    Finding::of_contrast("The hit ratio grows with the cache", REPORT, &contrast, POINTS, text)
}

/// All means, with what hits and misses took.
fn averages(cells: &[Measured]) -> Grid {
    let columns = [
        "requests",
        "misses cost",
        "cache size in %",
        "policy",
        "hit ratio",
        "simulated",
        "mean time in ms",
        "hits in ms",
        "misses in ms",
        "99% within ms",
        "proxy's processor time per request in us",
        "client's in us",
    ];
    let mut grid = Grid::new("Means over the repetitions", &columns);
    for (course, _) in COURSES {
        for (latency, _) in LATENCIES {
            let of = those(cells, |cell| cell.course == course && cell.latency == latency);
            for percent in percents(&of) {
                for policy in POLICIES {
                    let all = |value: fn(&Measured) -> f64, decimals: usize| {
                        let interval = mean(&of, policy, percent, value);
                        interval.map_or_else(String::new, |interval| format!("{:.decimals$}", interval.mean))
                    };
                    grid.row([
                        course.to_owned(),
                        latency.to_owned(),
                        percent.to_string(),
                        policy.to_owned(),
                        all(|cell| cell.hit_ratio, 4),
                        all(|cell| cell.simulated, 4),
                        all(|cell| cell.mean_ms, 3),
                        all(|cell| cell.hit_ms, 3),
                        all(|cell| cell.miss_ms, 3),
                        all(|cell| cell.p99_ms, 3),
                        all(|cell| cell.proxy_us, 0),
                        all(|cell| cell.driver_us, 0),
                    ]);
                }
            }
        }
    }
    grid
}
