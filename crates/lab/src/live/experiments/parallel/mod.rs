//! Many pages at once, each for the first time: the report on a parallel proxy, beside Python's asyncio.
//!
//! Every URL is asked for once, so that nothing is a hit. Workers are places for requests to the origin; whoever finds
//! none waits. The asyncio programs have as many places, and talk to the same origin.

mod claims;
mod pictures;
mod python;
mod table;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Experiment;
use crate::live::bench::Size;
use crate::live::course::{Course, Page};
use crate::live::findings::Findings;
use crate::live::load::{Load, Outcome, Pace, Via};
use crate::live::origin::{Model, Origin};
use crate::live::proxy::{Proxy, Setting};
use crate::live::{Bench, Halt, Journal};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "parallel",
    title: "How many pages at once, beside asyncio",
    shows: "time, speedup, efficiency, throughput and weak scaling over 1 to 64 workers, beside Python's asyncio",
    seconds: (90, 4_800),
    measure,
    conclude,
};

const REPORT: &str = "the report on a parallel caching proxy";
/// Clients of the proxy, more than it has workers.
const CLIENTS: usize = 64;
const WORKERS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
const URLS: [u32; 4] = [164, 328, 656, 1_324];
/// Origins: name, how far away in milliseconds.
const ORIGINS: [(&str, u64); 2] = [("far", 50), ("near", 2)];
const LARDER: &str = "larder";
/// Bytes of a page.
const PAGE: u64 = 8 << 10;

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Cell {
    system: String,
    origin: String,
    urls: u32,
    workers: usize,
    repetition: u64,
}

/// What was seen.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Measured {
    #[serde(flatten)]
    cell: Cell,
    seconds: f64,
    /// Of the processor, for one page, in microseconds: the proxy's, or the Python program's.
    processor_us: f64,
    /// The same for the origin.
    origin_us: f64,
}

impl Measured {
    /// Pages a second.
    fn throughput(&self) -> f64 {
        f64::from(self.cell.urls) / self.seconds
    }
}

fn measure(bench: &mut Bench) -> Result<(), Halt> {
    table::measure(bench)?;
    let systems: Vec<&str> = [LARDER].into_iter().chain(python::importable(&bench.python)).collect();
    let cells = cells(bench.scale.size, &systems);
    bench.measure(&cells, key, |bench, cell| {
        let pages = Course::once(cell.urls, Page { size: PAGE, cost: 0 });
        let away = ORIGINS.iter().find(|(name, _)| *name == cell.origin).map_or(0, |(_, away)| *away);
        let distance = Duration::from_millis(away);
        let origin = Origin::start(Model { distance, ..Model::of(&pages.pages) })?;
        let (seconds, processor) = match cell.system.as_str() {
            LARDER => larder(bench, cell, &pages, &origin)?,
            program => python::run(bench, program, cell, &origin)?,
        };
        let each = |spent: Duration| spent.as_secs_f64() * 1e6 / f64::from(cell.urls);
        Ok(Measured {
            cell: cell.clone(),
            seconds,
            processor_us: each(processor),
            origin_us: each(origin.processor()),
        })
    })
}

fn key(cell: &Cell) -> String {
    let Cell { system, origin, urls, workers, repetition } = cell;
    format!("cell/{origin}/{urls:04}/{workers:02}/{system}/{repetition}")
}

/// All of it in the full run. In the quick one, few workers have few pages, and programs that are slow have the smallest
/// number of pages only.
fn cells(size: Size, systems: &[&str]) -> Vec<Cell> {
    let repetitions = match size {
        Size::Smoke => 1,
        Size::Quick => 3,
        Size::Full => 5,
    };
    let mut cells = Vec::new();
    for repetition in 0..repetitions {
        for (origin, _) in ORIGINS {
            for &system in systems {
                for (urls, workers) in pairs(size, system, origin) {
                    let (system, origin) = (system.to_owned(), origin.to_owned());
                    cells.push(Cell { system, origin, urls, workers, repetition });
                }
            }
        }
    }
    cells
}

