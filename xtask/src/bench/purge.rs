//! `cargo x bench purge`: the effect on clients of a purge of 100,000 objects. Hits at a steady rate, in the seconds
//! before a purge and in those around it.

use super::goal::{self, Goal};
use super::lap::Lap;
use super::measure::{amid, median};
use super::options::{Options, claim_cores};
use super::origin::Origin;
use super::pace::{Latency, Pace};
use super::peers::{self, Programs, Which};
use super::server::RunningServer;
use super::table::{Cell, Row};
use super::{CONNECTIONS, server};
use anyhow::{Result, bail};
use std::time::{Duration, Instant};

/// The number of purged objects, and of requested ones.
const PURGED: u64 = 100_000;
const ASKED: u64 = 1_000;
const LENGTH: u64 = 1_024;
/// The requests per second, and their connections.
const RATE: u32 = 5_000;
const STEADY: usize = 16;
/// The number of pipelined requests on each connection that fill the cache.
const DEPTH: usize = 8;

/// The maximum time until a purge is in force, in microseconds, for any number of stored objects.
const IN_FORCE: f64 = 1_000.0;
/// The maximum 99th percentile during a purge, over that before it.
const SLOWEST: f64 = 1.5;

/// The kinds of purges: the name, and the option.
const WAYS: [(&str, &str); 2] = [("soft", "--soft"), ("hard", "--hard")];

/// Reads the words after `bench purge`.
pub(super) fn parse(words: &[String]) -> Result<Options> {
    Options::without_peers(words, [3, 1], [3, 5])
}

/// A purge with its effects.
struct Sample {
    before: Latency,
    around: Latency,
    /// The time from the command's start until everything was counted.
    took: Duration,
    /// The time until a purge without counting is in force.
    in_force: Duration,
    /// The CPU time in addition to that of the seconds before, in microseconds.
    cpu: f64,
}

/// Runs the bench and prints its table, and the goals with their results. Fails if a build fails, a request is not
/// answered, or a purge removes other objects.
pub(crate) fn run(options: &Options) -> Result<Vec<Goal>> {
    let larder = peers::program(options.larder.as_deref())?;
    claim_cores(&server::in_memory())?;
    let origin = Origin::start();
    let Some(peer) = peers::ALL.iter().find(|peer| peer.which == Which::Larder) else { bail!("no larder") };
    let larder = RunningServer::start(peer, &Programs::given(&larder), &origin)?;
    lap(&larder, &asked).run(0..ASKED)?;
    let mut samples = WAYS.map(|_| Vec::new());
    for round in 1..=options.rounds {
        eprintln!("round {round} of {}", options.rounds);
        for ((_, way), samples) in WAYS.iter().zip(&mut samples) {
            samples.push(measure(options, &larder, way)?);
        }
    }
    let named = || WAYS.iter().map(|(name, _)| *name).zip(&samples);
    let rows: Vec<_> = named().map(|(name, samples)| row(name, samples)).collect();
    let slower = |samples: &[Sample]| figure(samples, |it| it.around.p99 / it.before.p99);
    let goal = |(name, samples): (&str, &Vec<Sample>)| {
        Goal::new(format!("{name}: p99 around / before"), SLOWEST, slower(samples))
    };
    let in_force = |(name, samples): (&str, &Vec<Sample>)| {
        let micros = figure(samples, |it| it.in_force.as_secs_f64() * 1e6);
        Goal::new(format!("{name}: us until in force"), IN_FORCE, micros)
    };
    let goals: Vec<_> = named().map(goal).chain(named().map(in_force)).collect();
    println!("\npurges of {PURGED} objects, at {RATE} requests a second");
    goal::report(options.json.as_deref(), ("purges", &rows), &goals)?;
    Ok(goals)
}

fn asked(number: u64) -> String {
    format!("/1k/asked/{}", number % ASKED)
}

fn purged(number: u64) -> String {
    format!("/1k/purged/{number}")
}

fn lap<'a>(larder: &RunningServer, path: &'a (dyn Fn(u64) -> String + Sync)) -> Lap<'a> {
    Lap { port: larder.port, length: LENGTH, connections: CONNECTIONS as usize, depth: DEPTH, path }
}

fn measure(options: &Options, larder: &RunningServer, way: &str) -> Result<Sample> {
    lap(larder, &purged).run(0..PURGED)?;
    let in_force = larder.time_of_purge("tag=none")?;
    let pace = Pace {
        port: larder.port,
        rate: RATE,
        connections: STEADY,
        duration: options.duration,
        length: LENGTH,
        path: &asked,
    };
    let (cpu_before, before) = larder.cpu_during(|| pace.run())?;
    let (cpu, (around, took)) =
        larder.cpu_during(|| amid(options.duration, || pace.run(), || purge(larder, way)))?;
    Ok(Sample { before, around, took, in_force, cpu: (cpu - cpu_before).max(0.0) })
}

fn purge(larder: &RunningServer, way: &str) -> Result<Duration> {
    let begun = Instant::now();
    let prefix = format!("http://127.0.0.1:{}/1k/purged/", larder.port);
    let purged = larder.purge(&["--prefix", &prefix, way, "--count"])?;
    match purged["objects"].as_u64() {
        Some(PURGED) => Ok(begun.elapsed()),
        _ => bail!("a purge of {PURGED} objects came to {purged}"),
    }
}

fn figure(samples: &[Sample], figure: impl Fn(&Sample) -> f64) -> f64 {
    median(samples.iter().map(figure).collect())
}

fn row(name: &str, samples: &[Sample]) -> Row {
    let micros = |of: fn(&Sample) -> f64| Cell::number(figure(samples, of), 0);
    vec![
        ("purge", Cell::word(name)),
        ("p50 before us", micros(|it| it.before.p50)),
        ("p50 around us", micros(|it| it.around.p50)),
        ("p99 before us", micros(|it| it.before.p99)),
        ("p99 around us", micros(|it| it.around.p99)),
        ("longest before us", micros(|it| it.before.longest)),
        ("longest around us", micros(|it| it.around.longest)),
        ("in force us", micros(|it| it.in_force.as_secs_f64() * 1e6)),
        ("counted ms", Cell::number(figure(samples, |it| it.took.as_secs_f64() * 1e3), 0)),
        ("CPU ms", Cell::number(figure(samples, |it| it.cpu / 1e3), 0)),
    ]
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_quick_run_is_one_round_unless_told_otherwise() {
        let rounds = |line: &str| {
            let words = crate::args::words(line);
            parse(&words).unwrap().rounds
        };
        assert_eq!([rounds(""), rounds("--quick"), rounds("--quick --rounds 3")], [5, 1, 3]);
    }
}
