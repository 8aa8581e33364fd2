//! Refreshes before requests: the gain from refreshing ahead if origins are distant or slow.
//!
//! For an origin and a repetition, all ways and all kinds of requests run at the same time, each with a separate proxy
//! and origin: the times depend on waiting for distances, and not on the processor.

mod claims;
mod pictures;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use larder_lab::replay::ratio;
use larder_lab::workload::{self, Crud, Dataset, Latency, Order, Pages, Rate, Sizes};
use larder_load::{Load, Outcome, Pace, Via};
use serde::{Deserialize, Serialize};

use crate::course::Course;
use crate::findings::Findings;
use crate::origin::{Model, Origin};
use crate::proxy::{Proxy, Setting};
use crate::size::Size;
use crate::{Bench, Fees, Halt, Journal, Prices};

/// Kinds of requests: name, and description.
const COURSES: [(&str, &str); 3] =
    [("browsing", "browsing"), ("services", "three services"), ("web", "a web site")];

/// Ways: name, keys of the config, and description.
const WAYS: [(&str, &str, &str); 2] =
    [(PLAIN, "", "without"), (AHEAD, "refresh_ahead = '50%'\n", "refreshing ahead")];
const PLAIN: &str = "plain";
const AHEAD: &str = "ahead";

/// The freshness lifetime of responses, in seconds. Responses are refreshed ahead in the last half of it, in whole
/// seconds: in the last of two.
const LIFETIME: u32 = 2;
/// Requests a second of each kind.
const RATE: f64 = 60.0;
/// Requests in flight at once: more than are due while an origin answers.
const CLIENTS: usize = 64;

#[derive(Clone, Copy, Debug)]
struct OriginModel {
    name: &'static str,
    /// The description.
    about: &'static str,
    /// The round-trip time, in milliseconds.
    away_ms: u64,
    /// The number of answers that it produces concurrently, each of which takes [`WEAK`].
    at_once: Option<usize>,
}

/// A weak origin's time for an answer, in microseconds.
const WEAK: u32 = 40_000;

const PLACES: [OriginModel; 5] = [
    OriginModel { name: "050", about: "50 ms away", away_ms: 50, at_once: None },
    OriginModel { name: "100", about: "100 ms away", away_ms: 100, at_once: None },
    OriginModel { name: "200", about: "200 ms away", away_ms: 200, at_once: None },
    OriginModel { name: "300", about: "300 ms away", away_ms: 300, at_once: None },
    OriginModel {
        name: "weak",
        about: "weak: 50 answers a second, 20 ms away",
        away_ms: 20,
        at_once: Some(2),
    },
];

/// The extent of the measurements.
struct Plan {
    places: Vec<OriginModel>,
    repetitions: u64,
    seconds: u64,
}

impl Plan {
    fn new(size: Size) -> Self {
        let [_, far, _, _, weak] = PLACES;
        match size {
            Size::Smoke => Self { places: vec![far], repetitions: 1, seconds: 1 },
            Size::Quick => Self { places: vec![far, weak], repetitions: 5, seconds: 5 },
            Size::Full => Self { places: PLACES.to_vec(), repetitions: 5, seconds: 9 },
        }
    }

    fn course(&self, name: &str, seed: u64) -> Course {
        let requests = (RATE * self.seconds as f64) as u64;
        let pages =
            Pages { sizes: Sizes::Lognormal { median: 8_192.0, sigma: 1.0 }, latency: Latency::Constant(0) };
        let workload = match name {
            "browsing" => workload::pages(&Order::Browsing(Dataset::One), &pages, Rate(RATE), seed),
            "services" => Crud { requests, entities: 10, writes: 0.0, exponent: 0.99 }.workload(
                &pages,
                Rate(RATE),
                seed,
            ),
            _ => workload::pages(
                &Order::Zipf { requests, pages: 300, exponent: 0.9 },
                &pages,
                Rate(RATE),
                seed,
            ),
        };
        let mut course = Course::new(workload);
        course.order = course.order.iter().copied().cycle().take(requests as usize).collect();
        course
    }
}

