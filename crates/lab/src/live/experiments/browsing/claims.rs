//! The seed report's claims, and their verdicts.

use std::collections::BTreeSet;

use super::{COURSES, NONE, POLICIES, REPORT};
use crate::live::experiments::cell::{Measured, percents, those};
use crate::live::experiments::lists::{self, List, Run, ahead};
use crate::live::findings::{Finding, Ruling, plain};
use crate::live::{Bound, Interval, Kind};

const POINTS: (f64, &str) = (100.0, "points of hit ratio");
/// What "little" means where the seed report says that more room gains little.
const LITTLE: f64 = 0.05;
const SIZE: Kind = Kind::DependsOn("cache size");
const ABOVE: Bound = Bound::Above(0.0);
/// Why what was fitted is not tested.
const FITTED: &str = "How closely visits follow each other is not published; the datasets are fitted to this figure of the seed \
                      report. That it comes out shows that the report's figures can be true together, and not that they are.";

pub(super) fn claims(cells: &[Measured], all: &[List]) -> Vec<Finding> {
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
    let popular = "One page has nearly half of all visits. Counting visits keeps it; FIFO evicts it whenever it is the oldest, and \
                   fetches it again.";
    let even = "All pages are visited alike, so counts predict nothing, and pages of the beginning keep their places by counts from a \
                time that is over.";
    let close = "FIFO loses the popular page for one request only; LFU keeps pages for visits long ago. Which costs more depends on \
                 the size.";
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
            "Simulated. At a size it has to be ahead of each of the other four; the value is for the best of them.",
        )
        .because(&[Ruling::Holds, Ruling::Depends], "Visits come in clusters, which recency sees in small caches.")
        .because(
            &[Ruling::Depends],
            "In large caches a page that LRU evicts is one that was not visited for long, and the next visits to old pages are \
             spread: there any other choice is as good.",
        )
}

fn worst(of: &[&List], title: &str) -> Finding {
    // That MAXS is below another is that the other is ahead: the same differences with the other sign.
    let behind = ahead(of, ("maxs", &POLICIES), |run| -run.hit_ratio);
    let claim = format!("{title}: MAXS has the worst hit ratio of the five, since capacity counts URLs");
    Finding::sampled(claim, REPORT, SIZE, (behind, ABOVE), POINTS)
        .saying("Simulated. At a size it has to be below each of the other four; the value is for the worst of them.")
        .because(
            &[Ruling::Holds, Ruling::Depends],
            "Where a large page takes one place as a small one does, evicting it gains no room for more, and the smallest pages keep \
             their places whether they are requested or not.",
        )
}

/// Values by policy of one size and repetition.
fn of_all<'a>(
    cells: &'a [&Measured],
    percent: u32,
    repetition: u64,
) -> impl Iterator<Item = &'a Measured> + Clone {
    cells
        .iter()
        .filter(move |measured| measured.cell.percent == percent && measured.cell.repetition == repetition)
        .copied()
}

/// That no cache takes so many times what the slowest policy takes at the smallest size.
fn without(cells: &[&Measured], title: &str, times: f64) -> Finding {
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
            "{title}: without a cache it takes at least {times} times what the slowest policy takes in the smallest cache"
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

/// That LRU gains less than [`LITTLE`] from `enough` percent to the largest size.
fn little_beyond(of: &[&List], title: &str, enough: u32) -> Finding {
    let most = lists::percents(of).last().copied().unwrap_or(0);
    let gain = |list: &&List| Some(list.run("lru", most)?.hit_ratio - list.run("lru", enough)?.hit_ratio);
    let gains: Vec<f64> = if most > enough { of.iter().filter_map(gain).collect() } else { Vec::new() };
    let interval = Interval::of(&gains);
    let claim = format!(
        "{title}: beyond {enough}% of the URLs, more room gains little (fewer than {} points)",
        LITTLE * 100.0
    );
    let finding = Finding::given(claim, REPORT, FITTED, interval.map(|gain| gain.mean < LITTLE));
    match interval {
        Some(gain) => finding
            .with_effect(plain(&gain, POINTS.0, POINTS.1))
            .saying(format!("Simulated: what LRU gains from {enough}% to {most}%.")),
        None => finding,
    }
}
