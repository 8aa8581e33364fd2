//! `cargo x bench scale`: what a hit costs with one worker, with two on two cores, and with 64 on two cores; how long a
//! lookup has a lock; and what follows for more cores, by a [model].
//!
//! The measure is CPU time: on two cores, the load takes a part of one of them. Two workers that do not hinder each other
//! need as much of it for a hit as one does, and so answer twice as many hits on twice the cores.

mod holds;
mod model;

use self::holds::Holds;
use self::model::{Popularity, Scenario};
use super::goal::{self, Goal};
use super::load::{self, Load, Script};
use super::measure::median;
use super::options::{Options, claim_cores};
use super::origin::Origin;
use super::peers::{self, Peer, Programs, Setup, Start, Which};
use super::rules::rules;
use super::server::{self, Running};
use super::table::{self, Cell, Row};
use super::{CONNECTIONS, process};
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
/// The least rate of two workers over that of one, and of many workers over that of two, on the same cores.
const TWO_LEAST: f64 = 1.9;
const MANY_LEAST: f64 = 0.97;
/// The URLs of the load that has several.
const URLS: u64 = 1_000;

/// A load, and the rules of the larders that get it.
struct Case {
    name: &'static str,
    path: &'static str,
    rules: bool,
}

const CASES: [Case; 3] = [
    Case { name: "one URL", path: "/1k", rules: false },
    Case { name: "1,000 URLs", path: "/1k/", rules: false },
    Case { name: "one URL, ten rules", path: "/1k", rules: true },
];

/// A larder with this number of workers.
struct Entrant {
    workers: &'static str,
    rules: bool,
    larder: Running,
    /// The CPU time of a hit in microseconds, by case and round.
    samples: Vec<Vec<f64>>,
}

/// Reads the words after `bench scale`.
///
/// # Errors
/// The same as for [`Options::parse`].
pub(super) fn parse(words: &[String]) -> Result<Options> {
    Options::parse(words, [3, 7])
}

/// Runs the bench and prints its tables, and the goals with their results.
///
/// # Errors
/// If a program is missing, a build fails, or a request is not answered from the cache.
pub(crate) fn run(options: &Options) -> Result<Vec<Goal>> {
    options.missing(&[&packages::WRK], &[])?;
    let programs = Programs::given(&peers::program(options.larder.as_deref())?);
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
            for entrant in entrants.iter_mut().filter(|entrant| entrant.rules == case.rules) {
                let cost = entrant.cost(case, &script, options.duration)?;
                // The first round fills the caches.
                entrant.samples[number].extend((round > 0).then_some(cost));
            }
        }
    }
    let find = |workers, case: usize| {
        let is_it = |entrant: &&Entrant| entrant.workers == workers && entrant.rules == CASES[case].rules;
        entrants.iter().find(is_it).map_or(&[][..], |entrant| &entrant.samples[case])
    };
    let ratio = |case, [own, base]: [&'static str; 2]| {
        median(find(own, case).iter().zip(find(base, case)).map(|(own, base)| own / base).collect())
    };
    let row = |(case, Case { name, .. }): (usize, &Case)| -> Row {
        let cost = |workers| Cell::number(median(find(workers, case).to_vec()), 2);
        vec![
            ("1 KiB hits", Cell::word(name)),
            ("CPU us, 1 worker", cost(ONE)),
            ("2 workers", cost(TWO)),
            ("64 workers", cost(MANY)),
            ("2 over 1", Cell::number(2.0 / ratio(case, [TWO, ONE]), 2)),
            ("64 over 2", Cell::number(1.0 / ratio(case, [MANY, TWO]), 2)),
        ]
    };
    let measured: Vec<_> = CASES.iter().enumerate().map(row).collect();
    let goals = CASES.iter().enumerate().flat_map(|(case, Case { name, .. })| {
        let two = Goal::new(
            format!("{name}: CPU of a hit, 2 workers / 1"),
            2.0 / TWO_LEAST,
            ratio(case, [TWO, ONE]),
        );
        let many = Goal::new(
            format!("{name}: CPU of a hit, 64 workers / 2"),
            1.0 / MANY_LEAST,
            ratio(case, [MANY, TWO]),
        );
        [two, many]
    });
    let goals: Vec<_> = goals.collect();
    let predicted = predictions(median(find(ONE, 0).to_vec()), &holds);
    table::print(&measured);
    println!("\ntime under a lock, in nanoseconds; the cells have the share of operations");
    table::print(&holds.rows());
    println!("\n{}", model::ASSUMPTIONS);
    table::print(&predicted);
    goal::print(&goals);
    let told: Vec<_> = goals.iter().map(Goal::row).collect();
    let all = json!({
        "scale": table::json(&measured), "holds": table::json(&holds.rows()), "model": table::json(&predicted),
        "goals": table::json(&told),
    });
    table::write(options.json.as_deref(), &all)?;
    Ok(goals)
}

/// Returns the model's rates for hits that take `cost` microseconds on one core.
fn predictions(cost: f64, holds: &Holds) -> Vec<Row> {
    let mut rows = Vec::new();
    for popularity in Popularity::ALL {
        for cores in [1, 2, 4, 8, 16, 32, 64, 128] {
            let scenario = |is_hot| Scenario::new(popularity, cores, cost, holds, is_hot).predict();
            let (hot, plain) = (scenario(true), scenario(false));
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
    rows
}

fn start(programs: &Programs, origin: &Origin) -> Result<Vec<Entrant>> {
    const fn peer(name: &'static str, configure: fn(&Setup) -> Result<Start>) -> Peer {
        Peer::apart(name, Which::Larder, None, configure)
    }
    let all = [
        (ONE, false, peer("1-worker", |setup| configure(setup, ONE, false))),
        (TWO, false, peer("2-workers", |setup| configure(setup, TWO, false))),
        (MANY, false, peer("64-workers", |setup| configure(setup, MANY, false))),
        (ONE, true, peer("1-worker-rules", |setup| configure(setup, ONE, true))),
        (TWO, true, peer("2-workers-rules", |setup| configure(setup, TWO, true))),
        (MANY, true, peer("64-workers-rules", |setup| configure(setup, MANY, true))),
    ];
    let start = |(workers, rules, peer): (&'static str, bool, Peer)| {
        let larder = Running::start(&peer, programs, origin)?;
        if workers != ONE {
            widen(&larder)?;
        }
        Ok(Entrant { workers, rules, larder, samples: vec![Vec::new(); CASES.len()] })
    };
    all.into_iter().map(start).collect()
}

/// Lets all threads of a larder run on both cores.
fn widen(larder: &Running) -> Result<()> {
    for process in larder.processes()? {
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
        let processes = self.larder.processes()?;
        let before = process::cpu_time(&processes)?;
        let Load { requests, .. } = load::run(script, self.larder.port, case.path, CONNECTIONS, duration)?;
        let used = process::cpu_time(&processes)?.saturating_sub(before);
        Ok(used.as_secs_f64() * 1e6 / requests as f64)
    }
}
