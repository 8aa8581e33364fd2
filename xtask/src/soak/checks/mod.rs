//! Checkers: each runs its own proxies with faults during the ordinary load, and compares the versions read with those
//! acknowledged before. Each may request at most a few hundred pages a second, since all share the processors.

mod cluster;
mod findings;
mod kills;
mod memory;
mod pages;
mod purges;
mod segments;
mod tags;
mod upgrades;

use super::ordinary::Random;
use super::{Over, args};
use anyhow::Result;
pub(super) use findings::{Findings, Summary};
use std::path::Path;

/// A checker of promises.
pub(super) struct Checker {
    pub(super) name: &'static str,
    /// The mechanisms that can be left out so that the promises break: a checker that finds no violation then is
    /// useless.
    pub(super) controls: &'static [&'static str],
    run: fn(&Task<'_>) -> Result<()>,
}

/// The parameters of a checker.
pub(super) struct Task<'t> {
    /// The program to test.
    larder: &'t Path,
    over: &'t Over,
    seed: u64,
    /// One of [`Checker::controls`].
    left_out: Option<&'t str>,
    findings: Findings,
}

pub(super) const CHECKERS: &[Checker] = &[
    Checker { name: "tags", controls: &["couplings", "doubt"], run: tags::run },
    Checker { name: "purges", controls: &["purges"], run: purges::run },
    Checker { name: "kills", controls: &["purges"], run: kills::run },
    Checker { name: "segments", controls: &["right-pages"], run: segments::run },
    Checker { name: "cluster", controls: &["changes"], run: cluster::run },
    Checker { name: "upgrades", controls: &["purges"], run: upgrades::run },
    Checker { name: "memory", controls: &["budget"], run: memory::run },
];

pub(super) fn named(name: &str) -> Result<&'static Checker> {
    let names: Vec<_> = CHECKERS.iter().map(|checker| checker.name).collect();
    let found = CHECKERS.iter().find(|checker| checker.name == name);
    found.ok_or_else(|| args::unknown("checker", name, &names))
}

impl Checker {
    /// Checks until the run is over. A control is over with the first violation.
    pub(super) fn check(&self, larder: &Path, over: &Over, seed: u64, left_out: Option<&str>) -> Summary {
        println!("checker {}: --seed {seed}", self.name);
        let findings = Findings::new(self.name, seed);
        let task = Task { larder, over, seed, left_out, findings };
        if let Err(error) = (self.run)(&task) {
            task.violation(&format!("cannot go on: {error:#}"));
        }
        task.findings.summary()
    }
}

impl Task<'_> {
    /// Returns the random generator of one of the checker's threads.
    fn random(&self, thread: u64) -> Random {
        Random(self.seed.wrapping_add(thread.wrapping_mul(0x5851_f42d_4c95_7f2d)))
    }

    fn leaves_out(&self, what: &str) -> bool {
        self.left_out == Some(what)
    }

    fn violation(&self, text: &str) {
        self.findings.violation(text);
        if self.left_out.is_some() {
            self.over.end();
        }
    }
}
