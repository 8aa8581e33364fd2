//! A site's origins: whose turn it is, and who is left alone for a while.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::base::clock;
use crate::base::settings::{Origin, Site};

/// The origins of one site and what is known of them. Shared by all workers.
#[derive(Debug)]
pub struct Pool {
    origins: Vec<Member>,
    turn: AtomicUsize,
    max_fails: u32,
    fail_millis: u64,
}

#[derive(Debug)]
struct Member {
    origin: Origin,
    /// In a row.
    fails: AtomicU32,
    /// In all.
    failures: AtomicU64,
    /// Left alone until then (`clock::millis`).
    until: AtomicU64,
    /// What the last active check said.
    sick: AtomicBool,
}

/// One origin, chosen for one try. Say how it went.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'p> {
    pool: &'p Pool,
    at: usize,
}

impl Pool {
    /// The origins of `site`, all thought to be well.
    pub fn new(site: &Site) -> Self {
        let origins = site.origins.iter().map(|origin| Member {
            origin: origin.clone(),
            fails: AtomicU32::new(0),
            failures: AtomicU64::new(0),
            until: AtomicU64::new(0),
            sick: AtomicBool::new(false),
        });
        Self {
            origins: origins.collect(),
            turn: AtomicUsize::new(0),
            max_fails: site.max_fails,
            fail_millis: u64::try_from(site.fail_timeout.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// The next in turn of the origins that are not left alone, which share all requests evenly; the next of all when every
    /// one is left alone, since a request that may succeed is better than an error that is certain.
    pub fn next(&self) -> Turn<'_> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let now = clock::millis();
        let is_well = |at: &usize| self.origins[*at].is_well(now);
        let at = match (0..self.origins.len()).filter(is_well).count() {
            0 => turn.checked_rem(self.origins.len()),
            // One may have failed since they were counted.
            well => (0..self.origins.len()).filter(is_well).nth(turn % well),
        };
        Turn { pool: self, at: at.unwrap_or(0) }
    }

    /// Every origin, for active checks.
    pub fn all(&self) -> impl Iterator<Item = Turn<'_>> {
        (0..self.origins.len()).map(|at| Turn { pool: self, at })
    }

    /// How many origins would be asked, of how many.
    pub fn well(&self) -> (usize, usize) {
        let now = clock::millis();
        (self.origins.iter().filter(|member| member.is_well(now)).count(), self.origins.len())
    }
}

impl Member {
    fn is_well(&self, now: u64) -> bool {
        !self.sick.load(Ordering::Relaxed) && self.until.load(Ordering::Relaxed) <= now
    }
}

impl<'p> Turn<'p> {
    /// The origin.
    pub fn origin(&self) -> &'p Origin {
        &self.member().origin
    }

    /// It answered.
    pub fn succeeded(&self) {
        // Read before write: a success is the rule, and a shared line stays shared.
        if self.member().fails.load(Ordering::Relaxed) != 0 {
            self.member().fails.store(0, Ordering::Relaxed);
        }
    }

    /// It did not answer.
    pub fn failed(&self) {
        self.member().failures.fetch_add(1, Ordering::Relaxed);
        let fails = self.member().fails.fetch_add(1, Ordering::Relaxed) + 1;
        if fails >= self.pool.max_fails {
            self.member().until.store(clock::millis() + self.pool.fail_millis, Ordering::Relaxed);
            self.member().fails.store(0, Ordering::Relaxed);
        }
    }

    /// Whether it would be asked, and how often it did not answer since the config was read.
    pub fn health(&self) -> (bool, u64) {
        (self.member().is_well(clock::millis()), self.member().failures.load(Ordering::Relaxed))
    }

    /// Whether it did not answer when it was asked last, by a request or a check.
    pub fn is_failing(&self) -> bool {
        self.member().fails.load(Ordering::Relaxed) > 0 || !self.member().is_well(clock::millis())
    }

    /// What an active check found. True when that is news.
    pub fn checked(&self, well: bool) -> bool {
        self.member().sick.swap(!well, Ordering::Relaxed) == well
    }

    fn member(&self) -> &'p Member {
        &self.pool.origins[self.at]
    }
}
