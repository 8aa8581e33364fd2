//! `cargo x bench scale`: what a hit costs with one worker, with two on two cores, and with 64 on two cores; how long a
//! lookup has a lock; what follows for more cores, by a [model]; and whether connections are dealt [fairly](fairness).
//!
//! The measure is CPU time: on two cores, the load takes a part of one of them. Two workers that do not hinder each other
//! need as much of it for a hit as one does, and so answer twice as many hits on twice the cores.
//!
//! The kernel's part grows with the number of threads, in any program: a thread with few connections is woken for each
//! request, and shares its core with the load. So the goals compare with the floor of as many threads.

mod drawing;
mod fairness;
mod holds;
mod model;

use self::drawing::Bars;
use self::fairness::Fairness;
use self::holds::Holds;
use self::model::{Popularity, Scenario};
use super::goal::{self, Goal};
use super::h2::H2LOAD;
use super::load::{self, Load, Script};
use super::measure::median;
use super::options::{Options, claim_cores};
use super::origin::Origin;
use super::peers::{self, FLOOR, Peer, Programs, Setup, Start, Which};
use super::rules::rules;
use super::server::{self, RunningServer};
use super::table::{self, Cell, Row};
use crate::packages;
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The workers that are compared.
const ONE: &str = "1";
const TWO: &str = "2";
const MANY: &str = "64";
/// The cores of several workers.
const CORES: &str = "0,1";
/// The least rate of two workers over that of one, and of many workers over that of two, on the same cores, if the floor
/// scales perfectly.
const TWO_LEAST: f64 = 1.9;
const MANY_LEAST: f64 = 0.97;
/// The connections of the load over HTTP/2.
const MANY_CONNECTIONS: u32 = 64;
/// The URLs of the load that has several.
const URLS: u64 = 1_000;

/// A kind of server that is compared with different numbers of workers.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Floor,
    Bare,
    Ruled,
}

/// A load, and the servers that get it.
struct Case {
    name: &'static str,
    path: &'static str,
    connections: u32,
    kind: Kind,
}

impl Case {
    const fn new(name: &'static str, path: &'static str, connections: u32, kind: Kind) -> Self {
        Self { name, path, connections, kind }
    }
}

/// With 64 connections, many workers have one each; with 1,024, one has 16.
const CASES: [Case; 6] = [
    Case::new("floor", "/1k", 64, Kind::Floor),
    Case::new("floor, 1,024 connections", "/1k", 1_024, Kind::Floor),
    Case::new("one URL", "/1k", 64, Kind::Bare),
    Case::new("one URL, 1,024 connections", "/1k", 1_024, Kind::Bare),
    Case::new("1,000 URLs", "/1k/", 64, Kind::Bare),
    Case::new("one URL, ten rules", "/1k", 64, Kind::Ruled),
];

/// A server with this number of workers.
struct Entrant {
    workers: &'static str,
    kind: Kind,
    server: RunningServer,
    /// The CPU time of a hit in microseconds, by case and round.
    samples: Vec<Vec<f64>>,
}

/// Reads the words after `bench scale`. Errors: the same as for [`Options::parse`].
pub(super) fn parse(words: &[String]) -> Result<Options> {
    Options::parse(words, [3, 7])
}

