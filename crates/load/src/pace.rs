//! The times at which requests are sent.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, Exp};

/// The rule for the times of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Each client sends after its last answer.
    Closed {
        /// The number of clients.
        clients: usize,
    },
    /// At random times (a Poisson process).
    Open {
        /// Requests a second.
        rate: f64,
        /// The maximum number of requests in flight; further requests wait after they are due, and that time counts.
        clients: usize,
        /// The seed of the times.
        seed: u64,
    },
}

impl Pace {
    /// Returns the maximum number of requests in flight.
    pub(super) fn clients(self) -> usize {
        let (Self::Closed { clients } | Self::Open { clients, .. }) = self;
        clients.max(1)
    }

    /// Returns the due times of `count` requests since the start; `None` in a closed loop.
    pub(super) fn dues(self, count: usize) -> Option<Vec<Duration>> {
        let Self::Open { rate, seed, .. } = self else { return None };
        let gaps = Exp::new(rate).or_else(|_| Exp::new(1.0)).expect("positive");
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut due = 0.0;
        let next = |_| {
            due += gaps.sample(&mut random);
            Duration::from_secs_f64(due)
        };
        Some((0..count).map(next).collect())
    }
}
