//! How long operations of the store have the lock of a shard, as its bench measures them alone on a core.

use super::super::table::{Cell, Row};
use crate::cargo;
use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Three of the operations.
pub(super) const FIND: &str = "find";
pub(super) const FIND_ONE: &str = "find, one URL";
pub(super) const BATCH: &str = "64 uses";
/// The bounds of the histogram, in nanoseconds: the last bucket has all that is longer.
const NAMES: [&str; 8] = ["< 32", "< 64", "< 128", "< 256", "< 512", "< 1,024", "< 2,048", "more"];

/// The times of all measured operations.
pub(super) struct Holds(Vec<Hold>);

/// The times of one operation.
struct Hold {
    operation: String,
    mean: f64,
    counts: [u64; NAMES.len()],
}

impl Holds {
    /// Builds the bench of the store, and runs it. Fails if the build or the bench fails.
    pub(super) fn measure() -> Result<Self> {
        let bench = ["bench", "--quiet", "--package", "larder-store", "--bench", "holds"];
        let output = cargo().args(bench).output().context("cannot start cargo")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`cargo {}`: {errors}", bench.join(" "));
        let text = String::from_utf8_lossy(&output.stdout);
        let lines = text.lines().filter(|line| line.starts_with('{')).map(Hold::read);
        lines.collect::<Option<_>>().map(Self).context("the bench of locks printed something else")
    }

    /// Returns the mean time of an operation, in microseconds.
    pub(super) fn mean(&self, operation: &str) -> f64 {
        let found = self.0.iter().find(|hold| hold.operation == operation);
        found.map_or(f64::NAN, |hold| hold.mean / 1e3)
    }

    pub(super) fn rows(&self) -> Vec<Row> {
        let row = |hold: &Hold| {
            let all = hold.counts.iter().sum::<u64>().max(1) as f64;
            let share = |(name, count): (&'static str, &u64)| (name, Cell::number(*count as f64 / all, 3));
            let head = [("operation", Cell::word(&hold.operation)), ("mean", Cell::number(hold.mean, 0))];
            head.into_iter().chain(NAMES.into_iter().zip(&hold.counts).map(share)).collect()
        };
        self.0.iter().map(row).collect()
    }

    #[cfg(test)]
    pub(super) fn given(find: f64, batch: f64) -> Self {
        let hold = |operation: &str, mean| Hold { operation: operation.to_owned(), mean, counts: [0; 8] };
        Self(vec![hold(FIND, find), hold(FIND_ONE, find), hold(BATCH, batch)])
    }
}

impl Hold {
    /// Reads a line of the bench.
    fn read(line: &str) -> Option<Self> {
        let read: Value = serde_json::from_str(line).ok()?;
        let counts: Vec<u64> = read["counts"].as_array()?.iter().filter_map(Value::as_u64).collect();
        let operation = read["operation"].as_str()?.to_owned();
        Some(Self { operation, mean: read["mean"].as_f64()?, counts: counts.try_into().ok()? })
    }
}
