//! How the orders for a name stand: whether the last ones have failed, why, and when the next one may follow.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::schedule::{Cause, backoff};

/// Characters of a reason that are kept.
const LONGEST: usize = 400;

/// After this time in seconds, a reload is a reason to try again: the operator may have removed the cause.
const AGAIN: u64 = 900;

/// Failures in a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Standing {
    /// How many, at least 1.
    pub(super) failures: u32,
    /// When the first one was, in UNIX seconds.
    pub(super) since: u64,
    /// When the last one was.
    pub(super) last: u64,
    /// No try before, in UNIX seconds.
    pub(super) retry: u64,
    /// Why the last one failed.
    pub(super) trouble: String,
}

/// Why there is no certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) cause: Cause,
    pub(super) why: String,
    /// How long the authority has asked to wait.
    pub(super) asked: Option<Duration>,
}

impl Failure {
    /// Something here, or an authority that does not answer.
    pub(super) fn unanswered(why: impl Into<String>) -> Self {
        Self { cause: Cause::Unanswered, why: why.into(), asked: None }
    }

    /// An authority that does not issue it.
    pub(super) fn refused(why: impl Into<String>) -> Self {
        Self { cause: Cause::Refused, why: why.into(), asked: None }
    }
}

impl Standing {
    /// After one more failure at `now`.
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

    /// Notes that the config was read again at `now`.
    pub(super) fn reload(&mut self, now: u64) {
        if now >= self.last.saturating_add(AGAIN) {
            self.retry = self.retry.min(now);
        }
    }
}

/// What another server said, fit for a log.
fn in_one_line(text: &str) -> String {
    let shown = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
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
        let one = Standing::after(None, &refused, 1_000, 0.5);
        assert_eq!(
            one,
            Standing {
                failures: 1,
                since: 1_000,
                last: 1_000,
                retry: 1_300,
                trouble: "no such host [31m".to_owned()
            }
        );
        let two = Standing::after(Some(&one), &Failure::unanswered("x".repeat(1_000)), 2_000, 0.5);
        assert_eq!((two.failures, two.since, two.retry, two.trouble.len()), (2, 1_000, 2_010, LONGEST + 2));
    }

    #[test]
    fn a_reload_is_a_reason_to_try_again_four_times_an_hour_at_most() {
        let before = Standing { failures: 9, last: 1_000, retry: 40_000, ..Standing::default() };
        for (now, expected) in [(1_899, 40_000), (1_900, 1_900), (50_000, 40_000)] {
            let mut standing = before.clone();
            standing.reload(now);
            assert_eq!(standing.retry, expected, "{now}");
        }
    }
}
