//! `cargo x bench advise`: the predictions of shadow caches beside what caches of these sizes and policies really do.
//!
//! `larder simulate --advise` shows each trace to shadows that see a share of the keys, by the code that runs beside a proxy. `larder
//! simulate` replays it through each policy at each size. These replays have no lifetimes and no purges; those through running
//! processes (`live`) do, the first trace also beside the default policy instead of `lru`, with one key that has much of the requests,
//! and with one object that has much of the bytes. A quick bench has none of the latter, and does not measure the cost.

mod cost;
mod live;

use super::goal::{self, Goal};
use super::options::TraceOptions;
use super::replay::{number, output};
use super::table::{self, Cell, Row};
use super::{peers, warn_if_busy};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The running size, as a share of all objects or bytes, and the shares of the keys that shadows see.
const RUNNING: &str = "10%";
const SAMPLES: [&str; 3] = ["0.25", "0.0625", "0.015625"];

/// The largest difference in hit ratio and in byte hit ratio, in points, and the share of cells that may exceed it, in percent.
const POINTS: f64 = 1.0;
const BYTE_POINTS: f64 = 3.0;
/// The largest difference of the running configuration's shadow, in points, beyond which there is no advice.
const CHECK_POINTS: f64 = 2.0;
const BEYOND: f64 = 5.0;
/// The share of cells that may be farther away than two standard errors and a tenth of a point, in percent.
const UNCOVERED: f64 = 10.0;

/// A prediction and the truth, in percent.
#[derive(Clone)]
struct Prediction {
    predicted: f64,
    error: f64,
    real: f64,
}

/// Predictions and the truth for hit ratios and byte hit ratios.
#[derive(Default)]
struct Differences {
    hits: Vec<Prediction>,
    bytes: Vec<Prediction>,
    /// Both ratios of advised policies.
    advised: Vec<Prediction>,
    /// The shadows of the running configurations, and what was measured in the same process.
    checks: Vec<Prediction>,
}

/// Runs the bench and prints its tables and goals. Fails if a build fails, or larder does not print the expected
/// output.
pub(super) fn run(options: &TraceOptions) -> Result<Vec<Goal>> {
    let larder = peers::program(options.larder.as_deref())?;
    let traces = options.traces()?;
    warn_if_busy();
    let (mut rows, mut sampled, mut live) = (Vec::new(), Differences::default(), Differences::default());
    for trace in &traces {
        for sample in SAMPLES {
            let cells = predictions(&larder, trace, sample)?;
            let real = reality(&larder, trace, &cells)?;
            let found = Differences {
                hits: compared(&cells, &real, "hit_ratio")?,
                bytes: compared(&cells, &real, "byte_hit_ratio")?,
                ..Differences::default()
            };
            rows.push(row(trace, sample, &found));
            sampled.add(found);
        }
        let is_first = rows.len() == SAMPLES.len();
        for (name, replay) in if options.quick { Vec::new() } else { live_replays(trace, is_first)? } {
            let found = replay.run(&larder)?;
            rows.push(row(trace, name, &found));
            live.add(found);
        }
    }
    println!("\ndifferences of {} policies and sizes, in points", sampled.hits.len() + live.hits.len());
    table::print(&rows);
    // How far small samples of short traces are off is in the table; their errors have to say so.
    let goal = |what: &str, most, figure| Goal::new(what.to_owned(), most, figure);
    let mut goals = vec![
        goal("live: % of hit ratios beyond 1 point", BEYOND, beyond(&live.hits, POINTS)),
        goal("live: % of byte hit ratios beyond 3 points", BEYOND, beyond(&live.bytes, BYTE_POINTS)),
        goal("live: % of hit ratios outside the error", UNCOVERED, uncovered(&live.hits)),
        goal("live: % of byte hit ratios outside the error", UNCOVERED, uncovered(&live.bytes)),
        goal("live: % of advised ratios outside the error", UNCOVERED, uncovered(&live.advised)),
        goal("live: most points between a running shadow and its cache", CHECK_POINTS, most(&live.checks)),
        goal("samples: % of hit ratios outside the error", UNCOVERED, uncovered(&sampled.hits)),
        goal("samples: % of byte hit ratios outside the error", UNCOVERED, uncovered(&sampled.bytes)),
    ];
    if !options.quick {
        println!();
        goals.extend(cost::run(&larder)?);
    }
    goal::print(&goals);
    table::write(options.json.as_deref(), &table::json(&rows))?;
    Ok(goals)
}

/// Returns the replays of a trace through running processes, and their names.
fn live_replays(trace: &Path, is_first: bool) -> Result<Vec<(&'static str, live::Replay)>> {
    let plain = live::Replay::read(trace)?;
    let mut replays = Vec::new();
    if is_first {
        replays = vec![
            ("adaptive", plain.by_default_policy()),
            ("one key", plain.with_one_key()),
            ("one object", plain.with_one_object()),
        ];
    }
    replays.insert(0, ("live", plain));
    Ok(replays)
}

