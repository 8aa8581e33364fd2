//! The seed report's claims, and their verdicts.

use super::{COURSES, LATENCIES, LOCALITIES, PER_SIZE, POLICIES, REPORT, SHUFFLED, SLOW, STAGED};
use crate::experiments::LARDER;
use crate::experiments::cell::{CellResult, contrast, those};
use crate::experiments::lists::{self, List, Run, ahead, growth};
use crate::findings::{Finding, Ruling};
use crate::{Bound, ClaimKind, Samples};

const POINTS: (f64, &str) = (100.0, "points of hit ratio");
const MILLISECONDS: (f64, &str) = (1.0, "ms");
const SIZE: ClaimKind = ClaimKind::DependsOn("cache size");
const ABOVE: Bound = Bound::Above(0.0);

pub(super) fn claims(cells: &[CellResult], lists: &[List]) -> Vec<Finding> {
    let mut found = shuffled(cells, lists);
    found.extend(staged(cells, lists));
    found.extend([local(lists), puzzle(lists), clock(lists), grows(lists)]);
    found
}

fn hits(run: &Run) -> f64 {
    run.hit_ratio
}

/// Returns the milliseconds by which one policy is slower than another, live.
fn slower(cells: &[CellResult], (course, latency): (&str, &str), policies: (&str, &str)) -> Samples {
    let of = those(cells, |cell| cell.course == course && cell.latency == latency);
    contrast(&of, policies, |measured| measured.mean_ms)
}

fn shuffled(cells: &[CellResult], all: &[List]) -> Vec<Finding> {
    let of = lists::those(all, SHUFFLED, 0);
    let maxs = ahead(&of, ("maxs", &["lru"]), hits);
    let rand = ahead(&of, ("rand", &POLICIES), hits);
    let faster = slower(cells, (SHUFFLED, PER_SIZE), ("lru", "maxs"));
    vec![
        Finding::sampled(
            "Workload 1: MAXS has a better hit ratio than LRU",
            REPORT,
            SIZE,
            (maxs, ABOVE),
            POINTS,
        )
        .saying("Simulated, by cache size.")
        .because(
            &[Ruling::Holds, Ruling::Depends],
            "Requests are shuffled, so recent requests do not predict the next. The number of stored pages decides: MAXS evicts \
             one large page where other policies evict many small ones, and a few large pages take most of the bytes.",
        ),
        Finding::sampled(
            "Workload 1: RAND has the best hit ratio (the authors' expectation before they measured)",
            REPORT,
            SIZE,
            (rand, ABOVE),
            POINTS,
        )
        .saying("Simulated, by cache size, against each other policy; the value compares with the best of them.")
        .because(
            &[Ruling::Fails],
            "RAND rarely evicts a large page, so it stores fewer pages than MAXS.",
        ),
        Finding::sampled(
            "Workload 1: MAXS has a lower mean access time than LRU",
            REPORT,
            SIZE,
            (faster, ABOVE),
            MILLISECONDS,
        )
        .saying("Live: LRU's mean time minus that of MAXS. MAXS has more hits, but it misses the pages with the highest cost."),
    ]
}

fn staged(cells: &[CellResult], all: &[List]) -> Vec<Finding> {
    let lru = ahead(&lists::those(all, STAGED, 0), ("lru", &["maxs"]), hits);
    let mut found = vec![
        Finding::sampled(
            "Workload 2 without locality: LRU has a better hit ratio than MAXS",
            REPORT,
            SIZE,
            (lru, ABOVE),
            POINTS,
        )
        .saying("Simulated. Small pages are drawn with equal probability, so recency does not predict the next request.")
        .because(
            &[Ruling::Fails, Ruling::Depends],
            "Each round ends with the largest page. MAXS evicts it first, so it misses this page once a round and stores more \
             small pages.",
        ),
    ];
    for (latency, cost) in LATENCIES {
        let time = slower(cells, (STAGED, latency), ("lru", "maxs"));
        if latency == PER_SIZE || !time.is_empty() {
            let claim =
                format!("Workload 2 without locality: MAXS has a lower mean access time than LRU ({cost})");
            found.push(
                Finding::sampled(claim, REPORT, SIZE, (time, ABOVE), MILLISECONDS)
                    .saying("Live: LRU's mean time minus that of MAXS."),
            );
        }
    }
    found
}

/// A locality with a cache size, and a value for each list.
type AtSize = ((u32, u32), Vec<(u64, f64)>);

/// Returns the results of `compare` for the runs of LRU and MAXS on workload 2, by locality and cache size.
fn by_size(all: &[List], compare: impl Fn(&Run, &Run) -> Option<f64>) -> Vec<AtSize> {
    let mut found = Vec::new();
    for locality in LOCALITIES {
        let of = lists::those(all, STAGED, locality);
        for percent in lists::percents(&of) {
            let value = |list: &&List| {
                let value = compare(list.run("lru", percent)?, list.run("maxs", percent)?)?;
                Some((list.number, value))
            };
            found.push(((locality, percent), of.iter().filter_map(value).collect()));
        }
    }
    found
}

