//! The headlines, and whether they stand.

use super::{LARDER, Measured, REPORT};
use crate::live::findings::{Finding, told};
use crate::live::{Contrast, Interval};

/// Where a claim is decided: what the largest number of workers does.
const MOST: usize = 64;

pub(super) fn claims(cells: &[Measured]) -> Vec<Finding> {
    let (executor, aiohttp) = ("asyncio executor", "asyncio aiohttp");
    vec![
        times(
            cells,
            "With 64 in flight and a far origin, at least 3.2 times the pages a second of asyncio with blocking fetches",
            ("far", executor, 3.2),
            Measured::throughput,
            "The report measured 128 pages a second against asyncio's 40, and wondered why asyncio flattened after 16 \
             threads. The default executor has as many threads as the machine has cores and four more, and 32 at most: \
             beyond that, places are there that no thread fills.",
        ),
        times(
            cells,
            "With 64 in flight and a near origin, at least 8 times the pages a second of aiohttp",
            ("near", aiohttp, 8.0),
            Measured::throughput,
            "Where the origin answers soon, what a page costs of the processor decides. The proxy's clients and the origin \
             share the machine with it, which holds it back, and not aiohttp.",
        ),
        times(
            cells,
            "CPU time for a page is at most a tenth of aiohttp's",
            ("near", aiohttp, 10.0),
            |measured| 1.0 / measured.processor_us,
            "User and system time: of the proxy between the first request and the last page, of the Python program from \
             its start.",
        ),
        efficiency(cells),
        weak_scaling(cells),
    ]
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

/// That larder's `value` is at least `times` that of another `system`, at the most workers.
fn times(
    cells: &[Measured],
    claim: &str,
    (origin, system, times): (&str, &str, f64),
    value: impl Fn(&Measured) -> f64,
    text: &str,
) -> Finding {
    let mut contrast = Contrast::default();
    let mut all = Vec::new();
    let others = find(cells, system, origin, None, MOST);
    let urls: std::collections::BTreeSet<u32> = others.iter().map(|measured| measured.cell.urls).collect();
    for urls in urls {
        let (ours, theirs) =
            (find(cells, LARDER, origin, Some(urls), MOST), find(cells, system, origin, Some(urls), MOST));
        let ratio = |one: &&Measured| {
            let other = theirs.iter().find(|other| other.cell.repetition == one.cell.repetition)?;
            Some(value(one) / value(other))
        };
        let ratios: Vec<f64> = ours.iter().filter_map(ratio).collect();
        if !ratios.is_empty() {
            contrast.add(&format!("{urls} URLs"), ratios.iter().map(|ratio| ratio - times).collect());
            all.extend(ratios);
        }
    }
    Finding {
        claim: claim.to_owned(),
        source: REPORT,
        verdict: contrast.verdict(),
        effect: Interval::of(&all)
            .map_or_else(String::new, |ratio| told(&ratio, 1.0, &format!("times {system}"))),
        text: text.to_owned(),
    }
}

/// Throughput for each worker, against that of one alone, of cells with `workers`; by repetition.
pub(super) fn efficiencies(
    cells: &[Measured],
    system: &str,
    origin: &str,
    urls: Option<u32>,
    workers: usize,
) -> Vec<f64> {
    let alone = find(cells, system, origin, None, 1);
    let alone: Vec<f64> = alone.iter().map(|measured| measured.throughput()).collect();
    let Some(alone) = Interval::of(&alone) else { return Vec::new() };
    let many = find(cells, system, origin, urls, workers);
    many.iter().map(|measured| measured.throughput() / workers as f64 / alone.mean).collect()
}

fn efficiency(cells: &[Measured]) -> Finding {
    let mut contrast = Contrast::default();
    let mut all = Vec::new();
    for workers in [2, 4, 8, 16, 32] {
        let values = efficiencies(cells, LARDER, "far", None, workers);
        if !values.is_empty() {
            contrast.add(&format!("{workers} workers"), values.iter().map(|value| value - 0.9).collect());
            all.extend(values);
        }
    }
    Finding {
        claim: "Efficiency is at least 0.9 from 2 to 32 workers on a far origin".to_owned(),
        source: "Larder",
        verdict: contrast.verdict(),
        effect: Interval::of(&all).map_or_else(String::new, |mean| told(&mean, 1.0, "on average")),
        text: "Efficiency is the throughput of each worker against that of one alone. A worker here is a place in a queue and \
             not a thread, so that more of them cost nothing; what is lost is the last round, in which not all places \
             have something to do, and connections that have to be made."
            .to_owned(),
    }
}

/// That twice the pages with twice the workers take the same time.
fn weak_scaling(cells: &[Measured]) -> Finding {
    let mut contrast = Contrast::default();
    let mut all = Vec::new();
    for (urls, workers) in [(164, 8), (164, 16), (164, 32), (328, 16), (328, 32), (656, 32)] {
        let small = find(cells, LARDER, "far", Some(urls), workers);
        let large = find(cells, LARDER, "far", Some(urls * 2), workers * 2);
        let ratio = |one: &&Measured| {
            let other = large.iter().find(|other| other.cell.repetition == one.cell.repetition)?;
            Some((other.seconds / one.seconds - 1.0).abs())
        };
        let ratios: Vec<f64> = small.iter().filter_map(ratio).collect();
        if !ratios.is_empty() {
            contrast.add(
                &format!("{urls} URLs and {workers} workers"),
                ratios.iter().map(|ratio| 0.05 - ratio).collect(),
            );
            all.extend(ratios);
        }
    }
    Finding {
        claim: "Twice the pages with twice the workers take the same time, within 5% (weak scaling), on a far origin".to_owned(),
        source: REPORT,
        verdict: contrast.verdict(),
        effect: Interval::of(&all).map_or_else(String::new, |mean| told(&mean, 100.0, "% apart")),
        text: "Both have the same number of rounds. What differs is how many connections have to be made at first.".to_owned(),
    }
}
