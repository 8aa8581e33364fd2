//! Switches imprecise predictions off, and tries them again later.

/// The minimum share of prefetched responses that have to be used, in percent.
pub const LEAST: u32 = 40;
/// The minimum number of measured responses for a decision.
pub const MEASURED: u32 = 50;
/// The time that a switch stays off, in milliseconds.
pub const RETRY: u64 = 10 * 60_000;

/// The number of measured responses at which counts are halved, so that newer ones count for more.
const HALVED_AT: u32 = 200;

/// A switch that goes off when too few responses are used. It goes on again after [`RETRY`], with counts of 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    measured: u32,
    used: u32,
    /// The time when it goes on again.
    on_from: u64,
}

impl Switch {
    /// Whether predictions are enabled at `now`.
    pub fn is_on(&self, now: u64) -> bool {
        now >= self.on_from
    }

    /// Records at `now` whether a prefetched response was used.
    pub fn measured(&mut self, is_used: bool, now: u64) {
        if !self.is_on(now) {
            return;
        }
        self.measured += 1;
        self.used += u32::from(is_used);
        if self.measured >= MEASURED && self.used * 100 < LEAST * self.measured {
            *self = Self { on_from: now.saturating_add(RETRY), ..Self::default() };
        } else if self.measured >= HALVED_AT {
            self.measured /= 2;
            self.used /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_goes_off_at_low_precision_and_on_after_a_pause() {
        let mut switch = Switch::default();
        (0..MEASURED - 1).for_each(|_| switch.measured(false, 5));
        assert!(switch.is_on(5));
        switch.measured(false, 5);
        assert!(!switch.is_on(5) && !switch.is_on(4 + RETRY) && switch.is_on(5 + RETRY));
        // Prefetches from the time before the retry do not count.
        switch.measured(false, 6);
        (0..MEASURED - 1).for_each(|_| switch.measured(false, 5 + RETRY));
        assert!(switch.is_on(5 + RETRY));
    }

    #[test]
    fn the_switch_tolerates_the_least_precision_and_reacts_soon_to_failures() {
        let mut switch = Switch::default();
        (0..10_000).for_each(|at| switch.measured(at % 5 < 2, 0));
        assert!(switch.is_on(0));
        (0..10_000).for_each(|_| switch.measured(true, 0));
        let failures = (1..).find(|_| {
            switch.measured(false, 0);
            !switch.is_on(0)
        });
        assert!(failures < Some(HALVED_AT as usize * 2), "{failures:?}");
    }
}
