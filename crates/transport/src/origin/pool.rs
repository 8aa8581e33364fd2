//! A site's origins: the choice of the next one, and the backoff after failures.

use std::fmt::Display;
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::StatusCode;
use larder_words::named;
use parking_lot::Mutex;
use siphasher::sip::SipHasher13;

use super::answer_times::{LateTime, MeanTime};
use super::balance;
use super::budget::Budget;
use super::load::OriginLoad;
use super::s3::Signer;
use super::session::{Session, Sessions};
use crate::base::clock;
use crate::base::settings::{Balance, Origin, Site};
use crate::counts::statuses::StatusCounters;

/// The origins of one site and their health. Shared by all workers.
#[derive(Debug)]
pub struct Pool {
    origins: Vec<Member>,
    balance: Balance,
    turn: AtomicUsize,
    max_fails: u32,
    fail_millis: u64,
    /// The time in which the share of an origin that answers again grows.
    slow_start: u64,
    /// Consecutive answers with errors after which an origin is in its backoff; 0: any number is accepted.
    max_errors: u32,
    /// The retries that are left, if they have a budget.
    retries: Option<Budget>,
    /// The hedged requests that are left, if requests are hedged.
    hedges: Option<Budget>,
    /// The time after which an answer is late.
    late: LateTime,
    /// The sticky sessions of its clients.
    sessions: Option<Sessions>,
}

#[derive(Debug)]
struct Member {
    origin: Origin,
    /// Signs the requests to it, if it is a bucket.
    signer: Option<Signer>,
    /// Requests whose response is not complete; counted only if the balance method needs it.
    in_progress: Arc<AtomicU32>,
    /// Whether it has answered a request or an active check since the pool was created.
    has_answered: AtomicBool,
    /// The times of its answers; known only if the balance method needs them.
    times: MeanTime,
    /// Consecutive answers with errors.
    errors: AtomicU32,
    /// Consecutive failures.
    fails: AtomicU32,
    /// Requests without an answer since the pool was created.
    failures: AtomicU64,
    /// The answers since then, of each worker.
    answers: Box<[StatusCounters]>,
    /// The end of the backoff (`clock::millis`).
    until: AtomicU64,
    /// Whether active checks found it failing.
    sick: AtomicBool,
    /// The last active checks in a row that found the contrary.
    contrary: AtomicU32,
    /// When an active check succeeded after a failure (`clock::millis`); 0 if none has.
    well_since: AtomicU64,
    /// The first failure since the last success (`clock::millis`); 0 without one.
    failing_since: AtomicU64,
    /// The reason of that failure.
    trouble: Mutex<String>,
}

/// The health of an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginHealth {
    /// What its last requests and active checks tell.
    pub state: OriginState,
    /// Requests without an answer, or with one of the class 5xx, since the config was read.
    pub failures: u64,
    /// The answers since then, by status or class.
    pub answers: Vec<(&'static str, u64)>,
    /// For an origin that is down: the time since its first failure, and the reason of that failure.
    pub down: Option<(Duration, String)>,
}

named! {
    /// Whether an origin answers, as far as is known; the worst state is the greatest.
    #[derive(PartialOrd, Ord)]
    pub enum OriginState, word {
        /// It has not been asked yet.
        Unknown = "unknown",
        /// It answers.
        Up = "up",
        /// It has failed `max_fails` times in a row or its last active check, or has never answered.
        Down = "down",
    }
}

/// An origin that was chosen for one attempt. The caller reports the result.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'p> {
    pool: &'p Pool,
    at: usize,
}

/// The share of an origin that answers for long enough. One that begins again gets at least one of these parts.
const WHOLE: u32 = 100;