/// Returns the cells that shadows predict from a share of the keys.
fn predictions(larder: &Path, trace: &Path, sample: &str) -> Result<Vec<Value>> {
    let mut command = Command::new(larder);
    command.args(["simulate", "--advise", "--json", "--policy", "lru", "--capacity", RUNNING]);
    cells(command.args(["--sample", sample]).arg(trace), trace)
}

/// Returns the cells of a replay of all requests, for the policies and sizes in `predicted`.
fn reality(larder: &Path, trace: &Path, predicted: &[Value]) -> Result<Vec<Value>> {
    let mut command = Command::new(larder);
    let list = |name: &str| {
        let mut all: Vec<_> = predicted.iter().map(|cell| cell[name].to_string().replace('"', "")).collect();
        all.sort();
        all.dedup();
        all.join(",")
    };
    command.args(["simulate", "--json", "--policy", &list("policy"), "--capacity", &list("size")]);
    cells(command.arg(trace), trace)
}

fn cells(command: &mut Command, trace: &Path) -> Result<Vec<Value>> {
    let mut said: Value = serde_json::from_str(&output(command)?).context("reading larder's JSON")?;
    match said["cells"].take() {
        Value::Array(cells) if !cells.is_empty() => Ok(cells),
        _ => bail!("larder simulated nothing over {}", trace.display()),
    }
}

/// Compares a ratio of all cells. Sizes beyond the trace are those of the whole trace in the replay.
fn compared(predicted: &[Value], real: &[Value], ratio: &str) -> Result<Vec<Prediction>> {
    let most = real.iter().filter_map(|cell| cell["capacity"].as_u64()).max();
    let compare = |cell: &Value| {
        let size = cell["size"].as_u64().min(most);
        let is_it = |real: &&Value| real["policy"] == cell["policy"] && real["capacity"].as_u64() == size;
        let real = real.iter().find(is_it).with_context(|| format!("larder did not replay {cell}"))?;
        Ok(Prediction::new(cell, real, ratio))
    };
    predicted.iter().map(compare).collect()
}

impl Differences {
    fn add(&mut self, other: Self) {
        self.hits.extend(other.hits);
        self.bytes.extend(other.bytes);
        self.advised.extend(other.advised);
        self.checks.extend(other.checks);
    }
}

impl Prediction {
    /// Compares a ratio in a predicted cell and in what really happened.
    fn new(cell: &Value, real: &Value, ratio: &str) -> Self {
        Self {
            predicted: 100.0 * number(cell, ratio),
            error: 100.0 * number(cell, &format!("{ratio}_error")),
            real: 100.0 * number(real, ratio),
        }
    }

    /// Compares the shadow of the running configuration in a report with what its process measured.
    fn check(report: &Value) -> Self {
        let of = |ratio| 100.0 * number(&report["check"], ratio);
        Self { predicted: of("predicted"), error: 0.0, real: of("measured") }
    }

    fn difference(&self) -> f64 {
        (self.predicted - self.real).abs()
    }
}

/// Returns the share of the cells that differ by more than so many points, in percent.
fn beyond(cells: &[Prediction], points: f64) -> f64 {
    share(cells, |cell| cell.difference() > points)
}

/// Returns the share of the cells whose difference the standard error does not explain, in percent.
fn uncovered(cells: &[Prediction]) -> f64 {
    share(cells, |cell| cell.difference() > 2.0 * cell.error + 0.1)
}

fn share(cells: &[Prediction], is_counted: impl Fn(&&Prediction) -> bool) -> f64 {
    100.0 * cells.iter().filter(is_counted).count() as f64 / cells.len().max(1) as f64
}

/// Returns the largest difference, in points.
fn most(cells: &[Prediction]) -> f64 {
    cells.iter().map(Prediction::difference).fold(0.0, f64::max)
}

fn row(trace: &Path, sample: &str, found: &Differences) -> Row {
    let Differences { hits, bytes, .. } = found;
    let name = trace.file_name().unwrap_or_default().to_string_lossy();
    let mean =
        |cells: &[Prediction]| cells.iter().map(Prediction::difference).sum::<f64>() / cells.len() as f64;
    vec![
        ("trace", Cell::word(name.split('.').next().unwrap_or_default())),
        ("keys seen", Cell::word(sample)),
        ("hits, mean", Cell::number(mean(hits), 2)),
        ("most", Cell::number(most(hits), 2)),
        ("% covered", Cell::number(100.0 - uncovered(hits), 0)),
        ("bytes, mean", Cell::number(mean(bytes), 2)),
        ("most bytes", Cell::number(most(bytes), 2)),
        ("% bytes covered", Cell::number(100.0 - uncovered(bytes), 0)),
    ]
}
