//! `cargo x bench cluster`: what a request costs the nodes of a cluster, by where its answer comes from, beside one node by
//! itself. What nodes keep together, and what the origin is spared, `larder experiment cluster` shows.

mod nodes;

use super::goal::{self, Goal};
use super::load::{self, Script};
use super::measure::median;
use super::options::Options;
use super::origin::Origin;
use super::peers::{self, Programs};
use super::server::Running;
use super::table::{self, Cell, Row};
use super::{CONNECTIONS, LOAD_CORE, SERVER_CORE, pin_self, process, server, warn_if_busy};
use crate::packages;
use anyhow::{Context, Result, bail};
use nodes::{ENGINE, Nodes};
use serde_json::json;
use std::thread;
use std::time::Duration;

/// URLs whose answers are stored before. Copies of all of them have room.
const OBJECTS: u64 = 1_000;
/// Prime to their number, so that a walk visits all.
const STRIDE: u64 = 617;
const HITS: &str = "/1k/";

/// What an answer of a node that has it may cost, of what it costs one node by itself, and how much later it may come.
const AT_HAND: f64 = 1.1;
/// What it may cost a node to ask another node, of what a miss costs one node by itself.
const ASKING: f64 = 1.1;
/// Of a load that is for another node's keys, so much has to be asked of that node: a few keys are nobody else's.
const ASKED: f64 = 0.98;

/// Who answers, from what.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// One node by itself, from memory.
    Alone,
    /// The owner, from memory.
    Own,
    /// Another node, from its copy.
    Copy,
    /// Another node, which asks the owner each time.
    Peer,
    /// One node by itself, from the origin.
    AloneMiss,
    /// The owner, from the origin.
    OwnMiss,
    /// Another node, which asks the owner, and that the origin.
    PeerMiss,
}

const KINDS: [(Kind, &str); 7] = [
    (Kind::Alone, "hit, one node"),
    (Kind::Own, "hit of the owner"),
    (Kind::Copy, "hit of a copy"),
    (Kind::Peer, "hit by way of the owner"),
    (Kind::AloneMiss, "miss, one node"),
    (Kind::OwnMiss, "miss of the owner"),
    (Kind::PeerMiss, "miss by way of the owner"),
];

impl Kind {
    fn asks_origin(self) -> bool {
        matches!(self, Self::AloneMiss | Self::OwnMiss | Self::PeerMiss)
    }

    /// Whether each request goes from node to node.
    fn crosses(self) -> bool {
        matches!(self, Self::Peer | Self::PeerMiss)
    }

    /// What a load of this kind asks for; nobody asked for what is to be missed under another `name`.
    fn script(self, name: &str) -> Result<Script> {
        if self.asks_origin() {
            Script::once(&format!("{HITS}{name}/"))
        } else {
            Script::walk(HITS, OBJECTS, STRIDE)
        }
    }
}

/// Reads the words after `bench cluster`.
///
/// # Errors
/// Names the word that is not known, or the value that makes no sense.
pub(crate) fn parse(words: &[String]) -> Result<Options> {
    Options::parse(words, [2, 7])
}

/// One load on one node.
struct Sample {
    /// CPU time a request, in microseconds: of the node that is asked, and of all of the cluster.
    asked: f64,
    all: f64,
    per_second: f64,
    /// With one connection, in microseconds.
    p50: f64,
    p99: f64,
}

/// What is asked for, and its sample of each round.
struct Measured {
    kind: Kind,
    name: &'static str,
    samples: Vec<Sample>,
}

/// Runs the bench and prints its table, and the goals with their results.
///
/// # Errors
/// When something is missing, a build fails, a request is not answered, or an answer comes from elsewhere.
pub(crate) fn run(options: &Options) -> Result<Vec<Goal>> {
    let missing = packages::missing([&ENGINE, &packages::WRK]);
    if options.install {
        packages::install(&missing)?;
    } else if !missing.is_empty() {
        bail!("not installed; add --install, or run: {}", packages::command_line(&missing));
    }
    let programs = Programs::given(&peers::program(options.larder.as_deref())?);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    pin_self(cores)?;
    println!("{cores} cores; all nodes on core {SERVER_CORE}, all else on core {}", LOAD_CORE.min(cores - 1));
    warn_if_busy();
    server::remove_leftovers(&server::in_memory());
    let origin = Origin::start();
    let nodes = Nodes::start(&programs, &origin)?;
    let mut measured = KINDS.map(|(kind, name)| Measured { kind, name, samples: Vec::new() });
    for kind in [Kind::Alone, Kind::Own, Kind::Copy, Kind::Peer] {
        nodes.warm(kind, (0..OBJECTS).map(|number| format!("{HITS}{number}")))?;
    }
    for round in 1..=options.rounds {
        eprintln!("round {round} of {}", options.rounds);
        for own in &mut measured {
            let sample = sample(options, &nodes, (own.kind, round), &origin);
            own.samples.push(sample.with_context(|| own.name)?);
        }
    }
    show(options, &measured)
}