impl Pool {
    /// Creates a pool of `origins`, all assumed to be well, with the settings of `site`, whose pool with this `number` it
    /// is, for this number of workers.
    pub fn new(origins: &[Origin], site: &Site, number: usize, workers: usize) -> Self {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let sessions =
            Sessions::new(site, number, |sticky| origins.iter().map(|own| sticky.tags(own)).collect());
        Self {
            origins: origins.iter().map(|origin| Member::new(origin, workers)).collect(),
            balance: site.balance,
            turn: AtomicUsize::new(0),
            max_fails: site.max_fails,
            fail_millis: millis(site.fail_timeout),
            slow_start: millis(site.slow_start),
            max_errors: site.max_errors.unwrap_or(0),
            retries: site.retry_budget.map(Budget::new),
            hedges: site.hedge.map(Budget::new),
            late: LateTime::default(),
            sessions,
        }
    }

    /// Returns the same pool with this choice of origins.
    pub fn balanced(self, balance: Balance) -> Self {
        Self { balance, ..self }
    }

    /// Whether it has several origins.
    pub fn has_choice(&self) -> bool {
        self.origins.len() > 1
    }

    /// Whether it needs the times of answers.
    pub fn is_timed(&self) -> bool {
        self.balance == Balance::LeastTime || self.hedges.is_some()
    }

    /// Returns the origin for the next attempt at the request with this `key`, a URL or a client (unused if there is one
    /// origin only): a well one, and not the one that has
    /// just `failed` if there is another, preferably the one of the client's `session`. Backups are last. If no origin is
    /// well, it may be any: a request that may succeed is better than a certain error. If it `is_part`, the key chooses.
    pub fn next(
        &self,
        failed: Option<Turn<'_>>,
        session: Option<&Session>,
        (key, is_part): (&[u8], bool),
    ) -> Turn<'_> {
        if !self.has_choice() {
            return Turn { pool: self, at: 0 };
        }
        let (now, failed) = (clock::millis(), failed.map(|turn| turn.at));
        let is_well = |at: usize| self.origins[at].is_well(now);
        let may_answer = |at: usize| is_well(at) && Some(at) != failed;
        let is_first = |at: usize| !self.origins[at].origin.is_backup;
        if let Some((sessions, session)) = self.sessions.as_ref().zip(session)
            && let Some(at) = sessions.origin(session, |at| may_answer(at) && is_first(at))
        {
            return Turn { pool: self, at };
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let chosen = (if is_part { Balance::Hash } else { self.balance }, turn, key);
        let at = self
            .among(&|at| may_answer(at) && is_first(at), chosen, now)
            .or_else(|| self.among(&may_answer, chosen, now))
            .or_else(|| self.among(&is_well, chosen, now))
            .or_else(|| self.among(&is_first, chosen, now))
            .or_else(|| self.among(&|_| true, chosen, now));
        Turn { pool: self, at: at.unwrap_or(0) }
    }

    /// Returns an origin of those that `may` be chosen.
    fn among(
        &self,
        may: &dyn Fn(usize) -> bool,
        (balance, turn, key): (Balance, usize, &[u8]),
        now: u64,
    ) -> Option<usize> {
        let share = |at: usize| self.origins[at].share(self.slow_start, now);
        // Shares that change from one request to the next have no cycle.
        let is_growing = (0..self.origins.len()).any(|at| may(at) && share(at) < WHOLE);
        let weight = |(at, member): (usize, &Member)| match (may(at), u32::from(member.origin.weight)) {
            (false, _) => 0,
            (true, weight) if is_growing => weight * share(at),
            (true, weight) => weight,
        };
        let weights: Vec<_> = self.origins.iter().enumerate().map(weight).collect();
        let draw = |below| fastrand::u64(..below);
        match balance {
            Balance::RoundRobin if is_growing => balance::drawn(&weights, draw),
            Balance::RoundRobin => balance::in_turn(&weights, turn),
            Balance::Hash | Balance::Client => balance::by_key(&weights, |at| self.origins[at].draw(key)),
            Balance::TwoChoices => balance::of_two(&weights, |at| self.origins[at].in_progress(), draw),
            Balance::LeastTime => {
                // The time that one more request would take there, if those in progress come first.
                let time = |at: usize| {
                    let member = &self.origins[at];
                    (member.in_progress() + 1).saturating_mul(member.times.micros())
                };
                balance::of_two(&weights, time, draw)
            }
        }
    }

