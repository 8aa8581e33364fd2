//! `cargo x bench NAME --before PATH`: runs a bench with two builds of this proxy in turn, and compares their costs.
//!
//! Times from two runs are not comparable. Here each round is one run of the bench with the earlier build and one with
//! the current build, in immediate sequence, and the order alternates between rounds; each ratio is from a single
//! round.

use super::goal::Goal;
use super::measure::median;
use super::peers;
use super::table::{self, Cell, Row};
use crate::args;
use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The benches that can measure a given build.
const ABLE: &[&str] = &["hits", "misses", "memory", "tls", "h2", "cluster", "control", "purge", "rules"];

/// The maximum cost of the current build over that of the earlier one: 2% more is the noise of a quiet machine.
const MOST: f64 = 1.02;

/// Figures of one run, by row and column.
type Figures = BTreeMap<(String, String), f64>;

/// The options of `cargo x bench NAME --before PATH`.
pub(crate) struct Options {
    bench: String,
    /// The bench's own options.
    rest: Vec<String>,
    before: PathBuf,
    larder: Option<PathBuf>,
    rounds: u32,
    json: Option<PathBuf>,
}

impl Options {
    /// Reads the words after `bench`, which include `--before`. Fails on a bench that measures no builds, an option
    /// without a value, or an invalid value; the error names it.
    pub(super) fn parse(words: &[String]) -> Result<Self> {
        let (bench, words) = words.split_first().context("bench what?")?;
        if !ABLE.contains(&bench.as_str()) {
            bail!("`--before` works with these benches: {}; not with `{bench}`", ABLE.join(", "));
        }
        let (mut own, mut rest) = (Vec::new(), Vec::new());
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let is_own = ["--before", "--larder", "--rounds", "--json"].contains(&word.as_str());
            let to = if is_own { &mut own } else { &mut rest };
            to.push(word.clone());
            if is_own {
                to.extend(words.next().cloned());
            }
        }
        let known = [("--before", true), ("--larder", true), ("--rounds", true), ("--json", true)];
        let own = args::parse(&own, &known)?;
        Ok(Self {
            bench: bench.clone(),
            rest,
            before: own.path("--before").context("option `--before` needs a value")?,
            larder: own.path("--larder"),
            rounds: own.number("--rounds", 5)?,
            json: own.path("--json"),
        })
    }
}

/// Runs the bench with both builds in turn, prints a table of the ratios, and returns a goal for each of them. Fails if
/// a build is missing, or the bench fails with one of them.
pub(super) fn run(options: &Options) -> Result<Vec<Goal>> {
    let builds = [peers::program(Some(&options.before))?, peers::program(options.larder.as_deref())?];
    let folder = tempfile::tempdir()?;
    let mut rounds = Vec::new();
    for round in 1..=options.rounds {
        eprintln!("{} before and after, round {round} of {}", options.bench, options.rounds);
        let mut figures = [Figures::new(), Figures::new()];
        let order = if round % 2 == 1 { [0, 1] } else { [1, 0] };
        for which in order {
            figures[which] = measure(options, &builds[which], folder.path())?;
        }
        rounds.push(figures);
    }
    let compared = compare(&rounds);
    if compared.is_empty() {
        bail!("the bench `{}` printed no CPU times of this proxy", options.bench);
    }
    let rows: Vec<_> = compared.iter().map(Comparison::row).collect();
    table::print(&rows);
    table::write(options.json.as_deref(), &table::json(&rows))?;
    Ok(compared.into_iter().map(Comparison::goal).collect())
}

/// Runs the bench once with this build.
fn measure(options: &Options, build: &Path, folder: &Path) -> Result<Figures> {
    let file = folder.join("figures.json");
    let own = std::env::current_exe().context("cannot find this program")?;
    let output = Command::new(own)
        .args(["bench", &options.bench, "--rounds", "1", "--larder"])
        .arg(build)
        .arg("--json")
        .arg(&file)
        .args(&options.rest)
        .output()
        .context("cannot start the bench")?;
    // A missed goal also ends the bench with an error, but after its figures were written.
    let Ok(text) = std::fs::read_to_string(&file) else {
        bail!("with {}: {}", build.display(), String::from_utf8_lossy(&output.stderr).trim());
    };
    std::fs::remove_file(&file)?;
    let report: Value = serde_json::from_str(&text).context("reading the bench's figures")?;
    Ok(figures(&report))
}

/// Returns the figures of this proxy in the report of a bench: a table, or several by name.
fn figures(report: &Value) -> Figures {
    let tables: Vec<(&str, &Value)> = match report {
        Value::Object(tables) => tables.iter().map(|(name, table)| (name.as_str(), table)).collect(),
        table => vec![("", table)],
    };
    let rows = tables.into_iter().flat_map(|(name, table)| {
        table.as_array().into_iter().flatten().filter_map(Value::as_object).map(move |row| (name, row))
    });
    rows.filter(|(_, row)| is_ours(row)).flat_map(|(name, row)| figures_of(name, row)).collect()
}

