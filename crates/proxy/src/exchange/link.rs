//! What a connection and the flow tell each other while a request waits, and how long origins take for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;

use crate::http::response::Lines;

/// Sums the times that origins take until they begin to answer.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch(AtomicU64);

/// A 1xx response on its way to the client.
#[derive(Debug)]
pub(crate) struct Interim {
    pub(crate) status: StatusCode,
    pub(crate) fields: Lines,
}

/// What a connection and the flow tell each other while a request waits: interim responses one way, and that the client
/// has left the other. One task does both.
#[derive(Clone, Debug, Default)]
pub(crate) struct Link(Arc<Ends>);

#[derive(Debug, Default)]
struct Ends {
    interims: Mutex<Vec<Interim>>,
    /// The client does not understand those of origins.
    is_plain: bool,
    has_left: AtomicBool,
    may_pause: AtomicBool,
}

/// More than these are dropped: they announce, and the answer itself goes on.
const INTERIMS: usize = 16;

impl Stopwatch {
    pub(crate) fn add(&self, time: Duration) {
        // Who was asked took time, however little.
        self.0.fetch_add(time.as_nanos().max(1) as u64, Ordering::Relaxed);
    }

    /// The sum, in microseconds, as far as 32 bits count.
    pub(crate) fn micros(&self) -> u32 {
        u32::try_from(self.0.load(Ordering::Relaxed) / 1000).unwrap_or(u32::MAX)
    }

    /// The sum; `None` if none was asked.
    pub(crate) fn sum(&self) -> Option<Duration> {
        Some(Duration::from_nanos(self.0.load(Ordering::Relaxed))).filter(|time| !time.is_zero())
    }
}

impl Link {
    /// For a client that understands interim responses, or not.
    pub(crate) fn new(http11: bool) -> Self {
        Self(Arc::new(Ends { is_plain: !http11, ..Ends::default() }))
    }

    /// An interim response of ours.
    pub(crate) fn push(&self, interim: Interim) {
        let mut interims = self.interims();
        if interims.len() < INTERIMS {
            interims.push(interim);
        }
    }

    /// An interim response of an origin's.
    pub(crate) fn forward(&self, interim: Interim) {
        if !self.0.is_plain {
            self.push(interim);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.interims().is_empty()
    }

    pub(crate) fn take(&self) -> Vec<Interim> {
        std::mem::take(&mut self.interims())
    }

    fn interims(&self) -> MutexGuard<'_, Vec<Interim>> {
        self.0.interims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that the client has left. Whatever waits is to be polled again.
    pub(crate) fn leave(&self) {
        self.0.has_left.store(true, Ordering::Relaxed);
    }

    /// Lets the client pause in its content as long as in a tunnel: its origin takes both directions as they come.
    pub(crate) fn let_pause(&self) {
        self.0.may_pause.store(true, Ordering::Relaxed);
    }

    pub(crate) fn may_pause(&self) -> bool {
        self.0.may_pause.load(Ordering::Relaxed)
    }

    pub(super) fn has_left(&self) -> bool {
        self.0.has_left.load(Ordering::Relaxed)
    }
}
