//! One policy at one cache size over one list of requests: the measurements of the live proxy, and the simulation of the
//! same requests.

use std::collections::{BTreeMap, BTreeSet};

use larder_evict::{By, Capacity, Spec};
use larder_lab::plot::{Axis, Plot, Unit};
use larder_lab::trace::Trace;
use larder_load::{Load, LoadResult, Outcome, Via};
use serde::{Deserialize, Serialize};

use crate::course::Course;
use crate::findings::{Column, Figure, Finding, Grid, MeanPlot, Ruling, colour, told};
use crate::origin::{Model, Origin};
use crate::proxy::{Proxy, Setting};
use crate::replayed::{outcomes, share};
use crate::{Bench, ClaimKind, Halt, Interval, Samples};

use super::LARDER;

/// The maximum difference between live and simulated hit ratios of a deterministic policy.
const MOST_APART: f64 = 0.01;

/// Replays of a randomised policy.
const DRAWS: u64 = 20;

/// The conditions of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cell {
    /// The list of requests.
    pub(super) course: String,
    /// The model of miss costs.
    pub(super) latency: String,
    /// The policy; `none` if no response may be stored.
    pub(super) policy: String,
    /// The cache's size, in percent of the total of all pages.
    pub(super) percent: u32,
    /// The number of the repetition, counted from 0; each has different requests.
    pub(super) repetition: u64,
}

/// The results of a measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CellResult {
    #[serde(flatten)]
    pub(super) cell: Cell,
    /// The capacity: bytes or entries.
    pub(super) capacity: u64,
    pub(super) requests: u64,
    /// Hits over requests, measured live.
    pub(super) hit_ratio: f64,
    /// The same by simulation.
    pub(super) simulated: f64,
    /// `h` (hit) or `m` (miss) for each request.
    pub(super) outcomes: String,
    /// The time from the first request to the last answer.
    pub(super) seconds: f64,
    /// The client's mean waiting time for an answer, in milliseconds.
    pub(super) mean_ms: f64,
    /// The same for hits.
    pub(super) hit_ms: f64,
    /// The same for misses.
    pub(super) miss_ms: f64,
    /// The 99th percentile of the answers' time, in milliseconds.
    pub(super) p99_ms: f64,
    /// The proxy's processor time for a request, in microseconds.
    pub(super) proxy_us: f64,
    /// The same for the origin, for each of its own requests.
    pub(super) origin_us: f64,
    /// The same for the client.
    pub(super) driver_us: f64,
}

/// The times of answers, in milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct AnswerTimes {
    pub(super) mean: f64,
    pub(super) p50: f64,
    pub(super) p99: f64,
}

impl AnswerTimes {
    pub(super) fn of(seen: &LoadResult) -> Self {
        Self { mean: seen.mean(None), p50: seen.percentile(0.5), p99: seen.percentile(0.99) }
    }
}

/// The means of measuring a cell.
pub(super) struct Trial<'a> {
    pub(super) course: &'a Course,
    pub(super) model: Model,
    pub(super) via: Via,
    /// The capacity in pages, or in bytes of content.
    pub(super) capacity: Capacity,
}

impl Trial<'_> {
    /// Sends the requests in sequence through a new proxy.
    pub(super) fn take(self, bench: &Bench, cell: &Cell) -> Result<CellResult, Halt> {
        let is_cached = self.model.is_storable;
        let origin = Origin::start(self.model)?;
        let policy = if is_cached { cell.policy.as_str() } else { "lru" };
        let setting = Setting { counts_content: true, ..Setting::of(self.capacity, policy) };
        let mut proxy = Proxy::start(&bench.program, &setting)?;
        let load = one_by_one(bench, self.course, &origin, proxy.door(self.via)?, self.via);
        let before = proxy.processor();
        let seen = load.run().map_err(|halt| proxy.explain(halt))?;
        let proxy_spent = proxy.processor().saturating_sub(before);
        let requests = seen.answers.len() as f64;
        let misses = seen.count(Outcome::Miss).max(1) as f64;
        let simulated = if is_cached { simulate(&self.course.trace(), policy, self.capacity)? } else { 0.0 };
        Ok(CellResult {
            cell: cell.clone(),
            capacity: self.capacity.amount,
            requests: seen.answers.len() as u64,
            hit_ratio: seen.hit_ratio(),
            simulated,
            outcomes: letters(&seen),
            seconds: seen.elapsed.as_secs_f64(),
            mean_ms: seen.mean(None),
            hit_ms: seen.mean(Some(Outcome::Hit)),
            miss_ms: seen.mean(Some(Outcome::Miss)),
            p99_ms: seen.percentile(0.99),
            proxy_us: proxy_spent.as_secs_f64() * 1e6 / requests,
            origin_us: origin.processor().as_secs_f64() * 1e6 / misses,
            driver_us: seen.processor.as_secs_f64() * 1e6 / requests,
        })
    }
}

