//! `cargo x bench observe`: the cost of the statistics database for clients. The same load without a database and with
//! each kind: 5,000 requests a second, and the maximum throughput; and the effect of a database that stands still.

mod entrants;

use super::goal::Goal;
use super::load::{self, Script};
use super::measure::median;
use super::options::{self, claim_cores};
use super::origin::Origin;
use super::pace::{Latency, Pace};
use super::peers::{self, Programs};
use super::table::{self, Cell, Row};
use super::{CONNECTIONS, server};
use crate::{args, packages};
use anyhow::{Result, bail};
use entrants::{Entrant, KINDS, Kind, PACKAGES};
use serde_json::{Map, Value};
use std::time::Duration;

/// The number of requested URLs, all of them hits.
const OBJECTS: u64 = 1_000;
const LENGTH: u64 = 1_024;
/// Coprime to their number, so that a walk visits all.
const STRIDE: u64 = 617;
/// The requests per second of the steady load, and its connections.
const RATE: u32 = 5_000;
const STEADY: usize = 16;

/// The maximum losses: a tenth of the throughput, and a fifth more time at the 99th percentile.
const THROUGHPUT: f64 = 1.0 / 0.9;
const SLOWEST: f64 = 1.2;

/// The options of `cargo x bench observe`.
pub(crate) struct Options {
    common: options::Options,
    kinds: Vec<Kind>,
    outage: Duration,
}

impl Options {
    /// Reads the words after `bench observe`. Fails on an unknown word, or an invalid value; the error names it.
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let more = [("--outage", true), ("--only", true)];
        let (common, words) = options::Options::with(words, &more, [2, 3], [2, 25])?;
        let outage = words.seconds("--outage", if common.quick { 10 } else { 60 })?;
        let mut kinds = args::chosen(words.get("--only"), "database", KINDS)?;
        kinds.retain(|kind| *kind != Kind::Off);
        kinds.insert(0, Kind::Off);
        Ok(Self { common, kinds, outage })
    }
}

/// Returns all entrants. Two of them have no database: the difference between them is chance.
fn entrants(kinds: &[Kind]) -> Vec<(&'static str, Kind)> {
    let named = |kind: &Kind| KINDS.iter().find(|(_, known)| known == kind).copied();
    let mut entrants: Vec<_> = kinds.iter().filter_map(named).collect();
    entrants.insert(1, ("off again", Kind::Off));
    entrants
}

/// One load on one larder.
struct Sample {
    per_second: f64,
    /// CPU time for a request, in microseconds.
    cpu: f64,
    p50: f64,
    p99: f64,
}

/// A larder, and its samples of each round: of the steady load, and of the maximum throughput.
struct Measurement {
    entrant: Entrant,
    steady: Vec<Sample>,
    full: Vec<Sample>,
}

/// Runs the bench and prints its tables, and the goals with their results. Fails if a program is missing, a build
/// fails, a request is not answered, or sums differ.
pub(crate) fn run(options: &Options) -> Result<Vec<Goal>> {
    prepare(options)?;
    let programs = Programs::given(&peers::program(options.common.larder.as_deref())?);
    claim_cores(&server::in_memory())?;
    let origin = Origin::start();
    let mut measured = Vec::new();
    for (name, kind) in entrants(&options.kinds) {
        let entrant = Entrant::start(name, kind, &programs, &origin)?;
        measured.push(Measurement { entrant, steady: Vec::new(), full: Vec::new() });
    }
    let asked = origin.requests();
    for round in 1..=options.common.rounds {
        eprintln!("round {round} of {}", options.common.rounds);
        for Measurement { entrant, steady, full } in &mut measured {
            steady.push(hold(entrant, options.common.duration)?);
            full.push(saturate(entrant, options.common.duration)?);
        }
    }
    let mut goals = goals(&measured);
    let outages = outages(options, &measured, &mut goals)?;
    if origin.requests() != asked {
        bail!("the origin was asked {} times for what was stored", origin.requests() - asked);
    }
    show(options, &measured, &outages, &goals)?;
    Ok(goals)
}

/// Checks that the required programs are installed.
fn prepare(options: &Options) -> Result<()> {
    let needs = |kind| options.kinds.contains(&kind);
    let databases = PACKAGES.iter().zip([Kind::Mariadb, Kind::Postgres]);
    let databases = databases.filter(|(_, kind)| needs(*kind)).map(|(package, _)| package);
    let missing = packages::missing(databases.chain([&packages::WRK]));
    if options.common.install {
        packages::install(&missing)?;
    } else if !missing.is_empty() {
        bail!("not installed; add --install, or run: {}", packages::command_line(&missing));
    }
    Ok(())
}

/// Returns the path of the object of a number.
fn path(number: u64) -> String {
    format!("/1k/{}", number * STRIDE % OBJECTS)
}

