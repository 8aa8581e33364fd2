//! How much may be prefetched: the requests and bytes that turn out to be of no use stay within a share of the traffic of clients.
//!
//! Each request of a client pays in its share of a request, and of its bytes. A prefetch takes out a request and the bytes that it may
//! have at most. What it did not need comes back when it ends; if a client asks for what it has fetched, everything comes back, for
//! then it stands in for a request that this client would have caused.

/// Requests that may be saved up.
const MOST_REQUESTS: u64 = 1_024;
/// Bytes that may be saved up.
const MOST_BYTES: u64 = 256 << 20;
/// Shares are counted in millionths.
const WHOLE: i128 = 1_000_000;

/// A share of the traffic, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Share(u32);

impl Share {
    /// That of so many percent; at most 100%.
    pub fn percent(percent: f64) -> Self {
        Self((percent.clamp(0.0, 100.0) * 10_000.0).round() as u32)
    }

    /// The share as a part of 1.
    pub fn part(self) -> f64 {
        f64::from(self.0) / 1e6
    }
}

/// What may be spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// In millionths.
    requests: i128,
    /// In millionths; below 0 after a response that was longer than it was allowed to be.
    bytes: i128,
}

impl Budget {
    /// Pays in for a request of a client.
    pub fn request(&mut self, share: Share) {
        self.requests = (self.requests + i128::from(share.0)).min(i128::from(MOST_REQUESTS) * WHOLE);
    }

    /// Pays in for so many bytes that a client gets.
    pub fn bytes(&mut self, share: Share, bytes: u64) {
        let paid = i128::from(share.0) * i128::from(bytes);
        self.bytes = (self.bytes + paid).min(i128::from(MOST_BYTES) * WHOLE);
    }

    /// Takes out a request and so many bytes; false, and nothing is taken, if that is not there.
    pub fn take(&mut self, bytes: u64) -> bool {
        let bytes = i128::from(bytes) * WHOLE;
        let has_both = self.requests >= WHOLE && self.bytes >= bytes;
        if has_both {
            self.requests -= WHOLE;
            self.bytes -= bytes;
        }
        has_both
    }

    /// Gives a request back.
    pub fn give_request(&mut self) {
        self.requests += WHOLE;
    }

    /// Gives so many bytes back.
    pub fn give_bytes(&mut self, bytes: u64) {
        self.bytes += i128::from(bytes) * WHOLE;
    }

    /// Gives back what is left of the bytes that were `taken`, of which so many are spent.
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
    fn what_is_saved_up_has_a_limit() {
        let mut budget = Budget::default();
        for _ in 0..3 * MOST_REQUESTS {
            budget.request(Share::percent(100.0));
            budget.bytes(Share::percent(100.0), u64::MAX);
        }
        assert!(budget.take(MOST_BYTES) && !budget.take(1));
        assert_eq!((1..).take_while(|_| budget.take(0)).count() as u64, MOST_REQUESTS - 1);
    }
}