/// Runs the bench and prints its tables, and the goals with their results. Fails if a program is missing, a build
/// fails, or a request is not answered from the cache.
pub(crate) fn run(options: &Options) -> Result<Vec<Goal>> {
    options.missing(&[&packages::WRK, &H2LOAD], &[])?;
    let own: Vec<_> =
        peers::ALL.iter().filter(|peer| matches!(peer.which, Which::Floor | Which::Larder)).collect();
    let programs = peers::build(&own, options.larder.as_deref())?;
    let holds = Holds::measure()?;
    claim_cores(&server::in_memory())?;
    let origin = Origin::start();
    let mut entrants = start(&programs, &origin)?;
    for round in 0..=options.rounds {
        if round > 0 {
            eprintln!("round {round} of {}", options.rounds);
        }
        for (number, case) in CASES.iter().enumerate() {
            let script = case.script()?;
            for entrant in entrants.iter_mut().filter(|entrant| entrant.kind == case.kind) {
                let cost = entrant.cost(case, &script, options.duration)?;
                // The first round fills the caches.
                entrant.samples[number].extend((round > 0).then_some(cost));
            }
        }
    }
    let costs = Costs(&entrants);
    let measured: Vec<_> = (0..CASES.len()).map(|case| costs.row(case)).collect();
    let mut goals: Vec<_> = (0..CASES.len()).flat_map(|case| costs.goals(case)).collect();
    let (predicted, bars) = predictions(median(costs.of(ONE, BARE).to_vec()), &holds);
    drop(entrants);
    let mut dealt = Vec::new();
    for entrant in fairness::entrants() {
        let fairness = Fairness::measure(entrant, &programs, &origin, options.duration * options.rounds)?;
        goals.push(fairness.goal());
        dealt.push(fairness.row());
    }
    table::print(&measured);
    println!("\ntime under a lock, in nanoseconds; the cells have the share of operations");
    table::print(&holds.rows());
    println!("\n{}", model::ASSUMPTIONS);
    table::print(&predicted);
    println!("\nthe rate over that of one core; a character is two cores, a dot is two that are lost");
    bars.iter().flat_map(Bars::lines).for_each(|line| println!("{line}"));
    println!("\n64 HTTP/2 connections, each with 60 requests a second at fixed times");
    table::print(&dealt);
    goal::print(&goals);
    let told: Vec<_> = goals.iter().map(Goal::row).collect();
    let all = json!({
        "scale": table::json(&measured), "holds": table::json(&holds.rows()), "model": table::json(&predicted),
        "fairness": table::json(&dealt), "goals": table::json(&told),
    });
    table::write(options.json.as_deref(), &all)?;
    Ok(goals)
}

/// Returns the model's rates for hits that take `cost` microseconds on one core, and those of many cores as bars.
fn predictions(cost: f64, holds: &Holds) -> (Vec<Row>, Vec<Bars>) {
    let (mut rows, mut bars) = (Vec::new(), Vec::new());
    for popularity in Popularity::ALL {
        for cores in [1, 2, 4, 8, 16, 32, 64, 128] {
            let scenario = |is_hot| Scenario::new(popularity, cores, cost, holds, is_hot).predict();
            let (hot, plain) = (scenario(true), scenario(false));
            let requests = popularity.name();
            if cores >= 32 {
                bars.push(Bars { requests, cores, hot: hot.rate * cost, plain: plain.rate * cost });
            }
            rows.push(vec![
                ("requests", Cell::word(&popularity.name())),
                ("cores", Cell::number(cores as f64, 0)),
                ("million hits/s", Cell::number(hot.rate, 2)),
                ("over one core", Cell::number(hot.rate * cost, 1)),
                ("p99 us", Cell::number(hot.p99, 1)),
                ("million hits/s without hot entries", Cell::number(plain.rate, 2)),
            ]);
        }
    }
    (rows, bars)
}

/// The case whose cost on one core is that of the model.
const BARE: usize = 2;

/// The CPU times of hits.
struct Costs<'e>(&'e [Entrant]);

impl Costs<'_> {
    /// Returns the times of a case, by round.
    fn of(&self, workers: &str, case: usize) -> &[f64] {
        let is_it = |entrant: &&Entrant| entrant.workers == workers && entrant.kind == CASES[case].kind;
        self.0.iter().find(is_it).map_or(&[], |entrant| &entrant.samples[case])
    }

    /// Returns the time with `own` workers over that with `base` workers, by round.
    fn ratios(&self, case: usize, [own, base]: [&str; 2]) -> Vec<f64> {
        self.of(own, case).iter().zip(self.of(base, case)).map(|(own, base)| own / base).collect()
    }

    fn row(&self, case: usize) -> Row {
        let cost = |workers| Cell::number(median(self.of(workers, case).to_vec()), 2);
        let rate = |cores, workers| Cell::number(cores / median(self.ratios(case, workers)), 2);
        vec![
            ("1 KiB hits", Cell::word(CASES[case].name)),
            ("CPU us, 1 worker", cost(ONE)),
            ("2 workers", cost(TWO)),
            ("64 workers", cost(MANY)),
            ("2 over 1", rate(2.0, [TWO, ONE])),
            ("64 over 2", rate(1.0, [MANY, TWO])),
        ]
    }

    /// Returns the goals of a case, compared with the floor under the same load.
    fn goals(&self, case: usize) -> Vec<Goal> {
        let Case { name, connections, kind, .. } = &CASES[case];
        let is_floor = |of: &Case| of.kind == Kind::Floor && of.connections == *connections;
        let Some(floor) = CASES.iter().position(is_floor).filter(|_| *kind != Kind::Floor) else {
            return Vec::new();
        };
        let goal = |workers: [&str; 2], most| {
            let rounds = self.ratios(case, workers).into_iter().zip(self.ratios(floor, workers));
            let figure = median(rounds.map(|(own, floor)| own / floor).collect());
            let what = format!("{name}: CPU of a hit, {} workers / {}, x floor's", workers[0], workers[1]);
            Goal::new(what, most, figure)
        };
        vec![goal([TWO, ONE], 2.0 / TWO_LEAST), goal([MANY, TWO], 1.0 / MANY_LEAST)]
    }
}

