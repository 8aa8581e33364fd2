//! The minimum rate at which a client has to accept the sent bytes.

use std::time::Duration;

/// Measures the rate at which a client accepts bytes, during the time that the sender waits for it.
#[derive(Debug)]
pub struct Pace {
    /// Minimum rate, in bytes per second.
    least: u64,
    /// Waiting time in milliseconds after which the rate is checked, repeatedly.
    window: u64,
    waited: u64,
    taken: u64,
    /// The beginning of the current wait, in `clock::millis`.
    since: Option<u64>,
}

impl Pace {
    /// Expects `least` bytes a second, on average over `window`.
    #[inline]
    pub fn new(least: u64, window: Duration) -> Self {
        Self { least, window: window.as_millis() as u64, waited: 0, taken: 0, since: None }
    }

    /// Notes that the sender waits for the client from `now` on, if it did not wait already.
    #[inline]
    pub fn wait(&mut self, now: u64) {
        self.since.get_or_insert(now);
    }

    /// Notes that the client has accepted `bytes`. Returns whether the rate was high enough. `now` is called only after
    /// a wait.
    pub fn took(&mut self, bytes: u64, now: impl FnOnce() -> u64) -> bool {
        self.taken += bytes;
        let Some(since) = self.since.take() else { return true };
        self.waited += now().saturating_sub(since);
        if self.waited < self.window {
            return true;
        }
        let due = self.waited.saturating_mul(self.least) / 1_000;
        self.waited = 0;
        std::mem::take(&mut self.taken) >= due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_to_keep_pace_only_while_it_makes_us_wait() {
        // Each step: the wait in milliseconds, and the bytes that the client accepted then.
        let cases: [(&[(u64, u64)], bool); 6] = [
            (&[(0, 1), (0, 1), (0, 1)], true),
            (&[(999, 0)], true),
            (&[(1_000, 100)], true),
            (&[(1_000, 99)], false),
            (&[(600, 1), (600, 118)], false),
            // Bytes from before the last check do not count.
            (&[(0, 1_000_000), (1_000, 0), (1_000, 99)], false),
        ];
        for (steps, expected) in cases {
            let (mut pace, mut now) = (Pace::new(100, Duration::from_secs(1)), 0);
            let kept = steps.iter().all(|&(waited, taken)| {
                if waited > 0 {
                    pace.wait(now);
                }
                now += waited;
                pace.took(taken, || now)
            });
            assert_eq!(kept, expected, "{steps:?}");
        }
    }
}
