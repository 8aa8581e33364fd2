//! Many pages at once, each for the first time: repeats the report on a parallel proxy, and compares with Python's
//! asyncio.
//!
//! Every URL is requested once, so that there are no hits. Workers are permits for requests to the origin; a request
//! without a permit waits. The asyncio programs have as many permits, and use the same origin. Clients are connections of
//! HTTP/1.1, or streams of one connection of HTTP/2.

mod claims;
mod pictures;
mod python;
mod scaling;
mod table;

use std::time::Duration;

use larder_lab::workload::Requests;
use larder_load::{Load, Outcome, Pace, Via};
use serde::{Deserialize, Serialize};

use self::python::Python;
pub(super) use self::python::check as check_python;
use crate::course::{Course, Page};
use crate::findings::Findings;
use crate::origin::{Model, Origin};
use crate::proxy::{Proxy, Setting};
use crate::size::Size;
use crate::{Bench, ClaimSource, Halt, Journal};

/// Returns the seed report as the source of what `sentence` claims.
const fn seed(sentence: &'static str) -> ClaimSource {
    ClaimSource::Seed("the seed report (Natesh, exploiting parallelism in a proxy server)", sentence)
}

/// The number of the proxy's clients: at least its number of workers.
const CLIENTS: usize = 64;
const WORKERS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
const URLS: [u32; 4] = [164, 328, 656, 1_324];
/// Origins: name, and distance in milliseconds.
const DISTANCES: [(&str, u64); 2] = [("far", 50), ("near", 2)];
/// The number of pages for the main results with the near origin: with the longest list, a run ends before a program
/// reaches its full speed.
const MANY: u32 = 4 * 1_324;
/// The number of places of all compared programs.
const PLACES: usize = WORKERS[6];
const LARDER: &str = "larder";
/// The proxy with clients that are streams of one connection.
const HTTP2: &str = "larder, HTTP/2";
/// The proxy after half of the pages were requested.
const HALF: &str = "larder, half full";
/// The programs for the comparison: name, which is also the description.
const EXECUTOR: &str = "asyncio executor";
const THREADS: &str = "asyncio threads";
const AIOHTTP: &str = "asyncio aiohttp";
const HTTPX: &str = "asyncio httpx";
const RIVALS: [(&str, &str); 4] = [
    (EXECUTOR, "asyncio with blocking fetches in its default executor"),
    (THREADS, "asyncio with blocking fetches in an executor that has as many threads as places"),
    (AIOHTTP, "aiohttp"),
    (HTTPX, "httpx"),
];
/// The size of a page, in bytes.
const PAGE: u64 = 8 << 10;
/// Pages for each worker that are requested before the measurement, so that connections are open and programs warm.
const WARMING: usize = 2;
/// Consecutive round trips to the far origin from which a measurement in the full run is taken once, and from which it
/// is omitted. A shorter list also shows the time of a page with one worker.
const LONG: u32 = 90;
const TOO_LONG: u32 = 165;
/// The same for the other programs, whose claims are about the largest number of workers.
const LONG_BESIDE: u32 = 21;
/// The journal's key for the measured Python.
const PYTHON: &str = "python";
const MISSING: &str = "no Python here has all the modules for the comparison; 'apt-get install python3-aiohttp python3-httpx' \
 installs them, or --python names another Python";

/// The conditions of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Cell {
    system: String,
    origin: String,
    urls: u32,
    workers: usize,
    repetition: u64,
}

/// The results of a measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct CellResult {
    #[serde(flatten)]
    cell: Cell,
    seconds: f64,
    /// The processor time for one page, in microseconds, of the proxy or the Python program.
    processor_us: f64,
    /// The same for the origin.
    origin_us: f64,
    /// The same for the clients, if they are not part of the measured program.
    driver_us: Option<f64>,
    /// The peak of the memory of the proxy or the Python program, in bytes.
    peak: Option<f64>,
    /// The 99th percentile of the pages' time, in milliseconds.
    p99_ms: Option<f64>,
    /// The time of the slowest page, in milliseconds.
    slowest_ms: Option<f64>,
}

