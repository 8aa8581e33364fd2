//! Predictions of the next requests of clients, and marks of prefetched responses.

use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use larder_predict::{Figures, Planner, Predictor};
use larder_words::with_defaults;
use parking_lot::Mutex;
use serde::Serialize;

use crate::base::clock;

/// Slots for the marks of prefetched responses. If two keys share a slot, it holds the later one.
const MARKS: usize = 4_096;

with_defaults! {
    /// The planner of prefetches. It is allocated with the first request of a site that has prefetches.
    pub struct Prefetches {
        planner: Mutex<Option<Box<Planner>>> = Mutex::default(),
        hasher: RandomState = RandomState::new(),
        /// By slot: the upper half of a key's hash, and the second in which its response was prefetched.
        marks: Box<[AtomicU64]> = (0..MARKS).map(|_| AtomicU64::default()).collect(),
    }
}

/// The counts of prefetches so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PrefetchTotals {
    /// Prefetches by [`Predictor::Association`].
    pub(crate) association: PrefetchCounts,
    /// Prefetches by [`Predictor::Sequence`].
    pub(crate) sequence: PrefetchCounts,
}

/// The counts of one kind of prefetches so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PrefetchCounts {
    /// Prefetches that were started.
    pub started: u64,
    /// Prefetches that were not sent because no permit was free.
    pub(crate) unsent: u64,
    /// Prefetches whose response a client requested within a minute.
    pub used: u64,
    /// Prefetches whose response no client requested.
    pub unused: u64,
    /// Prefetches whose response may not be stored.
    pub refused: u64,
    /// The share of used prefetches among those whose use is known, 0 to 1.
    pub(crate) precision: f64,
    /// Bytes of content that were prefetched.
    pub bytes: u64,
    /// Bytes of prefetched content that no client requested.
    pub unused_bytes: u64,
    /// Sites for which these prefetches are off at present, since too few were of use.
    pub off: u64,
}

impl Prefetches {
    /// Runs `work` on the planner, under its lock.
    pub(crate) fn plan<T>(&self, work: impl FnOnce(&mut Planner) -> T) -> T {
        work(self.planner.lock().get_or_insert_default())
    }

    /// Returns a copy of what the planner has learned, for the next process; empty without a planner.
    pub fn copy(&self) -> Vec<u8> {
        self.planner.lock().as_ref().map(|planner| planner.copy()).unwrap_or_default()
    }

    /// Takes such a copy. Returns `None`, and changes nothing, if it is malformed.
    pub fn restore(&self, copy: &[u8]) -> Option<()> {
        if copy.is_empty() { Some(()) } else { self.plan(|planner| planner.restore(copy)) }
    }

    /// Returns a hash that identifies a client: by its address, or by the /64 of an IPv6 address.
    pub(crate) fn client(&self, address: IpAddr) -> u64 {
        match address.to_canonical() {
            IpAddr::V4(address) => self.hash(address),
            IpAddr::V6(address) => self.hash(u128::from(address) >> 64),
        }
    }

    /// Returns a hash that attackers cannot predict.
    pub(crate) fn hash(&self, value: impl Hash) -> u64 {
        self.hasher.hash_one(value)
    }

    /// Marks the response with this hash of its key as prefetched, and received in this second (UNIX).
    pub(crate) fn mark(&self, hash: u64, received: u32) {
        let (place, stamp) = self.place(hash, received);
        place.store(stamp, Ordering::Relaxed);
    }

    /// Whether the response that was received in this second came by a prefetch, as far as the marks remember.
    pub(crate) fn is_marked(&self, hash: u64, received: u32) -> bool {
        let (place, stamp) = self.place(hash, received);
        place.load(Ordering::Relaxed) == stamp
    }

    /// Returns the counts so far.
    pub fn figures(&self) -> PrefetchTotals {
        let mut planner = self.planner.lock();
        let Some(planner) = planner.as_mut() else { return PrefetchTotals::default() };
        let mut done = |kind| PrefetchCounts::from(planner.figures(kind, clock::millis()));
        PrefetchTotals { association: done(Predictor::Association), sequence: done(Predictor::Sequence) }
    }

    fn place(&self, hash: u64, second: u32) -> (&AtomicU64, u64) {
        let stamp = (hash >> 32 << 32) | u64::from(second);
        (&self.marks[hash as usize % MARKS], stamp)
    }
}

impl PrefetchTotals {
    /// Returns the counts of each kind, with its name.
    pub fn each(&self) -> [(&'static str, PrefetchCounts); 2] {
        [(Predictor::Association.name(), self.association), (Predictor::Sequence.name(), self.sequence)]
    }
}

impl From<Figures> for PrefetchCounts {
    fn from(figures: Figures) -> Self {
        let precision = figures.precision().unwrap_or_default();
        let Figures { started, unsent, used, unused, refused, bytes, unused_bytes, off } = figures;
        Self { started, unsent, used, unused, refused, precision, bytes, unused_bytes, off }
    }
}
