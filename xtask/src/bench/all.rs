//! `cargo x bench all`: all benches in sequence, and at the end one table of all goals.

use super::goal::{judge_all, summary};
use super::{Bench, NAMES, table};
use crate::args;
use anyhow::Result;
use std::path::PathBuf;

/// The options of `cargo x bench all`.
pub(crate) struct Options {
    benches: Vec<(&'static str, Bench)>,
    json: Option<PathBuf>,
}

impl Options {
    /// Reads the words after `bench all`.
    ///
    /// # Errors
    /// An unknown word, which the error names.
    pub(super) fn parse(words: &[String]) -> Result<Self> {
        let known = [("--quick", false), ("--install", false), ("--only", true), ("--json", true)];
        let words = args::parse(words, &known)?;
        let mut names = NAMES.to_vec();
        if let Some(only) = words.get("--only") {
            if let Some(name) = only.split(',').find(|name| !names.contains(name)) {
                return Err(args::unknown("bench", name, NAMES));
            }
            names.retain(|name| only.split(',').any(|chosen| chosen == *name));
        }
        let passed_on: Vec<_> = ["--quick", "--install"].into_iter().filter(|word| words.has(word)).collect();
        let bench = |name: &'static str| {
            // These benches install no packages.
            let installs = !["control", "purge", "replay", "learn"].contains(&name);
            let words = passed_on.iter().filter(|word| installs || **word != "--install");
            let words: Vec<_> = std::iter::once(&name).chain(words).map(|word| (*word).to_owned()).collect();
            Ok((name, Bench::parse(&words)?))
        };
        Ok(Self { benches: names.into_iter().map(bench).collect::<Result<_>>()?, json: words.path("--json") })
    }
}

/// Runs the benches and prints the table. If one fails, the others still run.
///
/// # Errors
/// If a bench fails or a goal is missed, after the table is printed; the error names all of them.
pub(super) fn run(options: &Options) -> Result<()> {
    let mut outcomes = Vec::new();
    for (name, bench) in &options.benches {
        println!("\n== {name}");
        let outcome = bench.measure();
        if let Err(error) = &outcome {
            println!("failed: {error:#}");
        }
        outcomes.push((*name, outcome));
    }
    println!("\n== every goal");
    let rows = summary(&outcomes);
    table::print(&rows);
    table::write(options.json.as_deref(), &table::json(&rows))?;
    judge_all(&outcomes)
}

#[cfg(test)]
mod tests {
    use super::super::{Bench, NAMES};
    use super::Options;

    fn names(line: &str) -> anyhow::Result<Vec<&'static str>> {
        let words = line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        Ok(Options::parse(&words)?.benches.iter().map(|(name, _)| *name).collect())
    }

    #[test]
    fn all_are_all_or_those_named() {
        assert_eq!(names("").unwrap(), NAMES);
        assert_eq!(names("--quick --install").unwrap(), NAMES);
        assert_eq!(names("--only replay,hits").unwrap(), ["hits", "replay"]);
        let error = names("--only hit").err().unwrap().to_string();
        assert_eq!(error, "unknown bench `hit`; did you mean `hits`?");
    }

    #[test]
    fn every_bench_has_a_quick_form() {
        for name in NAMES {
            assert!(Bench::parse(&[(*name).to_owned(), "--quick".to_owned()]).is_ok(), "{name}");
        }
    }
}
