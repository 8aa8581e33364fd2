//! The rows that wait to be written, with a limit.
//!
//! Requests may arrive faster than a database writes, or while it is down. Up to `rate` rows a second, each
//! request has a separate row. Beyond that, equal requests share one. At the limit all equal rows of a second
//! are merged, and rows that still do not fit are dropped.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::batch::Batch;
use crate::row::Row;

pub(crate) struct Backlog {
    full: VecDeque<Batch>,
    open: Batch,
    /// The time at which the first row of the open batch arrived.
    since: Instant,
    /// Rows in all batches, including those that were taken and not yet written.
    rows: usize,
    /// Whether full batches may contain equal rows.
    has_equals: bool,
    limits: Limits,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The most rows in total.
    pub(crate) rows: usize,
    /// The rows of a second beyond which equal ones are merged.
    pub(crate) rate: u32,
    /// The rows of a full batch.
    pub(crate) batch: usize,
    /// The time for which a batch stays open.
    pub(crate) delay: Duration,
}

impl Backlog {
    pub(crate) fn new(limits: Limits, now: Instant) -> Self {
        Self { full: VecDeque::new(), open: Batch::default(), since: now, rows: 0, has_equals: false, limits }
    }

    /// Adds a row. Returns false if there is no room for it.
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

    /// Returns the batch to write next, if one is full or has waited long enough; with `at_once`, without waiting.
    pub(crate) fn take(&mut self, now: Instant, at_once: bool) -> Option<Batch> {
        let is_due = at_once || now.saturating_duration_since(self.since) >= self.limits.delay;
        let open = |open: &mut Batch| (is_due && !open.is_empty()).then(|| std::mem::take(open));
        self.full.pop_front().or_else(|| open(&mut self.open))
    }

    /// Returns the rows in total, including those of taken batches.
    #[cfg(test)]
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Removes a taken batch from the count: it was written, or given up.
    pub(crate) fn done(&mut self, batch: &Batch) {
        self.rows -= batch.rows().len();
    }

    /// Merges equal rows; returns whether there is room then.
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
