//! The seed report's claims, and their verdicts.

use super::{COURSES, LOCALITIES, PER_SIZE, POLICIES, SHUFFLED, SLOW, STAGED, seed};
use crate::experiments::LARDER;
use crate::experiments::cell::{CellResult, contrast, those};
use crate::experiments::lists::{self, List, Run, ahead, growth};
use crate::findings::{Finding, Ruling, told};
use crate::{Bound, ClaimKind, ClaimSource, Samples};

const POINTS: (f64, &str) = (100.0, "points of hit ratio");
const MILLISECONDS: (f64, &str) = (1.0, "ms");
const SIZE: ClaimKind = ClaimKind::DependsOn("cache size");
const ABOVE: Bound = Bound::Above(0.0);

pub(super) fn claims(cells: &[CellResult], lists: &[List]) -> Vec<Finding> {
    let mut found = shuffled(cells, lists);
    found.extend([local(lists), staged_time(cells, lists), puzzle(lists), clock(lists)]);
    for ((course, title), (hits, time)) in COURSES.into_iter().zip(GROWTH) {
        found.extend(with_size(&lists::those(lists, course, 0), title, (hits, time)));
    }
    found.push(grows(lists));
    found
}

/// The seed report's sentences on the growth of hits with the cache, and the fall of the time, by workload.
const GROWTH: [(ClaimSource, ClaimSource); 2] = [
    (
        seed("Also, the hit ratio increases with increase in cache size."),
        seed(
            "Also, from the graph one can observe that as the cache size increases, the access time decreases.",
        ),
    ),
    (
        seed(
            "Also the hit ratio increases with increase in cache size since a larger cache can accommodate a larger number of webpages",
        ),
        seed(
            "As expected, we also observe that as the cache size increases, there is a decrease in the average time per access.",
        ),
    ),
];

fn hits(run: &Run) -> f64 {
    run.hit_ratio
}

fn saved_time(run: &Run) -> f64 {
    -run.cost_ms
}

/// Returns the live difference of the mean times of LRU and MAXS, as a sentence.
fn live(cells: &[CellResult], course: &str) -> String {
    let of = those(cells, |cell| cell.course == course && cell.latency == PER_SIZE);
    let slower = contrast(&of, ("lru", "maxs"), |measured| measured.mean_ms);
    match slower.overall(ABOVE) {
        Some(slower) => format!("Live, LRU's mean time minus that of MAXS is {}.", told(&slower, 1.0, "ms")),
        None => String::new(),
    }
}

fn shuffled(cells: &[CellResult], all: &[List]) -> Vec<Finding> {
    let of = lists::those(all, SHUFFLED, 0);
    let maxs = ahead(&of, ("maxs", &["lru"]), hits);
    let rand = ahead(&of, ("rand", &POLICIES), hits);
    let faster = ahead(&of, ("maxs", &["lru"]), saved_time);
    vec![
        Finding::sampled(
            "Workload 1: MAXS has a better hit ratio than LRU",
            seed(
                "We observed that the MAXS eviction algorithm performed better in terms of Hit Ratio and Average Access time for \
                 random requests",
            ),
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
            seed("Hence, we assumed that the random cache eviction policy would perform the best."),
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
            seed("Hence, this reduces access latency thereby improving the average time per access in the MAXS eviction policy."),
            SIZE,
            (faster, ABOVE),
            MILLISECONDS,
        )
        .saying(format!(
            "Simulated: LRU's cost of misses for a request minus that of MAXS. MAXS has more hits, but it misses the pages with \
             the highest cost. {}",
            live(cells, SHUFFLED)
        )),
    ]
}

fn staged_time(cells: &[CellResult], all: &[List]) -> Finding {
    let faster = ahead(&lists::those(all, STAGED, 0), ("maxs", &["lru"]), saved_time);
    Finding::sampled(
        "Workload 2 without locality: MAXS has a lower mean access time than LRU",
        seed("MAXS actually has a lower average time per access and hence performs better than LRU and RANDOM for this workload."),
        SIZE,
        (faster, ABOVE),
        MILLISECONDS,
    )
    .saying(format!(
        "Simulated: LRU's cost of misses for a request minus that of MAXS; a miss costs by size. {}",
        live(cells, STAGED)
    ))
    .because(
        &[Ruling::Depends],
        "MAXS misses the largest page each round, and LRU more small pages. In a cache that can store the largest page, LRU \
         saves its cost.",
    )
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
    let claim = "Workload 2: LRU has a better hit ratio than MAXS";
    let source = seed("LRU clearly performs better than MAXS due to this reason.");
    Finding::sampled(claim, source, ClaimKind::DependsOn("locality"), (samples, ABOVE), POINTS)
        .saying(
            "Simulated. At each locality, every cache size has to show it; the value is that of the size with LRU's smallest \
             lead. The picture shows the crossing of each size.",
        )
        .because(
            &[Ruling::Depends],
            "The verdict depends on how often users return to recent pages, which the seed report does not state for its \
             workload. Without locality, recency does not predict the next request, and MAXS misses only the largest page once a \
             round.",
        )
}