fn pace(entrant: &Entrant, duration: Duration) -> Pace<'static> {
    Pace { port: entrant.larder.port, rate: RATE, connections: STEADY, duration, length: LENGTH, path: &path }
}

/// Runs the steady load, in rounds, for the duration of an outage.
fn steadily(entrant: &Entrant, options: &Options) -> Result<Vec<Latency>> {
    let rounds = options.outage.as_secs().div_ceil(options.common.duration.as_secs().max(1));
    (0..rounds).map(|_| pace(entrant, options.common.duration).run()).collect()
}

/// Runs the steady load.
fn hold(entrant: &Entrant, duration: Duration) -> Result<Sample> {
    let (used, Latency { p50, p99, .. }) = entrant.larder.cpu_during(|| pace(entrant, duration).run())?;
    let requests = f64::from(RATE) * duration.as_secs_f64();
    Ok(Sample { per_second: f64::from(RATE), cpu: used / requests, p50, p99 })
}

/// Runs a load at the maximum throughput.
fn saturate(entrant: &Entrant, duration: Duration) -> Result<Sample> {
    let script = Script::walk("/1k/", OBJECTS, STRIDE)?;
    let larder = &entrant.larder;
    let (used, load) = larder.cpu_during(|| load::run(&script, larder.port, "", CONNECTIONS, duration))?;
    let requests = load.requests as f64;
    let [p50, p99] = [load.p50, load.p99].map(|time| time.as_secs_f64() * 1e6);
    Ok(Sample { per_second: requests / load.elapsed.as_secs_f64(), cpu: used / requests, p50, p99 })
}

/// Returns the samples of the first larder without a database, which is the base of comparisons.
fn without(measured: &[Measurement], samples: fn(&Measurement) -> &[Sample]) -> &[Sample] {
    measured.iter().find(|it| it.entrant.kind == Kind::Off).map_or(&[], samples)
}

/// A figure of all rounds, where less is better: the median and the worst.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rounds {
    median: f64,
    worst: f64,
}

impl Rounds {
    fn of(figures: impl Iterator<Item = f64>) -> Self {
        let figures: Vec<_> = figures.collect();
        let worst = figures.iter().copied().fold(f64::NAN, f64::max);
        Self { median: median(figures), worst }
    }

    /// Returns the ratio of a time of `own` to that of `base` in the same round.
    fn ratio(own: &[Sample], base: &[Sample], time: fn(&Sample) -> f64) -> Self {
        Self::of(own.iter().zip(base).map(|(own, base)| time(own) / time(base)))
    }
}

/// Returns the seconds for a request if they were answered in sequence: less is better, as for times.
fn pause(sample: &Sample) -> f64 {
    1.0 / sample.per_second
}

fn goals(measured: &[Measurement]) -> Vec<Goal> {
    let [off_full, off_steady] = [without(measured, |it| &it.full), without(measured, |it| &it.steady)];
    let others = measured.iter().filter(|other| other.entrant.kind != Kind::Off);
    let goals = others.flat_map(|Measurement { entrant, steady, full }| {
        let goal = |what: &str, most, figure: Rounds| {
            Goal::new(format!("{}: {what}, median", entrant.name), most, figure.median)
        };
        [
            goal("throughput without / with", THROUGHPUT, Rounds::ratio(full, off_full, pause)),
            goal("p99 of all that comes through", SLOWEST, Rounds::ratio(full, off_full, |it| it.p99)),
            goal("p99 of the steady load", SLOWEST, Rounds::ratio(steady, off_steady, |it| it.p99)),
        ]
    });
    goals.collect()
}

/// Checks the sums of all entrants, and stops each server for a while.
fn outages(options: &Options, measured: &[Measurement], goals: &mut Vec<Goal>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for Measurement { entrant, .. } in measured {
        let before = entrant.settle()?;
        let Some(server) = entrant.server() else { continue };
        eprintln!("{} stands still for {} s", entrant.name, options.outage.as_secs());
        let usual = steadily(entrant, options)?;
        server.freeze();
        let during = steadily(entrant, options);
        let queued = entrant.count("queued");
        server.resume();
        let (during, queued) = (during?, queued?);
        let dropped = entrant.settle()? - before;
        let p99 = |all: &[Latency]| Rounds::of(all.iter().map(|it| it.p99));
        let longest = |all: &[Latency]| all.iter().map(|it| it.longest).fold(0.0, f64::max);
        let [before_us, during_us] = [p99(&usual), p99(&during)];
        goals.push(Goal::new(
            format!("{}: p99 while it stands still, median", entrant.name),
            SLOWEST,
            during_us.median / before_us.median,
        ));
        rows.push(vec![
            ("database", Cell::word(entrant.name)),
            ("p99 before us", Cell::number(before_us.median, 0)),
            ("worst before", Cell::number(before_us.worst, 0)),
            ("p99 during us", Cell::number(during_us.median, 0)),
            ("worst during", Cell::number(during_us.worst, 0)),
            ("longest before us", Cell::number(longest(&usual), 0)),
            ("longest during us", Cell::number(longest(&during), 0)),
            ("requests queued", Cell::number(queued as f64, 0)),
            ("dropped", Cell::number(dropped as f64, 0)),
        ]);
    }
    Ok(rows)
}