struct RunCost {
    seconds: f64,
    /// The processor time.
    processor: Duration,
    /// The processor time of the clients.
    driver: Option<Duration>,
    /// The peak of memory, in bytes.
    peak: f64,
    p99_ms: f64,
    slowest_ms: f64,
}

impl CellResult {
    /// Returns the pages per second.
    fn throughput(&self) -> f64 {
        f64::from(self.cell.urls) / self.seconds
    }
}

pub(super) fn measure(bench: &mut Bench) -> Result<(), Halt> {
    let python = python::find(bench.python.as_deref())?;
    if python.as_ref().is_none_or(|python| python.can_run.len() < python::PROGRAMS.len()) {
        bench.watch.tell(MISSING);
    }
    if bench.journal.get(PYTHON) != python {
        bench.journal.add(PYTHON, &python)?;
    }
    table::measure(bench)?;
    let there = python.iter().flat_map(|python| &python.can_run).map(String::as_str);
    let systems: Vec<&str> = [LARDER, HTTP2, HALF].into_iter().chain(there).collect();
    let cells = cells(bench.scale.size, &systems);
    bench.measure(&cells, key, |bench, cell| {
        let all = cell.urls + (cell.workers * WARMING) as u32;
        let pages = Course::once(all, Page { size: PAGE, cost: 0 });
        let away = DISTANCES.iter().find(|(name, _)| *name == cell.origin).map_or(0, |(_, away)| *away);
        let distance = Duration::from_millis(away);
        let origin = Origin::start(Model { distance, ..Model::of(&pages.pages) })?;
        let took = match &python {
            Some(python) if !is_larder(&cell.system) => python::run(bench, python, cell, &origin)?,
            _ => larder(bench, cell, &pages, &origin)?,
        };
        let each = |spent: Duration, pages: u32| spent.as_secs_f64() * 1e6 / f64::from(pages);
        Ok(CellResult {
            cell: cell.clone(),
            seconds: took.seconds,
            processor_us: each(took.processor, cell.urls),
            origin_us: each(origin.processor(), all),
            driver_us: took.driver.map(|spent| each(spent, cell.urls)),
            peak: Some(took.peak),
            p99_ms: Some(took.p99_ms),
            slowest_ms: Some(took.slowest_ms),
        })
    })
}

fn is_larder(system: &str) -> bool {
    [LARDER, HTTP2, HALF].contains(&system)
}

fn key(cell: &Cell) -> String {
    let Cell { system, origin, urls, workers, repetition } = cell;
    format!("cell/{origin}/{urls:04}/{workers:02}/{system}/{repetition}")
}

/// Returns the cells to measure: all of them in the full run, except very long ones. In the quick run, small numbers of
/// workers have few pages.
fn cells(size: Size, systems: &[&str]) -> Vec<Cell> {
    let repetitions = match size {
        Size::Smoke => 1,
        Size::Quick => 3,
        Size::Full => 4,
    };
    let mut cells = Vec::new();
    for repetition in 0..repetitions {
        for (origin, _) in DISTANCES {
            for &system in systems {
                for (urls, workers) in pairs(size, system, origin) {
                    if repetition > 0 && !is_repeated(size, system, (urls, workers), origin) {
                        continue;
                    }
                    let (system, origin) = (system.to_owned(), origin.to_owned());
                    cells.push(Cell { system, origin, urls, workers, repetition });
                }
            }
        }
    }
    cells
}

/// Whether the cell is measured more than once.
fn is_repeated(size: Size, system: &str, (urls, workers): (u32, usize), origin: &str) -> bool {
    let trips = urls / workers as u32;
    match (size, system) {
        (Size::Full, LARDER) => trips <= LONG || origin == "near",
        (Size::Full, _) => trips <= LONG_BESIDE && workers >= 32 || urls == MANY,
        (_, HALF) => true,
        // Speedups are those of a far origin; a near one is compared with rivals, and with a cache that is half full.
        (_, LARDER) => origin == "far" || workers == PLACES || (urls, workers) == (URLS[0], 16),
        _ => workers == PLACES,
    }
}

