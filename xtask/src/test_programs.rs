//! Runs the test programs of the workspace, two at a time: where the tests of one wait, those of the other compute.
//! Cargo runs one after the other.

use crate::{cargo, root};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

/// The number of programs that run at a time. Tests with limits of time need the rest of a larger machine.
const AT_ONCE: usize = 2;

/// The programs that take longest begin first, so that none of them runs alone at the end.
const SLOWEST: [&str; 10] = [
    "run",
    "cluster",
    "experiment",
    "dashboard",
    "upgrade",
    "control",
    "hostile",
    "directory",
    "traces",
    "disk",
];

#[derive(Debug, PartialEq)]
pub(crate) struct TestProgram {
    name: String,
    path: PathBuf,
    /// The folder of its package, in which Cargo would start it.
    folder: PathBuf,
}

/// Returns a Cargo that lints the crates of this workspace while it compiles them. Cargo's own command for lints would
/// check everything once more, with all dependencies.
pub(crate) fn linted_cargo() -> Command {
    let mut cargo = cargo();
    cargo.env("RUSTC_WORKSPACE_WRAPPER", root().join("xtask/src/lint.sh"));
    cargo
}

/// Lints and builds all test programs, and the programs that they start; benches and examples, too, but these are not
/// run. `arguments` select packages and features.
pub(crate) fn build(arguments: &[&str]) -> Result<Vec<TestProgram>> {
    let mut build = linted_cargo();
    build.args(["test", "--quiet", "--no-run", "--message-format=json-render-diagnostics"]);
    build.args(["--tests", "--benches", "--examples"]).args(arguments);
    let output = build.stderr(std::process::Stdio::inherit()).output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("the tests do not build: {}", output.status);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut programs: Vec<_> = text.lines().filter_map(program).collect();
    let rank = |program: &TestProgram| SLOWEST.iter().position(|slow| *slow == program.name);
    programs.sort_by_key(|program| rank(program).unwrap_or(SLOWEST.len()));
    Ok(programs)
}

/// Returns the test program that a message of Cargo announces, if it does.
fn program(message: &str) -> Option<TestProgram> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_run = !["bench", "example"].iter().any(|kind| message["target"]["kind"] == json!([kind]));
    if !message["profile"]["test"].as_bool()? || !is_run {
        return None;
    }
    Some(TestProgram {
        name: message["target"]["name"].as_str()?.to_owned(),
        path: message["executable"].as_str()?.into(),
        folder: PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_owned(),
    })
}

/// Runs all programs, and prints the result of each when it ends. `threads` is the number of tests that each of them runs
/// at a time. Fails if a test fails. All programs run before that.
pub(crate) fn run(programs: &[TestProgram], threads: usize) -> Result<()> {
    let next = AtomicUsize::new(0);
    let has_failed = AtomicBool::new(false);
    let work = || {
        while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = run_one(program, threads) {
                eprintln!("{error:#}");
                has_failed.store(true, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(work))));
    if has_failed.into_inner() {
        bail!("tests failed");
    }
    Ok(())
}

fn run_one(TestProgram { name, path, folder }: &TestProgram, threads: usize) -> Result<()> {
    let begun = Instant::now();
    let mut command = Command::new(path);
    command.arg("--quiet").env("RUST_TEST_THREADS", threads.to_string()).current_dir(folder);
    let output = command.output().with_context(|| format!("cannot start {}", path.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("{name}: {}\n{said}{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    println!("  {name:<20} {} in {:.1} s", counts(&said), begun.elapsed().as_secs_f64());
    Ok(())
}

/// Returns the numbers of tests in what a program printed, such as `93 passed, 1 ignored`.
fn counts(said: &str) -> String {
    let line = said.lines().find_map(|line| line.strip_prefix("test result: ok. ")).unwrap_or_default();
    let is_some =
        |count: &&str| count.ends_with(" passed") || count.ends_with(" ignored") && *count != "0 ignored";
    line.split("; ").filter(is_some).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::{TestProgram, counts, program, run};
    use std::path::Path;

    #[test]
    fn only_messages_about_test_programs_name_one() {
        let message = |kind: &str, test: bool, executable: &str| {
            format!(
                r#"{{"reason": "compiler-artifact", "manifest_path": "/w/a/Cargo.toml",
                    "target": {{"name": "t", "kind": ["{kind}"]}}, "profile": {{"test": {test}}},
                    "executable": {executable}}}"#
            )
        };
        let expected =
            TestProgram { name: "t".to_owned(), path: "/w/target/t-1".into(), folder: "/w/a".into() };
        assert_eq!(program(&message("test", true, r#""/w/target/t-1""#)), Some(expected));
        for other in [
            message("lib", false, r#""/w/target/t-1""#),
            message("test", true, "null"),
            message("bench", true, r#""/w/target/t-1""#),
        ] {
            assert_eq!(program(&other), None);
        }
        assert_eq!(program(r#"{"reason": "build-finished", "success": true}"#), None);
    }

    #[test]
    fn the_numbers_of_passed_and_ignored_tests_are_shown() {
        let said = |ignored: u32| {
            format!(
                "\n..\ntest result: ok. 2 passed; 0 failed; {ignored} ignored; 0 measured; finished in 0.1s\n"
            )
        };
        assert_eq!((counts(&said(0)), counts(&said(1))), ("2 passed".into(), "2 passed, 1 ignored".into()));
    }

    #[test]
    fn one_failing_program_fails_the_run() {
        let program = |path: &str| TestProgram {
            name: path.to_owned(),
            path: path.into(),
            folder: Path::new("/").to_owned(),
        };
        let [good, bad] = ["true", "false"].map(program);
        assert!(run(&[], 1).is_ok() && run(std::slice::from_ref(&good), 1).is_ok());
        assert!(run(&[good, bad], 1).is_err());
    }
}
