//! Whether what this node keeps may answer: as long as it has heard in time what was purged elsewhere.
//!
//! Beyond that everything that is stored counts as invalidated ([`distrust`]), which is worth as much time as news
//! are: what answers from then on was fetched or validated later than every purge that has gone unheard for so
//! long. So nothing watches the time. Each request compares it, which also holds in a process that was
//! stopped for a while; and the request that finds it over invalidates the stored responses before it continues.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use larder_cluster::Lag;
use larder_semantics::purge::{Effect, Scope};

use super::Cluster;
use crate::base::clock;
use crate::base::settings::cluster::{Settings, WithoutEngine};
use crate::cache::Cache;

/// Until when a node relies on what it knows.
#[derive(Debug)]
pub(crate) struct Lease {
    until: Until,
    /// The same, as far as that is because it has heard from the engine.
    heard: AtomicU64,
    lag: Lag,
    /// It relies on that without the engine, too.
    always: bool,
    /// One at a time makes up for what was not heard.
    turn: Mutex<()>,
    /// Whether it was said that the time is over.
    is_said: AtomicBool,
    distrusted: AtomicU64,
}

/// Milliseconds of [`clock::millis`]. Read by every hit; written a few times a second.
#[derive(Debug)]
#[repr(align(128))]
struct Until(AtomicU64);

impl Lease {
    pub(super) fn new(settings: &Settings) -> Self {
        let always = settings.without_engine == WithoutEngine::Serve;
        Self {
            until: Until(AtomicU64::new(if always { u64::MAX } else { 0 })),
            heard: AtomicU64::new(0),
            lag: Lag::new(settings.max_invalidation_lag),
            always,
            turn: Mutex::default(),
            is_said: AtomicBool::new(false),
            distrusted: AtomicU64::new(0),
        }
    }

    /// Whether what is stored may answer. To be asked when the request has come, and before anything is looked up.
    #[inline]
    pub(crate) fn holds(&self) -> bool {
        // Who sees the time sees what was put in force before.
        match self.until.0.load(Ordering::Acquire) {
            u64::MAX => true,
            until => clock::millis() < until,
        }
    }

    pub(super) fn lag(&self) -> Lag {
        self.lag
    }

    /// Whether it has heard of other nodes in time. Else what another one keeps is worth no more than what it keeps
    /// itself: only an origin can validate that.
    pub(crate) fn hears(&self) -> bool {
        self.always || clock::millis() < self.heard.load(Ordering::Relaxed)
    }

    /// Everything is in force that was to be heard at `asked`.
    pub(super) fn heard(&self, asked: u64) {
        self.heard.fetch_max(self.lag.until(asked), Ordering::Relaxed);
        self.extend(asked);
        if self.is_said.swap(false, Ordering::Relaxed) {
            tracing::info!("purges of other nodes are heard of again");
        }
    }

    fn extend(&self, since: u64) {
        self.until.0.fetch_max(self.lag.until(since), Ordering::Release);
    }

    /// How often everything was distrusted.
    pub(crate) fn distrusted(&self) -> u64 {
        self.distrusted.load(Ordering::Relaxed)
    }

    /// Milliseconds since this node knew all that was purged; `None` if it never has.
    pub(crate) fn age(&self) -> Option<u64> {
        let heard = self.heard.load(Ordering::Relaxed);
        (heard > 0).then(|| (clock::millis() + self.lag.until(0)).saturating_sub(heard))
    }
}

impl Cluster {
    /// Whether what is stored may answer, as far as other nodes have a say in that.
    #[inline]
    pub(crate) fn is_sure(&self) -> bool {
        self.invalidations.lease.holds()
    }
}

/// Waits until what is stored may be looked at for a request: if other nodes have not been heard of for too long,
/// everything is to be validated.
pub(crate) async fn confirm(cluster: &Arc<Cluster>, cache: &Arc<Cache>) {
    if !cluster.invalidations.lease.is_said.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            "purges of other nodes are not heard of; what is stored is validated before it is used, once in {:?}",
            cluster.settings.max_invalidation_lag
        );
    }
    let (this, held) = (Arc::clone(cluster), Arc::clone(cache));
    let confirmed = move || {
        let trust = &this.invalidations.lease;
        let _turn = trust.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if !trust.holds() {
            distrust(&this, &held);
        }
    };
    cache.on_a_thread(confirmed).await;
}

/// Lets nothing that is stored, or being fetched, answer before it was validated; no tag of a gateway counts.
pub(super) fn distrust(cluster: &Cluster, cache: &Cache) {
    let since = clock::millis();
    cache.fills.order(&[Scope::All], Effect::Invalid, clock::now());
    cache.gateways.blank_all();
    cluster.invalidations.lease.distrusted.fetch_add(1, Ordering::Relaxed);
    cluster.invalidations.lease.extend(since);
}
