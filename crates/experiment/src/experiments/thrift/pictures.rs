//! Pictures and tables of the two workloads.

use larder_lab::plot::{Axis, Unit};

use super::{COURSES, LATENCIES, LOCALITIES, POLICIES, STAGED};
use crate::Interval;
use crate::experiments::cell::{CellResult, curves, mean, percents, those};
use crate::experiments::lists::{self, List};
use crate::findings::{Column, Figure, Grid, MeanPlot};

pub(super) fn of(
    (course, title): (&str, &str),
    (latency, cost): (&str, &str),
    cells: &[&CellResult],
) -> [Figure; 2] {
    let ratio = Axis::linear("hit ratio", Unit::Share);
    let time = Axis::linear("mean access time in ms", Unit::Number);
    let best = |value: fn(&CellResult) -> f64, sign: f64| {
        let sizes = percents(cells);
        let at = |percent: &u32| {
            let means =
                POLICIES.map(|policy| (policy, mean(cells, policy, *percent, value).map(|mean| mean.mean)));
            let known = means.iter().filter_map(|(policy, mean)| Some((*policy, sign * (*mean)?)));
            let first = known.max_by(|a, b| a.1.total_cmp(&b.1));
            first.map(|(policy, _)| format!("{} at {percent}%", policy.to_uppercase()))
        };
        sizes.iter().filter_map(at).collect::<Vec<_>>().join(", ")
    };
    [
        curves(
            (&format!("thrift-{course}-{latency}-hits"), &format!("{title}: hit ratio ({cost})")),
            cells,
            &POLICIES,
            (ratio, 4),
            |measured| measured.hit_ratio,
            format!("Hits over requests, by cache size. Best policy: {}.", best(|cell| cell.hit_ratio, 1.0)),
        ),
        curves(
            (&format!("thrift-{course}-{latency}-time"), &format!("{title}: access time ({cost})")),
            cells,
            &POLICIES,
            (time, 3),
            |measured| measured.mean_ms,
            format!("Mean waiting time of the client. Fastest policy: {}.", best(|cell| cell.mean_ms, -1.0)),
        ),
    ]
}

/// Returns pictures of LRU's lead over MAXS in workload 2, against locality: hits, and time.
pub(super) fn locality(all: &[List]) -> Vec<Figure> {
    let hits = (
        "thrift-locality-hits",
        "Workload 2: lead of LRU over MAXS in hits, by locality",
        "hit ratio of LRU minus that of MAXS",
        "Simulated; a line for each cache size. Above 0, LRU has more hits. From the crossing of 0 on, LRU is ahead.",
    );
    let time = (
        "thrift-locality-time",
        "Workload 2: lead of LRU over MAXS in time, by locality",
        "time of MAXS over that of LRU, minus 1",
        "Simulated; the cost of a miss depends on its size. Above 0, LRU takes less time.",
    );
    let figures = [
        over_locality(all, hits, |lru, maxs| lru.hit_ratio - maxs.hit_ratio),
        over_locality(all, time, |lru, maxs| larder_lab::replay::ratio(maxs.cost_ms, lru.cost_ms) - 1.0),
    ];
    figures.into_iter().flatten().collect()
}

