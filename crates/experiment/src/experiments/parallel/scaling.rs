//! Claims about speedup and efficiency over the number of workers, and about a cache that is filled in part.

use super::claims::{MOST, find};
use super::{Cell, CellResult, DISTANCES, EXECUTOR, HALF, LARDER, URLS, WORKERS, seed};
use crate::experiments::LARDER as OURS;
use crate::findings::{Finding, Ruling};
use crate::{Bound, ClaimKind, Interval, Samples};

pub(super) fn claims(cells: &[CellResult]) -> [Finding; 5] {
    [slope(cells), efficiency(cells), weak_scaling(cells), efficiency_of_asyncio(cells), half_full(cells)]
}

/// Decides whether pages that are stored already make the others no slower.
fn half_full(cells: &[CellResult]) -> Finding {
    let source = seed(
        "A server with a partial filled cache will certainly handle more requests/sec than a server with no cache or one with an empty \
         cache",
    );
    let mut samples = Samples::default();
    for (origin, _) in DISTANCES {
        for half in cells.iter().filter(|one| one.cell.system == HALF && one.cell.origin == origin) {
            let Cell { urls, workers, repetition, .. } = half.cell;
            let empty = find(cells, LARDER, origin, Some(urls), workers);
            let same = empty.into_iter().find(|one| one.cell.repetition == repetition);
            let ratio = same.map(|empty| (repetition, half.throughput() / empty.throughput()));
            samples.extend(&format!("{origin} origin, {urls} URLs, {workers} workers"), ratio);
        }
    }
    let claim = "A cache that has half of the pages serves more pages a second than an empty one";
    let kind = ClaimKind::DependsOn("origin");
    Finding::sampled(claim, source, kind, (samples, Bound::Above(1.0)), (1.0, "times the pages a second"))
        .saying("Half of the pages were requested before. The same requests go to both.")
}

/// Returns the throughput per worker in relation to that of a single worker, of cells with `workers`, with the
/// repetition.
fn efficiencies(
    cells: &[CellResult],
    system: &str,
    origin: &str,
    urls: Option<u32>,
    workers: usize,
) -> Vec<(u64, f64)> {
    let alone = find(cells, system, origin, None, 1);
    let alone: Vec<f64> = alone.iter().map(|measured| measured.throughput()).collect();
    let Some(alone) = Interval::of(&alone) else { return Vec::new() };
    let many = find(cells, system, origin, urls, workers);
    let each = |one: &&CellResult| (one.cell.repetition, one.throughput() / workers as f64 / alone.mean);
    many.iter().map(each).collect()
}

/// Returns the number of pages for the comparison of workers: the largest of those with the most measurements.
fn longest(cells: &[CellResult], workers: usize) -> Option<u32> {
    let own = find(cells, LARDER, "far", None, workers);
    let repetitions = |urls: u32| own.iter().filter(|measured| measured.cell.urls == urls).count();
    own.iter().map(|measured| measured.cell.urls).max_by_key(|&urls| (repetitions(urls), urls))
}

/// Decides whether each further worker adds more than the first has.
fn slope(cells: &[CellResult]) -> Finding {
    let speedups = |workers: usize| -> Vec<(u64, f64)> {
        let Some(urls) = longest(cells, workers) else { return Vec::new() };
        let efficiencies = efficiencies(cells, LARDER, "far", Some(urls), workers);
        efficiencies.into_iter().map(|(repetition, each)| (repetition, each * workers as f64)).collect()
    };
    let mut samples = Samples::default();
    for pair in WORKERS[..5].windows(2) {
        let (small, large) = (speedups(pair[0]), speedups(pair[1]));
        let slope = |(repetition, speedup): &(u64, f64)| {
            let (_, other) = small.iter().find(|(other, _)| other == repetition)?;
            Some((*repetition, (speedup - other) / (pair[1] - pair[0]) as f64))
        };
        samples.add(&format!("from {} to {} workers", pair[0], pair[1]), large.iter().filter_map(slope));
    }
    let claim = "On a far origin, each further worker adds more than the pages a second of one worker, up to 16 workers";
    let source = seed(
        "Speedup of our proxy server is quite good, with a slope > 1 for all input sizes until 16 threads in the pool (Figure 4).",
    );
    let kind = ClaimKind::DependsOn("number of workers");
    Finding::sampled(claim, source, kind, (samples, Bound::Above(1.0)), (1.0, "times one worker's pages a second"))
        .because(
            &[Ruling::Fails, Ruling::Depends, Ruling::Open],
            "A worker waits for the origin, so twice as many workers have at most twice as many answers. A slope above 1 needs \
             something that the first worker pays for all: the seed report's first worker also opened the connections.",
        )
}