/// Numbers of pages and workers.
fn pairs(size: Size, system: &str, origin: &str) -> Vec<(u32, usize)> {
    let all = URLS.iter().flat_map(|&urls| WORKERS.map(|workers| (urls, workers)));
    match (size, origin) {
        (Size::Smoke, _) => vec![(8, 1), (8, 4)],
        (Size::Full, _) => all.collect(),
        (Size::Quick, "far") => {
            let few = [(20, 1), (40, 2), (80, 4)];
            let is_short = |&(urls, workers): &(u32, usize)| urls as usize <= workers * 21;
            let is_measured = |&(urls, _): &(u32, usize)| system == LARDER || urls == URLS[0];
            few.into_iter().chain(all.filter(is_short).filter(is_measured)).collect()
        }
        (Size::Quick, _) => match system {
            LARDER => {
                all.filter(|&(urls, workers)| urls == if workers < 8 { URLS[0] } else { URLS[3] }).collect()
            }
            _ => vec![(URLS[0], 1), (URLS[3], 16), (URLS[3], 64)],
        },
    }
}

/// Time from the first request to the last page, and what the proxy took of the processor.
fn larder(bench: &Bench, cell: &Cell, pages: &Course, origin: &Origin) -> Result<(f64, Duration), Halt> {
    let setting = Setting { in_flight: Some(cell.workers), ..Setting::roomy() };
    let mut proxy = Proxy::start(&bench.program, &setting)?;
    let load = Load {
        to: proxy.door(Via::Http)?,
        via: Via::Http,
        urls: pages.urls(origin.address()),
        order: pages.order.clone(),
        pace: Pace::Closed { clients: CLIENTS },
        origin: None,
        stop: bench.stop.clone(),
    };
    let before = proxy.processor();
    let seen = load.run().map_err(|halt| proxy.explain(halt))?;
    match seen.count(Outcome::Hit) {
        0 => Ok((seen.elapsed.as_secs_f64(), proxy.processor().saturating_sub(before))),
        hits => {
            Err(Halt::Failed(format!("{hits} of {} pages that nobody had asked for were hits", cell.urls)))
        }
    }
}

fn conclude(journal: &Journal) -> Findings {
    let cells: Vec<Measured> = journal.all("cell/");
    let (aligned, table) = table::conclude(journal);
    let mut findings = claims::claims(&cells);
    findings.push(aligned);
    Findings {
        setup: setup(&cells),
        findings,
        figures: pictures::pictures(&cells),
        tables: vec![pictures::table(&cells), table],
    }
}

fn setup(cells: &[Measured]) -> Vec<String> {
    let way = format!(
        "Pages of {} KiB, each asked for once by one of {CLIENTS} clients over HTTP, from an origin that is far (50 ms) or \
         near (2 ms). The proxy lets as many requests to the origin be under way as it has workers; clients beyond them \
         wait. Time is from the first request to the last page.",
        PAGE >> 10
    );
    let beside = "Beside it, two programs of Python's asyncio with as many places fetch the same pages straight from the same \
         origin. The report's kind runs a blocking library in the loop's default executor; the other is written for \
         asyncio (aiohttp). Neither stores anything."
        .to_owned();
    let missing = python::PROGRAMS
        .iter()
        .filter(|(name, _)| !cells.iter().any(|measured| measured.cell.system == *name));
    let missing: Vec<_> = missing.map(|(name, _)| *name).collect();
    let missing = (!missing.is_empty()).then(|| {
        format!(
            "Not measured: {}. The Python that --python names cannot import what it takes.",
            missing.join(", ")
        )
    });
    [way, beside].into_iter().chain(missing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_run_has_all_and_a_quick_one_every_number_of_workers() {
        assert_eq!(pairs(Size::Full, LARDER, "far").len(), URLS.len() * WORKERS.len());
        for (origin, _) in ORIGINS {
            let quick = pairs(Size::Quick, LARDER, origin);
            assert!(
                WORKERS.iter().all(|workers| quick.iter().any(|(_, other)| other == workers)),
                "{quick:?}"
            );
        }
        let far: f64 = pairs(Size::Quick, LARDER, "far")
            .iter()
            .map(|&(urls, workers)| f64::from(urls) * 0.051 / workers as f64)
            .sum();
        assert!(far < 10.0, "{far} s");
    }
}
