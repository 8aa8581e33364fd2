//! The rows that wait to be written, within a limit.
//!
//! Requests may come faster than a database writes, or while it is down. Up to `rate` rows a second, each request has its
//! own. Beyond that, equal requests share one. At the limit all equal rows of a second are merged, and rows that still do not
//! fit are dropped.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::batch::Batch;
use crate::row::Row;

pub(crate) struct Backlog {
    full: VecDeque<Batch>,
    open: Batch,
    /// When the first row of the open batch came.
    since: Instant,
    /// Rows in all batches, those included that were taken and not yet written.
    rows: usize,
    /// Whether full batches may hold equal rows.
    has_equals: bool,
    limits: Limits,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Rows in all.
    pub(crate) rows: usize,
    /// Rows of a second beyond which equal ones are merged.
    pub(crate) rate: u32,
    /// Rows of a batch.
    pub(crate) batch: usize,
    /// How long a batch stays open.
    pub(crate) delay: Duration,
}

impl Backlog {
    pub(crate) fn new(limits: Limits, now: Instant) -> Self {
        Self { full: VecDeque::new(), open: Batch::default(), since: now, rows: 0, has_equals: false, limits }
    }

    /// Takes a row in. False if there is no place for it.
    #[must_use]
    pub(crate) fn add(&mut self, row: Row, now: Instant) -> bool {
        let mut row = row;
        let is_full = self.rows >= self.limits.rows;
        if is_full || self.open.rate(&row) >= self.limits.rate {
            match self.open.merge(row) {
                Some(stranger) => row = stranger,
                None => return true,
            }
        }
        if is_full && !self.make_room() {
            return false;
        }
        if self.open.is_empty() {
            self.since = now;
        }
        self.open.push(row);
        self.rows += 1;
        if self.open.rows().len() >= self.limits.batch {
            self.full.push_back(std::mem::take(&mut self.open));
            self.has_equals = true;
        }
        true
    }

    /// The batch to write next, if one is full or has waited long enough; `at_once` if none has to wait.
    pub(crate) fn take(&mut self, now: Instant, at_once: bool) -> Option<Batch> {
        let is_due = at_once || now.saturating_duration_since(self.since) >= self.limits.delay;
        let open = |open: &mut Batch| (is_due && !open.is_empty()).then(|| std::mem::take(open));
        self.full.pop_front().or_else(|| open(&mut self.open))
    }

    /// Rows in all, those of batches that were taken included.
    #[cfg(test)]
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Forgets a batch that was taken: it is written, or given up.
    pub(crate) fn done(&mut self, batch: &Batch) {
        self.rows -= batch.rows().len();
    }

    /// Merges what can be merged; whether there is room then.
    fn make_room(&mut self) -> bool {
        let full = if self.has_equals { self.full.iter_mut() } else { Default::default() };
        for batch in full.chain([&mut self.open]) {
            let before = batch.rows().len();
            batch.merge_all();
            self.rows -= before - batch.rows().len();
        }
        self.has_equals = false;
        self.rows < self.limits.rows
    }
}
