//! Limits the rate of client frames that cause work without progress.

/// Tokens that such work spends and that return with time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// The available thousandths of a token.
    left: u64,
    /// The limit up to which time returns tokens, in thousandths.
    most: u64,
    /// The limit including earned tokens, in thousandths.
    most_earned: u64,
    /// The thousandths that return per millisecond: tokens per second.
    rate: u64,
    /// The time of the last update, in milliseconds.
    at: u64,
}

impl Budget {
    pub(crate) const fn new(burst: u32, rate: u32) -> Self {
        let most = burst as u64 * 1_000;
        Self { left: most, most, most_earned: most, rate: rate as u64, at: 0 }
    }

    /// Returns the same budget with room for `tokens` more that are earned.
    pub(crate) const fn earning(self, tokens: u32) -> Self {
        Self { most_earned: self.most + tokens as u64 * 1_000, ..self }
    }

    /// Takes a token. Returns false if none is left.
    pub(crate) fn spend(&mut self, now: u64) -> bool {
        let elapsed = now.saturating_sub(self.at);
        self.at = now.max(self.at);
        let refilled = self.left.saturating_add(elapsed.saturating_mul(self.rate)).min(self.most);
        self.left = self.left.max(refilled);
        match self.left.checked_sub(1_000) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }

    /// Adds earned thousandths of a token.
    pub(crate) fn earn(&mut self, thousandths: u64) {
        self.left = self.left.saturating_add(thousandths).min(self.most_earned);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_with_time_and_do_not_gather() {
        let mut budget = Budget::new(3, 10);
        let spent = |budget: &mut Budget, now| (0..100).take_while(|_| budget.spend(now)).count();
        assert_eq!(spent(&mut budget, 5), 3);
        assert_eq!(spent(&mut budget, 105), 1);
        assert_eq!(spent(&mut budget, 60_000), 3);
        // A clock that goes back returns no tokens.
        assert_eq!(spent(&mut budget, 0), 0);
        budget.earn(2_000);
        assert_eq!(spent(&mut budget, 60_000), 2);
    }

    #[test]
    fn an_earned_budget_grows_beyond_the_limit_of_time() {
        let mut budget = Budget::new(3, 10).earning(5);
        let spent = |budget: &mut Budget, now| (0..100).take_while(|_| budget.spend(now)).count();
        budget.earn(2_000);
        assert_eq!(spent(&mut budget, 60_000), 5);
        (0..100).for_each(|_| budget.earn(1_000));
        assert_eq!(spent(&mut budget, 60_000), 8);
        assert_eq!(spent(&mut budget, 120_000), 3);
    }
}