fn over_locality(
    all: &[List],
    (name, title, axis, caption): (&str, &str, &str, &str),
    value: fn(&lists::Run, &lists::Run) -> f64,
) -> Option<Figure> {
    let axes = (Axis::linear("locality", Unit::Share), Axis::linear(axis, Unit::Share));
    let mut picture = MeanPlot::new(title, axes, &["cache size in %", "locality in %"], ("lists", 4));
    let (mut crossings, mut is_measured) = (Vec::new(), false);
    for percent in lists::percents(&all.iter().collect::<Vec<_>>()) {
        let at = |locality: u32| {
            let those = lists::those(all, STAGED, locality);
            let pair = |list: &&List| Some(value(list.run("lru", percent)?, list.run("maxs", percent)?));
            let values: Vec<f64> = those.iter().filter_map(pair).collect();
            let labels = vec![percent.to_string(), locality.to_string()];
            Some((labels, f64::from(locality) / 100.0, Interval::of(&values)?))
        };
        let means: Vec<_> = LOCALITIES.into_iter().filter_map(at).collect();
        let points: Vec<_> = means.iter().map(|(_, at, interval)| (*at, interval.mean)).collect();
        crossings.extend(crossing(&points).map(|at| (percent, at)));
        is_measured |= !means.is_empty();
        picture = picture.line(None, &format!("cache of {percent}%"), means);
    }
    let told = crossings
        .iter()
        .map(|(percent, at)| format!("{:.0}% locality for a cache of {percent}%", at * 100.0));
    let told = told.collect::<Vec<_>>().join(", ");
    let told =
        if told.is_empty() { "no line crosses 0".to_owned() } else { format!("lines cross 0 at {told}") };
    let mut figure = picture.figure(name, format!("{caption} In these lists, {told}."));
    let most = f64::from(LOCALITIES[LOCALITIES.len() - 1]) / 100.0;
    figure.plot = figure
        .plot
        .line("equal", vec![(0.0, 0.0), (most, 0.0)])
        .marks("crossing", crossings.iter().map(|(_, at)| (*at, 0.0)).collect());
    is_measured.then_some(figure)
}

/// Returns the first position at which a line through points changes its sign.
fn crossing(points: &[(f64, f64)]) -> Option<f64> {
    let change = points.windows(2).find(|pair| (pair[0].1 < 0.0) != (pair[1].1 < 0.0))?;
    let [(from, low), (to, high)] = [change[0], change[1]];
    Some(from + (to - from) * low / (low - high))
}

/// Returns a table of all means, with the times of hits and misses.
pub(super) fn averages<'a>(cells: &'a [CellResult]) -> Grid {
    /// The cells of a workload and cost of misses, the size in percent, and the policy.
    type Row<'a> = (Vec<&'a CellResult>, u32, &'static str);
    let all = |(of, percent, policy): &Row<'_>, value: fn(&CellResult) -> f64, decimals: usize| {
        let interval = mean(of, policy, *percent, value);
        interval.map_or_else(String::new, |interval| format!("{:.decimals$}", interval.mean))
    };
    let columns: [Column<'_, Row<'a>>; 12] = [
        ("requests", &|(of, ..)| of[0].cell.course.clone()),
        ("misses cost", &|(of, ..)| of[0].cell.latency.clone()),
        ("cache size in %", &|(_, percent, _)| percent.to_string()),
        ("policy", &|(.., policy)| (*policy).to_owned()),
        ("hit ratio", &|row| all(row, |cell| cell.hit_ratio, 4)),
        ("simulated", &|row| all(row, |cell| cell.simulated, 4)),
        ("mean time in ms", &|row| all(row, |cell| cell.mean_ms, 3)),
        ("hits in ms", &|row| all(row, |cell| cell.hit_ms, 3)),
        ("misses in ms", &|row| all(row, |cell| cell.miss_ms, 3)),
        ("99% within ms", &|row| all(row, |cell| cell.p99_ms, 3)),
        ("proxy's processor time per request in us", &|row| all(row, |cell| cell.proxy_us, 0)),
        ("client's in us", &|row| all(row, |cell| cell.driver_us, 0)),
    ];
    let mut rows: Vec<Row<'a>> = Vec::new();
    for (course, _) in COURSES {
        for (latency, _) in LATENCIES {
            let of = those(cells, |cell| cell.course == course && cell.latency == latency);
            for percent in percents(&of) {
                rows.extend(POLICIES.map(|policy| (of.clone(), percent, policy)));
            }
        }
    }
    Grid::of("Thrift: means over the repetitions", &columns, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crossing_is_between_the_points_that_differ() {
        assert_eq!(crossing(&[(0.0, -1.0), (0.4, -1.0), (0.8, 3.0)]), Some(0.5));
        assert_eq!(crossing(&[(0.0, 1.0), (0.4, 2.0)]), None);
    }
}