    /// Whether the client chooses the origin.
    pub fn is_by_client(&self) -> bool {
        self.balance == Balance::Client
    }

    /// Returns all origins, for active checks.
    pub fn all(&self) -> impl Iterator<Item = Turn<'_>> {
        (0..self.origins.len()).map(|at| Turn { pool: self, at })
    }

    /// Notes a request, which adds to the budgets.
    pub fn requested(&self) {
        self.retries.iter().chain(&self.hedges).for_each(Budget::earn);
    }

    /// Whether the budget allows another retry, which is noted.
    pub fn may_retry(&self) -> bool {
        self.retries.as_ref().is_none_or(Budget::spend)
    }

    /// Returns the time after which an answer is late and its request is sent to another origin, too; `None` if requests
    /// are not hedged.
    pub fn late(&self) -> Option<Duration> {
        self.hedges.as_ref().and_then(|_| self.late.get())
    }

    /// Whether the budget allows another hedged request, which is noted.
    pub fn may_hedge(&self) -> bool {
        self.hedges.as_ref().is_some_and(Budget::spend)
    }

    /// Whether any origin is a bucket.
    pub fn has_buckets(&self) -> bool {
        self.origins.iter().any(|member| member.signer.is_some())
    }

    /// Whether any origin is configured to speak HTTP/2.
    pub fn speaks_http2(&self) -> bool {
        self.origins.iter().any(|member| member.origin.http2)
    }

    /// Returns the number of well origins, and the number of all origins.
    pub fn well(&self) -> (usize, usize) {
        let now = clock::millis();
        (self.origins.iter().filter(|member| member.is_well(now)).count(), self.origins.len())
    }
}

impl Member {
    fn new(origin: &Origin, workers: usize) -> Self {
        Self {
            origin: origin.clone(),
            signer: origin.bucket.as_deref().map(Signer::new),
            in_progress: Arc::default(),
            times: MeanTime::default(),
            errors: AtomicU32::new(0),
            has_answered: AtomicBool::new(false),
            fails: AtomicU32::new(0),
            failures: AtomicU64::new(0),
            answers: (0..workers).map(|_| StatusCounters::default()).collect(),
            until: AtomicU64::new(0),
            sick: AtomicBool::new(false),
            contrary: AtomicU32::new(0),
            well_since: AtomicU64::new(0),
            failing_since: AtomicU64::new(0),
            trouble: Mutex::default(),
        }
    }

    fn is_well(&self, now: u64) -> bool {
        !self.sick.load(Ordering::Relaxed) && self.until.load(Ordering::Relaxed) <= now
    }

    fn in_progress(&self) -> u64 {
        self.in_progress.load(Ordering::Relaxed).into()
    }

    /// Returns the number that this origin draws for a cache key, the same in each process.
    fn draw(&self, key: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new();
        hasher.write(self.origin.authority.as_bytes());
        hasher.write_u8(0);
        hasher.write(key);
        hasher.finish()
    }

    /// Returns its share of the requests of its weight, of [`WHOLE`], which grows for `slow_start` milliseconds after it
    /// has begun to answer again.
    fn share(&self, slow_start: u64, now: u64) -> u32 {
        if slow_start == 0 {
            return WHOLE;
        }
        match self.until.load(Ordering::Relaxed).max(self.well_since.load(Ordering::Relaxed)) {
            0 => WHOLE,
            begun => {
                let share = u64::from(WHOLE) * now.saturating_sub(begun) / slow_start;
                share.clamp(1, WHOLE.into()) as u32
            }
        }
    }

    /// Notes the reason and time of a failure, unless the origin was failing already.
    fn begin_to_fail(&self, why: &dyn Display) {
        if self.failing_since.load(Ordering::Relaxed) == 0 {
            *self.trouble.lock() = why.to_string();
            self.failing_since.store(clock::millis().max(1), Ordering::Relaxed);
        }
    }
}

