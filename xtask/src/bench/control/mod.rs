//! `cargo x bench control`: the cost of reading data that changes, directly from a backend and through a cache in front
//! of it, with a gateway that knows all writes: the cache validates each answer, or receives invalidations.
//!
//! The backend and the clients are those of `larder-lab live`: three coupled services, and a closed loop that finds stale
//! answers.

mod blank;
mod ways;

use super::goal::Goal;
use super::measure::median;
use super::options::{Options, claim_cores};
use super::peers::{self, Programs};
use super::server;
use super::table::{self, Cell, Row};
use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};
use std::process::Command;
use ways::{ENTITIES, HOPS, Open, SERVICES, Way};

/// The time of the backend's answers in microseconds: none, short, long.
const COSTS: [u64; 3] = [0, CHEAP, 20_000];
const CHEAP: u64 = 200;

/// The maximum CPU time of validating each answer in addition to two hops, in microseconds.
const BEYOND_HOPS: f64 = 60.0;
/// The maximum time, and CPU time, of the hop through a gateway, in microseconds.
const HOP: (f64, f64) = (60.0, 40.0);
/// The maximum cost of a hit that can be revoked, over one that cannot.
const OVER_MEMORY: f64 = 1.05;
/// The cost of an answer in milliseconds up to which a cache that validates each answer may be slower than no cache.
const BREAK_EVEN: f64 = 1.0;

/// A load: the number of clients, and the share of writes among their requests.
#[derive(Clone, Copy, PartialEq)]
struct Load {
    name: &'static str,
    clients: u32,
    writes: f64,
}

/// One client that waits for each answer, for latency; enough clients to keep a core busy, for CPU time; and the
/// microservice report's workload.
const LOADS: [Load; 3] = [
    Load { name: "reads, 1 client", clients: 1, writes: 0.0 },
    Load { name: "reads, 16 clients", clients: 16, writes: 0.0 },
    Load { name: "80% reads, 16 clients", clients: 16, writes: 0.2 },
];

/// Reads the words after `bench control`.
pub(super) fn parse(words: &[String]) -> Result<Options> {
    Options::without_peers(words, [1, 1], [2, 3])
}

/// One load on one way.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// The mean time of GETs, in microseconds.
    mean: f64,
    p50: f64,
    p99: f64,
    /// CPU time for a request, in microseconds: of the proxies, and of the backend.
    cpu: f64,
    backend: f64,
    per_second: f64,
}

/// A way under a load, and its sample of each round.
struct Measurement {
    way: Way,
    cost: u64,
    load: Load,
    samples: Vec<Sample>,
}

/// Runs the bench and prints its tables, and the goals with their results. Fails if a build fails, a request is not
/// answered, or an answer is stale.
pub(crate) fn run(options: &Options) -> Result<Vec<Goal>> {
    let programs = peers::build(&[&SERVICES, &HOPS[0]], options.larder.as_deref())?;
    claim_cores(&server::in_memory())?;
    let blanked = blank::goals()?;
    let folder = tempfile::tempdir()?;
    let mut ways = vec![Open::start(Way::Memory, CHEAP, &programs, folder.path())?];
    for cost in COSTS {
        for way in [Way::Direct, Way::Hops, Way::Gateway, Way::Always, Way::Push] {
            ways.push(Open::start(way, cost, &programs, folder.path())?);
        }
    }
    let measured = measure(options, &ways, &programs)?;
    let mut goals = goals(&measured);
    goals.extend(blanked);
    show(options, &measured, &goals)?;
    Ok(goals)
}

