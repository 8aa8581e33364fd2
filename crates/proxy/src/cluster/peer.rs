//! The state of requests to another node, shared by all workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::base::clock;
use crate::base::settings::Origin;

/// The state of requests to a node.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    in_flight: AtomicU64,
    pub(super) life: Life,
}

impl Peer {
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Whether requests are sent to it.
    pub(crate) fn is_well(&self) -> bool {
        !self.life.is_lost()
    }
}

/// Counts a request as in flight at a node, until it is dropped.
pub(crate) struct PeerLoad(Arc<Peer>);

impl PeerLoad {
    pub(super) fn at(peer: &Arc<Peer>) -> Self {
        peer.in_flight.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(peer))
    }

    /// Ends the count, and returns the node.
    pub(super) fn peer(self) -> Arc<Peer> {
        Arc::clone(&self.0)
    }
}

impl Drop for PeerLoad {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Another node, which is to be asked.
pub(super) struct OwnerNode {
    pub(super) busy: PeerLoad,
    /// The identifier of the process.
    pub(super) id: String,
    pub(super) origin: Origin,
    /// Whether it drains: it is asked for what it has stored, and for nothing else.
    pub(super) drains: bool,
}

impl OwnerNode {
    pub(super) fn life(&self) -> &Life {
        &self.busy.0.life
    }
}

/// The liveness of a node.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// When it last answered (`clock::millis`).
    heard: AtomicU64,
    /// Whether a request is probing it.
    asked: AtomicBool,
    /// The time since which it gets no requests because it did not answer (`clock::millis`); 0 if it gets requests.
    lost_since: AtomicU64,
}

impl Life {
    pub(super) fn is_lost(&self) -> bool {
        self.lost_since.load(Ordering::Relaxed) != 0
    }

    /// Returns how long it has got no requests; `None` if it gets requests.
    pub(super) fn lost_for(&self) -> Option<Duration> {
        let since = self.lost_since.load(Ordering::Relaxed);
        (since != 0).then(|| Duration::from_millis(clock::millis().saturating_sub(since)))
    }

    /// Stops requests to it; returns false if it gets none already.
    pub(super) fn lose(&self) -> bool {
        let now = clock::millis().max(1);
        self.lost_since.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Lets it get requests again.
    pub(super) fn restore(&self) {
        self.lost_since.store(0, Ordering::Relaxed);
    }

    /// Records that it has answered.
    pub(super) fn heard(&self) {
        self.heard.store(clock::millis(), Ordering::Relaxed);
    }

    /// Whether it has not answered for this `time`.
    pub(super) fn is_silent(&self, time: Duration) -> bool {
        clock::millis().saturating_sub(self.heard.load(Ordering::Relaxed)) >= time.as_millis() as u64
    }

    /// Returns the turn to probe, unless another request has it.
    pub(super) fn turn(&self) -> Option<ProbeTurn<'_>> {
        (!self.asked.swap(true, Ordering::Relaxed)).then_some(ProbeTurn(self))
    }
}

/// A turn to probe, until it is dropped.
pub(super) struct ProbeTurn<'l>(&'l Life);

impl Drop for ProbeTurn<'_> {
    fn drop(&mut self) {
        self.0.asked.store(false, Ordering::Relaxed);
    }
}
