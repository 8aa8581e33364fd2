//! The report's claims, and their verdicts.

use super::{AIOHTTP, LARDER, Measured, REPORT, URLS};
use crate::live::experiments::LARDER as OURS;
use crate::live::findings::{Finding, Ruling};
use crate::live::{Bound, Interval, Kind, Samples};

/// Where a claim is decided: what the largest number of workers does.
const MOST: usize = 64;

pub(super) fn claims(cells: &[Measured]) -> Vec<Finding> {
    let (executor, aiohttp) = ("asyncio executor", AIOHTTP);
    let rate = |measured: &Measured| measured.throughput();
    vec![
        times(
            cells,
            "With 64 in flight and a far origin, at least 3.2 times the pages a second of asyncio with blocking fetches",
            ("far", executor, 3.2),
            (rate, "pages a second"),
            "The report measured 128 pages a second against asyncio's 40, and wondered why asyncio flattened after 16 \
             threads. The default executor has as many threads as the machine has cores and four more, and 32 at most: \
             beyond that, places are there that no thread fills."
                .to_owned(),
        ),
        times(
            cells,
            "With 64 in flight and a near origin, at least 8 times the pages a second of aiohttp",
            ("near", aiohttp, 8.0),
            (rate, "pages a second"),
            bound(cells),
        ),
        times(
            cells,
            "CPU time for a page is at most a tenth of aiohttp's",
            ("near", aiohttp, 10.0),
            (|measured| 1e6 / measured.processor_us, "pages in a second of CPU time"),
            work(cells),
        ),
        efficiency(cells),
        weak_scaling(cells),
    ]
}

/// A mean over what was measured of near pages with the most workers.
fn near(cells: &[Measured], system: &str, value: fn(&Measured) -> f64) -> Option<f64> {
    let of = find(cells, system, "near", most_pages(cells, AIOHTTP, "near"), MOST);
    let values: Vec<f64> = of.iter().map(|measured| value(measured)).collect();
    Interval::of(&values).map(|interval| interval.mean)
}

/// What a page costs the proxy beside aiohttp, and why.
fn work(cells: &[Measured]) -> String {
    let does = "The proxy does more for a page than aiohttp: it takes a request, sends one, receives the page, stores it, and sends \
         it on. Most of that is the kernel's work, for two connections instead of one. It is user and system time between \
         the first request and the last page; neither's start counts.";
    let cost = |system| near(cells, system, |one| one.processor_us);
    match (cost(LARDER), cost(AIOHTTP)) {
        (Some(ours), Some(theirs)) => {
            format!("{does} A page costs {ours:.0} us here, and {theirs:.0} us of aiohttp.")
        }
        _ => does.to_owned(),
    }
}

/// What near pages cost each program, and what follows for their number.
fn bound(cells: &[Measured]) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let away =
        "With 64 in flight and 2 ms to the origin, no program can have more than 32,000 pages a second.";
    let of_ours = |value| near(cells, LARDER, value);
    let (proxy, origin) = (of_ours(|one| one.processor_us), of_ours(|one| one.origin_us));
    let clients = of_ours(|one| one.driver_us.unwrap_or(0.0));
    let aiohttp = near(cells, AIOHTTP, |one| one.processor_us);
    let (Some(proxy), Some(origin), Some(clients), Some(aiohttp)) = (proxy, origin, clients, aiohttp) else {
        return away.to_owned();
    };
    let all = proxy + origin + clients;
    format!(
        "Where the origin answers soon, what a page costs of the processor decides. Here it costs the proxy {proxy:.0} us, and \
         the origin and the clients, which share the machine with it, {origin:.0} and {clients:.0}: {cores} cores have time \
         for {:.0} such pages a second. aiohttp takes {aiohttp:.0} us of its one core. {away}",
        cores as f64 * 1e6 / all,
    )
}

fn find<'a>(
    cells: &'a [Measured],
    system: &str,
    origin: &str,
    urls: Option<u32>,
    workers: usize,
) -> Vec<&'a Measured> {
    let is_it = |measured: &&Measured| {
        let cell = &measured.cell;
        cell.system == system
            && cell.origin == origin
            && cell.workers == workers
            && urls.is_none_or(|urls| urls == cell.urls)
    };
    cells.iter().filter(is_it).collect()
}

/// The longest list that a system was measured with, and the most workers.
fn most_pages(cells: &[Measured], system: &str, origin: &str) -> Option<u32> {
    find(cells, system, origin, None, MOST).iter().map(|measured| measured.cell.urls).max()
}

