//! Whether the promises were kept.

use super::checks::Summary;
use super::{ordinary::Responses, server};
use anyhow::{Result, bail};

/// The 99th percentile in microseconds below which the machine's scheduler dominates, not the proxy.
const LEAST_P99: u32 = 500;
/// The number of errors that are printed.
const SHOWN: usize = 10;

/// The result of a run.
pub(super) struct Verdict {
    /// The responses without hostile clients, and with them.
    pub(super) before: Responses,
    pub(super) during: Responses,
    pub(super) most_resident: u64,
    pub(super) budget: u64,
    /// The findings of the checkers.
    pub(super) checked: Vec<Summary>,
}

impl Verdict {
    /// Prints the results. Fails if a promise was not kept.
    pub(super) fn judge(&self) -> Result<()> {
        let limit = server::most_resident(self.budget);
        let (before, during) = (self.before.within(0.99), self.during.within(0.99));
        let slowest = 2 * before.max(LEAST_P99);
        let errors: Vec<_> = self.before.errors.iter().chain(&self.during.errors).collect();
        let counts = (self.before.times.len(), self.during.times.len());
        let mut checks = vec![
            (
                self.most_resident <= limit,
                format!("{} MiB resident at most; limit {}", self.most_resident >> 20, limit >> 20),
            ),
            (errors.is_empty(), format!("{} errors and wrong answers of ordinary clients", errors.len())),
            (
                during <= slowest,
                format!("99 of 100 ordinary answers within {during} us, {before} us before; limit {slowest}"),
            ),
            (counts.0 > 0 && counts.1 > 0, format!("{} ordinary requests, {} before", counts.1, counts.0)),
        ];
        checks.extend(self.checked.iter().map(|summary| (summary.is_kept(), summary.line())));
        for (is_kept, text) in &checks {
            println!("{}  {text}", if *is_kept { "kept  " } else { "BROKEN" });
        }
        errors.iter().take(SHOWN).for_each(|error| println!("  {error}"));
        match checks.iter().filter(|(is_kept, _)| !is_kept).count() {
            0 => Ok(()),
            broken => bail!("{broken} of {} promises were not kept", checks.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Summary, Verdict};
    use crate::soak::ordinary::Responses;

    fn verdict(before: u32, during: u32, resident: u64, errors: &[&str]) -> Verdict {
        let seen = |time, errors: &[&str]| Responses {
            times: vec![time; 100],
            errors: errors.iter().map(|error| (*error).to_owned()).collect(),
        };
        let (before, during) = (seen(before, &[]), seen(during, errors));
        Verdict { before, during, most_resident: resident << 20, budget: 100 << 20, checked: Vec::new() }
    }

    fn is_kept(before: u32, during: u32, resident: u64, errors: &[&str]) -> bool {
        verdict(before, during, resident, errors).judge().is_ok()
    }

    #[test]
    fn each_promise_can_be_broken() {
        assert!(is_kept(8_000, 16_000, 179, &[]));
        assert!(is_kept(100, 1_000, 179, &[]), "what the scheduler decides is no fault");
        assert!(!is_kept(8_000, 16_001, 179, &[]));
        assert!(!is_kept(8_000, 16_000, 180, &[]));
        assert!(!is_kept(8_000, 16_000, 179, &["/p/1: wrong content"]));
    }

    #[test]
    fn a_violation_found_by_a_checker_fails_the_verdict() {
        for (violations, is_kept) in [(0, true), (1, false)] {
            let summary =
                Summary { name: "tags", seed: 1, reads: 9, changes: 1, faults: 0, unanswered: 0, violations };
            let verdict = Verdict { checked: vec![summary], ..verdict(8_000, 8_000, 100, &[]) };
            assert_eq!(verdict.judge().is_ok(), is_kept);
        }
    }
}