impl<'p> Turn<'p> {
    /// Returns the origin.
    pub fn origin(&self) -> &'p Origin {
        &self.member().origin
    }

    /// Whether this is the origin of `other`, of the same pool.
    pub fn is_at(&self, other: Turn<'_>) -> bool {
        self.at == other.at
    }

    /// Returns the signer of requests to the origin, if it is a bucket.
    pub fn signer(&self) -> Option<&'p Signer> {
        self.member().signer.as_ref()
    }

    /// Notes the beginning of a request, which is in progress until the result is dropped. `None` if requests are not
    /// counted.
    pub fn begun(&self) -> Option<OriginLoad> {
        matches!(self.pool.balance, Balance::TwoChoices | Balance::LeastTime).then(|| {
            self.member().in_progress.fetch_add(1, Ordering::Relaxed);
            OriginLoad::of(&self.member().in_progress)
        })
    }

    /// Notes the status of an answer to a `worker` and the time since `begun`, if the pool [is timed](Pool::is_timed). An origin
    /// with too many errors in a row is in its backoff for a while, as long as another one is well.
    pub fn answered(&self, worker: usize, status: StatusCode, begun: Option<Instant>) {
        let member = self.member();
        member.answers.get(worker).into_iter().for_each(|counters| counters.count(status));
        if let Some(took) = begun.map(|begun| begun.elapsed()) {
            if self.pool.balance == Balance::LeastTime {
                member.times.add(took);
            }
            if self.pool.hedges.is_some() {
                self.pool.late.add(took);
            }
        }
        if self.pool.max_errors == 0 {
            return;
        }
        if !matches!(status.as_u16(), 500 | 502..=504) {
            if member.errors.load(Ordering::Relaxed) != 0 {
                member.errors.store(0, Ordering::Relaxed);
            }
            return;
        }
        let errors = member.errors.fetch_add(1, Ordering::Relaxed) + 1;
        let now = clock::millis();
        let has_other = || self.pool.all().any(|other| other.at != self.at && other.member().is_well(now));
        if errors >= self.pool.max_errors && has_other() {
            member.errors.store(0, Ordering::Relaxed);
            let why = format!("ejected: {errors} answers with errors in a row, the last {}", status.as_u16());
            member.begin_to_fail(&why);
            member.until.store(now + self.pool.fail_millis, Ordering::Relaxed);
            tracing::warn!("origin {} is {why}", self.origin().authority);
        }
    }

    /// Returns why the origin gets no requests, if it gets none.
    pub fn trouble(&self) -> Option<String> {
        let member = self.member();
        (!member.is_well(clock::millis())).then(|| member.trouble.lock().clone())
    }

    /// Notes that the origin sent a response. A backoff lasts to its end, since a server that shuts down still answers
    /// requests that it has; but the origin is shown as up.
    pub fn succeeded(&self) {
        let member = self.member();
        // Reads come before writes: most requests succeed, and without a write, workers share the cache line.
        if !member.has_answered.load(Ordering::Relaxed) {
            member.has_answered.store(true, Ordering::Relaxed);
        }
        if member.fails.load(Ordering::Relaxed) != 0 {
            member.fails.store(0, Ordering::Relaxed);
        }
        if member.failing_since.load(Ordering::Relaxed) != 0 && !member.sick.load(Ordering::Relaxed) {
            member.failing_since.store(0, Ordering::Relaxed);
        }
    }

    /// Keeps the client of `session` with the origin, which has answered.
    pub fn keep(&self, session: &Session) {
        if let Some(sessions) = self.pool.sessions.as_ref().filter(|_| self.pool.origins.len() > 1) {
            sessions.give(session, self.at);
        }
    }

    /// Notes that the origin sent no response, with the reason `why`.
    pub fn failed(&self, why: &dyn Display) {
        self.member().begin_to_fail(why);
        self.member().failures.fetch_add(1, Ordering::Relaxed);
        let fails = self.member().fails.fetch_add(1, Ordering::Relaxed) + 1;
        if fails >= self.pool.max_fails {
            self.member().until.store(clock::millis() + self.pool.fail_millis, Ordering::Relaxed);
            self.member().fails.store(0, Ordering::Relaxed);
        }
    }

    /// Returns the health of the origin.
    pub fn health(&self) -> OriginHealth {
        let (member, now) = (self.member(), clock::millis());
        let since = member.failing_since.load(Ordering::Relaxed);
        let state = match (since, member.has_answered.load(Ordering::Relaxed)) {
            (0, false) => OriginState::Unknown,
            (0, true) => OriginState::Up,
            (1.., has_answered) if has_answered && member.is_well(now) => OriginState::Up,
            _ => OriginState::Down,
        };
        let since = (state == OriginState::Down).then(|| Duration::from_millis(now.saturating_sub(since)));
        let down = since.map(|time| (time, member.trouble.lock().clone()));
        let answers = StatusCounters::sums(&member.answers);
        let errors: u64 = answers.iter().filter(|(code, _)| code.starts_with('5')).map(|(_, sum)| sum).sum();
        OriginHealth { state, failures: errors + member.failures.load(Ordering::Relaxed), answers, down }
    }

    /// Whether the origin failed its last request or active check, or is in its backoff.
    pub fn is_failing(&self) -> bool {
        self.member().fails.load(Ordering::Relaxed) > 0 || !self.member().is_well(clock::millis())
    }

    /// Notes the result of an active check: success, or the reason of the failure. As many failures in a row, and successes
    /// after them, as `thresholds` say change what is known of the origin. Returns whether it has changed.
    pub fn checked(&self, found: &Result<(), String>, thresholds: (u32, u32)) -> bool {
        let member = self.member();
        let is_contrary = member.sick.load(Ordering::Relaxed) == found.is_ok();
        let needed = if found.is_err() { thresholds.0 } else { thresholds.1 };
        if is_contrary && member.contrary.fetch_add(1, Ordering::Relaxed) + 1 < needed {
            return false;
        }
        member.contrary.store(0, Ordering::Relaxed);
        match found {
            // Requests may fail although checks succeed: the backoff tells.
            Ok(()) if member.until.load(Ordering::Relaxed) <= clock::millis() => {
                member.has_answered.store(true, Ordering::Relaxed);
                member.failing_since.store(0, Ordering::Relaxed);
            }
            Ok(()) => {}
            Err(why) => member.begin_to_fail(why),
        }
        let has_changed = member.sick.swap(found.is_err(), Ordering::Relaxed) == found.is_ok();
        if has_changed && found.is_ok() {
            member.well_since.store(clock::millis(), Ordering::Relaxed);
        }
        has_changed
    }

    fn member(&self) -> &'p Member {
        &self.pool.origins[self.at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_several_checks_in_a_row_change_the_health() {
        let pool = Pool::new(&[Origin::new(false, "a:1")], &Site::default(), 0, 1);
        let turn = pool.next(None, None, (b"", false));
        let (well, sick) = (Ok(()), Err("status 500".to_owned()));
        let after = |checks: [bool; 3]| {
            checks.map(|is_well| {
                turn.checked(if is_well { &well } else { &sick }, (3, 2));
                turn.member().sick.load(Ordering::Relaxed)
            })
        };
        assert_eq!(
            after([false, false, true]),
            [false; 3],
            "two failures, and not in a row with those below"
        );
        assert_eq!(after([false, false, false]), [false, false, true]);
        assert_eq!(after([true, false, true]), [true; 3]);
        assert_eq!(after([false, true, true]), [true, true, false]);
    }

    #[test]
    fn the_share_of_a_recovered_origin_grows_to_the_whole() {
        let member = Member::new(&Origin::new(false, "a:1"), 1);
        assert_eq!(member.share(30_000, 5), WHOLE, "it has not failed");
        member.well_since.store(1_000, Ordering::Relaxed);
        let shares = [1_000, 4_000, 16_000, 31_000, 90_000].map(|now| member.share(30_000, now));
        assert_eq!(shares, [1, 10, 50, 100, 100]);
        member.until.store(61_000, Ordering::Relaxed);
        assert_eq!(member.share(30_000, 61_000), 1, "a backoff has ended");
        assert_eq!(member.share(0, 61_000), WHOLE);
    }
}
