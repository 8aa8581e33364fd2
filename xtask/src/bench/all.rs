//! `cargo x bench all`: all benches in sequence, and at the end one table of all goals.

use super::goal::{judge_all, summary};
use super::{Parse, Ready, table};
use crate::args;
use anyhow::Result;
use std::path::PathBuf;

/// The benches that have no option `--install`.
const INSTALL_NOTHING: &[&str] = &["advise", "control", "purge", "replay", "learn"];

/// The options of `cargo x bench all`.
pub(crate) struct Options {
    benches: Vec<(&'static str, Ready)>,
    json: Option<PathBuf>,
}

impl Options {
    /// Reads the words after `bench all`, for the benches in `list`. Fails on an unknown word, which the error names.
    pub(super) fn parse(list: &[(&'static str, Parse)], words: &[String]) -> Result<Self> {
        let known = [("--quick", false), ("--install", false), ("--only", true), ("--json", true)];
        let words = args::parse(words, &known)?;
        let names: Vec<_> = list.iter().map(|(name, _)| *name).collect();
        let only: Option<Vec<_>> = words.get("--only").map(|only| only.split(',').collect());
        if let Some(unknown) = only.iter().flatten().find(|name| !names.contains(name)) {
            return Err(args::unknown("bench", unknown, &names));
        }
        let passed_on: Vec<_> = ["--quick", "--install"].into_iter().filter(|word| words.has(word)).collect();
        let bench = |(name, parse): &(&'static str, Parse)| {
            let installs = !INSTALL_NOTHING.contains(name);
            let words = passed_on.iter().filter(|word| installs || **word != "--install");
            Ok((*name, parse(&words.map(|word| (*word).to_owned()).collect::<Vec<_>>())?))
        };
        let is_chosen = |name: &str| only.as_ref().is_none_or(|only| only.contains(&name));
        let benches = list.iter().filter(|(name, _)| is_chosen(name)).map(bench).collect::<Result<_>>()?;
        Ok(Self { benches, json: words.path("--json") })
    }
}

/// Runs the benches and prints the table. If one fails, the others still run. Fails if a bench fails or a goal is
/// missed, after the table is printed; the error names all of them.
pub(super) fn run(options: &Options) -> Result<()> {
    let mut outcomes = Vec::new();
    for (name, bench) in &options.benches {
        println!("\n== {name}");
        let outcome = bench();
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
    use super::super::BENCHES;
    use super::Options;

    fn all() -> Vec<&'static str> {
        BENCHES.iter().map(|(name, _)| *name).collect()
    }

    fn names(line: &str) -> anyhow::Result<Vec<&'static str>> {
        let words = crate::args::words(line);
        Ok(Options::parse(BENCHES, &words)?.benches.iter().map(|(name, _)| *name).collect())
    }

    #[test]
    fn all_are_all_or_those_named() {
        assert_eq!(names("").unwrap(), all());
        assert_eq!(names("--quick --install").unwrap(), all());
        assert_eq!(names("--only replay,hits").unwrap(), ["hits", "replay"]);
        let error = names("--only hit").err().unwrap().to_string();
        assert_eq!(error, "unknown bench `hit`; did you mean `hits`?");
    }

    #[test]
    fn every_bench_has_a_quick_form() {
        for (name, parse) in BENCHES {
            assert!(parse(&["--quick".to_owned()]).is_ok(), "{name}");
        }
    }
}
