//! `cargo x bench observe`: what the statistics database costs those who ask. The same load without one and with each
//! kind: 5,000 requests a second, and as many as come through; and what is noticed of a database that stands still.

mod entrants;

use super::goal::Goal;
use super::load::{self, Script};
use super::measure::percentile;
use super::origin::Origin;
use super::pace::{Latency, Pace};
use super::peers::{self, Programs};
use super::table::{self, Cell, Row};
use super::{CONNECTIONS, LOAD_CORE, SERVER_CORE, pin_self, process, server, warn_if_busy};
use crate::{args, packages};
use anyhow::{Result, bail};
use entrants::{Entrant, KINDS, Kind, PACKAGES};
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// URLs that are asked for, all of them hits.
const OBJECTS: u64 = 1_000;
const LENGTH: u64 = 1_024;
/// Prime to their number, so that a walk visits all.
const STRIDE: u64 = 617;
/// Requests a second of the steady load, and its connections.
const RATE: u32 = 5_000;
const STEADY: u32 = 16;

/// What may be lost at most: a tenth of the throughput, and a fifth more time for the slowest hundredth.
const THROUGHPUT: f64 = 1.0 / 0.9;
const SLOWEST: f64 = 1.2;

/// What a `cargo x bench observe` command line means.
pub(crate) struct Options {
    kinds: Vec<Kind>,
    duration: Duration,
    rounds: u32,
    outage: Duration,
    larder: Option<PathBuf>,
    json: Option<PathBuf>,
    install: bool,
}

impl Options {
    /// Reads the words after `bench observe`.
    ///
    /// # Errors
    /// Names the word that is not known, or the value that makes no sense.
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let known = [
            ("--quick", false),
            ("--seconds", true),
            ("--rounds", true),
            ("--outage", true),
            ("--only", true),
            ("--larder", true),
            ("--json", true),
            ("--install", false),
        ];
        let words = args::parse(words, &known)?;
        let [seconds, rounds, outage] = if words.has("--quick") { [2, 3, 10] } else { [2, 25, 60] };
        Ok(Self {
            kinds: choose(words.get("--only"))?,
            duration: words.seconds("--seconds", seconds)?,
            rounds: words.number("--rounds", rounds)?,
            outage: words.seconds("--outage", outage)?,
            larder: words.path("--larder"),
            json: words.path("--json"),
            install: words.has("--install"),
        })
    }
}

/// No database, and those of these names, or all.
fn choose(words: Option<&str>) -> Result<Vec<Kind>> {
    let names: Vec<_> = KINDS.iter().map(|(name, _)| *name).collect();
    let kind = |word: &str| {
        let found = KINDS.iter().find(|(name, _)| *name == word);
        found.map(|(_, kind)| *kind).ok_or_else(|| args::unknown("database", word, &names))
    };
    let mut kinds = match words {
        None => KINDS.iter().map(|(_, kind)| *kind).collect(),
        Some(words) => words.split(',').map(kind).collect::<Result<Vec<_>>>()?,
    };
    kinds.retain(|kind| *kind != Kind::Off);
    kinds.insert(0, Kind::Off);
    Ok(kinds)
}

/// All that run beside each other. Two of them have no database: how far they are apart is chance.
fn entrants(kinds: &[Kind]) -> Vec<(&'static str, Kind)> {
    let named = |kind: &Kind| KINDS.iter().find(|(_, known)| known == kind).copied();
    let mut entrants: Vec<_> = kinds.iter().filter_map(named).collect();
    entrants.insert(1, ("off again", Kind::Off));
    entrants
}

/// One load on one larder.
struct Sample {
    per_second: f64,
    /// CPU time a request, in microseconds.
    cpu: f64,
    p50: f64,
    p99: f64,
}

/// A larder, and its samples of each round: of the steady load, and of all that comes through.
struct Measured {
    entrant: Entrant,
    steady: Vec<Sample>,
    full: Vec<Sample>,
}

