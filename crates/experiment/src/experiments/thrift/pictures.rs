//! Pictures and tables of the two workloads.

use larder_lab::plot::{Axis, Plot, Unit};

use super::{COURSES, LATENCIES, LOCALITIES, POLICIES, STAGED};
use crate::Interval;
use crate::experiments::cell::{Measured, curves, mean, percents, those};
use crate::experiments::lists::{self, List};
use crate::findings::{Figure, Grid};

pub(super) fn of(
    (course, title): (&str, &str),
    (latency, cost): (&str, &str),
    cells: &[&Measured],
) -> [Figure; 2] {
    let ratio = Axis::linear("hit ratio", Unit::Share);
    let time = Axis::linear("mean access time in ms", Unit::Number);
    let best = |value: fn(&Measured) -> f64, sign: f64| {
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
            (&format!("thrift-{course}-{latency}-hits"), &format!("{title}: hit ratio")),
            cells,
            &POLICIES,
            (ratio, 4),
            |measured| measured.hit_ratio,
            format!(
                "Hits over requests, by cache size; {cost}. Best policy: {}.",
                best(|cell| cell.hit_ratio, 1.0)
            ),
        ),
        curves(
            (&format!("thrift-{course}-{latency}-time"), &format!("{title}: access time")),
            cells,
            &POLICIES,
            (time, 3),
            |measured| measured.mean_ms,
            format!(
                "Mean waiting time of the client; {cost}. Fastest policy: {}.",
                best(|cell| cell.mean_ms, -1.0)
            ),
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
    let columns = ["cache size in %", "locality in %", "mean", "95% to either side", "lists"];
    let mut data = Grid::new(title, &columns);
    let (x, y) = (Axis::linear("locality", Unit::Share), Axis::linear(axis, Unit::Share));
    let (mut plot, mut crossings) = (Plot::new(title, x, y), Vec::new());
    for percent in lists::percents(&all.iter().collect::<Vec<_>>()) {
        let (mut points, mut errors) = (Vec::new(), Vec::new());
        for locality in LOCALITIES {
            let those = lists::those(all, STAGED, locality);
            let pair = |list: &&List| Some(value(list.run("lru", percent)?, list.run("maxs", percent)?));
            let values: Vec<f64> = those.iter().filter_map(pair).collect();
            let Some(interval) = Interval::of(&values) else { continue };
            let at = f64::from(locality) / 100.0;
            points.push((at, interval.mean));
            errors.extend(interval.margin().map(|margin| (at, interval.mean, margin)));
            let [percent, locality, count] = [percent as usize, locality as usize, interval.count];
            let [percent, locality, count] = [percent, locality, count].map(|number| number.to_string());
            data.row([percent, locality, format!("{:.4}", interval.mean), interval.margin_cell(4), count]);
        }
        crossings.extend(crossing(&points).map(|at| (percent, at)));
        plot = plot.line(&format!("cache of {percent}%"), points).with_errors(errors);
    }
    let most = f64::from(LOCALITIES[LOCALITIES.len() - 1]) / 100.0;
    plot = plot.line("equal", vec![(0.0, 0.0), (most, 0.0)]);
    plot = plot.marks("crossing", crossings.iter().map(|(_, at)| (*at, 0.0)).collect());
    let told = crossings
        .iter()
        .map(|(percent, at)| format!("{:.0}% locality for a cache of {percent}%", at * 100.0));
    let told = told.collect::<Vec<_>>().join(", ");
    let told =
        if told.is_empty() { "no line crosses 0".to_owned() } else { format!("lines cross 0 at {told}") };
    let (name, caption) = (name.to_owned(), format!("{caption} In these lists, {told}."));
    (!data.rows.is_empty()).then_some(Figure { name, plot, caption, data })
}

/// Returns the first position at which a line through points changes its sign.
fn crossing(points: &[(f64, f64)]) -> Option<f64> {
    let change = points.windows(2).find(|pair| (pair[0].1 < 0.0) != (pair[1].1 < 0.0))?;
    let [(from, low), (to, high)] = [change[0], change[1]];
    Some(from + (to - from) * low / (low - high))
}

/// Returns a table of all means, with the times of hits and misses.
pub(super) fn averages(cells: &[Measured]) -> Grid {
    let columns = [
        "requests",
        "misses cost",
        "cache size in %",
        "policy",
        "hit ratio",
        "simulated",
        "mean time in ms",
        "hits in ms",
        "misses in ms",
        "99% within ms",
        "proxy's processor time per request in us",
        "client's in us",
    ];
    let mut grid = Grid::new("Thrift: means over the repetitions", &columns);
    for (course, _) in COURSES {
        for (latency, _) in LATENCIES {
            let of = those(cells, |cell| cell.course == course && cell.latency == latency);
            for percent in percents(&of) {
                for policy in POLICIES {
                    let all = |value: fn(&Measured) -> f64, decimals: usize| {
                        let interval = mean(&of, policy, percent, value);
                        interval.map_or_else(String::new, |interval| format!("{:.decimals$}", interval.mean))
                    };
                    grid.row([
                        course.to_owned(),
                        latency.to_owned(),
                        percent.to_string(),
                        policy.to_owned(),
                        all(|cell| cell.hit_ratio, 4),
                        all(|cell| cell.simulated, 4),
                        all(|cell| cell.mean_ms, 3),
                        all(|cell| cell.hit_ms, 3),
                        all(|cell| cell.miss_ms, 3),
                        all(|cell| cell.p99_ms, 3),
                        all(|cell| cell.proxy_us, 0),
                        all(|cell| cell.driver_us, 0),
                    ]);
                }
            }
        }
    }
    grid
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
