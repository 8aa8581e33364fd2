//! The writing thread. While it waits for the database, it continues to take in rows.

use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hashbrown::DefaultHashBuilder;

use crate::backlog::{Backlog, Limits};
use crate::batch::Batch;
use crate::event::{Event, OnEvent};
use crate::failure::{Failure, OpenError};
use crate::options::Options;
use crate::row::Row;
use crate::shared::WriterState;
use crate::store::Store;
use crate::sums::SumTable;
use crate::target::Target;
use crate::transaction::Transaction;

/// The most doublings of the pause after failures.
const DOUBLINGS: u32 = 5;
/// The least time between two warnings that requests are dropped.
const MINUTE: Duration = Duration::from_secs(60);
/// Small deletes between two batches.
const TIDY_STEPS: u32 = 8;

pub(crate) struct Writer {
    store: Store,
    intake: Intake,
    tidy_every: Duration,
    tidied_at: Option<Instant>,
    pause: Duration,
    /// Consecutive failures.
    failures: u32,
}

/// The state of requests between the inlet and the backlog.
struct Intake {
    shared: Arc<WriterState>,
    backlog: Backlog,
    waiting: Vec<Transaction>,
    /// Empty sums to exchange for those of a thread.
    sums: SumTable,
    hasher: DefaultHashBuilder,
    report: OnEvent,
    /// The interval of checks without a wake-up.
    tick: Duration,
    /// Requests that had found no room in the inlet at the last check.
    refused: u64,
    told_of_drops: Option<Instant>,
}

impl Writer {
    pub(crate) fn new(target: Target, options: &Options, shared: Arc<WriterState>) -> Self {
        let limits = Limits {
            rows: options.queue.max(1),
            rate: options.rate.max(1),
            batch: options.batch.max(1),
            delay: options.delay,
        };
        let now = Instant::now();
        let intake = Intake {
            shared,
            backlog: Backlog::new(limits, now),
            waiting: Vec::new(),
            sums: SumTable::new(options.rate),
            hasher: DefaultHashBuilder::default(),
            report: Arc::clone(&options.report),
            tick: (options.delay / 4).clamp(Duration::from_millis(1), Duration::from_millis(250)),
            refused: 0,
            told_of_drops: None,
        };
        Self {
            store: Store::new(target, options),
            intake,
            tidy_every: options.keep.every,
            tidied_at: None,
            pause: options.pause,
            failures: 0,
        }
    }

    /// Works until the recorder is closed. `opened` gets the message, if its receiver still waits, whether
    /// there is a database, or may be one later.
    pub(crate) async fn run(mut self, url: &str, opened: SyncSender<Result<(), OpenError>>) {
        let shared = Arc::clone(&self.intake.shared);
        tokio::select! {
            () = self.work(url, opened) => {}
            () = deadline(&shared) => {}
        }
    }

    async fn work(&mut self, url: &str, opened: SyncSender<Result<(), OpenError>>) {
        let connected = self.intake.during(self.store.connect()).await;
        match connected {
            Err(failure) if failure.is_final() => {
                let why = failure.to_string();
                if opened.send(Err(failure.opening(url))).is_ok() {
                    return;
                }
                self.note::<()>(&Err(Failure::Refused(why)));
            }
            other => {
                self.note(&other);
                let _ = opened.send(Ok(()));
            }
        }
        self.serve().await;
    }

    async fn serve(&mut self) {
        loop {
            self.intake.wait().await;
            let is_closing = self.intake.shared.closing().is_some();
            self.intake.drain(is_closing);
            while let Some(batch) = self.intake.backlog.take(Instant::now(), is_closing) {
                self.deliver(batch).await;
            }
            self.deliver_contents().await;
            self.deliver_predictions().await;
            if is_closing {
                return self.store.close().await;
            }
            self.tidy().await;
        }
    }

    /// Writes a batch, and repeats that until it is written or refused.
    async fn deliver(&mut self, batch: Batch) {
        self.store.begin();
        loop {
            let written = self.intake.during(self.store.write(&batch)).await;
            self.note(&written);
            match written {
                Ok(()) => {
                    let mut done = self.intake.shared.done();
                    done.written += batch.requests();
                    done.rows += batch.rows().len() as u64;
                    break;
                }
                Err(failure) if failure.is_about_rows() => {
                    let requests = batch.requests();
                    self.intake.shared.done().dropped += requests;
                    (self.intake.report)(Event::Rejected { requests, why: failure.to_string() });
                    break;
                }
                Err(_) => self.rest().await,
            }
        }
        self.intake.backlog.done(&batch);
    }