/// Loads the node that answers in this way, and checks that it does.
fn sample(options: &Options, nodes: &Nodes, (kind, round): (Kind, u32), origin: &Origin) -> Result<Sample> {
    let node = nodes.of(kind);
    let used = |running: &[&Running]| {
        let mut sum = Duration::ZERO;
        for running in running {
            sum += process::cpu_time(&running.processes()?)?;
        }
        Ok::<_, anyhow::Error>(sum)
    };
    let all = nodes.all(kind);
    let (asked, crossed) = (origin.requests(), nodes.crossings(kind)?);
    let before = [used(&[node])?, used(&all)?];
    let script = kind.script(&format!("{kind:?}-{round}-many"))?;
    let many = load::run(&script, node.port, "", CONNECTIONS, options.duration)?;
    let after = [used(&[node])?, used(&all)?];
    let script = kind.script(&format!("{kind:?}-{round}-one"))?;
    let one = load::run(&script, node.port, "", 1, options.duration)?;
    let (asked, crossed) = (origin.requests() - asked, nodes.crossings(kind)? - crossed);
    let requests = many.requests + one.requests;
    check(kind, requests, asked, crossed)?;
    let cpu = |which: usize| {
        let used = after[which].saturating_sub(before[which]);
        used.as_secs_f64() * 1e6 / many.requests as f64
    };
    let [p50, p99] = [one.p50, one.p99].map(|time| time.as_secs_f64() * 1e6);
    let per_second = many.requests as f64 / many.elapsed.as_secs_f64();
    Ok(Sample { asked: cpu(0), all: cpu(1), per_second, p50, p99 })
}

/// That answers came from where they should.
fn check(kind: Kind, requests: u64, origin: u64, crossed: u64) -> Result<()> {
    if kind.asks_origin() && origin < requests {
        bail!("the origin was asked {origin} times for {requests} requests");
    }
    if !kind.asks_origin() && origin > 0 {
        bail!("the origin was asked {origin} times for what was stored");
    }
    let least = if kind.crosses() { (requests as f64 * ASKED) as u64 } else { 0 };
    let most = if kind.crosses() { u64::MAX } else { (requests as f64 * (1.0 - ASKED)) as u64 };
    if !(least..=most).contains(&crossed) {
        bail!("{crossed} of {requests} requests went to another node");
    }
    Ok(())
}

fn samples(measured: &[Measured], kind: Kind) -> &[Sample] {
    measured.iter().find(|own| own.kind == kind).map_or(&[], |own| &own.samples)
}

/// What a figure of one kind is to that of another, in the same rounds.
fn ratio(measured: &[Measured], [own, base]: [Kind; 2], figure: fn(&Sample) -> f64) -> f64 {
    let pairs = samples(measured, own).iter().zip(samples(measured, base));
    median(pairs.map(|(own, base)| figure(own) / figure(base)).collect())
}

fn goals(measured: &[Measured]) -> Vec<Goal> {
    let goal = |what: &str, most: f64, pair: [Kind; 2], figure: fn(&Sample) -> f64| {
        Goal::new(what.to_owned(), most, ratio(measured, pair, figure))
    };
    vec![
        goal("CPU of an owner's hit / one node's", AT_HAND, [Kind::Own, Kind::Alone], |it| it.all),
        goal("CPU of a copy's hit / one node's", AT_HAND, [Kind::Copy, Kind::Alone], |it| it.all),
        goal("p50 of a copy's hit / one node's", AT_HAND, [Kind::Copy, Kind::Alone], |it| it.p50),
        goal("CPU to ask the owner / to miss", ASKING, [Kind::Peer, Kind::AloneMiss], |it| it.asked),
    ]
}

fn rows(measured: &[Measured]) -> Vec<Row> {
    let row = |own: &Measured| {
        let figure = |figure: fn(&Sample) -> f64| median(own.samples.iter().map(figure).collect());
        let base = if own.kind.asks_origin() { Kind::AloneMiss } else { Kind::Alone };
        vec![
            ("answer", Cell::word(own.name)),
            ("CPU us, node asked", Cell::number(figure(|it| it.asked), 2)),
            ("CPU us, all nodes", Cell::number(figure(|it| it.all), 2)),
            ("x one node", Cell::number(ratio(measured, [own.kind, base], |it| it.all), 2)),
            ("requests/s", Cell::number(figure(|it| it.per_second), 0)),
            ("p50 us, 1 connection", Cell::number(figure(|it| it.p50), 0)),
            ("p99 us, 1 connection", Cell::number(figure(|it| it.p99), 0)),
            ("p50 x one node", Cell::number(ratio(measured, [own.kind, base], |it| it.p50), 2)),
        ]
    };
    measured.iter().map(row).collect()
}

fn show(options: &Options, measured: &[Measured]) -> Result<Vec<Goal>> {
    let (rows, goals) = (rows(measured), goals(measured));
    println!("\nrequests for 1 KiB, {CONNECTIONS} connections and one");
    table::print(&rows);
    goal::print(&goals);
    let told: Vec<_> = goals.iter().map(Goal::row).collect();
    let report = json!({"answers": table::json(&rows), "goals": table::json(&told)});
    table::write(options.json.as_deref(), &report)?;
    Ok(goals)
}

#[cfg(test)]
mod tests {
    use super::{Kind, check, parse};

    #[test]
    fn answers_from_elsewhere_are_no_measurement() {
        for (kind, origin, crossed, holds) in [
            (Kind::Own, 0, 0, true),
            (Kind::Own, 1, 0, false),
            (Kind::Copy, 0, 5, true),
            (Kind::Copy, 0, 300, false),
            (Kind::Peer, 0, 990, true),
            (Kind::Peer, 0, 10, false),
            (Kind::PeerMiss, 1_000, 1_000, true),
            (Kind::PeerMiss, 999, 1_000, false),
            (Kind::AloneMiss, 1_064, 0, true),
        ] {
            let result = check(kind, 1_000, origin, crossed);
            assert_eq!(result.is_ok(), holds, "{kind:?}: {origin} and {crossed}: {result:?}");
        }
    }

    #[test]
    fn a_quick_run_is_short_unless_told_otherwise() {
        let rounds = |line: &str| {
            let words = line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            parse(&words).unwrap().rounds
        };
        assert_eq!([rounds(""), rounds("--quick"), rounds("--quick --rounds 3")], [7, 2, 3]);
    }
}
