//! The experiments: one folder each, and one row in [`EXPERIMENTS`].
//!
//! An experiment defines how its measurements are taken, and the conclusions from them. `larder-lab experiment`, its help, its
//! report and its tests use the list.

mod browsing;
mod cell;
mod cluster;
mod learn;
mod lists;
mod parallel;
mod services;
mod thrift;

use std::path::Path;
use std::time::Duration;

use super::size::Size;
use super::{Bench, ClaimSource, Findings, Halt, Journal};

/// The source of claims that are from this report, not from the seed reports that its experiments repeat.
const LARDER: ClaimSource = ClaimSource::Own;

/// Checks that the Python at `program` can be measured. Without this check, an experiment would fail late.
///
/// # Errors
/// If it does not start, or is no Python.
pub fn check_python(program: &Path) -> Result<(), Halt> {
    parallel::check_python(program)
}

/// An experiment.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// The name that users write.
    pub name: &'static str,
    /// The heading.
    pub title: &'static str,
    /// The result that it shows, in one line.
    pub shows: &'static str,
    /// The approximate duration in seconds: of the quick run and of the full one.
    pub seconds: (u64, u64),
    /// Takes the measurements, except those that are already in the bench's journal.
    pub measure: fn(&mut Bench) -> Result<(), Halt>,
    /// Returns the findings from the measurements so far.
    pub conclude: fn(&Journal) -> Findings,
    /// Returns a message with the missing requirement and the package to install; `None` if the experiment can run.
    pub missing: fn() -> Option<String>,
}

impl Experiment {
    /// Returns the approximate duration.
    pub fn estimate(&self, size: Size) -> Duration {
        Duration::from_secs(match size {
            Size::Smoke => 10,
            Size::Quick => self.seconds.0,
            Size::Full => self.seconds.1,
        })
    }
}

/// Makes the list of experiments, each in a row: `MODULE: TITLE, SECONDS, MISSING, RESULT;`.
macro_rules! experiments {
    ($($module:ident: $title:literal, $seconds:expr, $missing:expr, $shows:literal;)*) => {
        /// All experiments, in the order in which they run.
        pub const EXPERIMENTS: &[Experiment] = &[$(Experiment {
            name: stringify!($module),
            title: $title,
            shows: $shows,
            seconds: $seconds,
            measure: $module::measure,
            conclude: $module::conclude,
            missing: $missing,
        },)*];
    };
}

experiments! {
    thrift: "Policies of an RPC proxy with Apache Thrift", (25, 150), no_requirement,
        "hit ratio and access time of LRU, MAXS and RAND against cache size, on two workloads over Thrift, and against locality";
    browsing: "Two people's browsing through an RPC proxy", (25, 95), no_requirement,
        "total time and hit rate of five policies and of no cache, hits and misses over time, Belady's anomaly; over ONC RPC";
    parallel: "Parallel fetches, compared with asyncio", (95, 645), no_requirement,
        "time, speedup, efficiency, throughput and weak scaling over 1 to 64 workers, over HTTP/1.1 and HTTP/2, compared with asyncio";
    services: "A cache before three services with changing data", (68, 600), no_requirement,
        "latency and hit ratios with and without a cache, against requests, clients, policies, instances and cache size; \
             and the smallest sufficient cache, with its price";
    cluster: "Benefits and costs of more nodes", (35, 145), cluster::missing,
        "times, throughput, hit ratio, origin requests and CPU time of 1, 2 and 3 nodes, live and simulated; of up to 100, simulated";
    learn: "Refreshing responses before they expire", (32, 125), no_requirement,
        "latency, waits, and the origin's load and fees with and without refreshing ahead; far, weak and paid origins";
}

fn no_requirement() -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::journal::Head;

    #[test]
    fn each_experiment_has_a_name_of_its_own() {
        let names: HashSet<_> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
        assert_eq!(names.len(), EXPERIMENTS.len());
        for experiment in EXPERIMENTS {
            assert!(
                experiment.name.bytes().all(|byte| byte.is_ascii_lowercase()) && experiment.name != "all"
            );
            assert!(experiment.seconds.0 < experiment.seconds.1);
        }
        let quick: u64 = EXPERIMENTS.iter().map(|experiment| experiment.seconds.0).sum();
        assert!(quick <= 300, "{quick} s for all quick runs");
    }

    #[test]
    fn nothing_measured_decides_nothing() {
        let directory = tempfile::tempdir().unwrap();
        for experiment in EXPERIMENTS {
            let head = Head { experiment: experiment.name.to_owned(), seed: 1, size: Size::Quick };
            let journal = Journal::open(directory.path(), &head, false).unwrap();
            let findings = (experiment.conclude)(&journal);
            assert!(!findings.findings.is_empty());
            for finding in findings.findings {
                let verdict = finding.decide(0.05).verdict;
                let is_open = matches!(verdict, crate::Verdict::Open(_));
                assert!(is_open, "{}: {verdict:?}", finding.claim);
            }
        }
    }
}
