//! `cargo x h2spec`: every case of h2spec, strictly, over TLS and in clear.

use crate::conformance::run::start;
use crate::{args, bench, cargo, go, root};
use anyhow::{Context, Result, ensure};
use larder_testkit::{Origin, free_ports};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const MODULE: &str = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible";
/// How many cases there are.
const CASES: u64 = 146;

/// Cases that fail. What is not the preface of HTTP/2 is taken for a request of HTTP/1.1, and so has an answer, 400, before the
/// connection ends.
const KNOWN: &[&str] = &["Sends invalid connection preface"];

/// What the site behind the proxy has.
pub(crate) const PAGE: &str = "200 OK\n\nhello\n";

/// What a `cargo x h2spec` command line means.
pub(crate) struct Options {
    larder: Option<PathBuf>,
}

impl Options {
    /// Reads the words after `h2spec`.
    ///
    /// # Errors
    /// Names the word that is not known.
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let words = args::parse(words, &[("--larder", true)])?;
        Ok(Self { larder: words.path("--larder") })
    }

    /// Runs all cases both ways.
    ///
    /// # Errors
    /// When a program is missing, or a case fails that is not known to.
    pub(crate) fn run(self) -> Result<()> {
        let h2spec = go::program("h2spec", MODULE)?;
        let larder = match self.larder {
            Some(larder) => larder,
            None => build()?,
        };
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let [cert, key, _] = bench::certify(folder.path())?;
        let ([clear, tls], origin) = (free_ports(), Origin::always(PAGE));
        let mut command = Command::new(larder);
        command.args(["serve", "--stats", "none", "--admin", "off", "--tls-cert", &cert, "--tls-key", &key]);
        command.args(["--listen", &format!("127.0.0.1:{clear}")]);
        command.args(["--listen-tls", &format!("127.0.0.1:{tls}")]);
        command.args(["--origin", &origin.url()]);
        let _larder = start(command, clear, "larder")?;
        for (way, port, words) in [("in clear", clear, &[][..]), ("over TLS", tls, &["-t", "-k"])] {
            let mut command = Command::new(&h2spec);
            command.args(["--strict", "-h", "127.0.0.1", "-p", &port.to_string()]).args(words);
            let output = command.output().context("cannot start h2spec")?;
            let text = String::from_utf8_lossy(&output.stdout);
            let Verdict { cases, failed } = Verdict::read(&text)?;
            println!("{way}: {cases} cases, {} failed", failed.len());
            let unknown: Vec<_> = failed.iter().filter(|case| !KNOWN.contains(&case.as_str())).collect();
            ensure!(unknown.is_empty(), "{way}: {unknown:?} failed:\n{text}");
            ensure!(cases == CASES, "{way}: {cases} cases, not {CASES}:\n{text}");
        }
        Ok(())
    }
}

/// What h2spec says at its end.
#[derive(Debug, PartialEq)]
struct Verdict {
    cases: u64,
    failed: BTreeSet<String>,
}

impl Verdict {
    fn read(text: &str) -> Result<Self> {
        let sum = text.lines().find_map(|line| line.split_once(" tests, "));
        let (cases, sum) = sum.context("h2spec printed no sum")?;
        let failed = text.lines().filter_map(|line| {
            let (_, case) = line.split_once("\u{d7} ")?;
            case.split_once(": ").map(|(_, name)| name.trim().to_owned())
        });
        let failed: BTreeSet<_> = failed.collect();
        ensure!(failed.is_empty() == sum.ends_with(" 0 failed"), "h2spec says `{sum}`, but names {failed:?}");
        Ok(Self { cases: cases.trim().parse().context("h2spec's sum")?, failed })
    }
}

/// The debug build, which is made.
///
/// # Errors
/// When it cannot be.
pub(crate) fn build() -> Result<PathBuf> {
    let status = cargo().args(["build", "--quiet", "--package", "larder"]).status();
    ensure!(status.context("cannot start cargo")?.success(), "`cargo build` failed");
    Ok(root().join(Path::new("target/debug/larder")))
}

#[cfg(test)]
mod tests {
    use super::Verdict;

    #[test]
    fn failures_are_found_in_what_is_printed() {
        let text = "  3.5\n    1: Sends a preface\r    \u{2714} 1: Sends a preface\n    2: Bad one\r    \u{d7} 2: Bad one\n";
        let verdict = Verdict::read(&format!("{text}\n2 tests, 1 passed, 0 skipped, 1 failed\n")).unwrap();
        assert_eq!(
            (verdict.cases, verdict.failed.into_iter().collect::<Vec<_>>()),
            (2, vec!["Bad one".to_owned()])
        );
        assert!(Verdict::read(&format!("{text}\n2 tests, 2 passed, 0 skipped, 0 failed\n")).is_err());
        assert!(Verdict::read("").is_err());
    }
}