fn one_by_one(bench: &Bench, course: &Course, origin: &Origin, to: std::net::SocketAddr, via: Via) -> Load {
    Load {
        origin: Some(origin.requests().clone()),
        stop: bench.stop.clone(),
        ..Load::new(to, via, course.requests(origin.address()))
    }
}

/// Returns the hit ratio by simulation; for a randomised policy, the mean of several replays.
fn simulate(trace: &Trace, policy: &str, capacity: Capacity) -> Result<f64, Halt> {
    let spec = Spec::parse(policy).map_err(|error| Halt::Failed(error.to_string()))?;
    let draws = if policy == "rand" { DRAWS } else { 1 };
    let ratios = (0..draws).map(|seed| share(&outcomes(trace, &spec, capacity, seed)));
    Ok(ratios.sum::<f64>() / draws as f64)
}

fn letters(seen: &LoadResult) -> String {
    seen.answers.iter().map(|(outcome, _)| if *outcome == Outcome::Hit { 'h' } else { 'm' }).collect()
}

/// The cost of direct requests to the origin, which shows the origin's limits separately from the proxy's.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DirectCost {
    /// The list of requests.
    pub(super) course: String,
    /// The total time.
    pub(super) seconds: f64,
    /// The mean time of a request, in milliseconds.
    pub(super) mean_ms: f64,
    /// The origin's processor time for a request, in microseconds.
    pub(super) origin_us: f64,
    /// The same for the client.
    pub(super) driver_us: f64,
}

/// Sends the requests directly to the origin.
pub(super) fn straight(bench: &Bench, name: &str, course: &Course) -> Result<DirectCost, Halt> {
    let origin = Origin::start(Model::of(&course.pages))?;
    let seen = one_by_one(bench, course, &origin, origin.address(), Via::Http).run()?;
    Ok(DirectCost {
        course: name.to_owned(),
        seconds: seen.elapsed.as_secs_f64(),
        mean_ms: seen.mean(None),
        origin_us: origin.processor().as_secs_f64() * 1e6 / seen.answers.len() as f64,
        driver_us: seen.processor.as_secs_f64() * 1e6 / seen.answers.len() as f64,
    })
}

/// Returns a table of the costs of direct requests.
pub(super) fn straight_table<'a>(title: &str, all: &'a [DirectCost]) -> Grid {
    let columns: [Column<'_, &'a DirectCost>; 5] = [
        ("requests", &|one| one.course.clone()),
        ("total time in s", &|one| format!("{:.2}", one.seconds)),
        ("mean time in ms", &|one| format!("{:.3}", one.mean_ms)),
        ("origin's processor time per request in us", &|one| format!("{:.0}", one.origin_us)),
        ("client's in us", &|one| format!("{:.0}", one.driver_us)),
    ];
    Grid::of(title, &columns, all)
}

/// Returns the cells that satisfy `is_it`.
pub(super) fn those(cells: &[CellResult], is_it: impl Fn(&Cell) -> bool) -> Vec<&CellResult> {
    cells.iter().filter(|measured| is_it(&measured.cell)).collect()
}

/// Returns the measured sizes, ascending.
pub(super) fn percents(cells: &[&CellResult]) -> BTreeSet<u32> {
    cells.iter().map(|measured| measured.cell.percent).collect()
}

/// Returns by how much `value` is larger under `one` policy than under another, by cache size.
pub(super) fn contrast(
    cells: &[&CellResult],
    (one, other): (&str, &str),
    value: impl Fn(&CellResult) -> f64,
) -> Samples {
    let find = |policy: &str, percent: u32, repetition: u64| {
        let is_it =
            |cell: &Cell| cell.policy == policy && cell.percent == percent && cell.repetition == repetition;
        cells.iter().find(|measured| is_it(&measured.cell)).map(|measured| value(measured))
    };
    let repetitions: BTreeSet<u64> = cells.iter().map(|measured| measured.cell.repetition).collect();
    let mut samples = Samples::default();
    for percent in percents(cells) {
        let difference = |&at: &u64| Some((at, find(one, percent, at)? - find(other, percent, at)?));
        samples.add(&format!("{percent}%"), repetitions.iter().filter_map(difference));
    }
    samples
}

/// Returns the mean of `value` for a policy at a size.
pub(super) fn mean(
    cells: &[&CellResult],
    policy: &str,
    percent: u32,
    value: impl Fn(&CellResult) -> f64,
) -> Option<Interval> {
    let of =
        cells.iter().filter(|measured| measured.cell.policy == policy && measured.cell.percent == percent);
    Interval::of(&of.map(|measured| value(measured)).collect::<Vec<_>>())
}

