//! `cargo x bench rules`: what rules cost a hit of 1 KiB. Larders with none, with some that do not hold and a few that do,
//! and with a rule for many networks, beside each other.

use super::goal::{self, Goal};
use super::load::{self, Script};
use super::measure::median;
use super::origin::Origin;
use super::peers::{self, Peer, Programs, Setup, Start, Which, start};
use super::server::{self, Running};
use super::table::{self, Cell, Row};
use super::{CONNECTIONS, LOAD_CORE, SERVER_CORE, pin_self, process, warn_if_busy};
use crate::{args, packages};
use anyhow::{Result, bail};
use serde_json::json;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// The object that is asked for.
const PATH: &str = "/1k";
/// Networks of the rule that has many.
const NETWORKS: u32 = 10_000;
/// Hits with a hundred rules may cost so many times those with none.
const MOST: f64 = 1.05;
/// The variant that has a goal.
const HUNDRED: &str = "100 rules";

/// Each larder: its name, and how it is configured.
type Variant = (&'static str, fn(&Setup) -> Result<Start>);

const VARIANTS: [Variant; 5] = [
    ("no rules", |setup| configure(setup, "")),
    ("10 rules", |setup| configure(setup, &rules(10))),
    (HUNDRED, |setup| configure(setup, &rules(100))),
    ("1,000 rules", |setup| configure(setup, &rules(1_000))),
    ("10,000 networks", |setup| configure(setup, &networks())),
];

/// What a `cargo x bench rules` command line means.
pub(crate) struct Options {
    duration: Duration,
    rounds: u32,
    larder: Option<PathBuf>,
    json: Option<PathBuf>,
    install: bool,
}

impl Options {
    /// Reads the words after `bench rules`.
    ///
    /// # Errors
    /// Names the word that is not known, or the value that makes no sense.
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let known = [
            ("--quick", false),
            ("--seconds", true),
            ("--rounds", true),
            ("--larder", true),
            ("--json", true),
            ("--install", false),
        ];
        let words = args::parse(words, &known)?;
        let [seconds, rounds] = if words.has("--quick") { [1, 3] } else { [3, 7] };
        Ok(Self {
            duration: words.seconds("--seconds", seconds)?,
            rounds: words.number("--rounds", rounds)?,
            larder: words.path("--larder"),
            json: words.path("--json"),
            install: words.has("--install"),
        })
    }
}

/// Runs the bench and prints its table, and the goal with its result.
///
/// # Errors
/// When something is missing, a build fails, or a request is not answered from the cache.
pub(crate) fn run(options: &Options) -> Result<Vec<Goal>> {
    let missing = packages::missing([&packages::WRK]);
    match options.install {
        true => packages::install(&missing)?,
        false if missing.is_empty() => {}
        false => bail!("not installed; add --install, or run: {}", packages::command_line(&missing)),
    }
    let programs = Programs::given(&peers::program(options.larder.as_deref())?);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    pin_self(cores)?;
    println!("{cores} cores; larder on core {SERVER_CORE}, all else on core {}", LOAD_CORE.min(cores - 1));
    warn_if_busy();
    server::remove_leftovers(&server::in_memory());
    let (origin, script) = (Origin::start()?, Script::one()?);
    let mut larders = Vec::new();
    for (name, configure) in VARIANTS {
        let peer = Peer::apart(name, Which::Larder, None, configure);
        let larder = Running::start(&peer, &programs, &origin)?;
        load::run(&script, larder.port, PATH, CONNECTIONS, options.duration)?;
        larders.push((name, larder, Vec::new()));
    }
    let asked = origin.requests();
    for round in 1..=options.rounds {
        eprintln!("round {round} of {}", options.rounds);
        for (_, larder, samples) in &mut larders {
            samples.push(cost(larder, &script, options.duration)?);
        }
    }
    if origin.requests() != asked {
        bail!("the origin was asked {} times for what was stored", origin.requests() - asked);
    }
    let base = larders[0].2.clone();
    let ratio = |samples: &[f64]| median(samples.iter().zip(&base).map(|(own, base)| own / base).collect());
    let row = |(name, _, samples): &(&str, Running, Vec<f64>)| -> Row {
        vec![
            ("1 KiB hits", Cell::word(name)),
            ("CPU us", Cell::number(median(samples.clone()), 2)),
            ("ratio", Cell::number(ratio(samples), 3)),
        ]
    };
    let rows: Vec<_> = larders.iter().map(row).collect();
    let goal = |(name, _, samples): &(&str, Running, Vec<f64>)| {
        Goal::new(format!("{name} / no rules"), MOST, ratio(samples))
    };
    let goals: Vec<_> = larders.iter().filter(|(name, ..)| *name == HUNDRED).map(goal).collect();
    table::print(&rows);
    goal::print(&goals);
    let told: Vec<_> = goals.iter().map(Goal::row).collect();
    table::write(
        options.json.as_deref(),
        &json!({"rules": table::json(&rows), "goals": table::json(&told)}),
    )?;
    Ok(goals)
}

/// CPU time of the larder for each request, in microseconds.
fn cost(larder: &Running, script: &Script, duration: Duration) -> Result<f64> {
    let processes = larder.processes()?;
    let before = process::cpu_time(&processes)?;
    let load = load::run(script, larder.port, PATH, CONNECTIONS, duration)?;
    let used = process::cpu_time(&processes)?.saturating_sub(before);
    Ok(used.as_secs_f64() * 1e6 / load.requests as f64)
}

fn configure(setup: &Setup, rules: &str) -> Result<Start> {
    let text = format!(
        "[reverse]\nlisten = \"127.0.0.1:{}\"\n[[site]]\norigin = \"http://127.0.0.1:{}\"\n{rules}",
        setup.port, setup.origin
    );
    let config = peers::write(setup, "larder.toml", &text)?;
    Ok(start(&["serve", "--config", &config, "--admin", "off", "--threads", "1", "--stats", "none"]))
}

/// So many rules of the kinds that people write. Two of them hold for the object.
fn rules(count: u32) -> String {
    let mut text =
        "[[site.rule]]\nttl_default = \"1h\"\n[[site.rule]]\nmatch = { path = \"/1*\" }\nttl_min = \"1m\"\n"
            .to_owned();
    for number in 2..count {
        let conditions = match number % 5 {
            0 => format!("path = \"/section{number}/*\""),
            1 => format!("path = \"/page{number}\", method = \"GET\""),
            2 => format!("extension = \"x{number}\""),
            3 => format!("path = \"/user{number}/*\", cookie = \"session\""),
            _ => format!("path = \"/1{number}/*\", query = \"page\""),
        };
        // Writing to a string does not fail.
        let _ = write!(text, "[[site.rule]]\nmatch = {{ {conditions} }}\nttl = \"{number}s\"\n");
    }
    text
}

/// A rule that would hold for clients of many networks.
fn networks() -> String {
    let network = |number: u32| format!("\"10.{}.{}.0/24\"", number / 256, number % 256);
    let networks: Vec<_> = (0..NETWORKS).map(network).collect();
    format!("[[site.rule]]\nmatch = {{ client = [{}] }}\ncache = false\n", networks.join(", "))
}

#[cfg(test)]
mod tests {
    use super::rules;

    #[test]
    fn there_are_as_many_rules_as_asked_for() {
        for count in [10, 100, 1_000] {
            assert_eq!(rules(count).matches("[[site.rule]]").count() as u32, count);
        }
    }
}
