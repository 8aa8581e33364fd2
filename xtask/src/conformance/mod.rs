//! `cargo x conformance`: the public HTTP caching suite against a release build, compared with the expected results.
//!
//! The suite is a clone of `http-tests/cache-tests` with its packages installed (`npm install`); it runs in Node.

mod results;
mod run;

use crate::{args, program, root};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// The expected results, one line for each test: its kind, its result, its name in the suite.
const EXPECTED: &str = "tests/conformance.txt";

/// The options of `cargo x conformance`.
pub(crate) struct Options {
    suite: PathBuf,
    larder: Option<PathBuf>,
    http2: bool,
    write: bool,
}

impl Options {
    /// Errors: unknown options, or no `--suite`.
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let words = args::parse(
            words,
            &[("--suite", true), ("--larder", true), ("--http2", false), ("--write", false)],
        )?;
        let suite = words.path("--suite").context(
            "missing option `--suite DIR`: a clone of http-tests/cache-tests in which `npm install` has run",
        )?;
        let (http2, write) = (words.has("--http2"), words.has("--write"));
        Ok(Self { suite, larder: words.path("--larder"), http2, write })
    }

    /// Runs the suite and compares, or with `--write` stores the results as the expected ones. Fails on a suite that
    /// cannot run, and results that are worse than expected.
    pub(crate) fn run(self) -> Result<()> {
        if !self.suite.join("test-engine/cli.mjs").is_file() {
            bail!("{} is no clone of http-tests/cache-tests", self.suite.display());
        }
        let larder = match self.larder {
            Some(path) => path,
            None => program::build_release()?,
        };
        let found = run::suite(&self.suite, &larder, self.http2)?;
        println!("{}", results::summary(&found));
        let file = root().join(EXPECTED);
        if self.write {
            return std::fs::write(&file, results::write(&found))
                .with_context(|| format!("cannot write {}", file.display()));
        }
        compare(&file, &found)
    }
}

fn compare(file: &Path, found: &[results::Outcome]) -> Result<()> {
    let expected = results::read(&crate::read(file)?)?;
    let differences = results::compare(&expected, found);
    for difference in &differences.better {
        println!("better than expected: {difference}");
    }
    for difference in &differences.worse {
        println!("worse than expected: {difference}");
    }
    match differences.worse.len() {
        0 => Ok(()),
        count => bail!("{count} results are worse than {EXPECTED} expects"),
    }
}
