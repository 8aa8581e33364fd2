//! The second tier: responses that owners have fetched are also kept on the engine, where the next owner, or the same
//! one after a restart, finds them before it asks an origin.
//!
//! The cluster works without it. Requests wait for it for a short time only ([`recall`]); responses to be written
//! wait in a queue with a limit ([`keep`]); and when it fails, it is not used for a while ([`Breaker`]). It has
//! separate connections, so that heartbeats and purges do not wait behind content. `larder-cluster` defines the
//! format of responses ([`larder_cluster::record`]).
//!
//! Purged responses do not return from there: each response has the position up to which purges had been obeyed when
//! its fetch began, and its reader reads the stream from there on.

pub(crate) mod explain;
mod lookup;
pub(crate) mod recall;
pub(crate) mod writes;

use std::sync::Arc;
use std::time::Duration;

use larder_cluster::{Breaker, breaker, key_hash};
use larder_store::tier::{PendingLookup, PendingOffer, Query, Stamp};
use larder_store::{Entry, Tier, TierName};
use parking_lot::Mutex;
use redis::{FromRedisValue, Pipeline};
use serde::Serialize;

use self::writes::Queue;
use super::Cluster;
use super::engine::{Engine, EngineError, Link, refused_or_lost};
use super::members::MemberState;
use crate::base::clock;
use crate::base::settings::cluster;

/// How long the engine may take to store a value.
const STORING: Duration = Duration::from_secs(1);

/// The second tier, as one node uses it.
pub(crate) struct EngineTier {
    settings: cluster::Tier,
    reads: Side,
    writes: Side,
    queue: Queue,
    figures: Mutex<TierReport>,
}

/// Reads or writes. They are separate, so that reads do not wait behind writes, and an engine that is full still
/// answers.
struct Side {
    name: &'static str,
    patience: Duration,
    link: tokio::sync::Mutex<Option<Link>>,
    breaker: Mutex<Breaker>,
}

/// The counters of the tier, and its state as `/cluster` and the metrics show it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TierReport {
    /// The breaker of reads: `closed`, or `open` while the tier is not used, or `trying`.
    pub reads: &'static str,
    /// The breaker of writes.
    pub writes: &'static str,
    /// Requests for which the tier was asked.
    pub asked: u64,
    /// Asked requests that the tier answered.
    pub hits: u64,
    /// Asked requests with a response that had been purged, or whose purges are not known.
    pub outdated: u64,
    /// Asked requests with a response that was damaged, or not whole.
    pub damaged: u64,
    /// Asked requests without an answer in time.
    pub failed: u64,
    /// Requests for which the tier was not asked, since its breaker was open.
    pub skipped: u64,
    /// Responses that were written to it.
    pub written: u64,
    /// Bytes of these responses, as written.
    pub written_bytes: u64,
    /// Responses that were not written to it: its breaker was open, or it failed, or too many waited.
    pub dropped: u64,
    /// Responses that wait to be written.
    pub waiting: usize,
}

impl EngineTier {
    pub(super) fn new(settings: &cluster::Tier) -> Self {
        let side = |name, patience| Side {
            name,
            patience,
            link: tokio::sync::Mutex::default(),
            breaker: Mutex::default(),
        };
        Self {
            reads: side("read", settings.deadline),
            writes: side("written to", STORING.max(settings.deadline)),
            settings: settings.clone(),
            queue: Queue::default(),
            figures: Mutex::default(),
        }
    }

    pub(crate) fn report(&self) -> TierReport {
        TierReport {
            reads: self.reads.standing().word(),
            writes: self.writes.standing().word(),
            waiting: self.queue.waiting(),
            ..self.figures.lock().clone()
        }
    }
}

impl Side {
    fn standing(&self) -> breaker::BreakerState {
        self.breaker.lock().standing(clock::millis())
    }

    fn admits(&self) -> bool {
        self.breaker.lock().admits(clock::millis())
    }

    /// Reports the result of a command to the breaker.
    fn went<T>(&self, how: Result<T, &EngineError>) {
        let mut breaker = self.breaker.lock();
        match how {
            Ok(_) => {
                let was_closed = breaker.standing(clock::millis()) == breaker::BreakerState::Closed;
                breaker.succeeded();
                if !was_closed && breaker.standing(clock::millis()) == breaker::BreakerState::Closed {
                    tracing::info!("the second tier is {} again", self.name);
                }
            }
            Err(error) if breaker.failed(clock::millis()) => {
                tracing::warn!("the second tier is not {} for a while: {error}", self.name);
            }
            Err(_) => {}
        }
    }

    /// Returns the engine's answer to these commands, whose keys are in one slot.
    async fn ask<T: FromRedisValue>(&self, engine: &Engine, commands: &Pipeline) -> Result<T, EngineError> {
        let asked = async {
            let mut link = self.link(engine).await?;
            commands.query_async(&mut link).await.map_err(|error| refused_or_lost(&error))
        };
        let late = || Err(EngineError::Unreachable("no answer in time".into()));
        let answer = tokio::time::timeout(self.patience, asked).await.unwrap_or_else(|_| late());
        if matches!(answer, Err(EngineError::Unreachable(_)))
            && let Ok(mut link) = self.link.try_lock()
        {
            *link = None;
        }
        answer
    }

    async fn link(&self, engine: &Engine) -> Result<Link, EngineError> {
        let mut link = self.link.lock().await;
        if let Some(link) = &*link {
            return Ok(link.clone());
        }
        let new = engine.dedicated(self.patience).await?;
        Ok(link.insert(new).clone())
    }
}

impl Tier for Cluster {
    fn name(&self) -> TierName {
        TierName::Engine
    }

    fn find<'t>(&'t self, query: Query<'t>) -> PendingLookup<'t> {
        Box::pin(recall::recall(self, query))
    }

    fn begin(&self) -> Option<Stamp> {
        let point = self.invalidations.follower.borrow().point()?;
        Some(Stamp { log: point.engine, position: point.position.parts() })
    }

    fn offer(self: Arc<Self>, entry: &Entry, since: Option<&Stamp>) -> Option<PendingOffer> {
        let (tier, since) = self.tier.as_ref().zip(since)?;
        tier.offer(entry, since);
        None
    }

    fn forget(&self, key: &[u8], signature: &[u8]) {
        self.tier.iter().for_each(|tier| tier.forget(key, signature));
    }
}

impl Cluster {
    /// Returns the second tier, if this node may ask it for `key`: it owns the key, or stands in for the owner.
    fn tier_for(&self, key: &[u8], is_for_node: bool) -> Option<&EngineTier> {
        let tier = self.tier.as_ref().filter(|_| self.invalidations.lease.is_current())?;
        let view = self.members.view();
        let is_own = || view.owner(key).is_some_and(|owner| owner.id == self.id);
        (view.standing == MemberState::Member && (is_for_node || is_own())).then_some(tier)
    }

    /// Returns the name of the record of `key` with this `signature`. The part in braces decides the slot: a record
    /// and its chunks are on one server, and the records spread over all servers.
    fn record(&self, key: &[u8], signature: &[u8]) -> String {
        let hash = key_hash(&[key, &[0], signature].concat());
        format!("{}:content:{{{hash:016x}}}", self.settings.prefix)
    }
}

/// Returns the name of a chunk of the record called `record`.
fn chunk(record: &str, number: u64, at: usize) -> String {
    format!("{record}:{number:016x}:{at}")
}
