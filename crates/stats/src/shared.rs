//! State that the callers and the writing thread share.

use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::figures::Figures;
use crate::sums::SumTable;
use crate::tally::Tally;
use crate::transaction::{Content, Prediction, Transaction};

/// The most requests that wait for the writing thread.
const INLET: usize = 16_384;
/// The most predictions that wait for it: those of some days.
const PREDICTIONS: usize = 4_096;
/// The number of waiting requests that wakes the writing thread early.
const WAKE: usize = INLET / 4;

pub(crate) struct WriterState {
    inlet: Mutex<Inlet>,
    /// The tallies in which threads sum requests.
    tallies: Mutex<Vec<Tally>>,
    contents: Mutex<Option<Vec<Content>>>,
    predictions: Mutex<Vec<Prediction>>,
    /// What the writing thread did.
    done: Mutex<Figures>,
    wake: Notify,
    closed: Notify,
    /// The deadline for the last writes, once the recorder is being closed.
    closing: Mutex<Option<Instant>>,
}

struct Inlet {
    waiting: Vec<Transaction>,
    recorded: u64,
    /// Requests that found the inlet full, or closed.
    refused: u64,
    is_closed: bool,
}

impl WriterState {
    pub(crate) fn new() -> Self {
        let inlet = Inlet { waiting: Vec::with_capacity(INLET), recorded: 0, refused: 0, is_closed: false };
        Self {
            inlet: Mutex::new(inlet),
            tallies: Mutex::default(),
            contents: Mutex::default(),
            predictions: Mutex::default(),
            done: Mutex::default(),
            wake: Notify::new(),
            closed: Notify::new(),
            closing: Mutex::default(),
        }
    }

    /// Adds a request; the lock is held while its fields are copied.
    pub(crate) fn put(&self, transaction: Transaction) {
        let mut inlet = self.inlet.lock();
        inlet.recorded += 1;
        if inlet.waiting.len() == INLET || inlet.is_closed {
            inlet.refused += 1;
            // Its texts are freed after the lock is released.
            drop(inlet);
            return;
        }
        inlet.waiting.push(transaction);
        let is_time = inlet.waiting.len() == WAKE;
        drop(inlet);
        if is_time {
            self.wake.notify_one();
        }
    }

    /// Exchanges the waiting requests for an empty vector, whose memory is used again. Returns how many
    /// requests found no room until now.
    pub(crate) fn drain(&self, empty: &mut Vec<Transaction>) -> u64 {
        empty.reserve(INLET);
        let mut inlet = self.inlet.lock();
        std::mem::swap(&mut inlet.waiting, empty);
        inlet.refused
    }

    /// Creates another tally.
    pub(crate) fn tally(&self, rate: u32) -> Tally {
        let tally = Tally::new(rate);
        self.tallies.lock().push(tally.clone());
        tally
    }

    /// Passes everything summed before `second` to `take`, by means of `empty`.
    pub(crate) fn collect(&self, second: u32, empty: &mut SumTable, mut take: impl FnMut(Transaction, u64)) {
        let tallies = self.tallies.lock().clone();
        for tally in tallies {
            if tally.take(second, empty) {
                empty.drain().for_each(|(row, requests)| take(row, requests));
            }
        }
    }

    pub(crate) fn put_contents(&self, contents: Vec<Content>) {
        let before = self.contents.lock().replace(contents);
        drop(before);
        self.wake.notify_one();
    }

    pub(crate) fn take_contents(&self) -> Option<Vec<Content>> {
        self.contents.lock().take()
    }

    /// Restores contents that could not be written, unless there are newer ones.
    pub(crate) fn return_contents(&self, contents: Vec<Content>) {
        self.contents.lock().get_or_insert(contents);
    }

    pub(crate) fn put_predictions(&self, predictions: Vec<Prediction>) {
        let mut waiting = self.predictions.lock();
        waiting.extend(predictions);
        waiting.truncate(PREDICTIONS);
        drop(waiting);
        self.wake.notify_one();
    }

    pub(crate) fn take_predictions(&self) -> Vec<Prediction> {
        std::mem::take(&mut *self.predictions.lock())
    }

    pub(crate) fn close(&self, until: Instant) {
        let mut closing = self.closing.lock();
        *closing = Some(closing.map_or(until, |earlier| earlier.min(until)));
        drop(closing);
        self.wake.notify_one();
        self.closed.notify_one();
    }

    /// Refuses further requests, and counts unwritten ones as dropped.
    pub(crate) fn shut(&self) {
        let waiting = {
            let mut inlet = self.inlet.lock();
            inlet.is_closed = true;
            std::mem::take(&mut inlet.waiting)
        };
        drop(waiting);
        self.tallies.lock().iter().for_each(Tally::close);
        let queued = self.figures().queued;
        self.done().dropped += queued;
    }

    pub(crate) fn closing(&self) -> Option<Instant> {
        *self.closing.lock()
    }

    /// Waits for a call of [`WriterState::close`].
    pub(crate) async fn closed(&self) {
        self.closed.notified().await;
    }

    /// Waits until many requests have arrived, or a caller wakes the writing thread.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Returns the figures of what the writing thread did, for its additions.
    pub(crate) fn done(&self) -> MutexGuard<'_, Figures> {
        self.done.lock()
    }

    pub(crate) fn figures(&self) -> Figures {
        let inlet = self.inlet.lock();
        let counts = (inlet.recorded, inlet.refused);
        drop(inlet);
        let tallies = self.tallies.lock();
        let add = |(recorded, refused), (more, lost)| (recorded + more, refused + lost);
        let (recorded, refused) = tallies.iter().map(Tally::counts).fold(counts, add);
        let done = *self.done();
        let dropped = done.dropped + refused;
        Figures { recorded, queued: recorded.saturating_sub(done.written + dropped), dropped, ..done }
    }
}