/// The conditions of a measurement: an origin and a repetition.
#[derive(Clone, Copy, Debug)]
struct Cell {
    place: OriginModel,
    repetition: u64,
}

impl Cell {
    fn key(&self) -> String {
        format!("cell/{}/{:02}", self.place.name, self.repetition)
    }
}

/// The results of one way with one kind of requests.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct LearnResult {
    place: String,
    course: String,
    way: String,
    repetition: u64,
    requests: u64,
    /// The share of requests whose clients waited for the origin.
    waits: f64,
    mean_ms: f64,
    p90_ms: f64,
    p99_ms: f64,
    /// Requests that the origin received.
    asked: u64,
    /// Bytes of content that it has sent.
    origin_bytes: u64,
    /// Refreshes ahead: all, the measured ones, and the useful ones.
    refreshes: [u64; 3],
}

pub(super) fn measure(bench: &mut Bench) -> Result<(), Halt> {
    bench.note_prices()?;
    let (scale, plan) = (bench.scale, Plan::new(bench.scale.size));
    let repetitions = 0..plan.repetitions;
    let cells =
        repetitions.flat_map(|repetition| plan.places.iter().map(move |&place| Cell { place, repetition }));
    bench.measure_together(&cells.collect::<Vec<_>>(), Cell::key, |bench, cell| {
        take(&bench.program, &bench.stop, &plan, (cell, scale.of(cell.repetition)))
    })
}

/// Measures all ways with all kinds of requests concurrently.
fn take(
    program: &Path,
    stop: &Arc<AtomicBool>,
    plan: &Plan,
    (cell, seed): (&Cell, u64),
) -> Result<Vec<LearnResult>, Halt> {
    let courses = COURSES.map(|(name, _)| (name, plan.course(name, seed)));
    thread::scope(|scope| {
        let mut running = Vec::new();
        for (name, course) in &courses {
            for (way, keys, _) in WAYS {
                let trial = Trial { program, stop, course, keys, place: cell.place, seed };
                running.push(scope.spawn(move || trial.take(name, way, cell.repetition)));
            }
        }
        let died = |_| Halt::Failed("a client died".to_owned());
        running.into_iter().map(|one| one.join().map_err(died)?).collect()
    })
}

struct Trial<'t> {
    program: &'t Path,
    stop: &'t Arc<AtomicBool>,
    course: &'t Course,
    keys: &'static str,
    place: OriginModel,
    seed: u64,
}

impl Trial<'_> {
    fn take(self, name: &str, way: &str, repetition: u64) -> Result<LearnResult, Halt> {
        let OriginModel { away_ms, at_once, .. } = self.place;
        let mut pages = self.course.pages.clone();
        let cost = if at_once.is_some() { WEAK } else { 0 };
        pages.iter_mut().for_each(|page| page.cost = cost);
        let distance = Duration::from_millis(away_ms);
        let origin = Origin::start(Model { distance, lifetime: LIFETIME, at_once, ..Model::of(&pages) })?;
        let setting = Setting { threads: Some(1), forward: self.keys, ..Setting::roomy() };
        let mut proxy = Proxy::start(self.program, &setting)?;
        let requests = self.course.requests(origin.address());
        let load = Load {
            pace: Pace::Open { rate: RATE, clients: CLIENTS, seed: self.seed },
            stop: Arc::clone(self.stop),
            ..Load::new(proxy.door(Via::Http)?, Via::Http, requests)
        };
        let seen = load.run().map_err(|halt| proxy.explain(halt))?;
        let stats = proxy.tell("/stats")?;
        let ahead = |name: &str| stats["refreshes_ahead"][name].as_u64().unwrap_or_default();
        let requests = seen.answers.len() as u64;
        Ok(LearnResult {
            place: self.place.name.to_owned(),
            course: name.to_owned(),
            way: way.to_owned(),
            repetition,
            requests,
            waits: ratio((requests - seen.count(Outcome::Hit)) as f64, requests as f64),
            mean_ms: seen.mean(None),
            p90_ms: seen.percentile(0.9),
            p99_ms: seen.percentile(0.99),
            asked: origin.requests().load(std::sync::atomic::Ordering::Relaxed),
            origin_bytes: stats["origin_bytes"].as_u64().unwrap_or_default(),
            refreshes: [ahead("started"), ahead("measured"), ahead("used")],
        })
    }
}