/// Whether a row is about this proxy: it names no server, or this one.
fn is_ours(row: &Map<String, Value>) -> bool {
    row.get("server").and_then(Value::as_str).is_none_or(|server| server.starts_with("larder"))
}

/// Returns a row's figures of CPU time and of memory for each object, by name.
fn figures_of(table: &str, row: &Map<String, Value>) -> Figures {
    let words = row.values().filter_map(Value::as_str);
    let name =
        [table].into_iter().chain(words).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ");
    let is_cost = |column: &str| column.starts_with("CPU us") || column.starts_with("bytes/object");
    let costs = row.iter().filter(|(column, _)| is_cost(column));
    costs
        .filter_map(|(column, value)| Some(((name.clone(), column.clone()), value.as_f64()?)))
        .filter(|(_, figure)| *figure > 0.0)
        .collect()
}

/// A figure of both builds.
struct Comparison {
    what: String,
    before: f64,
    now: f64,
    /// The ratios of the rounds: the median, the smallest and the largest.
    ratios: [f64; 3],
}

impl Comparison {
    fn row(&self) -> Row {
        let [median, least, most] = self.ratios;
        vec![
            ("figure", Cell::word(&self.what)),
            ("before", Cell::number(self.before, 2)),
            ("now", Cell::number(self.now, 2)),
            ("x before", Cell::number(median, 3)),
            ("least", Cell::number(least, 3)),
            ("most", Cell::number(most, 3)),
        ]
    }

    fn goal(self) -> Goal {
        Goal::new(format!("{} / before's", self.what), MOST, self.ratios[0])
    }
}

/// Compares the figures that both builds have in each round.
fn compare(rounds: &[[Figures; 2]]) -> Vec<Comparison> {
    let Some([first, _]) = rounds.first() else { return Vec::new() };
    let of = |key: &(String, String)| {
        rounds
            .iter()
            .map(|[before, now]| Some((*before.get(key)?, *now.get(key)?)))
            .collect::<Option<Vec<_>>>()
    };
    let compared = |key: &(String, String)| {
        let pairs = of(key)?;
        let (name, column) = key;
        let mut ratios: Vec<_> = pairs.iter().map(|(before, now)| now / before).collect();
        ratios.sort_by(f64::total_cmp);
        Some(Comparison {
            what: if name.is_empty() { column.clone() } else { format!("{name}: {column}") },
            before: median(pairs.iter().map(|pair| pair.0).collect()),
            now: median(pairs.iter().map(|pair| pair.1).collect()),
            ratios: [median(ratios.clone()), *ratios.first()?, *ratios.last()?],
        })
    };
    first.keys().filter_map(compared).collect()
}

#[cfg(test)]
mod tests {
    use super::{Options, compare, figures};
    use serde_json::json;

    fn parse(line: &str) -> anyhow::Result<Options> {
        Options::parse(&crate::args::words(line))
    }

    #[test]
    fn the_benchs_own_options_are_passed_on() {
        let options = parse("hits --only larder --before old --seconds 2 --rounds 7").unwrap();
        assert_eq!(options.rest, ["--only", "larder", "--seconds", "2"]);
        assert_eq!((options.rounds, options.before.to_str()), (7, Some("old")));
        let error = parse("replay --before old").err().unwrap().to_string();
        assert!(error.starts_with("`--before` works with these benches: hits, "), "{error}");
        assert!(parse("hits --before").is_err());
    }

    #[test]
    fn figures_of_one_round_are_compared() {
        let report = |hit: f64| {
            json!([
                {"size": "1k", "server": "floor", "CPU us/request": 6.0, "requests/s": 9.0},
                {"size": "1k", "server": "larder", "CPU us/request": hit, "requests/s": 9.0},
            ])
        };
        let rounds: Vec<_> = [(4.0, 5.0), (8.0, 8.0), (10.0, 9.0)]
            .map(|(before, now)| [figures(&report(before)), figures(&report(now))])
            .into();
        let compared = compare(&rounds);
        assert_eq!(compared.len(), 1, "of this proxy, and CPU time only");
        assert_eq!(compared[0].what, "larder, 1k: CPU us/request");
        assert_eq!((compared[0].before, compared[0].now), (8.0, 8.0));
        assert_eq!(compared[0].ratios, [1.0, 0.9, 1.25]);
    }

    #[test]
    fn tables_with_names_are_read() {
        let report = json!({"reads": [{"way": "push", "CPU us/request": 5.0}], "goals": [{"goal": "x", "figure": 1.0}]});
        let rounds = [[figures(&report), figures(&report)]];
        let whats: Vec<_> = compare(&rounds).into_iter().map(|one| one.what).collect();
        assert_eq!(whats, ["reads, push: CPU us/request"]);
    }
}
