//! The link between a connection and the flow of its request, and the time that origins take for the request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use parking_lot::Mutex;

use crate::counts::counters::add;
use crate::http::response::Lines;

/// The sum of the times until origins begin to answer, and the origin that has answered. The task of the request is its
/// only writer.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch(AtomicU64, Mutex<Option<Box<str>>>);

/// A 1xx response on its way to the client.
#[derive(Debug)]
pub(crate) struct Interim {
    pub(crate) status: StatusCode,
    pub(crate) fields: Lines,
}

/// Messages between a connection and the flow of its request: interim responses for the client, and the notice that the
/// client has left. One task runs both sides.
#[derive(Clone, Debug, Default)]
pub(crate) struct Link(Arc<LinkState>);

#[derive(Debug, Default)]
struct LinkState {
    interims: Mutex<Vec<Interim>>,
    /// Whether there are interim responses, readable without the lock.
    has_interims: AtomicBool,
    /// Whether the client does not understand interim responses of origins.
    is_plain: bool,
    has_left: AtomicBool,
    may_pause: AtomicBool,
    /// Whether the client waits for `100 Continue` before it sends content.
    is_expecting: AtomicBool,
}

/// The time for which the answer to `Expect: 100-continue` is left to the origin, as many origins send none. Most clients
/// send their content after a second in any case.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// The most interim responses that are queued. Further ones are dropped: they are announcements, and the final response
/// follows.
const INTERIMS: usize = 16;

impl Stopwatch {
    pub(crate) fn add(&self, time: Duration) {
        // At least 1 ns, so that the sum shows that an origin was asked.
        add(&self.0, time.as_nanos().max(1) as u64);
    }

    /// Notes the origin that has answered.
    pub(crate) fn answered_by(&self, origin: &str) {
        *self.1.lock() = Some(origin.into());
    }

    /// Takes the name of the origin that has answered.
    pub(crate) fn take_name(&self) -> Option<Box<str>> {
        self.1.lock().take()
    }

    /// Returns the sum in microseconds, at most `u32::MAX`.
    pub(crate) fn micros(&self) -> u32 {
        u32::try_from(self.0.load(Ordering::Relaxed) / 1000).unwrap_or(u32::MAX)
    }

    /// Returns the sum; `None` if no origin was asked.
    pub(crate) fn sum(&self) -> Option<Duration> {
        Some(Duration::from_nanos(self.0.load(Ordering::Relaxed))).filter(|time| !time.is_zero())
    }
}

impl Link {
    /// Creates the link of a client that understands interim responses if `http11`.
    pub(crate) fn new(http11: bool) -> Self {
        Self(Arc::new(LinkState { is_plain: !http11, ..LinkState::default() }))
    }

    /// Queues an interim response of this proxy.
    pub(crate) fn push(&self, interim: Interim) {
        let mut interims = self.0.interims.lock();
        if interims.len() < INTERIMS {
            interims.push(interim);
            self.0.has_interims.store(true, Ordering::Relaxed);
        }
    }

    /// Queues an interim response of an origin, if the client understands it.
    pub(crate) fn forward(&self, interim: Interim) {
        if interim.status == StatusCode::CONTINUE {
            self.expects(false);
        }
        if !self.0.is_plain {
            self.push(interim);
        }
    }

    /// Records whether the client waits for `100 Continue` before it sends content (RFC 9110 section 10.1.1).
    pub(crate) fn expects(&self, is_expecting: bool) {
        self.0.is_expecting.store(is_expecting, Ordering::Relaxed);
    }

    /// Whether the client waits for `100 Continue`.
    pub(crate) fn is_expecting(&self) -> bool {
        self.0.is_expecting.load(Ordering::Relaxed)
    }

    /// Sends the client the `100 Continue` for which it waits, if no origin has sent one.
    pub(crate) async fn proceed(&self) {
        if self.0.is_expecting.swap(false, Ordering::Relaxed) {
            self.push(Interim { status: StatusCode::CONTINUE, fields: Lines::default() });
            // The task, which runs both sides, sends it when it is polled again.
            tokio::task::yield_now().await;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.0.has_interims.load(Ordering::Relaxed)
    }

    pub(crate) fn take(&self) -> Vec<Interim> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut interims = self.0.interims.lock();
        self.0.has_interims.store(false, Ordering::Relaxed);
        std::mem::take(&mut interims)
    }

    /// Records that the client has left. The waiting flow has to be polled again.
    pub(crate) fn leave(&self) {
        self.0.has_left.store(true, Ordering::Relaxed);
    }

    /// Lets the client pause in its content as long as in a tunnel: its origin reads and writes independently.
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
