//! A site's origins: which is asked next, and which are not asked for a while after failures.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::balance;
use crate::base::clock;
use crate::base::settings::{Balance, Origin, Site};

/// The origins of one site and what is known of them. Shared by all workers.
#[derive(Debug)]
pub struct Pool {
    origins: Vec<Member>,
    balance: Balance,
    turn: AtomicUsize,
    max_fails: u32,
    fail_millis: u64,
}

#[derive(Debug)]
struct Member {
    origin: Origin,
    /// Requests whose answer has not arrived whole, where that matters.
    in_progress: Arc<AtomicU32>,
    /// In a row.
    fails: AtomicU32,
    /// In all.
    failures: AtomicU64,
    /// Left alone until then (`clock::millis`).
    until: AtomicU64,
    /// What the last active check said.
    sick: AtomicBool,
    /// When it failed first since it last answered (`clock::millis`); 0 if it answers.
    failing_since: AtomicU64,
    /// Why it failed then.
    trouble: Mutex<String>,
}

/// How an origin is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginHealth {
    /// Whether it is asked in its turn.
    pub is_well: bool,
    /// Requests that it did not answer since the config was read.
    pub failures: u64,
    /// If it is not asked: for how long it has failed, and why it failed first.
    pub down: Option<(Duration, String)>,
}

/// One origin, chosen for one try. Say how it went.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'p> {
    pool: &'p Pool,
    at: usize,
}

/// A request in progress at an origin.
#[derive(Debug)]
pub struct InProgress(Arc<AtomicU32>);

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pool {
    /// These origins, all thought to be well, as `site` wants to use them.
    pub fn new(origins: &[Origin], site: &Site) -> Self {
        let origins = origins.iter().map(|origin| Member {
            origin: origin.clone(),
            in_progress: Arc::default(),
            fails: AtomicU32::new(0),
            failures: AtomicU64::new(0),
            until: AtomicU64::new(0),
            sick: AtomicBool::new(false),
            failing_since: AtomicU64::new(0),
            trouble: Mutex::default(),
        });
        Self {
            origins: origins.collect(),
            balance: site.balance,
            turn: AtomicUsize::new(0),
            max_fails: site.max_fails,
            fail_millis: u64::try_from(site.fail_timeout.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// The origin for the next try: one that is not left alone, and not the one that `failed` just now if there is another. When
    /// every one is left alone it may be any, since a request that may succeed is better than an error that is certain.
    pub fn next(&self, failed: Option<Turn<'_>>) -> Turn<'_> {
        if self.origins.len() == 1 {
            return Turn { pool: self, at: 0 };
        }
        let (now, failed) = (clock::millis(), failed.map(|turn| turn.at));
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let among = |may: &dyn Fn(usize, &Member) -> bool| {
            let weight = |(at, member)| if may(at, member) { u32::from(member.origin.weight) } else { 0 };
            let weights: Vec<_> = self.origins.iter().enumerate().map(weight).collect();
            match self.balance {
                Balance::RoundRobin => balance::in_turn(&weights, turn),
                Balance::TwoChoices => {
                    let in_progress = |at: usize| self.origins[at].in_progress.load(Ordering::Relaxed);
                    balance::of_two(&weights, in_progress, |below| fastrand::u64(..below))
                }
            }
        };
        let at = among(&|at, member| member.is_well(now) && Some(at) != failed)
            .or_else(|| among(&|_, member| member.is_well(now)))
            .or_else(|| among(&|_, _| true));
        Turn { pool: self, at: at.unwrap_or(0) }
    }

    /// Every origin, for active checks.
    pub fn all(&self) -> impl Iterator<Item = Turn<'_>> {
        (0..self.origins.len()).map(|at| Turn { pool: self, at })
    }

    /// Whether origins of it speak HTTP/2.
    pub fn speaks_http2(&self) -> bool {
        self.origins.iter().any(|member| member.origin.http2)
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

    /// Notes why it fails, unless it has failed since before.
    fn begin_to_fail(&self, why: &dyn Display) {
        if self.failing_since.load(Ordering::Relaxed) == 0 {
            *self.trouble() = why.to_string();
            self.failing_since.store(clock::millis().max(1), Ordering::Relaxed);
        }
    }

    fn trouble(&self) -> MutexGuard<'_, String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'p> Turn<'p> {
    /// The origin.
    pub fn origin(&self) -> &'p Origin {
        &self.member().origin
    }

    /// A request to it has begun, and is in progress while the result lives; `None` where they are not counted.
    pub fn begun(&self) -> Option<InProgress> {
        (self.pool.balance == Balance::TwoChoices).then(|| {
            self.member().in_progress.fetch_add(1, Ordering::Relaxed);
            InProgress(Arc::clone(&self.member().in_progress))
        })
    }

    /// It answered.
    pub fn succeeded(&self) {
        let member = self.member();
        // Read before write: a success is the rule, and a shared line stays shared.
        if member.fails.load(Ordering::Relaxed) != 0 {
            member.fails.store(0, Ordering::Relaxed);
        }
        if member.failing_since.load(Ordering::Relaxed) != 0 && !member.sick.load(Ordering::Relaxed) {
            member.failing_since.store(0, Ordering::Relaxed);
        }
    }

    /// It did not answer, because of `why`.
    pub fn failed(&self, why: &dyn Display) {
        self.member().begin_to_fail(why);
        self.member().failures.fetch_add(1, Ordering::Relaxed);
        let fails = self.member().fails.fetch_add(1, Ordering::Relaxed) + 1;
        if fails >= self.pool.max_fails {
            self.member().until.store(clock::millis() + self.pool.fail_millis, Ordering::Relaxed);
            self.member().fails.store(0, Ordering::Relaxed);
        }
    }

    /// How it is.
    pub fn health(&self) -> OriginHealth {
        let (member, now) = (self.member(), clock::millis());
        let (is_well, since) = (member.is_well(now), member.failing_since.load(Ordering::Relaxed));
        let is_down = !is_well && since != 0;
        let down =
            is_down.then(|| (Duration::from_millis(now.saturating_sub(since)), member.trouble().clone()));
        OriginHealth { is_well, failures: member.failures.load(Ordering::Relaxed), down }
    }

    /// Whether it did not answer when it was asked last, by a request or a check.
    pub fn is_failing(&self) -> bool {
        self.member().fails.load(Ordering::Relaxed) > 0 || !self.member().is_well(clock::millis())
    }

    /// What an active check found: that it is well, or why not. True when that is news.
    pub fn checked(&self, found: &Result<(), String>) -> bool {
        let member = self.member();
        match found {
            Ok(()) if member.until.load(Ordering::Relaxed) <= clock::millis() => {
                member.failing_since.store(0, Ordering::Relaxed);
            }
            Ok(()) => {}
            Err(why) => member.begin_to_fail(why),
        }
        member.sick.swap(found.is_err(), Ordering::Relaxed) == found.is_ok()
    }

    fn member(&self) -> &'p Member {
        &self.pool.origins[self.at]
    }
}
