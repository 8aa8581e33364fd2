//! The report's claims, and their verdicts.

use std::collections::BTreeSet;

use super::{COURSES, NONE, POLICIES, REPORT};
use crate::live::experiments::cell::{Measured, contrast, percents, those};
use crate::live::findings::{Finding, told};
use crate::live::{Contrast, Interval};

const POINTS: (f64, &str) = (100.0, "points of hit ratio");
/// What "little" means where the report says that more room gains little.
const LITTLE: f64 = 0.05;

pub(super) fn claims(cells: &[Measured]) -> Vec<Finding> {
    let mut found = Vec::new();
    for ((course, title), times, enough) in [(COURSES[0], 4.0, 20), (COURSES[1], 2.0, 30)] {
        let of = those(cells, |cell| cell.course == course);
        found.push(without(&of, title, times));
        found.push(first_and_last(&of, title, "lru", true));
        found.push(first_and_last(&of, title, "maxs", false));
        found.push(little_beyond(&of, title, enough));
    }
    let order = |course: &str, policies| {
        contrast(&those(cells, |cell| cell.course == course), policies, |measured| measured.hit_ratio)
    };
    let popular = "Where one page has nearly half of all visits, counting visits keeps it; FIFO gives it up each time its turn \
         comes, and fetches it again.";
    let even = "Where all pages are visited alike, counts tell nothing, and pages of the beginning keep their places by counts \
         from a time that is over.";
    let orders = [
        ("Dataset 1: LFU is ahead of FIFO", ("one", ("lfu", "fifo")), popular),
        ("Dataset 2: FIFO is ahead of LFU", ("two", ("fifo", "lfu")), even),
    ];
    for (claim, (course, policies), text) in orders {
        found.push(Finding::of_contrast(claim, REPORT, &order(course, policies), POINTS, text.to_owned()));
    }
    found
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

fn repetitions(cells: &[&Measured]) -> BTreeSet<u64> {
    cells.iter().map(|measured| measured.cell.repetition).collect()
}

/// That no cache takes so many times what the slowest policy takes at the smallest size.
fn without(cells: &[&Measured], title: &str, times: f64) -> Finding {
    let cached: Vec<_> = cells.iter().filter(|measured| measured.cell.policy != NONE).copied().collect();
    let least = percents(&cached).first().copied().unwrap_or(0);
    let by_time = |&repetition: &u64| {
        let none = of_all(cells, 0, repetition).find(|measured| measured.cell.policy == NONE)?;
        let mut policies: Vec<_> = of_all(&cached, least, repetition).collect();
        policies.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        Some((none.seconds, *policies.first()?, *policies.last()?))
    };
    let runs: Vec<_> = repetitions(cells).iter().filter_map(by_time).collect();
    let ratios: Vec<f64> = runs.iter().map(|(none, _, slowest)| none / slowest.seconds).collect();
    let best: Vec<f64> = runs.iter().map(|(none, fastest, _)| none / fastest.seconds).collect();
    let hits: Vec<f64> = runs.iter().map(|(_, _, slowest)| slowest.hit_ratio).collect();
    let names: BTreeSet<_> = runs.iter().map(|(.., slowest)| slowest.cell.policy.to_uppercase()).collect();
    let slowest = names.into_iter().collect::<Vec<_>>().join(", ");
    let [best, hits] = [best, hits].map(|values| Interval::of(&values).map_or(0.0, |interval| interval.mean));
    let mut contrast = Contrast::default();
    if !ratios.is_empty() {
        contrast.add(&format!("{least}%"), ratios.iter().map(|ratio| ratio - times).collect());
    }
    Finding {
        claim: format!(
            "{title}: without a cache it takes at least {times} times what the slowest policy takes in the smallest cache"
        ),
        source: REPORT,
        verdict: contrast.verdict(),
        effect: Interval::of(&ratios)
            .map_or_else(String::new, |ratio| told(&ratio, 1.0, "times as long").replace('+', "")),
        text: format!(
            "What a cache saves is bounded by its misses. The slowest policy ({slowest}) hits {:.0}% of the requests here, so \
             that, where all misses cost the same and hits cost nothing, no cache takes {:.1} times as long: the factor tells \
             a policy's hit rate, and what is live of it is how little hits and the proxy's own work take away. The report's \
             factor means at least {:.0}% hits for its slowest policy, and so visits that follow each other closely; the \
             datasets are drawn so that this can be. Against the fastest policy at the same size it is {best:.1} times.",
            hits * 100.0,
            1.0 / (1.0 - hits).max(1e-9),
            100.0 - 100.0 / times,
        ),
    }
}

/// That `policy` is the best of all, or the worst, at every size.
fn first_and_last(cells: &[&Measured], title: &str, policy: &str, is_best: bool) -> Finding {
    let mut contrast = Contrast::default();
    let cached: Vec<_> =
        cells.iter().filter(|measured| POLICIES.contains(&measured.cell.policy.as_str())).copied().collect();
    for percent in percents(&cached) {
        let lead = |&repetition: &u64| {
            let all = of_all(&cached, percent, repetition);
            let own = all.clone().find(|measured| measured.cell.policy == policy)?.hit_ratio;
            let others =
                all.filter(|measured| measured.cell.policy != policy).map(|measured| measured.hit_ratio);
            match is_best {
                true => Some(own - others.max_by(f64::total_cmp)?),
                false => Some(others.min_by(f64::total_cmp)? - own),
            }
        };
        let leads: Vec<f64> = repetitions(&cached).iter().filter_map(lead).collect();
        if !leads.is_empty() {
            contrast.add(&format!("{percent}%"), leads);
        }
    }
    let name = policy.to_uppercase();
    let (claim, text) = match is_best {
        true => (
            format!("{title}: {name} has the best hit ratio of the five"),
            "Visits come in clusters, which is what recency sees; how far ahead that puts it depends on how strongly they \
             cluster. The difference is against the best of the other four at each size, so that a tie counts against it."
                .to_owned(),
        ),
        false => (
            format!("{title}: {name} has the worst hit ratio of the five, since capacity counts URLs"),
            "Where a large page takes one place as a small one does, giving it up gains no room for more, and the smallest \
             pages keep their places whether anybody asks for them or not. The difference is against the worst of the other \
             four at each size."
                .to_owned(),
        ),
    };
    Finding::of_contrast(&claim, REPORT, &contrast, POINTS, text)
}

/// That LRU gains less than [`LITTLE`] from `enough` percent to the largest size.
fn little_beyond(cells: &[&Measured], title: &str, enough: u32) -> Finding {
    let most = percents(cells).last().copied().unwrap_or(0);
    let gain = |&repetition: &u64| {
        let at = |percent| of_all(cells, percent, repetition).find(|measured| measured.cell.policy == "lru");
        Some(at(most)?.hit_ratio - at(enough)?.hit_ratio)
    };
    let gains: Vec<f64> =
        if most > enough { repetitions(cells).iter().filter_map(gain).collect() } else { Vec::new() };
    let mut contrast = Contrast::default();
    if !gains.is_empty() {
        contrast.add("lru", gains.iter().map(|gain| LITTLE - gain).collect());
    }
    Finding {
        claim: format!(
            "{title}: beyond {enough}% of the URLs, more room gains little (fewer than {} points)",
            LITTLE * 100.0
        ),
        source: REPORT,
        verdict: contrast.verdict(),
        effect: Interval::of(&gains).map_or_else(String::new, |gain| told(&gain, POINTS.0, POINTS.1)),
        text: format!(
            "Once the pages that are asked for again soon have room, what is left to miss are first visits. This is what LRU \
             gains from {enough}% to {most}%; the report calls {enough}% the working set, and the datasets' clusters are \
             fitted to that, so that this says that the report's figures can be true together, and not that they are."
        ),
    }
}