/// Returns the rows with the median figures. Ratios are medians, too, each to `off` in the same round, with the worst
/// ones.
fn rows(measured: &[Measurement], samples: fn(&Measurement) -> &[Sample]) -> Vec<Row> {
    let off = without(measured, samples);
    let row = |own: &Measurement| {
        let (name, own) = (own.entrant.name, samples(own));
        let figure = |figure: fn(&Sample) -> f64| Rounds::of(own.iter().map(figure)).median;
        let [slower, cpu, p99] =
            [pause, |it: &Sample| it.cpu, |it: &Sample| it.p99].map(|time| Rounds::ratio(own, off, time));
        vec![
            ("database", Cell::word(name)),
            ("requests/s", Cell::number(1.0 / figure(pause), 0)),
            ("x off", Cell::number(1.0 / slower.median, 2)),
            ("worst x off", Cell::number(1.0 / slower.worst, 2)),
            ("CPU us/request", Cell::number(figure(|it| it.cpu), 2)),
            ("CPU x off", Cell::number(cpu.median, 2)),
            ("worst CPU x off", Cell::number(cpu.worst, 2)),
            ("p50 us", Cell::number(figure(|it| it.p50), 0)),
            ("p99 us", Cell::number(figure(|it| it.p99), 0)),
            ("p99 x off", Cell::number(p99.median, 2)),
            ("worst p99 x off", Cell::number(p99.worst, 2)),
        ]
    };
    measured.iter().map(row).collect()
}

fn show(options: &Options, measured: &[Measurement], outages: &[Row], goals: &[Goal]) -> Result<()> {
    let mut report = Map::new();
    let goals: Vec<_> = goals.iter().map(Goal::row).collect();
    for (name, title, rows) in [
        ("steady", "5,000 requests a second", &rows(measured, |own| &own.steady)),
        ("full", "all that comes through", &rows(measured, |own| &own.full)),
        ("outages", "a database that stands still, at 5,000 requests a second", &outages.to_vec()),
        ("goals", "goals", &goals),
    ] {
        if !rows.is_empty() {
            println!("\n{title}");
            table::print(rows);
            report.insert(name.to_owned(), table::json(rows));
        }
    }
    println!("\nall sums in the databases are those of /stats");
    table::write(options.common.json.as_deref(), &Value::Object(report))
}

#[cfg(test)]
mod tests {
    use super::entrants::Kind;
    use super::{OBJECTS, Options, Rounds, Sample, entrants, path, pause};
    use std::collections::BTreeSet;

    fn parse(line: &str) -> anyhow::Result<Options> {
        Options::parse(&crate::args::words(line))
    }

    #[test]
    fn nothing_is_compared_without_the_larder_that_has_none() {
        assert_eq!(parse("").unwrap().kinds, [Kind::Off, Kind::Sqlite, Kind::Mariadb, Kind::Postgres]);
        assert_eq!(parse("--only sqlite,off").unwrap().kinds, [Kind::Off, Kind::Sqlite]);
        let error = parse("--only sqlit").err().unwrap().to_string();
        assert_eq!(error, "unknown database `sqlit`; did you mean `sqlite`?");
    }

    #[test]
    fn chance_is_shown_by_a_second_larder_without_a_database() {
        let all = entrants(&parse("--only mariadb").unwrap().kinds);
        assert_eq!(all, [("off", Kind::Off), ("off again", Kind::Off), ("mariadb", Kind::Mariadb)]);
    }

    #[test]
    fn ratios_compare_within_a_round_and_report_median_and_worst() {
        let samples = |all: [(f64, f64); 3]| {
            all.map(|(per_second, p99)| Sample { per_second, cpu: 1.0, p50: 1.0, p99 })
        };
        let off = samples([(100.0, 10.0), (50.0, 20.0), (100.0, 10.0)]);
        let own = samples([(80.0, 11.0), (50.0, 20.0), (25.0, 80.0)]);
        assert_eq!(Rounds::ratio(&own, &off, |it| it.p99), Rounds { median: 1.1, worst: 8.0 });
        assert_eq!(Rounds::ratio(&own, &off, pause), Rounds { median: 1.25, worst: 4.0 });
        assert!(Rounds::ratio(&own, &[], pause).median.is_nan());
    }

    #[test]
    fn a_walk_visits_all_objects() {
        let paths: BTreeSet<_> = (0..OBJECTS).map(path).collect();
        assert_eq!(paths.len() as u64, OBJECTS);
    }
}
