//! The seed report's claims, and their verdicts.

use std::collections::BTreeSet;

use super::{COURSES, NONE, POLICIES, REPORT};
use crate::experiments::cell::{CellResult, percents, those};
use crate::experiments::lists::{self, List, Run, ahead};
use crate::findings::{Finding, Ruling, plain};
use crate::{Bound, ClaimKind, Interval};

const POINTS: (f64, &str) = (100.0, "points of hit ratio");
/// The meaning of "little" in the seed report's statement that more room gains little.
const LITTLE: f64 = 0.05;
const SIZE: ClaimKind = ClaimKind::DependsOn("cache size");
const ABOVE: Bound = Bound::Above(0.0);
/// The reason why fitted figures are not tested.
const FITTED: &str = "The distance between visits is not published, so the datasets are fitted to this figure of the seed \
 report. The result shows that the seed report's figures are consistent, not that they are true.";

pub(super) fn claims(cells: &[CellResult], all: &[List]) -> Vec<Finding> {
    let mut found = Vec::new();
    for ((course, title), times, enough) in [(COURSES[0], 4.0, 20), (COURSES[1], 2.0, 30)] {
        let of = lists::those(all, course, 0);
        found.push(best(&of, title));
        found.push(worst(&of, title));
        found.push(without(&those(cells, |cell| cell.course == course), title, times));
        found.push(little_beyond(&of, title, enough));
    }
    let order = |course: &str, (one, other): (&str, &str)| {
        ahead(&lists::those(all, course, 0), (one, &[other]), hits)
    };
    let popular = "One page has nearly half of all visits. LFU keeps it, because it counts visits. FIFO evicts it each time it \
     is the oldest page, and fetches it again.";
    let even = "All pages have similar numbers of visits, so counts do not predict the next visit. LFU keeps early pages for \
     their old counts.";
    let close = "FIFO misses the popular page once after each eviction; LFU keeps pages for old visits. The cache size decides \
     which costs more.";
    let orders = [
        ("Dataset 1: LFU has a better hit ratio than FIFO", ("one", ("lfu", "fifo")), popular),
        ("Dataset 2: FIFO has a better hit ratio than LFU", ("two", ("fifo", "lfu")), even),
    ];
    for (claim, (course, policies), text) in orders {
        found.push(
            Finding::sampled(claim, REPORT, SIZE, (order(course, policies), ABOVE), POINTS)
                .saying("Simulated, by cache size.")
                .because(&[Ruling::Holds], text)
                .because(&[Ruling::Depends], close),
        );
    }
    found
}

fn hits(run: &Run) -> f64 {
    run.hit_ratio
}

fn best(of: &[&List], title: &str) -> Finding {
    let claim = format!("{title}: LRU has the best hit ratio of the five");
    Finding::sampled(claim, REPORT, SIZE, (ahead(of, ("lru", &POLICIES), hits), ABOVE), POINTS)
        .saying(
            "Simulated. At a size, it has to be ahead of each of the other four; the value compares with the best of them.",
        )
        .because(&[Ruling::Holds, Ruling::Depends], "Visits to a page come in clusters, so recency predicts the next visit in \
         small caches.")
        .because(
            &[Ruling::Depends],
            "In large caches, LRU evicts pages without a recent visit, and the next visits are spread evenly over old pages. \
             There any other choice is as good.",
        )
}

fn worst(of: &[&List], title: &str) -> Finding {
    // MAXS is below another policy if the other is ahead: these are the same differences with the opposite sign.
    let behind = ahead(of, ("maxs", &POLICIES), |run| -run.hit_ratio);
    let claim = format!("{title}: MAXS has the worst hit ratio of the five, since capacity counts URLs");
    Finding::sampled(claim, REPORT, SIZE, (behind, ABOVE), POINTS)
        .saying("Simulated. At a size, it has to be below each of the other four; the value compares with the worst of them.")
        .because(
            &[Ruling::Holds, Ruling::Depends],
            "A large page takes one place, like a small one, so evicting it makes no room for several pages. And the smallest \
             pages stay stored even without requests.",
        )
}

/// Returns the values by policy, for one size and repetition.
fn of_all<'a>(
    cells: &'a [&CellResult],
    percent: u32,
    repetition: u64,
) -> impl Iterator<Item = &'a CellResult> + Clone {
    cells
        .iter()
        .filter(move |measured| measured.cell.percent == percent && measured.cell.repetition == repetition)
        .copied()
}

/// Decides the claim that no cache takes `times` times the time of the slowest policy at the smallest size.
fn without(cells: &[&CellResult], title: &str, times: f64) -> Finding {
    let cached: Vec<_> = cells.iter().filter(|measured| measured.cell.policy != NONE).copied().collect();
    let least = percents(&cached).first().copied().unwrap_or(0);
    let by_time = |&repetition: &u64| {
        let none = of_all(cells, 0, repetition).find(|measured| measured.cell.policy == NONE)?;
        let slowest = of_all(&cached, least, repetition).max_by(|a, b| a.seconds.total_cmp(&b.seconds))?;
        Some((none.seconds, slowest))
    };
    let repetitions: BTreeSet<u64> = cells.iter().map(|measured| measured.cell.repetition).collect();
    let runs: Vec<_> = repetitions.iter().filter_map(by_time).collect();
    let ratios: Vec<f64> = runs.iter().map(|(none, slowest)| none / slowest.seconds).collect();
    let names: BTreeSet<_> = runs.iter().map(|(_, slowest)| slowest.cell.policy.to_uppercase()).collect();
    let slowest = names.into_iter().collect::<Vec<_>>().join(", ");
    let interval = Interval::of(&ratios);
    let finding = Finding::given(
        format!(
            "{title}: without a cache, all requests take at least {times} times as long as with the slowest policy in the \
             smallest cache"
        ),
        REPORT,
        FITTED,
        interval.map(|interval| interval.mean >= times),
    );
    match interval {
        Some(interval) => finding
            .with_effect(plain(&interval, 1.0, "times as long"))
            .saying(format!("Live, in a cache of {least}% of the URLs. The slowest policy is {slowest}.")),
        None => finding,
    }
}

/// Decides the claim that LRU gains less than [`LITTLE`] from `enough` percent to the largest size.
fn little_beyond(of: &[&List], title: &str, enough: u32) -> Finding {
    let most = lists::percents(of).last().copied().unwrap_or(0);
    let gain = |list: &&List| Some(list.run("lru", most)?.hit_ratio - list.run("lru", enough)?.hit_ratio);
    let gains: Vec<f64> = if most > enough { of.iter().filter_map(gain).collect() } else { Vec::new() };
    let interval = Interval::of(&gains);
    let claim = format!(
        "{title}: beyond {enough}% of the URLs, a larger cache gains little (fewer than {} points)",
        LITTLE * 100.0
    );
    let finding = Finding::given(claim, REPORT, FITTED, interval.map(|gain| gain.mean < LITTLE));
    match interval {
        Some(gain) => finding
            .with_effect(plain(&gain, POINTS.0, POINTS.1))
            .saying(format!("Simulated: LRU's gain from {enough}% to {most}%.")),
        None => finding,
    }
}
