//! The results of validations of a URL, and the lifetime derived from them where the origin gives none (RFC
//! 9111 section 4.2.2).
//!
//! The ordinary heuristic is a share of the time since `Last-Modified`. A response that several consecutive
//! validations have found unchanged gets a multiple of it, one that has changed a fraction. Without `Last-
//! Modified`, the time for which validations have found it unchanged is used. In both cases a lifetime is extended
//! to at most half of that time.

/// The consecutive confirmations from which on a lifetime grows.
const SEVERAL: i8 = 2;
/// The consecutive confirmations, or changes, beyond which more have no effect.
const MOST: i8 = 4;

/// The parameters of heuristic lifetimes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guess {
    /// The share of the time without a change, in percent.
    pub(crate) percent: u8,
    /// The longest heuristic lifetime, in seconds.
    pub(crate) most: u32,
}

/// The results of validations of a URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Confirmations since the last change, at most 4. A negative number counts changes, which as many
    /// confirmations outweigh.
    pub streak: i8,
    /// The time at which the confirmed content was first received (UNIX seconds).
    pub since: u32,
}

impl History {
    /// Returns the history after a validation that has found the response unchanged.
    #[must_use]
    pub fn confirmed(self) -> Self {
        Self { streak: (self.streak + 1).min(MOST), ..self }
    }

    /// Returns the history after a validation at `now` that has found the response changed.
    #[must_use]
    pub fn changed(self, now: u32) -> Self {
        Self { streak: (self.streak.min(0) - 1).max(-MOST), since: now }
    }

    /// Returns the history after a fetch at `now` without a comparison.
    #[must_use]
    pub fn fetched(self, now: u32) -> Self {
        Self { streak: self.streak.min(0), since: now }
    }

    /// Returns the lifetime of a response that has not changed for `unchanged` seconds by its `Last-Modified`.
    pub(crate) fn since_modified(self, guess: Guess, unchanged: u32) -> u32 {
        let usual = share(unchanged, guess.percent);
        let adapted = match self.streak {
            streak @ SEVERAL.. => (usual << (streak - 1)).min((u64::from(unchanged) / 2).max(usual)),
            streak @ ..0 => usual >> -streak,
            _ => usual,
        };
        bounded(guess, adapted)
    }

    /// Returns the lifetime of a response without `Last-Modified` that was received, or confirmed, at `now`;
    /// `None` if there are too few validations.
    pub(crate) fn since_first(self, guess: Guess, now: u32) -> Option<u32> {
        let unchanged = now.saturating_sub(self.since);
        let usual = share(unchanged, guess.percent);
        let adapted = (usual << (self.streak.max(1) - 1)).min(u64::from(unchanged) / 2);
        (self.streak >= SEVERAL && self.since > 0 && adapted > 0).then(|| bounded(guess, adapted))
    }

    /// Whether it changes a lifetime derived from `Last-Modified`.
    pub(crate) fn adapts(self) -> bool {
        self.streak >= SEVERAL || self.streak < 0
    }
}

fn share(seconds: u32, percent: u8) -> u64 {
    u64::from(seconds) * u64::from(percent) / 100
}

fn bounded(guess: Guess, seconds: u64) -> u32 {
    seconds.min(guess.most.into()) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn after(validations: &str) -> History {
        let start = History { streak: 0, since: 1_000 };
        validations.chars().fold(start, |history, validation| match validation {
            'c' => history.confirmed(),
            'x' => history.changed(2_000),
            _ => history.fetched(3_000),
        })
    }

    #[test]
    fn lifetimes_grow_with_confirmations_and_shrink_with_changes() {
        let guess = Guess { percent: 10, most: 10_000 };
        for (validations, of_1000, of_100_000) in [
            ("", 100, 10_000),
            ("c", 100, 10_000),
            ("cc", 200, 10_000),
            ("ccc", 400, 10_000),
            ("cccc", 500, 10_000),
            ("ccccccc", 500, 10_000),
            ("ccccx", 50, 5_000),
            ("xx", 25, 2_500),
            ("xxxxxxxx", 6, 625),
            ("xxcc", 100, 10_000),
            ("xxcccc", 200, 10_000),
            ("ccccf", 100, 10_000),
            ("xf", 50, 5_000),
        ] {
            let history = after(validations);
            let lifetimes = [1_000, 100_000].map(|unchanged| history.since_modified(guess, unchanged));
            assert_eq!(lifetimes, [of_1000, of_100_000], "{validations}");
            assert_eq!(history.adapts(), history.since_modified(guess, 1_000) != 100, "{validations}");
        }
    }

    #[test]
    fn without_a_date_only_what_was_observed_counts() {
        let guess = Guess { percent: 10, most: 86_400 };
        for (validations, now, expected) in [
            ("", 2_000, None),
            ("c", 2_000, None),
            ("cc", 2_000, Some(200)),
            ("cccc", 2_000, Some(500)),
            ("cccc", 1_001, None),
            ("ccccx", 9_000, None),
            ("xcc", 9_000, None),
            ("xccc", 3_000, Some(200)),
        ] {
            assert_eq!(after(validations).since_first(guess, now), expected, "{validations}");
        }
        assert_eq!(History { streak: 4, since: 0 }.since_first(guess, 9_000), None, "nothing is known");
    }

    proptest! {
        #[test]
        fn no_lifetime_is_longer_than_allowed(
            validations in "[cxf]{0,12}", unchanged: u32, percent in 0..=100_u8, heuristic_max: u32,
        ) {
            let guess = Guess { percent, most: heuristic_max };
            let (history, usual) = (after(&validations), share(unchanged, percent));
            let lifetime = history.since_modified(guess, unchanged);
            prop_assert!(lifetime <= heuristic_max && u64::from(lifetime) <= usual.max(u64::from(unchanged) / 2));
            let now = history.since.saturating_add(unchanged);
            if let Some(lifetime) = history.since_first(guess, now) {
                prop_assert!(lifetime <= heuristic_max && lifetime <= (now - history.since) / 2);
            }
        }
    }
}
