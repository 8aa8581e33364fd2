//! The seed report's claims, and their verdicts.

use std::collections::BTreeSet;

use super::{COURSES, LOOSE, NONE, POLICIES, RequestList, of_all_sizes, seed};
use crate::experiments::cell::{CellResult, percents, those};
use crate::experiments::lists::{self, List, Run, ahead};
use crate::findings::{Finding, Ruling, plain};
use crate::{Bound, ClaimKind, ClaimSource, Interval, Samples};

const POINTS: (f64, &str) = (100.0, "points of hit ratio");
/// The meaning of "little" in the seed report's statement that more room gains little.
const LITTLE: f64 = 0.05;
const SIZE: ClaimKind = ClaimKind::DependsOn("cache size");
const ABOVE: Bound = Bound::Above(0.0);
/// The reason why fitted figures are not tested.
const FITTED: &str = "The distance between visits is not published, so the datasets are fitted to this figure of the seed \
 report. The result shows that the seed report's figures are consistent, not that they are true.";
/// The same for figures that follow from the fit.
const FIT: &str = "the distance between visits is not published, so it is fitted to the report's times.";

/// A dataset, with what the seed report says about it.
struct ReportClaims {
    course: &'static str,
    title: &'static str,
    /// The policies in the order of the report, the best first.
    order: [&'static str; 5],
    ordered: ClaimSource,
    /// The time without a cache over that of the slowest policy in the smallest cache.
    times: f64,
    /// The size beyond which more room gains little, in percent.
    enough: u32,
    little: ClaimSource,
}

const UNCACHED: ClaimSource = seed(
    "When cache is disabled the total access time is : 707.35s and 633.18s for dataset1 and dataset2 respectively which is 4 times \
     the largest time taken and 2 times the largest time taken by any replacement policy with least caching for corresponding \
     datasets.",
);

const DATASETS: [ReportClaims; 2] = [
    ReportClaims {
        course: COURSES[0].0,
        title: COURSES[0].1,
        order: ["lru", "lfu", "fifo", "rand", "maxs"],
        ordered: seed(
            "For dataset1, LRU performs best in all cache sizes, followed by LFU, FIFO, RAND and MAXS in that order, with RAND \
             showing some discrepancies as expected.",
        ),
        times: 4.0,
        enough: 20,
        little: seed(
            "For dataset1, no significant gain in time is achieved as we increase the cache size after 20%.",
        ),
    },
    ReportClaims {
        course: COURSES[1].0,
        title: COURSES[1].1,
        order: ["lru", "fifo", "lfu", "rand", "maxs"],
        ordered: seed(
            "Similarly for dataset2, LRU performs best in all cache sizes, followed by FIFO, LFU, RAND and MAXS in that order.",
        ),
        times: 2.0,
        enough: 30,
        little: seed(
            "Similarly for dataset2, no significant gain in time is achieved after cache size is 30%.",
        ),
    },
];

pub(super) fn claims(cells: &[CellResult], all: &[List], requests: &[RequestList]) -> Vec<Finding> {
    let mut found = Vec::new();
    for told in &DATASETS {
        let of = lists::those(all, told.course, 0);
        found.push(order(&of, told));
        found.push(best(&of, told.title));
        found.push(worst(&of, told.title));
        found.push(worst_by_fit(all, told));
        found.push(without(&those(cells, |cell| cell.course == told.course), told));
        found.push(little_beyond(&of, told));
        let sizes = of_all_sizes(told.course);
        found.extend(spread(&lists::those(all, &sizes, 0), told.title));
    }
    found.extend([smooth(all), better_on_two(all), frontier(requests)]);
    found
}

fn hits(run: &Run) -> f64 {
    run.hit_ratio
}

/// Decides the order of all five policies.
fn order(of: &[&List], told: &ReportClaims) -> Finding {
    let mut samples = Samples::default();
    for percent in lists::percents(of) {
        for pair in told.order.windows(2) {
            let lead = |list: &&List| {
                let [one, other] = [pair[0], pair[1]].map(|policy| list.run(policy, percent).map(hits));
                Some((list.number, one? - other?))
            };
            samples.add(&format!("{percent}%"), of.iter().filter_map(lead));
        }
    }
    let claim = format!(
        "{}: by hit ratio, the order is {}",
        told.title,
        told.order.map(str::to_uppercase).join(", ")
    );
    Finding::sampled(claim, told.ordered, SIZE, (samples, ABOVE), POINTS)
        .fitted(FIT)
        .saying(format!("Simulated. {}", means(of, told)))
        .because(
            &[Ruling::Depends],
            "LFU keeps pages for old visits, which costs much if all pages have similar numbers of visits (dataset 2). RAND, FIFO \
             and LFU differ little if one page has nearly half of the visits (dataset 1).",
        )
}

/// Returns the mean hit ratios at the smallest size, in the order of the seed report.
fn means(of: &[&List], told: &ReportClaims) -> String {
    let Some(percent) = lists::percents(of).first().copied() else { return String::new() };
    let mean = |policy: &&str| {
        let ratios = of.iter().filter_map(|list| Some(list.run(policy, percent)?.hit_ratio * 100.0));
        format!("{} {}%", policy.to_uppercase(), Interval::mean_cell(ratios, 1))
    };
    let means: Vec<_> = told.order.iter().map(mean).collect();
    format!("The mean hit ratios in a cache of {percent}%: {}.", means.join(", "))
}

fn best(of: &[&List], title: &str) -> Finding {
    let claim = format!("{title}: LRU has the best hit ratio of the five");
    let source = seed("LRU is the most effective replacement policy irrespective of the access pattern.");
    Finding::sampled(claim, source, SIZE, (ahead(of, ("lru", &POLICIES), hits), ABOVE), POINTS)
        .fitted(FIT)
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

const MAXS_WORST: ClaimSource = seed(
    "MAXS leads to the worst performance when cache size is maintained as number of urls and majority of the urls are of same size.",
);

/// Returns by how much MAXS is below each other policy, by cache size.
fn behind(of: &[&List]) -> Samples {
    // MAXS is below another policy if the other is ahead: these are the same differences with the opposite sign.
    ahead(of, ("maxs", &POLICIES), |run| -run.hit_ratio)
}

fn worst(of: &[&List], title: &str) -> Finding {
    let claim = format!("{title}: MAXS has the worst hit ratio of the five, since capacity counts URLs");
    Finding::sampled(claim, MAXS_WORST, SIZE, (behind(of), ABOVE), POINTS)
        .fitted(FIT)
        .saying("Simulated. At a size, it has to be below each of the other four; the value compares with the worst of them.")
        .because(
            &[Ruling::Holds, Ruling::Depends],
            "A large page takes one place, like a small one, so evicting it makes no room for several pages. And the smallest \
             pages stay stored even without requests.",
        )
}

/// Decides the same as a function of the fit: with ever more visits in other places.
fn worst_by_fit(all: &[List], told: &ReportClaims) -> Finding {
    let mut samples = Samples::default();
    for loose in LOOSE {
        let of = lists::those(all, told.course, loose);
        let percents = lists::percents(&of).into_iter().filter(|percent| *percent <= told.enough);
        for percent in percents {
            for other in POLICIES.into_iter().filter(|policy| *policy != "maxs") {
                let lead = |list: &&List| {
                    let [other, maxs] = [other, "maxs"].map(|policy| list.run(policy, percent).map(hits));
                    Some((list.number, other? - maxs?))
                };
                samples.add(&format!("{loose}% of the visits moved"), of.iter().filter_map(lead));
            }
        }
    }
    let claim = format!(
        "{}: in caches of up to {}%, MAXS has the worst hit ratio of the five, whatever the distance between visits",
        told.title, told.enough
    );
    Finding::sampled(claim, MAXS_WORST, ClaimKind::DependsOn("fit"), (samples, ABOVE), POINTS)
        .fitted(FIT)
        .aspect()
        .saying(
            "Simulated, with a part of the visits in other places, at random. At each part, MAXS has to be below each other policy \
             at each size; the value compares with the worst of them.",
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

/// Decides the claim that no cache takes a number of times the time of the slowest policy at the smallest size.
fn without(cells: &[&CellResult], told: &ReportClaims) -> Finding {
    let (title, times) = (told.title, told.times);
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
        UNCACHED,
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

/// Decides the claim that LRU gains less than [`LITTLE`] from a size to the largest.
fn little_beyond(of: &[&List], told: &ReportClaims) -> Finding {
    let (title, enough) = (told.title, told.enough);
    let most = lists::percents(of).last().copied().unwrap_or(0);
    let gain = |list: &&List| Some(list.run("lru", most)?.hit_ratio - list.run("lru", enough)?.hit_ratio);
    let gains: Vec<f64> = if most > enough { of.iter().filter_map(gain).collect() } else { Vec::new() };
    let interval = Interval::of(&gains);
    let claim = format!(
        "{title}: beyond {enough}% of the URLs, a larger cache gains little (fewer than {} points)",
        LITTLE * 100.0
    );
    let finding = Finding::given(claim, told.little, FITTED, interval.map(|gain| gain.mean < LITTLE));
    match interval {
        Some(gain) => finding
            .with_effect(plain(&gain, POINTS.0, POINTS.1))
            .saying(format!("Simulated: LRU's gain from {enough}% to {most}%.")),
        None => finding,
    }
}

const PARABOLA: ClaimSource = seed(
    "It increases rapidly and reaches maximum very early at 10% and decreases slowly. It reaches zero when the cache size is 100% and \
     when cache size is minimum i.e 1 entry.",
);

/// Returns the difference between the largest and the smallest time of the policies, in milliseconds for a request.
fn difference(list: &List, percent: u32) -> Option<f64> {
    let times = POLICIES.map(|policy| list.run(policy, percent).map(|run| run.cost_ms));
    let times: Option<Vec<f64>> = times.into_iter().collect();
    let times = times?;
    let largest = times.iter().copied().reduce(f64::max)?;
    Some(largest - times.iter().copied().reduce(f64::min)?)
}

/// Decides where the policies' times differ most, and where they are equal.
fn spread(of: &[&List], title: &str) -> [Finding; 2] {
    const LARGEST: u32 = 10;
    let mut samples = Samples::default();
    let percents = lists::percents(of);
    for &percent in percents.iter().filter(|percent| **percent != LARGEST) {
        let less =
            |list: &&List| Some((list.number, difference(list, LARGEST)? - difference(list, percent)?));
        samples.add(&format!("{percent}%"), of.iter().filter_map(less));
    }
    let ends: Vec<f64> =
        of.iter().flat_map(|list| [1, 100].map(|percent| difference(list, percent))).flatten().collect();
    let most = ends.iter().copied().reduce(f64::max);
    let claim = format!("{title}: the times of the policies differ most in a cache of {LARGEST}%");
    let equal = Finding::given(
        format!("{title}: the times of the policies are equal in a cache of one URL, and of all URLs"),
        PARABOLA,
        "With one place, every policy evicts the page in it; with places for all, none evicts.",
        most.map(|most| most < 1e-9),
    );
    [
        Finding::sampled(claim, PARABOLA, SIZE, (samples, ABOVE), (1.0, "ms for a request"))
            .fitted(FIT)
            .saying(
                "Simulated. The value is the difference between the slowest and the fastest policy at 10%, minus that at the \
                 other size.",
            )
            .because(
                &[Ruling::Depends],
                "In small caches, clusters of visits to one page hit under every policy. Where the policies differ most depends \
                 on the number of pages that are visited in turn.",
            ),
        match most {
            Some(most) => equal.with_effect(format!("at most {most:.2} ms for a request apart")),
            None => equal,
        },
    ]
}

/// Decides whether MAXS's time falls earlier than its hits rise.
fn smooth(all: &[List]) -> Finding {
    let mut samples = Samples::default();
    for (course, title) in COURSES {
        let of = lists::those(all, course, 0);
        let percents = lists::percents(&of);
        let (Some(&least), Some(&most)) = (percents.first(), percents.last()) else { continue };
        for &percent in percents.iter().filter(|percent| (least + 1..most).contains(percent)) {
            let lead = |list: &&List| {
                let part = |value: fn(&Run) -> f64| {
                    let [from, at, to] = [least, percent, most].map(|size| list.run("maxs", size).map(value));
                    let (rise, whole) = (at? - from?, to? - from?);
                    (whole != 0.0).then_some(rise / whole)
                };
                Some((list.number, part(|run| run.cost_ms)? - part(hits)?))
            };
            samples.add(&format!("{title}, {percent}%"), of.iter().filter_map(lead));
        }
    }
    let claim = "Under MAXS, the time falls faster with the cache size than the hit ratio rises";
    let source = seed(
        "Also, it is important to note that for MAXS replacement policy, hit rate increases smoothly whereas access time (Figure 7) \
         decreases more rapidly.",
    );
    Finding::sampled(claim, source, SIZE, (samples, ABOVE), (100.0, "% of the way"))
        .fitted(FIT)
        .saying(
            "Simulated. The value is the part of the fall of the time, from the smallest size to the largest, that is reached at a \
             size, minus that part of the rise of the hit ratio.",
        )
        .because(
            &[Ruling::Fails, Ruling::Depends],
            "MAXS stores small pages first, so its first additional hits are on pages that cost little.",
        )
}

/// Decides whether MAXS is less slow on dataset 2, compared with LRU.
fn better_on_two(all: &[List]) -> Finding {
    let [one, two] = COURSES.map(|(course, _)| lists::those(all, course, 0));
    let times = |list: &List, percent| {
        let [maxs, lru] = ["maxs", "lru"].map(|policy| list.run(policy, percent).map(|run| run.cost_ms));
        Some(larder_lab::replay::ratio(maxs?, lru?))
    };
    let mut samples = Samples::default();
    for percent in lists::percents(&one) {
        let less = |list: &&List| {
            let other = two.iter().find(|other| other.number == list.number)?;
            Some((list.number, times(list, percent)? - times(other, percent)?))
        };
        samples.add(&format!("{percent}%"), one.iter().filter_map(less));
    }
    let claim = "MAXS is slower than LRU by a larger factor on dataset 1 than on dataset 2";
    let source = seed(
        "We also observe a subtle difference here. MAXS performs relatively better in comparison with the MAXS performance on dataset1",
    );
    Finding::sampled(claim, source, SIZE, (samples, ABOVE), (1.0, "times LRU's time"))
        .fitted(FIT)
        .saying("Simulated. The value is MAXS's time over LRU's on dataset 1, minus the same on dataset 2.")
        .because(
            &[Ruling::Holds, Ruling::Depends],
            "The most visited page of dataset 1 is among the larger ones, so MAXS evicts it often.",
        )
}

/// Decides the relation of the first misses of a full cache to the frontier of new URLs.
fn frontier(requests: &[RequestList]) -> Finding {
    let claim = "The space between the first misses of full caches is directly proportional to the slope of the frontier of new \
     URLs";
    let source = seed(
        "The space between ICMLs is directly proportional to the slope of the NUFs for the corresponding increase in cache size.",
    );
    let why = "A cache of N URLs misses first when the frontier reaches N + 1. So the space between two sizes is their difference \
     over the slope: it is inversely proportional to the slope.";
    let spaces: Vec<_> = requests.iter().filter_map(|list| Some((list, spaces(&list.order)?))).collect();
    let finding = Finding::given(claim, source, why, (!spaces.is_empty()).then_some(false));
    let told = |(list, [steepest, flattest]): &(&RequestList, [usize; 2])| {
        format!(
            "dataset {}: a tenth of the URLs is new within {steepest} requests where the frontier is steepest, and within {flattest} \
             where it is flattest",
            list.course
        )
    };
    match spaces.is_empty() {
        true => finding,
        false => finding.with_effect(spaces.iter().map(told).collect::<Vec<_>>().join("; ")),
    }
}

/// Returns the smallest and the largest number of requests in which a tenth of all URLs appears for the first time.
fn spaces(order: &[u32]) -> Option<[usize; 2]> {
    let mut known = BTreeSet::new();
    let firsts: Vec<usize> =
        order.iter().enumerate().filter(|(_, page)| known.insert(**page)).map(|(at, _)| at).collect();
    let step = (firsts.len() / 10).max(1);
    let spaces = || firsts.windows(step + 1).step_by(step).map(|firsts| firsts[step] - firsts[0]);
    Some([spaces().min()?, spaces().max()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_space_between_first_misses_is_small_where_the_frontier_is_steep() {
        // Two new URLs in two requests, then none, then one.
        assert_eq!(spaces(&[0, 1, 2, 0, 0, 0, 3]), Some([1, 4]));
        assert_eq!(spaces(&[0, 0]), None);
    }
}
