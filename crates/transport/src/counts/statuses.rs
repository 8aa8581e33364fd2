//! Counts the answers of an origin by their status.

use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;

use super::counters::{CLASSES, add};

/// The statuses that are counted by themselves. All others count for their class.
const CODES: [&str; 9] = ["304", "401", "403", "404", "429", "500", "502", "503", "504"];
const PLACES: usize = CODES.len() + CLASSES.len();

/// The counts of one worker, which is their only writer.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct StatusCounters([AtomicU64; PLACES]);

impl StatusCounters {
    /// Counts an answer.
    pub fn count(&self, status: StatusCode) {
        let own = CODES.iter().position(|code| *code == status.as_str());
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES.len()) - 1;
        add(&self.0[own.unwrap_or(CODES.len() + class)], 1);
    }

    /// Returns each status or class with its answers, of all `workers`.
    pub fn sums(workers: &[Self]) -> Vec<(&'static str, u64)> {
        let sum = |at: usize| workers.iter().map(|own| own.0[at].load(Ordering::Relaxed)).sum();
        CODES.into_iter().chain(CLASSES).enumerate().map(|(at, code)| (code, sum(at))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_counts_once_alone_or_with_its_class() {
        let workers = [StatusCounters::default(), StatusCounters::default()];
        for (at, status) in [101, 200, 206, 301, 304, 404, 418, 503, 599, 999].into_iter().enumerate() {
            workers[at % 2].count(StatusCode::from_u16(status).unwrap());
        }
        let counted: Vec<_> =
            StatusCounters::sums(&workers).into_iter().filter(|(_, answers)| *answers > 0).collect();
        let expected =
            [("304", 1), ("404", 1), ("503", 1), ("1xx", 1), ("2xx", 2), ("3xx", 1), ("4xx", 1), ("5xx", 2)];
        assert_eq!(counted, expected);
    }
}
