//! `cargo x bench cluster`: the cost of a request for the nodes of a cluster, by the source of its answer, compared
//! with a single node. `larder-lab experiment cluster` shows the common contents of the nodes and the requests that the
//! origin is spared.

mod nodes;

use super::goal::{self, Goal};
use super::load::{self, Script};
use super::measure::median;
use super::options::{Options, claim_cores};
use super::origin::Origin;
use super::peers::{self, Programs};
use super::server::RunningServer;
use super::table::{Cell, Row};
use super::{CONNECTIONS, process, server};
use crate::packages;
use anyhow::{Context, Result, bail};
use nodes::{ENGINE, Nodes};
use std::time::Duration;

/// URLs whose answers are stored before the measurement. There is room for copies of all of them.
const OBJECTS: u64 = 1_000;
/// Coprime to their number, so that a walk visits all.
const STRIDE: u64 = 617;
const HITS: &str = "/1k/";

/// The maximum cost, and the maximum latency, of an answer that the asked node has, over those of a single node.
const AT_HAND: f64 = 1.1;
/// The maximum cost of a request to another node, over a single node's cost of a miss.
const ASKING: f64 = 1.1;
/// The minimum share of requests to another node, in a load for that node's keys: a few keys have the asked node as
/// owner.
const ASKED: f64 = 0.98;

/// The node that answers, and the source of the answer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// A single node, from memory.
    Alone,
    /// The owner, from memory.
    Own,
    /// Another node, from its copy.
    Copy,
    /// Another node, which sends each request to the owner.
    Peer,
    /// A single node, from the origin.
    AloneMiss,
    /// The owner, from the origin.
    OwnMiss,
    /// Another node, which sends the request to the owner, which sends it to the origin.
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

    /// Whether each request is forwarded to another node.
    fn crosses(self) -> bool {
        matches!(self, Self::Peer | Self::PeerMiss)
    }

    /// Returns the load of this kind; each `name` has separate URLs for misses.
    fn script(self, name: &str) -> Result<Script> {
        if self.asks_origin() {
            Script::once(&format!("{HITS}{name}/"))
        } else {
            Script::walk(HITS, OBJECTS, STRIDE)
        }
    }
}

/// Reads the words after `bench cluster`. Fails on an unknown word, or an invalid value; the error names it.
pub(crate) fn parse(words: &[String]) -> Result<Options> {
    Options::parse(words, [2, 7])
}

/// One load on one node.
struct Sample {
    /// CPU time for a request, in microseconds: of the asked node, and of the whole cluster.
    asked: f64,
    all: f64,
    per_second: f64,
    /// The median latency with one connection, in microseconds.
    p50: f64,
    p99: f64,
}

/// A kind of load, and its sample of each round.
struct Measurement {
    kind: Kind,
    name: &'static str,
    samples: Vec<Sample>,
}

/// Runs the bench and prints its table, and the goals with their results. Fails if a program is missing, a build fails,
/// a request is not answered, or an answer comes from another source.
pub(crate) fn run(options: &Options) -> Result<Vec<Goal>> {
    let missing = packages::missing([&ENGINE, &packages::WRK]);
    if options.install {
        packages::install(&missing)?;
    } else if !missing.is_empty() {
        bail!("not installed; add --install, or run: {}", packages::command_line(&missing));
    }
    let programs = Programs::given(&peers::program(options.larder.as_deref())?);
    claim_cores(&server::in_memory())?;
    let origin = Origin::start();
    let nodes = Nodes::start(&programs, &origin)?;
    let mut measured = KINDS.map(|(kind, name)| Measurement { kind, name, samples: Vec::new() });
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

/// Loads the node that answers in this way, and checks the source of its answers.
fn sample(options: &Options, nodes: &Nodes, (kind, round): (Kind, u32), origin: &Origin) -> Result<Sample> {
    let node = nodes.of(kind);
    let used = |running: &[&RunningServer]| {
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

/// Checks that the answers came from the expected source.
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

fn samples(measured: &[Measurement], kind: Kind) -> &[Sample] {
    measured.iter().find(|own| own.kind == kind).map_or(&[], |own| &own.samples)
}

/// Returns the ratio of a figure of one kind to that of another, in the same rounds.
fn ratio(measured: &[Measurement], [own, base]: [Kind; 2], figure: fn(&Sample) -> f64) -> f64 {
    let pairs = samples(measured, own).iter().zip(samples(measured, base));
    median(pairs.map(|(own, base)| figure(own) / figure(base)).collect())
}

fn goals(measured: &[Measurement]) -> Vec<Goal> {
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

fn rows(measured: &[Measurement]) -> Vec<Row> {
    let row = |own: &Measurement| {
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

fn show(options: &Options, measured: &[Measurement]) -> Result<Vec<Goal>> {
    let (rows, goals) = (rows(measured), goals(measured));
    println!("\nrequests for 1 KiB, {CONNECTIONS} connections and one");
    goal::report(options.json.as_deref(), ("answers", &rows), &goals)?;
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
            let words = crate::args::words(line);
            parse(&words).unwrap().rounds
        };
        assert_eq!([rounds(""), rounds("--quick"), rounds("--quick --rounds 3")], [7, 2, 3]);
    }
}