/// That larder's `value` is at least `times` that of another `system`, at the most workers and the longest list that both
/// were measured with.
fn times(
    cells: &[Measured],
    claim: &str,
    (origin, system, times): (&str, &str, f64),
    (value, unit): (fn(&Measured) -> f64, &'static str),
    text: String,
) -> Finding {
    let others = find(cells, system, origin, None, MOST);
    let urls = most_pages(cells, system, origin);
    let ratio = |one: &&Measured| {
        let is_its = |other: &&&Measured| {
            Some(other.cell.urls) == urls && other.cell.repetition == one.cell.repetition
        };
        Some((one.cell.repetition, value(one) / value(others.iter().find(is_its)?)))
    };
    let ours = urls.map_or_else(Vec::new, |urls| find(cells, LARDER, origin, Some(urls), MOST));
    let mut samples = Samples::default();
    samples.add("the longest list", ours.iter().filter_map(ratio));
    let decided = (samples, Bound::Above(times));
    Finding::sampled(claim, REPORT, Kind::OnAverage, decided, (1.0, unit)).saying(text)
}

/// Throughput for each worker, against that of one alone, of cells with `workers`; with the repetition.
pub(super) fn efficiencies(
    cells: &[Measured],
    system: &str,
    origin: &str,
    urls: Option<u32>,
    workers: usize,
) -> Vec<(u64, f64)> {
    let alone = find(cells, system, origin, None, 1);
    let alone: Vec<f64> = alone.iter().map(|measured| measured.throughput()).collect();
    let Some(alone) = Interval::of(&alone) else { return Vec::new() };
    let many = find(cells, system, origin, urls, workers);
    let each = |one: &&Measured| (one.cell.repetition, one.throughput() / workers as f64 / alone.mean);
    many.iter().map(each).collect()
}

/// The number of pages that workers are judged by: the largest of those that were measured most often.
fn longest(cells: &[Measured], workers: usize) -> Option<u32> {
    let own = find(cells, LARDER, "far", None, workers);
    let repetitions = |urls: u32| own.iter().filter(|measured| measured.cell.urls == urls).count();
    own.iter().map(|measured| measured.cell.urls).max_by_key(|&urls| (repetitions(urls), urls))
}

fn efficiency(cells: &[Measured]) -> Finding {
    let mut samples = Samples::default();
    for workers in [2, 4, 8, 16, 32] {
        let Some(urls) = longest(cells, workers) else { continue };
        let values = efficiencies(cells, LARDER, "far", Some(urls), workers);
        samples.add(&format!("{workers} workers and {urls} URLs"), values);
    }
    let short = possible(URLS[0], 32);
    let claim = "Efficiency is at least 0.9 from 2 to 32 workers on a far origin";
    Finding::sampled(claim, OURS, Kind::Always, (samples, Bound::Above(0.9)), (1.0, "of perfect"))
        .saying(format!(
            "Efficiency is the throughput of each worker against that of one alone, judged by the longest list of each number \
             of workers. The last round, in which not all places have something to do, bounds it: with {} URLs and 32 workers no \
             program can exceed {short:.2}.",
            URLS[0]
        ))
        .because(&[Ruling::Holds], "A worker is a place in a queue and not a thread, so more of them cost nothing.")
}

/// The best efficiency that there can be: places that have something to do, over all places of all rounds.
pub(super) fn possible(urls: u32, workers: usize) -> f64 {
    let rounds = (urls as usize).div_ceil(workers);
    f64::from(urls) / (rounds * workers) as f64
}

/// That twice the pages with twice the workers take the same time.
fn weak_scaling(cells: &[Measured]) -> Finding {
    let mut samples = Samples::default();
    for (urls, workers) in [(164, 8), (164, 16), (164, 32), (328, 16), (328, 32), (656, 32)] {
        let small = find(cells, LARDER, "far", Some(urls), workers);
        let large = find(cells, LARDER, "far", Some(urls * 2), workers * 2);
        let ratio = |one: &&Measured| {
            let other = large.iter().find(|other| other.cell.repetition == one.cell.repetition)?;
            Some((one.cell.repetition, (other.seconds / one.seconds - 1.0).abs()))
        };
        samples.add(&format!("{urls} URLs and {workers} workers"), small.iter().filter_map(ratio));
    }
    let claim = "Twice the pages with twice the workers take the same time, within 5% (weak scaling), on a far origin";
    Finding::sampled(claim, REPORT, Kind::Always, (samples, Bound::Below(0.05)), (100.0, "% apart")).saying(
        "Both have the same number of rounds, and connections are open before the clock runs. What differs is the work of the \
         processor for twice the pages, and how full the last round is.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::Verdict;
    use crate::live::experiments::parallel::Cell;

    fn measured(system: &str, urls: u32, workers: usize, repetition: u64, seconds: f64) -> Measured {
        let (system, origin) = (system.to_owned(), "far".to_owned());
        let cell = Cell { system, origin, urls, workers, repetition };
        Measured { cell, seconds, processor_us: 50.0, origin_us: 10.0, driver_us: None }
    }

    #[test]
    fn no_more_than_full_rounds_is_possible() {
        assert_eq!((possible(164, 1), possible(128, 64)), (1.0, 1.0));
        assert!((possible(164, 32) - 164.0 / 192.0).abs() < 1e-12);
    }

    #[test]
    fn workers_are_judged_by_what_was_measured_most() {
        let runs = [(40, 2, 0), (40, 2, 1), (80, 2, 0), (80, 2, 1), (1_324, 2, 0)];
        let cells: Vec<_> =
            runs.map(|(urls, workers, at)| measured(LARDER, urls, workers, at, 1.0)).into_iter().collect();
        assert_eq!((longest(&cells, 2), longest(&cells, 4)), (Some(80), None));
    }

    #[test]
    fn a_claim_of_so_many_times_is_judged_pair_by_pair() {
        let mut cells = Vec::new();
        for (at, seconds) in [(0, 1.0), (1, 1.1), (2, 0.9)] {
            cells.push(measured(LARDER, 164, 64, at, seconds));
            cells.push(measured("asyncio executor", 164, 64, at, seconds * (4.0 + at as f64 / 50.0)));
        }
        let findings = claims(&cells);
        let decided = findings[0].decide(0.05);
        assert_eq!(decided.verdict, Verdict::Holds);
        assert!(decided.effect.starts_with("+4.02 pages a second (95% between "), "{}", decided.effect);
    }
}