fn measure(options: &Options, ways: &[Open], programs: &Programs) -> Result<Vec<Measurement>> {
    let mut measured = Vec::new();
    for load in LOADS {
        // A cache that does not know of writes is not comparable to those that do.
        for open in ways.iter().filter(|open| load.writes == 0.0 || open.way != Way::Memory) {
            measured.push(Measurement { way: open.way, cost: open.cost, load, samples: Vec::new() });
        }
    }
    for open in ways {
        ask(programs, open, LOADS[1], &["--requests", "4000", "--exponent", "0"])?;
    }
    // Reads of all rounds come first: a client that stops in the middle of a write leaves its gateway in doubt.
    for load in LOADS {
        for round in 1..=options.rounds {
            eprintln!("{}, round {round} of {}", load.name, options.rounds);
            for own in measured.iter_mut().filter(|own| own.load == load) {
                let Some(open) = ways.iter().find(|open| (open.way, open.cost) == (own.way, own.cost)) else {
                    continue;
                };
                own.samples.push(sample(options, programs, open, load)?);
            }
        }
    }
    Ok(measured)
}

fn sample(options: &Options, programs: &Programs, open: &Open, load: Load) -> Result<Sample> {
    let seconds = options.duration.as_secs().to_string();
    let before = open.cpu()?;
    let told = ask(programs, open, load, &["--requests", "100000000", "--seconds", &seconds])?;
    let after = open.cpu()?;
    let number = |path: &str| {
        told.pointer(path).and_then(Value::as_f64).with_context(|| format!("no {path} in {told}"))
    };
    let requests = number("/reads/count")? + number("/writes/count")?;
    let cpu = |which: usize| (after[which].saturating_sub(before[which])).as_secs_f64() * 1e6 / requests;
    Ok(Sample {
        mean: number("/reads/mean")?,
        p50: number("/reads/p50")?,
        p99: number("/reads/p99")?,
        cpu: cpu(0),
        backend: cpu(1),
        per_second: requests / number("/seconds")?,
    })
}