/// Decides the seed report's puzzle: single lists with more hits that nevertheless take more time.
fn puzzle(all: &[List]) -> Finding {
    let count = |time: fn(&Run) -> f64| {
        let case = |lru: &Run, maxs: &Run| {
            (lru.hit_ratio > maxs.hit_ratio).then_some(f64::from(u8::from(time(maxs) < time(lru))))
        };
        let cases = by_size(all, case).into_iter().flat_map(|(_, cases)| cases).map(|(_, is_so)| is_so);
        cases.fold((0, 0), |(so, of), is_so| (so + u64::from(is_so > 0.0), of + 1))
    };
    let (by_size, apart) = (count(|run| run.cost_ms), count(|run| run.apart_ms));
    let claim = "Workload 2: for some list of requests, LRU has more hits but MAXS is faster";
    let source = seed(
        "It is interesting to observe that despite having performed worse than its peers in terms of hit ratio, MAXS actually has a \
         lower average time per access",
    );
    let finding =
        Finding::counted(claim, source, ClaimKind::Exists, (by_size.0 + apart.0, by_size.1 + apart.1));
    let finding = match by_size.1 {
        0 => finding,
        _ => finding.with_effect(format!(
            "{} of {} lists if costs do not depend on sizes; {} of {} if they depend only on them",
            apart.0, apart.1, by_size.0, by_size.1
        )),
    };
    finding
        .saying(
            "Simulated. A case is a list at one cache size for which LRU has more hits. A page's cost depends on its size, or is \
             that of another page, as on a net whose distances do not depend on sizes.",
        )
        .because(
            &[Ruling::Holds],
            "Hits count pages, and the time depends on which pages they are: a few hits on a distant page save more than many on \
             near ones. If costs depend only on sizes, LRU's additional hits are on the largest page, which costs most.",
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
            "Simulated. Misses cost {SLOW} times as much as here, some hundred milliseconds, and the client pauses for 100 to 200 \
             ms between requests. A clock of whole seconds is read before and after each request. In {count} combinations of list, \
             locality and size, LRU has more hits and less exact time."
        ))
        .because(
            &[Ruling::Fails],
            "Errors of single readings cancel in the mean of many differences, so this clock turns only close results.",
        )
}

/// Decides whether hits grow, and times fall, from each cache size to the next, in the mean of all lists.
fn with_size(
    of: &[&List],
    title: &str,
    (hits_source, time_source): (ClaimSource, ClaimSource),
) -> [Finding; 2] {
    let steps = |value: fn(&Run) -> f64| {
        let mut samples = Samples::default();
        let percents = lists::percents(of);
        for policy in POLICIES {
            for pair in percents.windows(2) {
                let step = |list: &&List| {
                    let [small, large] =
                        [pair[0], pair[1]].map(|percent| list.run(policy, percent).map(value));
                    Some((list.number, large? - small?))
                };
                samples.add(&policy.to_uppercase(), of.iter().filter_map(step));
            }
        }
        samples
    };
    let kind = ClaimKind::DependsOn("policy");
    let text = "Simulated. At each step from a cache size to the next, the mean over the lists has to show it; the value is that of \
     the smallest step.";
    [
        Finding::sampled(
            format!("{title}: the hit ratio grows with the cache size"),
            hits_source,
            kind,
            (steps(hits), ABOVE),
            POINTS,
        )
        .saying(text),
        Finding::sampled(
            format!("{title}: the mean access time falls with the cache size"),
            time_source,
            kind,
            (steps(saved_time), ABOVE),
            MILLISECONDS,
        )
        .saying(text),
    ]
}

/// Decides whether more room always increases the hits.
fn grows(all: &[List]) -> Finding {
    let (counts, worst) = growth(all);
    let claim = "For a single list, a larger cache always has more hits";
    let found = Finding::counted(claim, LARDER, ClaimKind::Always, counts);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    /// A list in which LRU has more hits than MAXS, with these costs of LRU if they depend on sizes, and if not.
    fn list(number: u64, lru: [f64; 2]) -> List {
        let run = |policy: &str, hit_ratio, [cost_ms, apart_ms]: [f64; 2]| Run {
            policy: policy.to_owned(),
            percent: 10,
            hit_ratio,
            cost_ms,
            apart_ms,
            clocked_ms: 0.0,
            exact_ms: 0.0,
        };
        let runs = vec![run("lru", 0.5, lru), run("maxs", 0.4, [2.0, 2.0])];
        List { course: STAGED.to_owned(), locality: 0, number, runs }
    }

    #[test]
    fn a_single_list_with_more_hits_and_more_time_is_an_example() {
        let decide = |lists: &[List]| {
            let finding = puzzle(lists);
            let judged = finding.decide(0.05);
            (judged.verdict.clone(), judged.effect)
        };
        let (verdict, effect) = decide(&[list(0, [1.0, 1.0]), list(1, [1.0, 3.0])]);
        assert_eq!(verdict, Verdict::Holds);
        assert_eq!(
            effect,
            "1 of 2 lists if costs do not depend on sizes; 0 of 2 if they depend only on them"
        );
        assert!(matches!(decide(&[list(0, [1.0, 1.0])]).0, Verdict::Open(_)));
    }

    #[test]
    fn simulated_lists_decide_the_time_of_workload_2() {
        let lists: Vec<List> = (0..80).map(|number| list(number, [1.0 + number as f64 / 1e3, 1.0])).collect();
        let decided = staged_time(&[], &lists);
        assert_eq!(decided.decide(0.05).verdict, Verdict::Fails);
    }
}
