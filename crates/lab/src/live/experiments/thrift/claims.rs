//! The seed report's claims, and their verdicts.

use super::{COURSES, LATENCIES, LOCALITIES, PER_SIZE, POLICIES, REPORT, SHUFFLED, SLOW, STAGED};
use crate::live::experiments::LARDER;
use crate::live::experiments::cell::{Measured, contrast, those};
use crate::live::experiments::lists::{self, List, Run, ahead, growth};
use crate::live::findings::{Finding, Ruling};
use crate::live::{Bound, Kind, Samples};

const POINTS: (f64, &str) = (100.0, "points of hit ratio");
const MILLISECONDS: (f64, &str) = (1.0, "ms");
const SIZE: Kind = Kind::DependsOn("cache size");
const ABOVE: Bound = Bound::Above(0.0);

pub(super) fn claims(cells: &[Measured], lists: &[List]) -> Vec<Finding> {
    let mut found = shuffled(cells, lists);
    found.extend(staged(cells, lists));
    found.extend([local(lists), puzzle(lists), clock(lists), grows(lists)]);
    found
}

fn hits(run: &Run) -> f64 {
    run.hit_ratio
}

/// Milliseconds that one policy is slower than another, live.
fn slower(cells: &[Measured], (course, latency): (&str, &str), policies: (&str, &str)) -> Samples {
    let of = those(cells, |cell| cell.course == course && cell.latency == latency);
    contrast(&of, policies, |measured| measured.mean_ms)
}

fn shuffled(cells: &[Measured], all: &[List]) -> Vec<Finding> {
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
            "Requests are shuffled, so recent requests do not predict the next. What counts is how many pages fit: MAXS evicts \
             one large page where others evict many small ones, and a few large pages take most of the bytes.",
        ),
        Finding::sampled(
            "Workload 1: RAND has the best hit ratio (the authors' expectation before they measured)",
            REPORT,
            SIZE,
            (rand, ABOVE),
            POINTS,
        )
        .saying("Simulated, by cache size, against each of the other policies; the value is for the best of them.")
        .because(
            &[Ruling::Fails],
            "A policy that evicts any page seldom evicts a large one, and so holds fewer pages than MAXS.",
        ),
        Finding::sampled(
            "Workload 1: MAXS has a lower mean access time than LRU",
            REPORT,
            SIZE,
            (faster, ABOVE),
            MILLISECONDS,
        )
        .saying("Live: LRU's mean time less that of MAXS. MAXS has more hits, but misses the pages that cost most."),
    ]
}

fn staged(cells: &[Measured], all: &[List]) -> Vec<Finding> {
    let lru = ahead(&lists::those(all, STAGED, 0), ("lru", &["maxs"]), hits);
    let mut found = vec![
        Finding::sampled(
            "Workload 2 without locality: LRU has a better hit ratio than MAXS",
            REPORT,
            SIZE,
            (lru, ABOVE),
            POINTS,
        )
        .saying("Simulated. Small pages are drawn evenly, so the order in which LRU keeps them says nothing of the next request.")
        .because(
            &[Ruling::Fails, Ruling::Depends],
            "Each round ends with the largest page. MAXS evicts it whenever room is needed, and misses it once a round; in \
             exchange it keeps more of the small pages.",
        ),
    ];
    for (latency, cost) in LATENCIES {
        let time = slower(cells, (STAGED, latency), ("lru", "maxs"));
        if latency == PER_SIZE || !time.is_empty() {
            let claim =
                format!("Workload 2 without locality: MAXS has a lower mean access time than LRU ({cost})");
            found.push(
                Finding::sampled(claim, REPORT, SIZE, (time, ABOVE), MILLISECONDS)
                    .saying("Live: LRU's mean time less that of MAXS."),
            );
        }
    }
    found
}

/// A locality, a cache size, and a value for each list.
type AtSize = ((u32, u32), Vec<(u64, f64)>);

/// What `compare` says of the runs of LRU and MAXS on workload 2, by locality and cache size.
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