/// Runs the bench and prints its tables, and the goals with what became of them.
///
/// # Errors
/// When something is missing, a build fails, a request is not answered, or sums differ.
pub(crate) fn run(options: &Options) -> Result<Vec<Goal>> {
    prepare(options)?;
    let programs = Programs::given(&peers::program(options.larder.as_deref())?);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    pin_self(cores)?;
    println!("{cores} cores; larder on core {SERVER_CORE}, all else on core {}", LOAD_CORE.min(cores - 1));
    warn_if_busy();
    server::remove_leftovers(&server::in_memory());
    let origin = Origin::start()?;
    let mut measured = Vec::new();
    for (name, kind) in entrants(&options.kinds) {
        let entrant = Entrant::start(name, kind, &programs, &origin)?;
        measured.push(Measured { entrant, steady: Vec::new(), full: Vec::new() });
    }
    let asked = origin.requests();
    for round in 1..=options.rounds {
        eprintln!("round {round} of {}", options.rounds);
        for Measured { entrant, steady, full } in &mut measured {
            steady.push(hold(entrant, options.duration)?);
            full.push(saturate(entrant, options.duration)?);
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

/// Sees that what is needed is there.
fn prepare(options: &Options) -> Result<()> {
    let needs = |kind| options.kinds.contains(&kind);
    let databases = PACKAGES.iter().zip([Kind::Mariadb, Kind::Postgres]);
    let databases = databases.filter(|(_, kind)| needs(*kind)).map(|(package, _)| package);
    let missing = packages::missing(databases.chain([&packages::WRK]));
    if options.install {
        packages::install(&missing)?;
    } else if !missing.is_empty() {
        bail!("not installed; add --install, or run: {}", packages::command_line(&missing));
    }
    Ok(())
}

/// Where the object of a number is.
fn path(number: u64) -> String {
    format!("/1k/{}", number * STRIDE % OBJECTS)
}

fn pace(entrant: &Entrant, duration: Duration) -> Pace<'static> {
    Pace { port: entrant.larder.port, rate: RATE, connections: STEADY, duration, length: LENGTH, path: &path }
}

/// The steady load, in rounds, for as long as an outage takes.
fn steadily(entrant: &Entrant, options: &Options) -> Result<Vec<Latency>> {
    let rounds = options.outage.as_secs().div_ceil(options.duration.as_secs().max(1));
    (0..rounds).map(|_| pace(entrant, options.duration).run()).collect()
}

/// The steady load.
fn hold(entrant: &Entrant, duration: Duration) -> Result<Sample> {
    let processes = entrant.larder.processes()?;
    let before = process::cpu_time(&processes)?;
    let Latency { p50, p99, .. } = pace(entrant, duration).run()?;
    let used = process::cpu_time(&processes)?.saturating_sub(before);
    let requests = f64::from(RATE) * duration.as_secs_f64();
    Ok(Sample { per_second: f64::from(RATE), cpu: used.as_secs_f64() * 1e6 / requests, p50, p99 })
}

/// All that comes through.
fn saturate(entrant: &Entrant, duration: Duration) -> Result<Sample> {
    let script = Script::walk("/1k/", OBJECTS, STRIDE)?;
    let processes = entrant.larder.processes()?;
    let before = process::cpu_time(&processes)?;
    let load = load::run(&script, entrant.larder.port, "", CONNECTIONS, duration)?;
    let used = process::cpu_time(&processes)?.saturating_sub(before);
    let requests = load.requests as f64;
    let [p50, p99] = [load.p50, load.p99].map(|time| time.as_secs_f64() * 1e6);
    let cpu = used.as_secs_f64() * 1e6 / requests;
    Ok(Sample { per_second: requests / load.elapsed.as_secs_f64(), cpu, p50, p99 })
}

/// The samples of all larders without a database: what others are compared with.
fn without(measured: &[Measured], samples: fn(&Measured) -> &[Sample]) -> Vec<&Sample> {
    measured.iter().filter(|it| it.entrant.kind == Kind::Off).flat_map(samples).collect()
}

/// What a time of `own` is to that of `base`, in the quieter rounds of each.
fn ratio(own: &[Sample], base: &[&Sample], time: fn(&Sample) -> f64) -> f64 {
    quiet(own, time) / quiet(base.iter().copied(), time)
}

/// A time in the quieter rounds. What disturbs a round from outside only makes it slower, and disturbs few others;
/// what a database does, it does in each.
fn quiet<'s, S: 's>(samples: impl IntoIterator<Item = &'s S>, time: fn(&S) -> f64) -> f64 {
    let mut times: Vec<_> = samples.into_iter().map(time).collect();
    times.sort_by(f64::total_cmp);
    percentile(&times, 25.0)
}

fn goals(measured: &[Measured]) -> Vec<Goal> {
    let [off_full, off_steady] = [without(measured, |it| &it.full), without(measured, |it| &it.steady)];
    let others = measured.iter().filter(|other| other.entrant.kind != Kind::Off);
    let goals = others.flat_map(|Measured { entrant, steady, full }| {
        let goal = |what: &str, most, figure| Goal::new(format!("{}: {what}", entrant.name), most, figure);
        [
            goal("throughput without / with", THROUGHPUT, ratio(full, &off_full, |it| 1.0 / it.per_second)),
            goal("p99 of all that comes through", SLOWEST, ratio(full, &off_full, |it| it.p99)),
            goal("p99 of the steady load", SLOWEST, ratio(steady, &off_steady, |it| it.p99)),
        ]
    });
    goals.collect()
}

/// Checks the sums of all, and lets each server stand still for a while.
fn outages(options: &Options, measured: &[Measured], goals: &mut Vec<Goal>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for Measured { entrant, .. } in measured {
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
        let p99 = |all: &[Latency]| quiet(all, |it| it.p99);
        let longest = |all: &[Latency]| all.iter().map(|it| it.longest).fold(0.0, f64::max);
        goals.push(Goal::new(
            format!("{}: p99 while it stands still", entrant.name),
            SLOWEST,
            p99(&during) / p99(&usual),
        ));
        rows.push(vec![
            ("database", Cell::word(entrant.name)),
            ("p99 before us", Cell::number(p99(&usual), 0)),
            ("p99 during us", Cell::number(p99(&during), 0)),
            ("longest before us", Cell::number(longest(&usual), 0)),
            ("longest during us", Cell::number(longest(&during), 0)),
            ("requests queued", Cell::number(queued as f64, 0)),
            ("dropped", Cell::number(dropped as f64, 0)),
        ]);
    }
    Ok(rows)
}

fn rows(measured: &[Measured], samples: fn(&Measured) -> &[Sample]) -> Vec<Row> {
    let off = &without(measured, samples);
    let row = |own: &Measured| {
        let (name, own) = (own.entrant.name, samples(own));
        let figure = |figure: fn(&Sample) -> f64| quiet(own, figure);
        vec![
            ("database", Cell::word(name)),
            ("requests/s", Cell::number(1.0 / figure(|it| 1.0 / it.per_second), 0)),
            ("x off", Cell::number(1.0 / ratio(own, off, |it| 1.0 / it.per_second), 2)),
            ("CPU us/request", Cell::number(figure(|it| it.cpu), 2)),
            ("CPU x off", Cell::number(ratio(own, off, |it| it.cpu), 2)),
            ("p50 us", Cell::number(figure(|it| it.p50), 0)),
            ("p99 us", Cell::number(figure(|it| it.p99), 0)),
            ("p99 x off", Cell::number(ratio(own, off, |it| it.p99), 2)),
        ]
    };
    measured.iter().map(row).collect()
}

fn show(options: &Options, measured: &[Measured], outages: &[Row], goals: &[Goal]) -> Result<()> {
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
    table::write(options.json.as_deref(), &Value::Object(report))
}

#[cfg(test)]
mod tests {
    use super::entrants::Kind;
    use super::{OBJECTS, Options, entrants, path};
    use std::collections::BTreeSet;

    fn parse(line: &str) -> anyhow::Result<Options> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
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
    fn a_walk_visits_all_objects() {
        let paths: BTreeSet<_> = (0..OBJECTS).map(path).collect();
        assert_eq!(paths.len() as u64, OBJECTS);
    }
}