/// All measurements, and the prices of a paid origin.
struct Measurements {
    measured: Vec<LearnResult>,
    prices: Option<Prices>,
}

impl LearnResult {
    /// Returns the fees for the answers of the origin, for a million requests of clients.
    fn fees(&self, fees: Fees) -> f64 {
        fees.of(self.asked, self.origin_bytes) * 1e6 / self.requests as f64
    }
}

impl Measurements {
    /// Returns the fees of a paid origin, with their currency.
    fn paid(&self) -> Option<(Fees, &str)> {
        let prices = self.prices.as_ref()?;
        Some((prices.origin?, &prices.currency))
    }

    /// Returns the measurements of a way at an origin with a kind of requests.
    fn of<'s>(
        &'s self,
        place: &'s str,
        course: &'s str,
        way: &'s str,
    ) -> impl Iterator<Item = &'s LearnResult> {
        self.measured.iter().filter(move |one| {
            (one.place.as_str(), one.course.as_str(), one.way.as_str()) == (place, course, way)
        })
    }

    /// Returns the results of `compare` for the plain way and the other way, for each repetition.
    fn beside<'s>(
        &'s self,
        place: &'s str,
        course: &'s str,
        compare: impl Fn(&LearnResult, &LearnResult) -> Option<f64> + 's,
    ) -> impl Iterator<Item = (u64, f64)> + 's {
        self.of(place, course, PLAIN).filter_map(move |plain| {
            let ahead = self.of(place, course, AHEAD).find(|ahead| ahead.repetition == plain.repetition)?;
            Some((plain.repetition, compare(plain, ahead)?))
        })
    }
}

pub(super) fn conclude(journal: &Journal) -> Findings {
    let all: Vec<Vec<LearnResult>> = journal.all("cell/");
    let measured = all.into_iter().flatten().collect();
    let seen = Measurements { measured, prices: journal.get(Bench::PRICES) };
    Findings {
        setup: setup(&seen),
        findings: claims::claims(&seen),
        figures: pictures::pictures(&seen),
        tables: vec![pictures::table(&seen)],
    }
}

fn setup(seen: &Measurements) -> Vec<String> {
    let requests = format!(
        "Responses are fresh for {LIFETIME} seconds, do not change, and are validated by 304. {RATE} requests a second \
         come at random moments, of three kinds: the browsing of two people \
         (68 URLs, one of which has nearly half of all requests), reads of three services (Zipf, exponent 0.99), and a web site of 300 pages (Zipf, \
         exponent 0.9). A time begins at the moment at which its request was due."
    );
    let ways = "Without: a response that has expired is validated while its client waits. Refreshing ahead \
         (refresh_ahead = \"50%\"): a response that was requested twice in its lifetime is validated in the background \
         in the second of its two seconds. Lifetimes are short so that many end during \
                a measurement; with longer ones fewer requests meet an expired response, and both ways differ less."
        .to_owned();
    let paid = seen.paid().map(|(fees, currency)| {
        format!(
            "A paid origin takes {:.2} {currency} for a million requests, answered by 200 or 304, and {:.2} {currency} for \
             10^9 bytes of content. --prices takes other fees.",
            fees.requests, fees.gigabyte
        )
    });
    [requests, ways].into_iter().chain(paid).collect()
}