/// LRU against MAXS in hits, by locality; at each, over all sizes.
fn local(all: &[List]) -> Finding {
    let mut samples = Samples::default();
    for ((locality, _), leads) in by_size(all, |lru, maxs| Some(lru.hit_ratio - maxs.hit_ratio)) {
        samples.add(&format!("{locality}% locality"), leads);
    }
    let claim = "Workload 2: LRU has a better hit ratio than MAXS at all cache sizes";
    Finding::sampled(claim, REPORT, Kind::DependsOn("locality"), (samples, ABOVE), POINTS)
        .saying(
            "Simulated. At each locality every cache size has to show it; the value is for the size at which LRU is least ahead. The \
             picture has the crossing of each size.",
        )
        .because(
            &[Ruling::Depends],
            "The verdict depends on how often users return to what they just saw, which the seed report does not say of its workload.",
        )
}

/// The seed report's puzzle, in one place: more hits, and yet more time.
fn puzzle(all: &[List]) -> Finding {
    let mut samples = Samples::default();
    for value in [hits, |run: &Run| run.cost_ms] {
        let more = |lru: &Run, maxs: &Run| Some(crate::replay::ratio(value(lru), value(maxs)) - 1.0);
        for ((locality, percent), values) in by_size(all, more) {
            samples.add(&format!("{locality}% locality, cache of {percent}%"), values);
        }
    }
    let claim = "Workload 2: there are a locality and a cache size at which LRU has more hits and MAXS is faster all the same";
    Finding::sampled(claim, REPORT, Kind::Exists, (samples, ABOVE), (100.0, "%"))
        .saying(
            "Simulated, with what misses cost by size. LRU over MAXS, less 1, of hits and of time: both have to be above 0 at \
             the same locality and size, and the value is the smaller.",
        )
        .because(
            &[Ruling::Fails, Ruling::Open],
            "Where LRU has more hits, it has them on the largest page, which costs most: fewer misses and cheaper ones cannot take more \
             time. An exact clock does not show the puzzle here.",
        )
        .because(
            &[Ruling::Holds],
            "Hits count pages and time counts bytes: more hits on small pages can be worth less than fewer on large ones.",
        )
}

/// Whether the authors' clock explains the puzzle: in lists in which LRU has more hits and is faster by an exact clock.
fn clock(all: &[List]) -> Finding {
    let turns = |lru: &Run, maxs: &Run| {
        let is_case = lru.hit_ratio > maxs.hit_ratio && lru.exact_ms < maxs.exact_ms;
        let turns = if lru.clocked_ms > maxs.clocked_ms { 1.0 } else { 0.0 };
        is_case.then_some(turns)
    };
    let cases: Vec<_> = by_size(all, turns).into_iter().flat_map(|(_, turns)| turns).collect();
    let claim = "The authors' clock of whole seconds explains their puzzle: it shows MAXS as the faster one where LRU is, in most lists";
    let (mut samples, count) = (Samples::default(), cases.len());
    samples.add("all", cases);
    Finding::sampled(claim, LARDER, Kind::OnAverage, (samples, Bound::Above(0.5)), (100.0, "% of the cases of a list"))
        .saying(format!(
            "Simulated, with misses that cost {SLOW} times as much as here, some hundred milliseconds, and a clock that is read before and after \
             each request and shows whole seconds: in {count} combinations of list, locality and size LRU has more hits and less exact time."
        ))
        .because(
            &[Ruling::Fails],
            "A reading loses as much as another gains: the mean of many differences of readings is nearly exact, so this clock \
             explains no more than a close result.",
        )
}

/// Whether more room always brings more hits.
fn grows(all: &[List]) -> Finding {
    let (counts, worst) = growth(all);
    let found = Finding::counted("The hit ratio grows with the cache, always", REPORT, Kind::Always, counts);
    let found = match worst {
        None => found,
        Some((list, policy, percent, fall)) => {
            let title = COURSES.iter().find(|(name, _)| *name == list.course).map_or("", |(_, title)| title);
            found.with_effect(format!(
                "it does in {} of {} lists and policies; the deepest fall is {:.1} points, of {} to a cache of {percent}% \
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
        .saying("Simulated: a case is a list of requests under LRU or MAXS, over all cache sizes in ascending order.")
        .because(
            &[Ruling::Fails],
            "When the cache becomes large enough to take the largest page, that page begins to be stored, once a round, and takes the \
             room of many small pages. Under LRU these are evicted for it; under MAXS it is the first to leave again, but its \
             coming clears room as well: with more room there are fewer hits.",
        )
}
