//! The failures of a name's orders: their number and reason, and the time of the next order.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::schedule::{Cause, backoff};
use crate::base::shown::is_hidden;

/// Maximum of characters of a stored reason.
const LONGEST: usize = 400;

/// Time in seconds since the last failure after which a reload permits a new order at once: the operator may have
/// removed the cause.
const AGAIN: u64 = 900;

/// Consecutive failures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FailureStreak {
    /// The number of failures, at least 1.
    pub(super) failures: u32,
    /// The time of the first failure, in UNIX seconds.
    pub(super) since: u64,
    /// The time of the last failure, in UNIX seconds.
    pub(super) last: u64,
    /// The earliest time of the next order, in UNIX seconds.
    pub(super) retry: u64,
    /// The reason of the last failure.
    pub(super) trouble: String,
}

/// A failure to obtain a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) cause: Cause,
    pub(super) why: String,
    /// The wait that the authority has requested.
    pub(super) asked: Option<Duration>,
}

impl Failure {
    /// Creates a failure of this machine, or of an authority that does not answer.
    pub(super) fn unanswered(why: impl Into<String>) -> Self {
        Self { cause: Cause::Unanswered, why: why.into(), asked: None }
    }

    /// Creates a failure for a refusal of the authority.
    pub(super) fn refused(why: impl Into<String>) -> Self {
        Self { cause: Cause::Refused, why: why.into(), asked: None }
    }
}

impl FailureStreak {
    /// Returns the state after one more failure at `now`.
    pub(super) fn after(before: Option<&Self>, failure: &Failure, now: u64, share: f64) -> Self {
        let failures = before.map_or(0, |before| before.failures).saturating_add(1);
        let wait = backoff(failures, failure.cause, failure.asked, share);
        Self {
            failures,
            since: before.map_or(now, |before| before.since),
            last: now,
            retry: now + wait.as_secs(),
            trouble: in_one_line(&failure.why),
        }
    }

    /// Notes that the config was reloaded at `now`.
    pub(super) fn reload(&mut self, now: u64) {
        if now >= self.last.saturating_add(AGAIN) {
            self.retry = self.retry.min(now);
        }
    }
}

/// Returns another server's message as one line of limited length, suitable for a log.
fn in_one_line(text: &str) -> String {
    let shown = text.trim().chars().map(|c| if is_hidden(c) { ' ' } else { c });
    let mut line: String = shown.take(LONGEST).collect();
    if text.trim().chars().count() > LONGEST {
        line.push_str("..");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_are_one_trouble_since_the_first() {
        let refused = Failure::refused("no\nsuch host\u{1b}[31m");
        let one = FailureStreak::after(None, &refused, 1_000, 0.5);
        assert_eq!(
            one,
            FailureStreak {
                failures: 1,
                since: 1_000,
                last: 1_000,
                retry: 1_300,
                trouble: "no such host [31m".to_owned()
            }
        );
        let two = FailureStreak::after(Some(&one), &Failure::unanswered("x".repeat(1_000)), 2_000, 0.5);
        assert_eq!((two.failures, two.since, two.retry, two.trouble.len()), (2, 1_000, 2_010, LONGEST + 2));
    }

    #[test]
    fn a_reload_brings_a_retry_at_most_four_times_an_hour() {
        let before = FailureStreak { failures: 9, last: 1_000, retry: 40_000, ..FailureStreak::default() };
        for (now, expected) in [(1_899, 40_000), (1_900, 1_900), (50_000, 40_000)] {
            let mut standing = before.clone();
            standing.reload(now);
            assert_eq!(standing.retry, expected, "{now}");
        }
    }
}