/// Runs clients and returns their report. No answer may be stale.
fn ask(programs: &Programs, open: &Open, load: Load, more: &[&str]) -> Result<Value> {
    let [clients, entities] = [load.clients, ENTITIES].map(|number| number.to_string());
    let to = format!("127.0.0.1:{}", open.port());
    let output = Command::new(programs.lab())
        .args(["live", "drive", "--to", &to, "--clients", &clients, "--entities", &entities])
        .args(["--writes", &load.writes.to_string()])
        .args(more)
        .output()
        .context("cannot start larder-lab")?;
    if !output.status.success() {
        bail!("larder-lab: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let told: Value = serde_json::from_slice(&output.stdout).context("reading what clients tell")?;
    if told["failed"] != 0 || told["stale"] != 0 {
        bail!("{} at {} us: answers failed or were stale: {told}", open.way.name(), open.cost);
    }
    Ok(told)
}

/// Returns the samples of a way under a load.
fn samples(measured: &[Measurement], way: Way, cost: u64, load: Load) -> &[Sample] {
    let own = measured.iter().find(|own| (own.way, own.cost, own.load) == (way, cost, load));
    own.map_or(&[], |own| &own.samples)
}

/// Returns the median over rounds of `figure` for two ways' samples.
fn compare(own: &[Sample], base: &[Sample], figure: impl Fn(&Sample, &Sample) -> f64) -> f64 {
    median(own.iter().zip(base).map(|(own, base)| figure(own, base)).collect())
}

fn goals(measured: &[Measurement]) -> Vec<Goal> {
    let [one, many, _] = LOADS;
    let of = |way, cost, load| samples(measured, way, cost, load);
    let memory = of(Way::Memory, CHEAP, many);
    let mut goals = Vec::new();
    for cost in COSTS {
        let name = |what: &str| format!("{}: {what}", endpoint(cost));
        let [always, hops, push] = [Way::Always, Way::Hops, Way::Push].map(|way| of(way, cost, many));
        goals.push(Goal::new(
            name("always, CPU us beyond two hops"),
            BEYOND_HOPS,
            compare(always, hops, |own, base| own.cpu - base.cpu),
        ));
        goals.push(Goal::new(
            name("push, CPU of a hit / of a memory hit"),
            OVER_MEMORY,
            compare(push, memory, |own, base| own.cpu / base.cpu),
        ));
        let [always, straight] = [Way::Always, Way::Direct].map(|way| of(way, cost, one));
        goals.push(Goal::new(
            name("always is sooner from this cost of an answer on, ms"),
            BREAK_EVEN,
            compare(always, straight, |own, base| (own.p50 - (base.p50 - cost as f64)) / 1e3),
        ));
        // Slower backends wake idle processors, which costs more than the hop.
        if cost <= CHEAP {
            let gateway = of(Way::Gateway, cost, one);
            goals.push(Goal::new(
                name("the gateway's hop, us"),
                HOP.0,
                compare(gateway, straight, |own, base| own.p50 - base.p50),
            ));
            let gateway = of(Way::Gateway, cost, many);
            goals.push(Goal::new(
                name("the gateway's hop, CPU us"),
                HOP.1,
                compare(gateway, gateway, |own, _| own.cpu),
            ));
        }
    }
    goals
}

fn endpoint(cost: u64) -> String {
    format!("{} ms", cost as f64 / 1e3)
}

fn rows(measured: &[Measurement], load: Load) -> Vec<Row> {
    let row = |own: &Measurement| {
        let straight = samples(measured, Way::Direct, own.cost, load);
        let figure = |figure: fn(&Sample) -> f64| median(own.samples.iter().map(figure).collect());
        vec![
            ("endpoint", Cell::word(&endpoint(own.cost))),
            ("way", Cell::word(own.way.name())),
            ("mean us", Cell::number(figure(|it| it.mean), 0)),
            ("p50 us", Cell::number(figure(|it| it.p50), 0)),
            ("p99 us", Cell::number(figure(|it| it.p99), 0)),
            (
                "mean x straight",
                Cell::number(compare(&own.samples, straight, |own, base| own.mean / base.mean), 2),
            ),
            ("CPU us/request", Cell::number(figure(|it| it.cpu), 1)),
            ("backend's", Cell::number(figure(|it| it.backend), 1)),
            ("requests/s", Cell::number(figure(|it| it.per_second), 0)),
        ]
    };
    measured.iter().filter(|own| own.load == load).map(row).collect()
}

fn show(options: &Options, measured: &[Measurement], goals: &[Goal]) -> Result<()> {
    let mut report = Map::new();
    let goals: Vec<_> = goals.iter().map(Goal::row).collect();
    let tables = LOADS.iter().map(|load| (load.name, rows(measured, *load)));
    for (name, rows) in tables.chain([("goals", goals)]) {
        println!("\n{name}");
        table::print(&rows);
        report.insert(name.to_owned(), table::json(&rows));
    }
    println!("\nno request failed, and no answer was stale");
    table::write(options.json.as_deref(), &Value::Object(report))
}

#[cfg(test)]
mod tests {
    use super::{COSTS, LOADS, Measurement, Sample, goals};
    use crate::bench::control::ways::Way;
    use crate::bench::table;

    #[test]
    fn goals_compare_samples_of_one_round() {
        let sample = |cpu, p50| Sample { mean: p50, p50, p99: p50, cpu, backend: 0.0, per_second: 1.0 };
        let mut measured = Vec::new();
        for load in LOADS {
            for cost in COSTS {
                let answer = cost as f64;
                for (way, cpu, p50) in [
                    (Way::Direct, 0.0, answer + 100.0),
                    (Way::Hops, 50.0, answer + 300.0),
                    (Way::Gateway, 30.0, answer + 150.0),
                    (Way::Always, 90.0, 400.0),
                    (Way::Push, 10.0, 90.0),
                    (Way::Memory, 10.0, 90.0),
                ] {
                    measured.push(Measurement { way, cost, load, samples: vec![sample(cpu, p50)] });
                }
            }
        }
        let rows: Vec<_> = goals(&measured).iter().map(super::Goal::row).collect();
        let figures: Vec<_> = table::json(&rows)
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["figure"].as_f64().unwrap())
            .collect();
        let (reads, hop) = ([40.0, 1.0, 0.3], [50.0, 30.0]);
        assert_eq!(figures, [&reads[..], &hop, &reads, &hop, &reads].concat());
    }
}
