//! `cargo x h2spec`: all cases of h2spec, strictly, over TLS and in clear.

use crate::go;
use crate::program::{build_debug, certify, debug_build, start};
use anyhow::{Context, Result, ensure};
use larder_testkit::{Origin, free_ports};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

/// The number of cases.
const CASES: u64 = 146;

/// Cases that are expected to fail. Bytes other than the preface of HTTP/2 are treated as a request of HTTP/1.1, so
/// they receive an answer, 400, before the connection ends.
const KNOWN: &[&str] = &["Sends invalid connection preface"];

/// The page of the site behind the proxy.
pub(crate) const PAGE: &str = "200 OK\n\nhello\n";

/// Time that h2spec waits for an answer, in seconds. Machines that run tests can be busy.
const PATIENCE: &str = "20";

/// Runs all cases over TLS and in clear, against `larder` or the debug build. Fails if a program is missing, or a case
/// fails that is not expected to.
pub(crate) fn run(larder: Option<PathBuf>) -> Result<()> {
    let h2spec = go::H2SPEC.find()?;
    let larder = larder.map_or_else(build_debug, Ok)?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let [cert, key, _] = certify(folder.path())?;
    let ([clear, tls], origin) = (free_ports(), Origin::always(PAGE));
    let mut command = Command::new(larder);
    command.args(["serve", "--stats", "none", "--admin", "off", "--tls-cert", &cert, "--tls-key", &key]);
    command.args(["--listen", &format!("127.0.0.1:{clear}")]);
    command.args(["--listen-tls", &format!("127.0.0.1:{tls}")]);
    command.args(["--origin", &origin.url()]);
    let _larder = start(command, clear, "larder")?;
    for (way, port, words) in [("in clear", clear, &[][..]), ("over TLS", tls, &["-t", "-k"])] {
        let mut command = Command::new(&h2spec);
        command.args(["--strict", "-o", PATIENCE, "-h", "127.0.0.1", "-p", &port.to_string()]).args(words);
        let output = command.output().context("cannot start h2spec")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let Verdict { cases, failed } = Verdict::read(&text)?;
        let unknown: Vec<_> = failed.iter().filter(|case| !KNOWN.contains(&case.as_str())).collect();
        ensure!(unknown.is_empty(), "{way}: {unknown:?} failed:\n{text}");
        ensure!(cases == CASES, "{way}: {cases} cases, not {CASES}:\n{text}");
        println!("{way}: {cases} cases; fail as known: {failed:?}");
    }
    Ok(())
}

/// The summary at the end of h2spec's output.
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

/// Runs all cases both ways against the debug build of the tests.
pub(crate) fn in_test() -> Result<()> {
    run(Some(debug_build()?))
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
