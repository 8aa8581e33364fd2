//! `cargo x bench learn`: the misses of `adaptive` beside those of the policies that do not learn.
//!
//! Each trace is replayed at several capacities by `larder simulate`, for both objectives. The traces are those that ship,
//! and two generated ones with a loop that is larger than most of the caches. The ablation is `adaptive` without the
//! candidates that put new objects on probation.

use super::goal::{self, Goal};
use super::options::TraceOptions;
use super::replay::{number, record, simulate};
use super::table::{self, Cell, Row};
use super::{peers, warn_if_busy};
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The policies that are not compared: those that know the future, those for teaching, and the one that learns.
const LEFT_OUT: &[&str] = &["belady", "beladysize", "maxs", "rand", "adaptive"];

/// An objective of `adaptive`.
struct Objective {
    what: &'static str,
    spec: &'static str,
    ablation: &'static str,
    /// The hit ratio to read from a cell.
    ratio: &'static str,
    /// The goal for the mean, as a share of the misses of the best fixed policy.
    most: f64,
}

const OBJECTIVES: [Objective; 2] = [
    Objective {
        what: "misses",
        spec: "adaptive",
        ablation: "adaptive:probation=false",
        ratio: "hit_ratio",
        most: 0.98,
    },
    Objective {
        what: "missed bytes",
        spec: "adaptive:objective=bytes",
        ablation: "adaptive:objective=bytes,probation=false",
        ratio: "byte_hit_ratio",
        most: 0.97,
    },
];

/// Shares of all objects or bytes.
const SIZES: &str = "0.5%,2%,5%,10%,20%,40%";
const QUICK_SIZES: &str = "5%,20%";

/// The generated traces, with the share of the loop in percent.
const GENERATED: [(&str, u64); 2] = [("loop", 100), ("loop_zipf", 50)];

/// The requests of a generated trace, the length of its loop, and the objects of its other part.
const REQUESTS: u32 = 300_000;
const LOOP: u64 = 6_000;
const OTHERS: u64 = 20_000;

/// One trace at one capacity, for one objective. Misses are shares of the requests or bytes.
struct Measurement {
    trace: String,
    capacity: String,
    /// By policy.
    fixed: BTreeMap<String, f64>,
    adaptive: f64,
    ablation: f64,
    /// Seconds for a request: LRU, adaptive, ablation.
    times: [f64; 3],
    bytes_per_object: f64,
    /// The number of objects that fit, if entries are counted.
    entries: u64,
}

/// Runs the bench and prints its tables and goals. Fails if a build fails, or larder does not print the expected
/// output.
pub(super) fn run(options: &TraceOptions) -> Result<Vec<Goal>> {
    let larder = peers::program(options.larder.as_deref())?;
    let folder = tempfile::tempdir().context("cannot make a folder")?;
    let (rows, goals) = measure(options, &larder, folder.path())?;
    goal::print(&goals);
    table::write(options.json.as_deref(), &table::json(&rows))?;
    Ok(goals)
}

fn measure(options: &TraceOptions, larder: &Path, folder: &Path) -> Result<(Vec<Row>, Vec<Goal>)> {
    let mut traces = options.traces()?;
    for (name, share) in GENERATED {
        let path = folder.join(format!("{name}.oracleGeneral"));
        fs::write(&path, with_loop(share)).with_context(|| format!("cannot write {}", path.display()))?;
        traces.push(path);
    }
    warn_if_busy();
    let mut measured = OBJECTIVES.each_ref().map(|_| Vec::new());
    let ours = OBJECTIVES.iter().flat_map(|objective| [objective.spec, objective.ablation]);
    let specs = std::iter::once("all").chain(ours).collect::<Vec<_>>().join(",");
    for trace in &traces {
        let sizes = if options.quick { QUICK_SIZES } else { SIZES };
        let cells = simulate(larder, trace, &specs, sizes)?;
        for (objective, measured) in OBJECTIVES.iter().zip(&mut measured) {
            measured.extend(read(&cells, objective)?);
        }
    }
    let (mut all_rows, mut goals) = (Vec::new(), Vec::new());
    for (objective, cells) in OBJECTIVES.iter().zip(&measured) {
        let rows: Vec<_> = cells.iter().map(|cell| row(cell, objective)).collect();
        println!(
            "\n{} in percent, and x the best fixed policy, LRU, and adaptive without probation",
            objective.what
        );
        table::print(&rows);
        goals.extend(judge(cells, objective));
        all_rows.extend(rows);
    }
    Ok((all_rows, goals))
}