/// Returns a plot with a line for each policy over the cache sizes.
pub(super) fn curves(
    (name, title): (&str, &str),
    cells: &[&CellResult],
    policies: &[&str],
    (axis, decimals): (Axis, usize),
    value: impl Fn(&CellResult) -> f64 + Copy,
    caption: String,
) -> Figure {
    let x = Axis::linear("cache size, of all pages", Unit::Share);
    let labels = ["policy", "cache size in %"];
    let mut picture = MeanPlot::new(title, (x, axis), &labels, ("repetitions", decimals));
    for policy in policies {
        let at = |percent: u32| {
            let labels = vec![(*policy).to_owned(), percent.to_string()];
            Some((labels, f64::from(percent) / 100.0, mean(cells, policy, percent, value)?))
        };
        picture = picture.line(Some((colour(policy), 0)), policy, percents(cells).into_iter().filter_map(at));
    }
    picture.figure(name, caption)
}

/// Returns a picture of live hit ratios against simulated ones, and the claim that they are equal.
pub(super) fn side_by_side(name: &str, subject: &str, cells: &[CellResult]) -> (Figure, Finding) {
    let title = &format!("{subject}: live and simulated hit ratios of the same requests");
    let cached: Vec<_> = cells.iter().filter(|measured| measured.cell.policy != "none").collect();
    let columns = ["requests", "misses cost", "policy", "cache size in %", "repetition", "live", "simulated"];
    let mut data = Grid::new(title, &columns);
    let policies: BTreeSet<&str> = cached.iter().map(|measured| measured.cell.policy.as_str()).collect();
    let ratio = |name: &str| Axis::linear(name, Unit::Share);
    let mut plot = Plot::new(title, ratio("hit ratio, simulated"), ratio("hit ratio, live"));
    plot = plot.line("equal", vec![(0.0, 0.0), (1.0, 1.0)]);
    for policy in policies {
        let of = cached.iter().filter(|measured| measured.cell.policy == policy);
        plot = plot.member_marks(
            colour(policy),
            policy,
            of.map(|measured| (measured.simulated, measured.hit_ratio)).collect(),
        );
    }
    for CellResult { cell, hit_ratio, simulated, .. } in &cached {
        data.row([
            cell.course.clone(),
            cell.latency.clone(),
            cell.policy.clone(),
            cell.percent.to_string(),
            cell.repetition.to_string(),
            format!("{hit_ratio:.4}"),
            format!("{simulated:.4}"),
        ]);
    }
    let caption = "Each mark is a run. A mark on the line is a run with exactly the simulated hits. RAND uses other random \
     numbers in each run, so its marks scatter around the line.";
    (Figure { name: name.to_owned(), plot, caption: caption.to_owned(), data }, agreement(subject, &cached))
}

/// Decides the claim of equality. Runs with equal requests, policy and size count once, since the cost of misses does
/// not affect hits.
fn agreement(subject: &str, cells: &[&CellResult]) -> Finding {
    let mut exact: BTreeMap<(&str, u64, &str, u32), f64> = BTreeMap::new();
    for measured in cells.iter().filter(|measured| measured.cell.policy != "rand") {
        let Cell { course, policy, percent, repetition, .. } = &measured.cell;
        let worst = exact.entry((course, *repetition, policy, *percent)).or_default();
        *worst = worst.max((measured.hit_ratio - measured.simulated).abs());
    }
    let count = exact.len() as u64;
    let within = exact.values().filter(|apart| **apart <= MOST_APART).count() as u64;
    let equal = exact.values().filter(|apart| **apart < 1e-9).count();
    let worst = exact.values().copied().fold(0.0, f64::max);
    let drawn = cells.iter().filter(|measured| measured.cell.policy == "rand");
    let drawn: Vec<_> = drawn.map(|measured| measured.hit_ratio - measured.simulated).collect();
    let rand = Interval::of(&drawn).map_or_else(String::new, |drawn| {
        format!(
            " RAND uses other random numbers live; it differs by {} on average.",
            told(&drawn, 100.0, "points")
        )
    });
    let claim = format!(
        "{subject}: simulated and live hit ratios of the same requests differ by at most {} point",
        MOST_APART * 100.0
    );
    let found = Finding::counted(claim, LARDER, ClaimKind::Always, (within, count));
    let found = if count > 0 {
        found.with_effect(format!(
            "{equal} of {count} exactly equal; at most {:.2} points apart",
            worst * 100.0
        ))
    } else {
        found
    };
    found
        .saying(format!(
            "Policies without random numbers ran with {count} combinations of requests, policy and size; {equal} of them had \
             exactly the simulated hits.{rand}"
        ))
        .because(
            &[Ruling::Holds],
            "The proxy and the simulation run the same policy code, and both weigh pages by their content.",
        )
}

/// Returns a capacity in bytes or entries: `percent` of `all`, at least 1.
pub(super) fn part(by: By, all: u64, percent: u32) -> Capacity {
    Capacity { by, amount: (all * u64::from(percent)).div_ceil(100).max(1) }
}
