//! `cargo x bench rules`: the cost of rules for a hit of 1 KiB. Compares larders without rules, with rules of which a
//! few match, with rules for many networks and domains, and with content that is compressed to that size. Also compares
//! compression of what is not stored with that of NGINX.

use super::goal::{self, Goal};
use super::load::{self, Load, Script};
use super::measure::{median, ratio};
use super::options::{Options, claim_cores};
use super::origin::Origin;
use super::peers::{self, Peer, Programs, Setup, Start, Which};
use super::server::{self, RunningServer};
use super::table::{self, Cell, Row};
use super::{CONNECTIONS, unstored};
use crate::packages;
use anyhow::{Result, bail};
use serde_json::json;
use std::fmt::Write as _;
use std::time::Duration;

/// The requested object.
const PATH: &str = "/1k";
/// The number of networks of the rule that has many.
const NETWORKS: u32 = 10_000;
/// The number of domains of the rule that has many.
const DOMAINS: u32 = 1_000_000;
/// The maximum length of an answer with its head, in bytes.
const LARGEST: u64 = 1_600;
/// The maximum cost of hits with a hundred rules over those with none, and of compressed ones over plain ones.
const MOST: f64 = 1.05;
/// The field that the client of compressed content sends.
const ACCEPT_ENCODING: &[&str] = &["Accept-Encoding: gzip"];
const NONE: &str = "no rules";
const HUNDRED: &str = "100 rules";
const PLAIN: &str = "no rules, Accept-Encoding";
const COMPRESSED: &str = "compressed";
/// The variants that have a goal, each with its base: compressed content is compared with uncompressed content for the
/// same request.
const GOALS: [(&str, &str); 2] = [(HUNDRED, NONE), (COMPRESSED, PLAIN)];

/// A larder, and its requests.
struct Variant {
    name: &'static str,
    configure: fn(&Setup) -> Result<Start>,
    path: &'static str,
    fields: &'static [&'static str],
}

const fn variant(name: &'static str, configure: fn(&Setup) -> Result<Start>) -> Variant {
    Variant { name, configure, path: PATH, fields: &[] }
}

const VARIANTS: [Variant; 8] = [
    variant(NONE, |setup| configure(setup, "")),
    variant("10 rules", |setup| configure(setup, &rules(10))),
    variant(HUNDRED, |setup| configure(setup, &rules(100))),
    variant("1,000 rules", |setup| configure(setup, &rules(1_000))),
    variant("10,000 networks", |setup| configure(setup, &networks())),
    variant("1,000,000 domains", |setup| configure(setup, &domains(setup)?)),
    Variant { fields: ACCEPT_ENCODING, ..variant(PLAIN, |setup| configure(setup, "")) },
    Variant {
        path: "/hex",
        fields: ACCEPT_ENCODING,
        ..variant(COMPRESSED, |setup| configure(setup, "compress = [\"gzip\"]\n"))
    },
];

/// Reads the words after `bench rules`.
pub(super) fn parse(words: &[String]) -> Result<Options> {
    Options::parse(words, [3, 7])
}

/// Runs the bench and prints its table, and the goal with its result. Fails if a program is missing, a build fails, or
/// a request is not answered from the cache.
pub(crate) fn run(options: &Options) -> Result<Vec<Goal>> {
    options.missing(&[&packages::WRK, &peers::NGINX], &[])?;
    let programs = Programs::given(&peers::program(options.larder.as_deref())?);
    claim_cores(&server::in_memory())?;
    let (origin, script) = (Origin::start(), Script::one()?);
    let mut larders = Vec::new();
    for variant in &VARIANTS {
        let peer = Peer::apart(variant.name, Which::Larder, None, variant.configure);
        let larder = RunningServer::start(&peer, &programs, &origin)?;
        variant.load(&larder, &script, options.duration)?;
        larders.push((variant, larder, Vec::new()));
    }
    let asked = origin.requests();
    for round in 1..=options.rounds {
        eprintln!("round {round} of {}", options.rounds);
        for (variant, larder, samples) in &mut larders {
            samples.push(variant.cost(larder, &script, options.duration)?);
        }
    }
    if origin.requests() != asked {
        bail!("the origin was asked {} times for what was stored", origin.requests() - asked);
    }
    let ratio = |samples: &[f64], base: &str| {
        let base = larders.iter().filter(|(variant, ..)| variant.name == base).flat_map(|(.., base)| base);
        ratio(samples, base)
    };
    let row = |(variant, _, samples): &(&Variant, RunningServer, Vec<f64>)| -> Row {
        vec![
            ("1 KiB hits", Cell::word(variant.name)),
            ("CPU us", Cell::number(median(samples.clone()), 2)),
            ("ratio", Cell::number(ratio(samples, NONE), 3)),
        ]
    };
    let rows: Vec<_> = larders.iter().map(row).collect();
    let goal = |(variant, _, samples): &(&Variant, RunningServer, Vec<f64>)| {
        let (name, base) = GOALS.into_iter().find(|(name, _)| *name == variant.name)?;
        Some(Goal::new(format!("{name} / {base}"), MOST, ratio(samples, base)))
    };
    let goals: Vec<_> = larders.iter().filter_map(goal).collect();
    drop(larders);
    let unstored = unstored::measure(options, &programs, &origin)?;
    table::print(&rows);
    goal::print(&goals);
    table::print(&unstored);
    let told: Vec<_> = goals.iter().map(Goal::row).collect();
    table::write(
        options.json.as_deref(),
        &json!({"rules": table::json(&rows), "goals": table::json(&told), "unstored": table::json(&unstored)}),
    )?;
    Ok(goals)
}

impl Variant {
    /// Returns the larder's CPU time for each request, in microseconds.
    fn cost(&self, larder: &RunningServer, script: &Script, duration: Duration) -> Result<f64> {
        let (used, load) = larder.cpu_during(|| self.load(larder, script, duration))?;
        if load.bytes > load.requests * LARGEST {
            bail!("{}: answers have {} bytes", self.name, load.bytes / load.requests);
        }
        Ok(used / load.requests as f64)
    }

    fn load(&self, larder: &RunningServer, script: &Script, duration: Duration) -> Result<Load> {
        let url = format!("http://127.0.0.1:{}{}", larder.port, self.path);
        load::run_at(script, &url, CONNECTIONS, duration, self.fields)
    }
}

fn configure(setup: &Setup, rules: &str) -> Result<Start> {
    peers::larder_of_site(setup, "", rules)
}

/// Returns `count` typical rules. Two of them match the object.
pub(crate) fn rules(count: u32) -> String {
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
        // Writing to a string cannot fail.
        let _ = write!(text, "[[site.rule]]\nmatch = {{ {conditions} }}\nttl = \"{number}s\"\n");
    }
    text
}

/// Returns a rule that would match clients of many networks.
fn networks() -> String {
    let network = |number: u32| format!("\"10.{}.{}.0/24\"", number / 256, number % 256);
    let networks: Vec<_> = (0..NETWORKS).map(network).collect();
    format!("[[site.rule]]\nmatch = {{ client = [{}] }}\ncache = false\n", networks.join(", "))
}

/// Returns a rule that would match many hosts.
fn domains(setup: &Setup) -> Result<String> {
    let names: String = (0..DOMAINS).map(|number| format!("host{number}.example\n")).collect();
    let file = peers::write(setup, "domains.txt", &names)?;
    Ok(format!("[[site.rule]]\nmatch = {{ domains = \"{file}\" }}\ncache = false\n"))
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
