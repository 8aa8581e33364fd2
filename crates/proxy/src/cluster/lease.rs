//! Whether stored responses of this node may answer: as long as it has received the purges of other nodes in time.
//!
//! After that, all stored responses count as invalidated ([`distrust`]), which extends the lease by as much time as
//! news would: all answers from then on were fetched or revalidated later than every purge that was missed for so
//! long. No timer watches the lease. Each request compares its time, which also works in a process that was stopped
//! for a while. The request that finds the lease expired invalidates the stored responses before it continues.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use larder_cluster::Lag;
use larder_semantics::purge::{Effect, Scope};
use parking_lot::Mutex;

use super::Cluster;
use crate::base::clock;
use crate::base::settings::cluster::{EngineOutagePolicy, Settings};
use crate::cache::Cache;

/// The time until which a node trusts its stored responses.
#[derive(Debug)]
pub(crate) struct Lease {
    until: LeaseEnd,
    /// The part of the lease that comes from reading the stream on the engine.
    heard: AtomicU64,
    lag: Lag,
    /// Whether the node trusts its responses without the engine, too.
    always: bool,
    /// Allows one thread at a time to distrust the stored responses.
    turn: Mutex<()>,
    /// Whether the log says that the lease has expired.
    expiry_logged: AtomicBool,
    distrusted: AtomicU64,
}

/// Milliseconds of [`clock::millis`]. Every hit reads it; it is written a few times a second.
#[derive(Debug)]
#[repr(align(128))]
struct LeaseEnd(AtomicU64);

impl Lease {
    pub(super) fn new(settings: &Settings) -> Self {
        let always = settings.without_engine == EngineOutagePolicy::Serve;
        Self {
            until: LeaseEnd(AtomicU64::new(if always { u64::MAX } else { 0 })),
            heard: AtomicU64::new(0),
            lag: Lag::new(settings.max_invalidation_lag),
            always,
            turn: Mutex::default(),
            expiry_logged: AtomicBool::new(false),
            distrusted: AtomicU64::new(0),
        }
    }

    /// Whether stored responses may answer. Call it when the request has arrived, and before any lookup.
    #[inline]
    pub(crate) fn holds(&self) -> bool {
        // A thread that reads this time also sees the purges that were put in force before.
        match self.until.0.load(Ordering::Acquire) {
            u64::MAX => true,
            until => clock::millis() < until,
        }
    }

    pub(super) fn lag(&self) -> Lag {
        self.lag
    }

    /// Whether this node has received the purges of other nodes in time. If not, responses of other nodes are as
    /// doubtful as its own: only an origin can revalidate them.
    pub(crate) fn is_current(&self) -> bool {
        self.always || clock::millis() < self.heard.load(Ordering::Relaxed)
    }

    /// Extends the lease: all entries that were in the stream at `asked` are in force.
    pub(super) fn heard(&self, asked: u64) {
        self.heard.fetch_max(self.lag.until(asked), Ordering::Relaxed);
        self.extend(asked);
        if self.expiry_logged.swap(false, Ordering::Relaxed) {
            tracing::info!("purges of other nodes arrive again");
        }
    }

    fn extend(&self, since: u64) {
        self.until.0.fetch_max(self.lag.until(since), Ordering::Release);
    }

    /// Returns how often all stored responses were distrusted.
    pub(crate) fn distrusted(&self) -> u64 {
        self.distrusted.load(Ordering::Relaxed)
    }

    /// Returns milliseconds since this node last knew of all purges; `None` if it never has.
    pub(crate) fn age(&self) -> Option<u64> {
        let heard = self.heard.load(Ordering::Relaxed);
        (heard > 0).then(|| (clock::millis() + self.lag.until(0)).saturating_sub(heard))
    }
}

impl Cluster {
    /// Whether stored responses may answer, as far as it depends on other nodes.
    #[inline]
    pub(crate) fn may_serve_stored(&self) -> bool {
        self.invalidations.lease.holds()
    }
}

/// Waits until a request may look up stored responses. If this node has received no purges for too long, all
/// responses are distrusted first.
pub(crate) async fn confirm(cluster: &Arc<Cluster>, cache: &Arc<Cache>) {
    if !cluster.invalidations.lease.expiry_logged.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            "purges of other nodes do not arrive; each stored response is validated before use, once in {:?}",
            cluster.settings.max_invalidation_lag
        );
    }
    let (this, held) = (Arc::clone(cluster), Arc::clone(cache));
    let confirmed = move || {
        let trust = &this.invalidations.lease;
        let _turn = trust.turn.lock();
        if !trust.holds() {
            distrust(&this, &held);
        }
    };
    cache.on_a_thread(confirmed).await;
}

/// Forbids all stored responses, and those being fetched, to answer before they are revalidated; blanks all tags of
/// gateways.
pub(super) fn distrust(cluster: &Cluster, cache: &Cache) {
    // 1. The time is read.
    // 2. All stored responses become invalid.
    // 3. The lease is extended, counted from the time of 1.
    // A purge that another node publishes between 1 and 3 is not known here. Counted from the time of 3, the lease could
    // outlast the lag of that purge. With 3 before 2, a hit could find a lease that holds and a response that is valid.
    let since = clock::millis();
    cache.fills.order(&[Scope::All], Effect::Invalid, clock::now());
    cache.gateways.blank_all();
    cluster.invalidations.lease.distrusted.fetch_add(1, Ordering::Relaxed);
    cluster.invalidations.lease.extend(since);
}
