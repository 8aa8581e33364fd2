//! Switches predictions off that are seldom right, and tries them again later.

/// Share of the prefetched responses, in percent, that have to be of use.
pub const LEAST: u32 = 40;
/// How many have to be measured before that is judged.
pub const MEASURED: u32 = 50;
/// How long a switch stays off, in milliseconds.
pub const RETRY: u64 = 10 * 60_000;

/// At so many, counts are halved: what is newer counts for more.
const HALVED_AT: u32 = 200;

/// On until too few are of use; on again [`RETRY`] later, with nothing counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    measured: u32,
    used: u32,
    /// When it goes on again.
    on_from: u64,
}

impl Switch {
    /// Whether predictions may be followed at `now`.
    pub fn is_on(&self, now: u64) -> bool {
        now >= self.on_from
    }

    /// Notes at `now` whether a prefetched response was of use.
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
    fn it_goes_off_below_the_least_precision_and_on_again_later() {
        let mut switch = Switch::default();
        (0..MEASURED - 1).for_each(|_| switch.measured(false, 5));
        assert!(switch.is_on(5));
        switch.measured(false, 5);
        assert!(!switch.is_on(5) && !switch.is_on(4 + RETRY) && switch.is_on(5 + RETRY));
        // What began before counts for nothing.
        switch.measured(false, 6);
        (0..MEASURED - 1).for_each(|_| switch.measured(false, 5 + RETRY));
        assert!(switch.is_on(5 + RETRY));
    }

    #[test]
    fn it_stays_on_at_the_least_precision_and_notices_a_change_after_long_success() {
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