/// Reads the cells of one trace. Without sizes, it has no result for bytes.
fn read(cells: &[Value], objective: &Objective) -> Result<Vec<Measurement>> {
    let counts = |cells: &&[Value]| objective.ratio == "hit_ratio" || cells[0]["by"] == "bytes";
    let cells = cells.chunk_by(|a, b| a["capacity"] == b["capacity"]).filter(counts);
    cells.map(|cells| measured(cells, objective)).collect()
}

/// Reads the cells of one capacity.
fn measured(cells: &[Value], objective: &Objective) -> Result<Measurement> {
    let misses = |cell: &Value| 1.0 - number(cell, objective.ratio);
    let time = |cell: &Value| 1.0 / number(cell, "requests_per_second");
    let name = |cell: &Value| cell["policy"].as_str().unwrap_or_default().to_owned();
    let cell = |policy: &str| {
        let found = cells.iter().find(|cell| cell["policy"] == policy);
        found.with_context(|| format!("larder did not simulate {policy}"))
    };
    let is_fixed = |cell: &&Value| {
        let name = name(cell);
        !LEFT_OUT.iter().any(|left_out| name.split(':').next() == Some(*left_out))
    };
    let [lru, adaptive, ablation] = [cell("lru")?, cell(objective.spec)?, cell(objective.ablation)?];
    let trace = lru["trace"].as_str().unwrap_or_default();
    Ok(Measurement {
        trace: trace.split('.').next().unwrap_or_default().to_owned(),
        capacity: lru["capacity"].to_string(),
        fixed: cells.iter().filter(is_fixed).map(|cell| (name(cell), misses(cell))).collect(),
        adaptive: misses(adaptive),
        ablation: misses(ablation),
        times: [lru, adaptive, ablation].map(time),
        bytes_per_object: number(adaptive, "metadata_bytes_per_object"),
        entries: lru["capacity"].as_u64().filter(|_| lru["by"] == "entries").unwrap_or(0),
    })
}

impl Measurement {
    /// Returns the fixed policy with the fewest misses, and these.
    fn best(&self) -> (&str, f64) {
        let named = self.fixed.iter().map(|(name, misses)| (name.as_str(), *misses));
        named.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(("-", f64::NAN))
    }

    /// Returns the misses of a fixed policy.
    fn of(&self, policy: &str) -> f64 {
        self.fixed.get(policy).copied().unwrap_or(f64::NAN)
    }
}

fn row(cell: &Measurement, objective: &Objective) -> Row {
    let (best, least) = cell.best();
    let percent = |misses: f64| Cell::number(100.0 * misses, 2);
    let ratio = |others: f64| Cell::number(cell.adaptive / others, 3);
    vec![
        ("figure", Cell::word(objective.what)),
        ("trace", Cell::word(&cell.trace)),
        ("capacity", Cell::word(&cell.capacity)),
        ("lru", percent(cell.of("lru"))),
        ("best", percent(least)),
        ("fixed policy", Cell::word(best)),
        ("adaptive", percent(cell.adaptive)),
        ("x best", ratio(least)),
        ("x LRU", ratio(cell.of("lru"))),
        ("x without", ratio(cell.ablation)),
    ]
}

/// Returns the fixed policy that is the hardest to beat on average, and the mean of the misses as shares of its misses.
fn hardest(cells: &[&Measurement]) -> (String, f64) {
    let names = cells.first().map(|cell| cell.fixed.keys()).into_iter().flatten();
    let ratios = |name: &str| cells.iter().map(|cell| cell.adaptive / cell.of(name)).collect::<Vec<_>>();
    let means = names.map(|name| (name.clone(), mean(&ratios(name))));
    means.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_else(|| ("-".to_owned(), f64::NAN))
}

fn judge(cells: &[Measurement], objective: &Objective) -> Vec<Goal> {
    let against = |others: &dyn Fn(&Measurement) -> f64| -> Vec<f64> {
        cells.iter().map(|cell| cell.adaptive / others(cell)).collect()
    };
    let all: Vec<_> = cells.iter().collect();
    let is_recorded = |cell: &&Measurement| GENERATED.iter().all(|(name, _)| cell.trace != *name);
    let recorded: Vec<_> = cells.iter().filter(is_recorded).collect();
    let (best, ratio) = hardest(&all);
    let time = |at: usize| cells.iter().map(|cell| cell.times[at]).sum::<f64>();
    let what = objective.what;
    let mut goals = vec![
        Goal::new(format!("{what}, mean, x {best}"), objective.most, ratio),
        Goal::new(
            format!("{what}, worst, x the best of the cell"),
            1.01,
            worst(&against(&|cell| cell.best().1)),
        ),
        Goal::new(format!("{what}, worst, x LRU"), 1.0, worst(&against(&|cell| cell.of("lru")))),
        Goal::new(
            format!("{what}, worst, x without probation"),
            1.01,
            worst(&against(&|cell| cell.ablation)),
        ),
        Goal::new(format!("{what}: time of a request, x LRU"), 1.5, time(1) / time(0)),
        Goal::new(format!("{what}: time of a request, x without probation"), 1.5, time(1) / time(2)),
    ];
    if recorded.len() < all.len() {
        let (best, ratio) = hardest(&recorded);
        goals.insert(1, Goal::new(format!("{what}, mean, x {best}, no loops"), objective.most, ratio));
    }
    if let Some(largest) = cells.iter().max_by_key(|cell| cell.entries).filter(|cell| cell.entries > 0) {
        let what = format!("bytes an object, of {}", largest.entries);
        goals.push(Goal::new(what, 64.0, largest.bytes_per_object));
    }
    goals
}