/// Returns the numbers of pages and workers. Slow programs have only the smaller numbers of pages from the far origin,
/// and the numbers that their claims need from the near one.
fn pairs(size: Size, system: &str, origin: &str) -> Vec<(u32, usize)> {
    let all = || URLS.into_iter().flat_map(|urls| WORKERS.map(|workers| (urls, workers)));
    let few = [(10, 1), (20, 2), (40, 4)].into_iter();
    let is_short = |&(urls, workers): &(u32, usize)| urls as usize <= workers * 21;
    let [least, most] = [URLS[0], URLS[3]];
    let mut pairs: Vec<_> = match (size, origin, system) {
        (Size::Smoke, ..) => return vec![(8, 1), (8, 4)],
        (_, _, HALF) => vec![(least, 16), (least, PLACES)],
        (Size::Full, "far", LARDER) => {
            all().filter(|&(urls, workers)| urls / workers as u32 <= TOO_LONG).collect()
        }
        (Size::Full, _, LARDER) => all().collect(),
        (Size::Full, "far", _) => {
            let is_few = |urls, workers| urls == least || urls == URLS[1] && urls / workers as u32 <= LONG;
            let few = |&(urls, workers): &(u32, usize)| is_few(urls, workers);
            all().filter(|pair| few(pair) || pair.1 == PLACES).collect()
        }
        (Size::Full, ..) => all().filter(|&(urls, _)| [least, most].contains(&urls)).collect(),
        (Size::Quick, "far", LARDER) => few.chain(all().filter(is_short)).collect(),
        // Slow programs would take a minute for the longest list.
        (Size::Quick, "near", HTTPX) => vec![(least, 1), (least, 16), (least, PLACES)],
        (Size::Quick, "far", EXECUTOR) => vec![(10, 1), (least, 8), (least, PLACES)],
        (Size::Quick, "far", HTTPX) => vec![(10, 1), (least, 16), (least, PLACES)],
        (Size::Quick, "far", _) => vec![(10, 1), (least, 16), (least, PLACES), (most, PLACES)],
        (Size::Quick, _, LARDER) => {
            all().filter(|&(urls, workers)| urls == least || urls == most && workers >= 8).collect()
        }
        (Size::Quick, ..) => vec![(least, 1), (least, 16), (least, 64), (most, 64)],
    };
    if origin == "near" && [LARDER, HTTP2, AIOHTTP].contains(&system) {
        pairs.push((MANY, PLACES));
    }
    pairs
}

/// Returns the smallest `limits.in_flight` with which one client, or many behind one address, may have `workers`
/// requests in progress: a sixteenth, at least one or two, is left to others.
fn permits(workers: usize) -> usize {
    let left = |permits: usize| (permits / 16).max((permits / 4).clamp(1, 2));
    (workers..).find(|&permits| permits - left(permits) == workers).unwrap_or(workers)
}

/// Returns the time from the first request to the last page, and the proxy's processor time.
fn larder(bench: &Bench, cell: &Cell, pages: &Course, origin: &Origin) -> Result<RunCost, Halt> {
    let setting = Setting { in_flight: Some(permits(cell.workers)), ..Setting::roomy() };
    let mut proxy = Proxy::start(&bench.program, &setting)?;
    let via = if cell.system == HTTP2 { Via::Http2 } else { Via::Http };
    let to = proxy.door(via)?;
    let load = |order: &[u32], clients| Load {
        pace: Pace::Closed { clients },
        stop: bench.stop.clone(),
        ..Load::new(to, via, Requests::gets(pages.urls(origin.address()), order))
    };
    let (measured, warming) = pages.order.split_at(cell.urls as usize);
    load(warming, cell.workers).run().map_err(|halt| proxy.explain(halt))?;
    let stored = if cell.system == HALF { measured.len() / 2 } else { 0 };
    if stored > 0 {
        load(&measured[..stored], cell.workers).run().map_err(|halt| proxy.explain(halt))?;
        proxy.settle()?;
    }
    let before = proxy.processor();
    let seen = load(measured, CLIENTS).run().map_err(|halt| proxy.explain(halt))?;
    let processor = proxy.processor().saturating_sub(before);
    match seen.count(Outcome::Hit) {
        hits if hits == stored as u64 => Ok(RunCost {
            seconds: seen.elapsed.as_secs_f64(),
            processor,
            driver: Some(seen.processor),
            peak: proxy.peak() as f64,
            p99_ms: seen.percentile(0.99),
            slowest_ms: seen.percentile(1.0),
        }),
        hits => {
            Err(Halt::Failed(format!("{hits} of {} pages were hits, and {stored} were stored", cell.urls)))
        }
    }
}

