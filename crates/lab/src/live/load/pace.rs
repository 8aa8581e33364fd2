//! The moments at which requests are sent.

use std::time::Duration;

use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, Exp};

use crate::workload::Random;

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// By so many clients, each after its last answer.
    Closed {
        /// How many.
        clients: usize,
    },
    /// At random moments (a Poisson process).
    Open {
        /// Requests a second.
        rate: f64,
        /// How many may be under way; what is due beyond them waits, and its time counts.
        clients: usize,
        /// For the moments.
        seed: u64,
    },
}

impl Pace {
    /// How many requests may be under way.
    pub(super) fn clients(self) -> usize {
        let (Self::Closed { clients } | Self::Open { clients, .. }) = self;
        clients.max(1)
    }

    /// When each of `count` requests is due, from the start; nothing where answers say so.
    pub(super) fn dues(self, count: usize) -> Option<Vec<Duration>> {
        let Self::Open { rate, seed, .. } = self else { return None };
        let gaps = Exp::new(rate).or_else(|_| Exp::new(1.0)).expect("positive");
        let mut random = Random::seed_from_u64(seed);
        let mut due = 0.0;
        let next = |_| {
            due += gaps.sample(&mut random);
            Duration::from_secs_f64(due)
        };
        Some((0..count).map(next).collect())
    }
}