/// Returns the geometric mean.
fn mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

fn worst(ratios: &[f64]) -> f64 {
    ratios.iter().copied().fold(0.0, f64::max)
}

/// Returns a trace of which `share` percent are a loop; other requests are for objects whose popularity falls with the
/// rank.
fn with_loop(share: u64) -> Vec<u8> {
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut next = 0;
    let mut file = Vec::with_capacity(REQUESTS as usize * 24);
    for at in 0..REQUESTS {
        let object = match random() * 100.0 < share as f64 {
            true => {
                next = (next + 1) % LOOP;
                next
            }
            // A power of a uniform number: Zipf's law with exponent 1, nearly.
            false => LOOP + (OTHERS as f64).powf(random()) as u64,
        };
        record(&mut file, at, object);
    }
    file
}

#[cfg(test)]
mod tests {
    use super::super::table::json;
    use super::{Goal, LOOP, Measurement, OBJECTIVES, judge, with_loop};

    fn objects(share: u64) -> Vec<u64> {
        let trace = with_loop(share);
        trace.chunks(24).map(|record| u64::from_le_bytes(record[4..12].try_into().unwrap())).collect()
    }

    #[test]
    fn a_loop_comes_back_after_its_length() {
        let objects = objects(100);
        assert!(objects.iter().zip(&objects[LOOP as usize..]).all(|(a, b)| a == b));
    }

    #[test]
    fn half_of_the_mixed_trace_is_the_loop() {
        let objects = objects(50);
        let share = objects.iter().filter(|&&object| object < LOOP).count() as f64 / objects.len() as f64;
        assert!((0.49..0.51).contains(&share), "{share}");
    }

    fn cell(lru: f64, others: f64, adaptive: f64) -> Measurement {
        let fixed = [("lru", lru), ("sieve", others)].map(|(name, misses)| (name.to_owned(), misses)).into();
        let (trace, capacity) = (String::new(), String::new());
        let times = [1.0, 3.0, 2.0];
        Measurement {
            trace,
            capacity,
            fixed,
            adaptive,
            ablation: 0.4,
            times,
            bytes_per_object: 60.0,
            entries: 5,
        }
    }

    #[test]
    fn the_mean_is_also_judged_without_the_generated_traces() {
        let generated = Measurement { trace: "loop".to_owned(), ..cell(0.5, 0.1, 0.1) };
        let goals = judge(&[cell(0.5, 0.8, 0.4), generated], &OBJECTIVES[0]);
        let figures = json(&goals.iter().map(Goal::row).collect::<Vec<_>>());
        // The geometric mean of 0.4 / 0.8 and 0.1 / 0.1, and the ratio to the other policy.
        let expected = [0.5_f64.sqrt(), 0.8];
        for (row, expected) in expected.into_iter().enumerate() {
            let figure = figures[row]["figure"].as_f64().unwrap();
            assert!((figure - expected).abs() < 1e-9, "{figure}, not {expected}");
        }
    }

    #[test]
    fn goals_compare_with_the_hardest_policy_and_the_worst_cell() {
        let goals = judge(&[cell(0.5, 0.8, 0.4), cell(0.5, 0.2, 0.4)], &OBJECTIVES[0]);
        let rows: Vec<_> = goals.iter().map(Goal::row).collect();
        let figures: Vec<_> =
            json(&rows).as_array().unwrap().iter().map(|row| row["figure"].as_f64().unwrap()).collect();
        let expected = [1.0, 2.0, 0.8, 1.0, 3.0, 1.5, 60.0];
        assert!(
            figures.iter().zip(expected).all(|(figure, expected)| (figure - expected).abs() < 1e-9),
            "{figures:?}"
        );
    }
}