/// Shows that a worker costs nothing here.
fn efficiency(cells: &[CellResult]) -> Finding {
    let of = |workers: usize| {
        let values = efficiencies(cells, LARDER, "far", Some(longest(cells, workers)?), workers);
        let values: Vec<f64> = values.into_iter().map(|(_, value)| value).collect();
        Some((workers, Interval::of(&values)?.mean))
    };
    let all: Vec<(usize, f64)> = [2, 4, 8, 16, 32].into_iter().filter_map(of).collect();
    let short = possible(URLS[0], 32);
    let claim = "Efficiency is at least 0.9 from 2 to 32 workers on a far origin";
    let why = "A worker is a place in a queue, not a thread, so more workers have no cost.";
    let is_so = (!all.is_empty()).then(|| all.iter().all(|(_, mean)| *mean >= 0.9));
    let told: Vec<_> =
        all.iter().map(|(workers, mean)| format!("{mean:.2} with {workers} workers")).collect();
    let finding = Finding::given(claim, OURS, why, is_so);
    let finding = if told.is_empty() { finding } else { finding.with_effect(told.join(", ")) };
    finding.saying(format!(
        "Efficiency is the throughput of each worker relative to that of a single worker, on the longest list for each number of \
         workers. In the last round, some places are empty, which limits it: with {} URLs and 32 workers, no program can exceed \
         {short:.2}.",
        URLS[0]
    ))
}

/// Decides the seed report's observation on asyncio.
fn efficiency_of_asyncio(cells: &[CellResult]) -> Finding {
    let of = |workers| efficiencies(cells, EXECUTOR, "far", Some(URLS[0]), workers);
    let (few, many) = (of(8), of(MOST));
    let few: Vec<f64> = few.into_iter().map(|(_, efficiency)| efficiency).collect();
    let few = Interval::of(&few).map(|few| few.mean);
    let ratios = many.into_iter().filter_map(|(repetition, many)| Some((repetition, many / few?)));
    let mut samples = Samples::default();
    samples.add("64 places", ratios);
    let claim = format!(
        "The efficiency of asyncio's default executor falls by half or more from 8 to {MOST} places, on a far origin"
    );
    let source = seed(
        "Efficiency of asyncio drops sharply as the number of threads increases past 8, for all input sizes.",
    );
    let kind = ClaimKind::OnAverage;
    Finding::sampled(claim, source, kind, (samples, Bound::Below(0.5)), (100.0, "% of that with 8 places"))
        .because(
            &[Ruling::Holds],
            "The executor has four threads more than there are cores, whatever the number of places.",
        )
}

/// Returns the maximum possible efficiency: used places over all places of all rounds.
pub(super) fn possible(urls: u32, workers: usize) -> f64 {
    let rounds = (urls as usize).div_ceil(workers);
    f64::from(urls) / (rounds * workers) as f64
}

/// Decides the claim that twice the pages with twice the workers take the same time.
fn weak_scaling(cells: &[CellResult]) -> Finding {
    let mut samples = Samples::default();
    for (urls, workers) in [(164, 8), (164, 16), (164, 32), (328, 16), (328, 32), (656, 32)] {
        let small = find(cells, LARDER, "far", Some(urls), workers);
        let large = find(cells, LARDER, "far", Some(urls * 2), workers * 2);
        let ratio = |one: &&CellResult| {
            let other = large.iter().find(|other| other.cell.repetition == one.cell.repetition)?;
            Some((one.cell.repetition, (other.seconds / one.seconds - 1.0).abs()))
        };
        samples.add(&format!("{urls} URLs and {workers} workers"), small.iter().filter_map(ratio));
    }
    let claim = "Twice the pages with twice the workers take the same time, within 5% (weak scaling), on a far origin";
    let source = seed("However, our server nearly exhibits weak scalability.");
    Finding::sampled(claim, source, ClaimKind::Always, (samples, Bound::Below(0.05)), (100.0, "% apart")).saying(
        "Both have the same number of rounds, and connections are open before the measurement. They differ in the processor's \
         work for twice the pages, and in the number of empty places in the last round.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_judged_by_what_was_measured_most() {
        let measured = |(urls, repetition)| CellResult {
            cell: Cell { system: LARDER.to_owned(), origin: "far".to_owned(), urls, workers: 2, repetition },
            seconds: 1.0,
            processor_us: 0.0,
            origin_us: 0.0,
            driver_us: None,
            peak: None,
            p99_ms: None,
            slowest_ms: None,
        };
        let cells = [(40, 0), (40, 1), (80, 0), (80, 1), (1_324, 0)].map(measured);
        assert_eq!((longest(&cells, 2), longest(&cells, 4)), (Some(80), None));
    }

    #[test]
    fn no_more_than_full_rounds_is_possible() {
        assert_eq!((possible(164, 1), possible(128, 64)), (1.0, 1.0));
        assert!((possible(164, 32) - 164.0 / 192.0).abs() < 1e-12);
    }
}