    async fn deliver_contents(&mut self) {
        let Some(contents) = self.intake.shared.take_contents() else { return };
        let written = self.intake.during(self.store.write_contents(&contents)).await;
        self.note(&written);
        match written {
            Ok(()) => self.intake.shared.done().snapshots += 1,
            Err(failure) if failure.is_about_rows() => {}
            Err(_) => {
                self.intake.shared.return_contents(contents);
                self.rest().await;
            }
        }
    }

    /// Adds predictions, and repeats that until they are written or refused.
    async fn deliver_predictions(&mut self) {
        let predictions = self.intake.shared.take_predictions();
        if predictions.is_empty() {
            return;
        }
        self.store.begin();
        loop {
            let written = self.intake.during(self.store.write_predictions(&predictions)).await;
            self.note(&written);
            match written {
                Err(failure) if !failure.is_about_rows() => self.rest().await,
                _ => return,
            }
        }
    }

    /// Deletes some old rows; continues soon if there are more.
    async fn tidy(&mut self) {
        if self.tidied_at.is_some_and(|at| at.elapsed() < self.tidy_every) || self.failures > 0 {
            return;
        }
        for _ in 0..TIDY_STEPS {
            let tidied = self.intake.during(self.store.tidy()).await;
            self.note(&tidied);
            if !matches!(tidied, Ok(true)) {
                self.tidied_at = Some(Instant::now());
                return;
            }
        }
    }

    /// Pauses after a failure of the database.
    async fn rest(&mut self) {
        let doublings = match self.store.is_waiting() {
            true => 1,
            false => self.failures.saturating_sub(1).min(DOUBLINGS),
        };
        self.intake.during(tokio::time::sleep(self.pause.saturating_mul(1 << doublings))).await;
    }

    /// Counts the result of an operation, and reports changes.
    fn note<T>(&mut self, result: &Result<T, Failure>) {
        let is_refused = result.as_ref().is_err_and(Failure::is_about_rows);
        let mut done = self.intake.shared.done();
        done.is_connected = result.is_ok() || is_refused;
        done.failed += u64::from(result.is_err());
        drop(done);
        match result {
            Err(_) if is_refused => {}
            Ok(_) => {
                if self.failures > 0 {
                    (self.intake.report)(Event::Back);
                }
                self.failures = 0;
            }
            Err(failure) => {
                if self.failures == 0 {
                    (self.intake.report)(Event::Lost { why: failure.to_string() });
                }
                self.failures = self.failures.saturating_add(1);
            }
        }
    }
}

impl Intake {
    /// Waits until there may be work.
    async fn wait(&self) {
        tokio::select! {
            () = self.shared.woken() => {}
            () = tokio::time::sleep(self.tick) => {}
        }
    }

    /// Runs `work`, and takes in requests meanwhile.
    async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = self.wait() => self.drain(false),
            }
        }
    }

    /// Takes in the waiting requests, and the sums of past seconds, or all sums if `is_last`.
    fn drain(&mut self, is_last: bool) {
        let refused = self.shared.drain(&mut self.waiting);
        let now = Instant::now();
        let mut dropped = 0;
        let (backlog, hasher) = (&mut self.backlog, &self.hasher);
        let mut take = |transaction, requests| {
            let row = Row { requests, ..Row::new(transaction, hasher) };
            if !backlog.add(row, now) {
                dropped += requests;
            }
        };
        self.waiting.drain(..).for_each(|transaction| take(transaction, 1));
        let second = if is_last { u32::MAX } else { second() };
        self.shared.collect(second, &mut self.sums, take);
        self.shared.done().dropped += dropped;
        let is_news = self.told_of_drops.is_none_or(|told| now - told >= MINUTE);
        if dropped + refused > self.refused && is_news {
            self.told_of_drops = Some(now);
            (self.report)(Event::Dropping);
        }
        self.refused = refused;
    }
}

/// Returns when the recorder is being closed and its time, which may be shortened, is over.
async fn deadline(shared: &WriterState) {
    loop {
        match shared.closing() {
            Some(until) => tokio::select! {
                () = tokio::time::sleep_until(until.into()) => return,
                () = shared.closed() => {}
            },
            None => shared.closed().await,
        }
    }
}

/// Returns the current second, since 1970.
fn second() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().try_into().unwrap_or(u32::MAX)
}
