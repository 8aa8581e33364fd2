//! `cargo x fuzz`: builds the fuzz targets with coverage and runs each for a while, with the stable toolchain.
//!
//! Each target begins with the inputs in `fuzz/corpus`, which is under version control, and with those that earlier
//! runs found on this machine, in `target/fuzz`. A failing input is kept there, and printed with the command that
//! repeats it.

mod targets;

use crate::args::{self, OptionSpec};
use crate::{cargo, root};
use anyhow::{Context, Result, bail};
use larder_testkit::locked;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const KNOWN: &[OptionSpec] = &[("--seconds", true), ("--only", true), ("--keep", false)];

/// The targets to run, and their time.
pub(crate) struct Fuzz {
    targets: Vec<String>,
    /// The time of each target.
    time: Duration,
    /// Whether new inputs that reach more code are added to the corpus under version control.
    keep: bool,
}

impl Fuzz {
    /// Reads the options. Fails on an unknown option, value or target.
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let words = args::parse(words, KNOWN)?;
        let targets = targets::chosen(words.get("--only"))?;
        Ok(Self { targets, time: words.seconds("--seconds", 10)?, keep: words.has("--keep") })
    }

    /// Builds the targets and runs them, as many in parallel as there are processors. Fails if one does not build, or
    /// an input fails; the error names all failures.
    pub(crate) fn run(&self) -> Result<()> {
        self.build()?;
        let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..at_once() {
                scope.spawn(|| {
                    while let Some(target) = self.targets.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if let Err(error) = self.run_one(target) {
                            locked(&failures).push(format!("{error:#}"));
                        }
                    }
                });
            }
        });
        let failures = locked(&failures);
        if !failures.is_empty() {
            bail!("{}", failures.join("\n"));
        }
        Ok(())
    }

    fn build(&self) -> Result<()> {
        let mut build = cargo();
        build.env("RUSTC_WORKSPACE_WRAPPER", root().join("fuzz/coverage.sh"));
        build.args(["build", "--quiet", "--workspace", "--features", "fuzz/fuzzer"]);
        self.targets.iter().for_each(|target| _ = build.args(["--bin", &program(target)]));
        let status = build.status().context("cannot start cargo")?;
        if !status.success() {
            bail!("the fuzz targets do not build: {status}");
        }
        Ok(())
    }

    fn run_one(&self, target: &str) -> Result<()> {
        let found = root().join("target/fuzz").join(target);
        std::fs::create_dir_all(&found).with_context(|| format!("cannot make {}", found.display()))?;
        let corpus = targets::corpus(target);
        let mut run = fuzzer(target);
        run.arg(format!("-max_total_time={}", self.time.as_secs())).arg("-timeout=10");
        run.arg(format!("-artifact_prefix={}/failure-", found.display()));
        run.arg(&found).args(Some(&corpus).filter(|corpus| corpus.is_dir()));
        let output = run.output().with_context(|| format!("cannot start {}", program(target)))?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            bail!("{}", failure(target, &said));
        }
        println!("  {target:<20} {}", targets::summary(&said));
        if self.keep { merge(target, &found, &corpus) } else { Ok(()) }
    }
}

/// Adds to `corpus` the short inputs of `found` that reach code which no input there reaches.
fn merge(target: &str, found: &Path, corpus: &Path) -> Result<()> {
    std::fs::create_dir_all(corpus).with_context(|| format!("cannot make {}", corpus.display()))?;
    let options = ["-set_cover_merge=1", "-use_counters=0", "-max_len=512"];
    let output = fuzzer(target).args(options).arg(corpus).arg(found).output();
    let output = output.with_context(|| format!("cannot start {}", program(target)))?;
    if !output.status.success() {
        bail!("{target}: its corpus cannot be merged: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Returns the message for a failed run: the panic, and the command to repeat it.
fn failure(target: &str, said: &str) -> String {
    let input = said.lines().find_map(|line| line.split("Test unit written to ").nth(1));
    let why: Vec<_> = said
        .lines()
        .skip_while(|line| !line.contains("panicked") && !line.contains("ERROR"))
        .take(8)
        .collect();
    let again = input.map(|input| format!("\n  repeat it: target/debug/{} {input}", program(target)));
    format!("{target} failed: {}{}", why.join("\n  "), again.unwrap_or_default())
}

fn program(target: &str) -> String {
    format!("fuzz_{target}")
}

fn fuzzer(target: &str) -> Command {
    let mut command = Command::new(target_folder().join(program(target)));
    command.current_dir(root());
    command
}

fn target_folder() -> PathBuf {
    root().join("target/debug")
}

fn at_once() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::failure;

    #[test]
    fn a_failure_says_how_to_repeat_it() {
        let said = "INFO: x\nthread '<unnamed>' panicked at a.rs:1:\nno\nTest unit written to target/fuzz/failure-1\n";
        let text = failure("proxy_head", said);
        assert!(
            text.starts_with("proxy_head failed: thread '<unnamed>' panicked at a.rs:1:\n  no"),
            "{text}"
        );
        assert!(text.ends_with("repeat it: target/debug/fuzz_proxy_head target/fuzz/failure-1"), "{text}");
    }
}
