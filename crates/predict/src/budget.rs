//! The budget for prefetches: keeps useless requests and bytes within a share of the clients' traffic.
//!
//! Each request of a client adds its share of a request, and of its bytes, to the budget. A prefetch takes out a
//! request and the maximum of its bytes. The unused part is returned when it ends. If a client requests the prefetched
//! content, everything is returned, since the prefetch replaces a request that this client would have caused.

/// The maximum number of saved requests.
const MOST_REQUESTS: u64 = 1_024;
/// The maximum number of saved bytes.
const MOST_BYTES: u64 = 256 << 20;
/// The unit of shares: one in a million.
const WHOLE: i128 = 1_000_000;

/// A share of the traffic, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Share(u32);

impl Share {
    /// Returns the share of `percent` percent, at most 100%.
    pub fn percent(percent: f64) -> Self {
        Self((percent.clamp(0.0, 100.0) * 10_000.0).round() as u32)
    }

    /// Returns the share as a part of 1.
    pub fn part(self) -> f64 {
        f64::from(self.0) / 1e6
    }
}

/// The requests and bytes that prefetches may spend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// The requests, in millionths.
    requests: i128,
    /// The bytes, in millionths; below 0 after a response that exceeded its limit.
    bytes: i128,
}

impl Budget {
    /// Adds the share for a client's request.
    pub fn request(&mut self, share: Share) {
        self.requests = (self.requests + i128::from(share.0)).min(i128::from(MOST_REQUESTS) * WHOLE);
    }

    /// Adds the share for `bytes` bytes that a client receives.
    pub fn bytes(&mut self, share: Share, bytes: u64) {
        let paid = i128::from(share.0) * i128::from(bytes);
        self.bytes = (self.bytes + paid).min(i128::from(MOST_BYTES) * WHOLE);
    }

    /// Takes out a request and `bytes` bytes. Returns false, and takes nothing, if the budget is too small.
    pub fn take(&mut self, bytes: u64) -> bool {
        let bytes = i128::from(bytes) * WHOLE;
        let has_both = self.requests >= WHOLE && self.bytes >= bytes;
        if has_both {
            self.requests -= WHOLE;
            self.bytes -= bytes;
        }
        has_both
    }

    /// Returns a request to the budget.
    pub fn give_request(&mut self) {
        self.requests += WHOLE;
    }

    /// Returns `bytes` bytes to the budget.
    pub fn give_bytes(&mut self, bytes: u64) {
        self.bytes += i128::from(bytes) * WHOLE;
    }

    /// Returns the unused part of the `taken` bytes to the budget; `bytes` of them are spent.
    pub fn spent(&mut self, taken: u64, bytes: u64) {
        self.bytes += (i128::from(taken) - i128::from(bytes)) * WHOLE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_traffic_may_be_spent_and_no_more() {
        let (mut budget, share) = (Budget::default(), Share::percent(5.0));
        assert!(!budget.take(0));
        (0..19).for_each(|_| budget.request(share));
        assert!(!budget.take(0));
        budget.request(share);
        budget.bytes(share, 2_000);
        assert!(!budget.take(101) && budget.take(100) && !budget.take(0));
        budget.give_request();
        budget.spent(100, 60);
        assert!(!budget.take(41) && budget.take(40));
        budget.give_request();
        budget.give_bytes(40);
        budget.spent(0, 30);
        assert!(!budget.take(11) && budget.take(10));
    }

    #[test]
    fn a_prefetch_budget_saves_up_to_a_limit() {
        let mut budget = Budget::default();
        for _ in 0..3 * MOST_REQUESTS {
            budget.request(Share::percent(100.0));
            budget.bytes(Share::percent(100.0), u64::MAX);
        }
        assert!(budget.take(MOST_BYTES) && !budget.take(1));
        assert_eq!((1..).take_while(|_| budget.take(0)).count() as u64, MOST_REQUESTS - 1);
    }
}