/// Decides the claim about LRU's hits against MAXS's, by locality, and for each locality over all sizes.
fn local(all: &[List]) -> Finding {
    let mut samples = Samples::default();
    for ((locality, _), leads) in by_size(all, |lru, maxs| Some(lru.hit_ratio - maxs.hit_ratio)) {
        samples.add(&format!("{locality}% locality"), leads);
    }
    let claim = "Workload 2: LRU has a better hit ratio than MAXS at all cache sizes";
    Finding::sampled(claim, REPORT, ClaimKind::DependsOn("locality"), (samples, ABOVE), POINTS)
        .saying(
            "Simulated. At each locality, every cache size has to show it; the value is that of the size with LRU's smallest \
             lead. The picture shows the crossing of each size.",
        )
        .because(
            &[Ruling::Depends],
            "The verdict depends on how often users return to recent pages. The seed report does not state this for its \
             workload.",
        )
}

/// Decides the seed report's puzzle: cases with more hits that nevertheless take more time.
fn puzzle(all: &[List]) -> Finding {
    let mut samples = Samples::default();
    for value in [hits, |run: &Run| run.cost_ms] {
        let more = |lru: &Run, maxs: &Run| Some(larder_lab::replay::ratio(value(lru), value(maxs)) - 1.0);
        for ((locality, percent), values) in by_size(all, more) {
            samples.add(&format!("{locality}% locality, cache of {percent}%"), values);
        }
    }
    let claim = "Workload 2: at some locality and cache size, LRU has more hits but MAXS is faster";
    Finding::sampled(claim, REPORT, ClaimKind::Exists, (samples, ABOVE), (100.0, "%"))
        .saying(
            "Simulated; the cost of a miss depends on its size. For hits and for time, the value is LRU's over MAXS's, minus 1. \
             Both have to be above 0 at the same locality and size; the smaller one is printed.",
        )
        .because(
            &[Ruling::Fails, Ruling::Open],
            "LRU's additional hits are on the largest page, which costs most. Fewer and cheaper misses cannot take more time. An \
             exact clock does not show the puzzle here.",
        )
        .because(
            &[Ruling::Holds],
            "Hits count pages, and time depends on bytes: many hits on small pages can save less than a few hits on large ones.",
        )
}

/// Decides whether the authors' clock explains the puzzle, from lists in which LRU has more hits and is faster by an
/// exact clock.
fn clock(all: &[List]) -> Finding {
    let turns = |lru: &Run, maxs: &Run| {
        let is_case = lru.hit_ratio > maxs.hit_ratio && lru.exact_ms < maxs.exact_ms;
        let turns = if lru.clocked_ms > maxs.clocked_ms { 1.0 } else { 0.0 };
        is_case.then_some(turns)
    };
    let cases: Vec<_> = by_size(all, turns).into_iter().flat_map(|(_, turns)| turns).collect();
    let claim = "The authors' clock of whole seconds explains their puzzle: in most lists where LRU is faster, it shows MAXS as \
     faster";
    let (mut samples, count) = (Samples::default(), cases.len());
    samples.add("all", cases);
    Finding::sampled(claim, LARDER, ClaimKind::OnAverage, (samples, Bound::Above(0.5)), (100.0, "% of the cases of a list"))
        .saying(format!(
            "Simulated. Misses cost {SLOW} times as much as here, some hundred milliseconds. A clock of whole seconds is read \
             before and after each request. In {count} combinations of list, locality and size, LRU has more hits and less exact \
             time."
        ))
        .because(
            &[Ruling::Fails],
            "Errors of single readings cancel: the mean of many differences of readings is nearly exact. So this clock explains \
             only close results.",
        )
}

/// Decides whether more room always increases the hits.
fn grows(all: &[List]) -> Finding {
    let (counts, worst) = growth(all);
    let found =
        Finding::counted("The hit ratio grows with the cache, always", REPORT, ClaimKind::Always, counts);
    let found = match worst {
        None => found,
        Some((list, policy, percent, fall)) => {
            let title = COURSES.iter().find(|(name, _)| *name == list.course).map_or("", |(_, title)| title);
            found.with_effect(format!(
                "it grows in {} of {} lists and policies; the largest decrease is {:.1} points, of {} at a cache of {percent}% \
                 ({title}, locality {}%)",
                counts.0,
                counts.1,
                fall * 100.0,
                policy.to_uppercase(),
                list.locality
            ))
        }
    };
    found
        .saying("Simulated. A case is a list of requests under LRU or MAXS, over all cache sizes in ascending order.")
        .because(
            &[Ruling::Fails],
            "A cache that is large enough for the largest page stores it once a round, in the room of many small pages. LRU \
             evicts these small pages for it. MAXS evicts the largest page first, but storing it also evicts other pages. So a \
             larger cache has fewer hits.",
        )
}
