//! The automatic choice of the policy: slow to switch, quick to return.

use crate::advice::Advice;

/// The length of a window in seconds.
const WINDOW: u32 = 1_200;
/// The number of windows in a row in which a policy has to be better.
const WINDOWS: u32 = 3;
/// The time between two switches, the time in which a policy has to hold what it promised, and the time for which it is barred if it
/// did not, in seconds. Later, the workload has changed, and the policy may be better again.
const PAUSE: u32 = 3_600;
const TRIAL: u32 = 3 * 3_600;
const BARRED: u32 = 86_400;

/// Decides when another policy runs.
#[derive(Debug, Default)]
pub struct Auto {
    /// The time at which the present window began (UNIX seconds).
    begun: Option<u32>,
    /// The policy that was better in the last windows, and their number.
    better: Option<(String, u32)>,
    /// The latest switch.
    latest: Option<Switch>,
    /// The policy that is barred, and until when.
    barred: Option<(String, u32)>,
}

/// A change of the policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Switch {
    /// The time (UNIX seconds).
    pub at: u32,
    /// The policy before.
    pub from: String,
    /// The policy from now on, and its promise.
    pub to: Advice,
    /// Whether it takes back the switch before.
    pub is_return: bool,
}

impl Auto {
    /// Returns the time since which the counts of the window began, if it ends at `now` (UNIX seconds).
    pub fn window(&mut self, now: u32) -> Option<u32> {
        let begun = *self.begun.get_or_insert(now);
        let is_over = now >= begun.saturating_add(WINDOW);
        is_over.then(|| self.begun.replace(now)).flatten()
    }

    /// Judges a window that ended at `now` (UNIX seconds) while `running` was the policy. `advice` is the better policy in this
    /// window. Returns the switch to make, if there is one.
    pub fn judge(&mut self, now: u32, running: &str, advice: Option<Advice>) -> Option<Switch> {
        let Some(advice) = advice else {
            self.better = None;
            return None;
        };
        let is_return = self.latest.as_ref().is_some_and(|latest| {
            let is_undone = latest.to.policy == running && latest.from == advice.policy;
            is_undone && !latest.is_return && now < latest.at.saturating_add(TRIAL)
        });
        let windows = match self.better.take() {
            Some((policy, windows)) if policy == advice.policy => windows + 1,
            _ => 1,
        };
        let is_barred =
            self.barred.as_ref().is_some_and(|(policy, until)| *policy == advice.policy && now < *until);
        let rests = self.latest.as_ref().is_some_and(|latest| now < latest.at.saturating_add(PAUSE));
        if !is_return && (windows < WINDOWS || is_barred || rests) {
            self.better = Some((advice.policy, windows));
            return None;
        }
        if is_return {
            self.barred = Some((running.to_owned(), now.saturating_add(BARRED)));
        }
        let switch = Switch { at: now, from: running.to_owned(), to: advice, is_return };
        self.latest = Some(switch.clone());
        Some(switch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(policy: &str) -> Option<Advice> {
        Some(Advice { policy: policy.to_owned(), gain: 0.03, error: 0.01 })
    }

    #[test]
    fn a_policy_that_is_better_three_times_runs_for_an_hour() {
        let mut auto = Auto::default();
        assert_eq!(auto.judge(1_200, "lru", advice("sieve")), None);
        assert_eq!(auto.judge(2_400, "lru", advice("sieve")), None);
        let switch = auto.judge(3_600, "lru", advice("sieve")).expect("a switch");
        assert_eq!((switch.to.policy.as_str(), switch.is_return), ("sieve", false));
        for window in 1..3 {
            assert_eq!(auto.judge(3_600 + 1_200 * window, "sieve", advice("gdsf")), None);
        }
        assert!(auto.judge(7_200, "sieve", advice("gdsf")).is_some());
    }

    #[test]
    fn a_policy_that_does_not_hold_is_taken_back_and_barred() {
        let mut auto = Auto::default();
        (1..3).for_each(|window| assert_eq!(auto.judge(1_200 * window, "lru", advice("sieve")), None));
        assert!(auto.judge(3_600, "lru", advice("sieve")).is_some());
        assert!(auto.judge(4_800, "sieve", advice("lru")).is_some_and(|switch| switch.is_return));
        for window in 5..76 {
            assert_eq!(auto.judge(1_200 * window, "lru", advice("sieve")), None, "{window}");
        }
    }

    #[test]
    fn an_interruption_begins_the_count_again() {
        let mut auto = Auto::default();
        for better in [advice("a"), advice("a"), None, advice("a"), advice("b"), advice("a"), advice("a")] {
            assert_eq!(auto.judge(1_200, "lru", better), None);
        }
    }

    /// Chance: in a window, the judging half of the sample exceeds two standard errors with probability 0.023; three times in a row
    /// for the same of six policies, with probability 0.023^3 / 36 = 3.4e-7, so in 3,000 windows with 0.001.
    #[test]
    fn equal_policies_are_never_exchanged_in_1000_hours() {
        let (mut auto, mut random) = (Auto::default(), fastrand::Rng::with_seed(1));
        for window in 0..3_000 {
            let mut normal = || (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
            let judged = normal();
            let chosen = (0..6).map(|policy| (normal(), policy)).max_by(|one, next| one.0.total_cmp(&next.0));
            let policy = chosen.map_or(0, |(_, policy)| policy).to_string();
            let better = (judged > 2.0).then_some(Advice { policy, gain: judged * 0.01, error: 0.01 });
            assert_eq!(auto.judge(window * WINDOW, "lru", better), None);
        }
    }
}
