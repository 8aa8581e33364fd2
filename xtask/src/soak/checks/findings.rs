//! The findings of a checker, and whether its promises were kept.

use larder_testkit::locked;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The number of violations that are printed; the others are only counted.
const SHOWN: usize = 10;

/// The counts of a checker's actions.
pub(in crate::soak) struct Findings {
    name: &'static str,
    seed: u64,
    begun: Instant,
    pub(super) reads: Count,
    /// Changes and purges that were acknowledged.
    pub(super) changes: Count,
    pub(super) faults: Count,
    /// Requests that failed or broke off; faults may cause this.
    pub(super) unanswered: Count,
    violations: Mutex<Vec<String>>,
}

#[derive(Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Findings {
    pub(super) fn new(name: &'static str, seed: u64) -> Self {
        let [reads, changes, faults, unanswered] = [const { Count(AtomicU64::new(0)) }; 4];
        let violations = Mutex::default();
        Self { name, seed, begun: Instant::now(), reads, changes, faults, unanswered, violations }
    }

    /// Records a broken promise, which is printed immediately.
    pub(super) fn violation(&self, text: &str) {
        let mut violations = locked(&self.violations);
        let time = self.begun.elapsed().as_secs_f64();
        let text = format!("{} with --seed {} after {time:.3} s: {text}", self.name, self.seed);
        if violations.len() < SHOWN {
            println!("VIOLATION  {text}");
        }
        violations.push(text);
    }

    pub(super) fn summary(&self) -> Summary {
        Summary {
            name: self.name,
            seed: self.seed,
            reads: self.reads.get(),
            changes: self.changes.get(),
            faults: self.faults.get(),
            unanswered: self.unanswered.get(),
            violations: locked(&self.violations).len(),
        }
    }
}

/// The result of a checker.
#[derive(Clone, Copy)]
pub(in crate::soak) struct Summary {
    pub(in crate::soak) name: &'static str,
    pub(in crate::soak) seed: u64,
    pub(in crate::soak) reads: u64,
    pub(in crate::soak) changes: u64,
    pub(in crate::soak) faults: u64,
    pub(in crate::soak) unanswered: u64,
    pub(in crate::soak) violations: usize,
}

impl Summary {
    /// Whether it has checked something, and found no violation.
    pub(in crate::soak) fn is_kept(&self) -> bool {
        self.violations == 0 && self.reads > self.unanswered && self.changes + self.faults > 0
    }

    /// Returns its verdict in one line.
    pub(in crate::soak) fn line(&self) -> String {
        let Self { name, seed, reads, changes, faults, unanswered, violations } = self;
        format!(
            "{name}: {reads} reads ({unanswered} requests failed), {changes} changes, {faults} faults, \
             {violations} violations (--seed {seed})"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Findings;

    #[test]
    fn a_violation_or_a_checker_without_checks_breaks_the_promise() {
        let findings = Findings::new("tags", 7);
        assert!(!findings.summary().is_kept());
        findings.reads.add();
        assert!(!findings.summary().is_kept());
        findings.faults.add();
        assert!(findings.summary().is_kept());
        findings.violation("older");
        assert!(!findings.summary().is_kept());
        assert!(findings.summary().line().contains("1 violations (--seed 7)"));
    }

    #[test]
    fn answers_that_all_failed_show_nothing() {
        let findings = Findings::new("kills", 7);
        [&findings.reads, &findings.unanswered, &findings.changes].iter().for_each(|count| count.add());
        assert!(!findings.summary().is_kept());
    }
}
