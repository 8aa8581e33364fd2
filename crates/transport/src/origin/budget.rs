//! A share of the requests that may be sent again: a budget that requests fill and repetitions use up.

use std::sync::atomic::{AtomicU32, Ordering};

/// Repetitions that are allowed without earlier requests, so that a budget is not felt where requests are few.
const RESERVE: u32 = 10;
/// The cost of a repetition. A request brings a part of it.
const WHOLE: u32 = 100;

/// The budget for the repetitions of requests.
#[derive(Debug)]
pub(super) struct Budget {
    /// What each request brings, of [`WHOLE`].
    percent: u32,
    left: AtomicU32,
}

impl Budget {
    /// Creates a budget that allows `percent` repetitions for 100 requests.
    pub(super) fn new(percent: u8) -> Self {
        Self { percent: percent.into(), left: AtomicU32::new(RESERVE * WHOLE) }
    }

    /// Notes a request.
    pub(super) fn earn(&self) {
        // A full budget is only read, so that workers share its cache line.
        if self.left.load(Ordering::Relaxed) < RESERVE * WHOLE {
            self.left.fetch_add(self.percent, Ordering::Relaxed);
        }
    }

    /// Whether a repetition is allowed, which is noted.
    pub(super) fn spend(&self) -> bool {
        let less = |left: u32| left.checked_sub(WHOLE);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn repetitions_stay_within_their_share_and_the_reserve(
            percent in 0..=100_u8,
            wishes in proptest::collection::vec(0..4_u8, 0..300),
        ) {
            let budget = Budget::new(percent);
            let (mut requests, mut repetitions) = (0, 0);
            for wish in wishes {
                budget.earn();
                requests += 1;
                repetitions += (0..wish).filter(|_| budget.spend()).count();
                prop_assert!(repetitions * 100 <= requests * usize::from(percent) + (RESERVE * WHOLE) as usize);
            }
        }
    }
}