/// Returns each kind of server with each number of workers.
fn start(programs: &Programs, origin: &Origin) -> Result<Vec<Entrant>> {
    const fn larder(name: &'static str, configure: fn(&Setup) -> Result<Start>) -> Peer {
        Peer::apart(name, Which::Larder, None, configure)
    }
    const fn floor(configure: fn(&Setup) -> Result<Start>) -> Peer {
        Peer { configure, ..FLOOR }
    }
    let all = [
        (ONE, Kind::Floor, floor(|setup| Ok(threads(setup, ONE)))),
        (TWO, Kind::Floor, floor(|setup| Ok(threads(setup, TWO)))),
        (MANY, Kind::Floor, floor(|setup| Ok(threads(setup, MANY)))),
        (ONE, Kind::Bare, larder("1-worker", |setup| configure(setup, ONE, false))),
        (TWO, Kind::Bare, larder("2-workers", |setup| configure(setup, TWO, false))),
        (MANY, Kind::Bare, larder("64-workers", |setup| configure(setup, MANY, false))),
        (ONE, Kind::Ruled, larder("1-worker-rules", |setup| configure(setup, ONE, true))),
        (TWO, Kind::Ruled, larder("2-workers-rules", |setup| configure(setup, TWO, true))),
        (MANY, Kind::Ruled, larder("64-workers-rules", |setup| configure(setup, MANY, true))),
    ];
    let start = |(workers, kind, peer): (&'static str, Kind, Peer)| {
        let server = RunningServer::start(&peer, programs, origin)?;
        if workers != ONE {
            widen(&server)?;
        }
        Ok(Entrant { workers, kind, server, samples: vec![Vec::new(); CASES.len()] })
    };
    all.into_iter().map(start).collect()
}

fn threads(setup: &Setup, threads: &str) -> Start {
    peers::start(&[&format!("127.0.0.1:{}", setup.port), threads])
}

/// Lets all threads of a server run on both cores.
fn widen(server: &RunningServer) -> Result<()> {
    for process in server.processes()? {
        let mut taskset = Command::new("taskset");
        taskset.args(["--all-tasks", "--cpu-list", "--pid", CORES, &process.to_string()]);
        let status = taskset.stdout(Stdio::null()).status().context("cannot start taskset")?;
        ensure!(status.success(), "taskset: {status}");
    }
    Ok(())
}

fn configure(setup: &Setup, workers: &str, with_rules: bool) -> Result<Start> {
    let rules = if with_rules { rules(10) } else { String::new() };
    let text = format!(
        "[reverse]\nlisten = \"127.0.0.1:{}\"\n[memory]\nsize = \"1GiB\"\n[[site]]\norigin = \"http://127.0.0.1:{}\"\n{rules}",
        setup.port, setup.origin
    );
    let config = peers::write(setup, "larder.toml", &text)?;
    Ok(peers::start(&[
        "serve",
        "--config",
        &config,
        "--admin",
        "off",
        "--threads",
        workers,
        "--stats",
        "none",
    ]))
}

impl Case {
    fn script(&self) -> Result<Script> {
        if self.path.ends_with('/') { Script::walk(self.path, URLS, 1) } else { Script::one() }
    }
}

impl Entrant {
    /// Returns the CPU time of a hit, in microseconds.
    fn cost(&self, case: &Case, script: &Script, duration: Duration) -> Result<f64> {
        let load = || load::run(script, self.server.port, case.path, case.connections, duration);
        let (used, Load { requests, .. }) = self.server.cpu_during(load)?;
        Ok(used / requests as f64)
    }
}