pub(super) fn conclude(journal: &Journal) -> Findings {
    let cells: Vec<CellResult> = journal.all("cell/");
    let (lines, table) = table::conclude(journal);
    let mut findings = claims::claims(&cells, journal.host().as_ref());
    findings.extend(scaling::claims(&cells));
    findings.extend(lines);
    Findings {
        setup: setup(&cells, journal.get(PYTHON)),
        findings,
        figures: pictures::pictures(&cells),
        tables: vec![pictures::table(&cells), table],
    }
}

fn setup(cells: &[CellResult], python: Option<Python>) -> Vec<String> {
    let way = format!(
        "{CLIENTS} clients request pages of {} KiB over HTTP, each page once, from a far origin (50 ms) or a near one (2 ms). \
         The proxy has a thread on each core and as many requests to the origin in progress as workers; other clients wait. \
         All clients have one address, and Larder leaves a sixteenth of 'limits.in_flight', at least one or two, to other addresses: so \
         the limit is set to the number of workers and this rest. \
         Before the measurement, clients fetch other pages, so connections are open. Time is measured from the first request to \
         the last page.",
        PAGE >> 10
    );
    let versions = python.map(|python| format!(" The versions are {}.", python.versions)).unwrap_or_default();
    let streams = format!(
        "With HTTP/2, the clients are {CLIENTS} streams of one connection in clear; requests to the origin are the same."
    );
    let rivals: Vec<_> = RIVALS.iter().map(|(_, about)| *about).collect();
    let beside = format!(
        "For comparison, programs of Python's asyncio with as many places fetch the same pages directly from the same origin: \
         {}. The seed report used the first kind. These programs store nothing.{versions}",
        rivals.join("; ")
    );
    let missing = python::PROGRAMS
        .iter()
        .filter(|program| !cells.iter().any(|measured| measured.cell.system == program.name));
    let missing: Vec<_> = missing.map(|program| program.name).collect();
    let missing = (!missing.is_empty()).then(|| format!("Not measured: {}; {MISSING}.", missing.join(", ")));
    [way, streams, beside].into_iter().chain(missing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_may_have_as_many_requests_in_progress_as_workers() {
        assert_eq!(WORKERS.map(permits), [2, 3, 5, 10, 18, 34, 68]);
    }

    #[test]
    fn full_runs_have_all_pairs_and_quick_ones_every_number_of_workers() {
        assert_eq!(pairs(Size::Full, LARDER, "near").len(), URLS.len() * WORKERS.len() + 1);
        // One worker for all lists but the shortest, two for the two longest, and four for the longest are omitted.
        assert_eq!(pairs(Size::Full, LARDER, "far").len(), URLS.len() * WORKERS.len() - 6);
        for (origin, _) in DISTANCES {
            let quick = pairs(Size::Quick, LARDER, origin);
            assert!(
                WORKERS.iter().all(|workers| quick.iter().any(|(_, other)| other == workers)),
                "{quick:?}"
            );
        }
        let takes = |pairs: &mut dyn Iterator<Item = (u32, usize)>| -> f64 {
            pairs.map(|(urls, workers)| f64::from(urls) * 0.051 / workers as f64).sum()
        };
        let quick = takes(&mut pairs(Size::Quick, LARDER, "far").into_iter());
        assert!(quick < 10.0, "{quick} s");
        let far = cells(Size::Full, &[LARDER, AIOHTTP]);
        let far = far.iter().filter(|cell| cell.origin == "far");
        let full = takes(&mut far.map(|cell| (cell.urls, cell.workers)));
        assert!((100.0..250.0).contains(&full), "{full} s");
    }
}
