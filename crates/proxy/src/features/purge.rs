//! The execution of purges from all sources.
//!
//! A purge is answered when it is in force, which takes the same time for every amount of stored data. The entries
//! that it reaches are counted and freed afterwards ([`reclaim`](crate::cache::reclaim)): memory in some tenths of a
//! second for each 100,000 objects, the disks at the pace of the [schedule](crate::base::schedule). Only clients that
//! request the count wait for it. The entries of a purge of URLs are found without a search and counted at once, unless rules
//! store them in partitions.
//! [`crate::admin`] and [`crate::features::purge_method`] decide which clients may purge.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use larder_cluster::message::Order;
use larder_semantics::purge::{Effect, Scope};
use larder_store::reclaim::{Count, ReclaimCount};
use serde::Serialize;
use tokio::sync::oneshot;
use tokio::task::JoinError;

use crate::base::clock;
use crate::cache::Cache;
use crate::cache::reclaim::CountedTiers;
use crate::cluster::acknowledge::Nodes;
use crate::cluster::publish;
use crate::features::edges::{self, EdgePurges, Queries};
use crate::flow::worker::ProcessState;

mod scopes;

#[cfg(fuzzing)]
pub use scopes::glob_of_purge;
pub use scopes::{ScopeKind, add_ruled};

/// The scopes of a purge, and its options.
#[derive(Debug)]
pub struct PurgeRequest {
    /// What is purged.
    pub scopes: Vec<Scope>,
    /// Whether it is removed, or has to be revalidated.
    pub effect: Effect,
    /// Whether the answer waits until the entries in memory have been counted; with `waits`, also those on the disks.
    pub counts: bool,
    /// Whether the answer waits for the other nodes.
    pub waits: bool,
    /// The longest wait for the other nodes.
    pub patience: Duration,
    /// The same scopes for the edges; empty for a purge by the cache before this one.
    pub at_edges: Queries,
}

/// The default of the longest wait for the other nodes.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The result of a purge.
#[derive(Debug, Default, Serialize)]
pub struct PurgeResult {
    /// `stale`: the responses were marked as stale, to be revalidated; `removed`: they were removed.
    pub(crate) effect: &'static str,
    /// The number of purged responses, if they were counted. A response in both memory and on a disk counts once;
    /// each variant counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) objects: Option<u64>,
    /// The bytes of these responses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<u64>,
    /// Set if there are disks and counts. `done`: the counts include the disks; `under-way`: they do not, since the
    /// disks are still being searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disk: Option<&'static str>,
    /// The reason why there are no counts although they were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) not_counted: Option<String>,
    /// The results on the nodes of the cluster, if this node is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nodes: Option<Nodes>,
    /// The results at the edges, if there are edges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) edges: Option<EdgePurges>,
    /// The position of the purge in the stream of purges, as clients show it.
    #[serde(skip)]
    pub position: Option<HeaderValue>,
}

impl PurgeResult {
    fn by(effect: Effect) -> Self {
        Self { effect: if effect == Effect::Remove { "removed" } else { "stale" }, ..Self::default() }
    }

    /// Adds the reason why a purge that is in force was not counted.
    fn not_counted(self, why: String) -> Self {
        Self { not_counted: Some(why), disk: None, ..self }
    }

    fn counted(self, ReclaimCount { objects, bytes }: ReclaimCount) -> Self {
        Self { objects: Some(objects), bytes: Some(bytes), ..self }
    }
}

impl fmt::Display for PurgeResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { effect, objects, bytes, disk, .. } = self;
        match (objects, bytes) {
            (Some(objects), Some(bytes)) => {
                let plural = |number: &u64| if *number == 1 { "" } else { "s" };
                write!(f, "{objects} object{} {effect}, {bytes} byte{}", plural(objects), plural(bytes))?;
            }
            _ => write!(f, "{effect}, not counted")?,
        }
        disk.map_or(Ok(()), |disk| write!(f, ", disks {disk}"))
    }
}

/// A purge that is in force on this node.
struct PurgeInForce {
    purged: PurgeResult,
    /// Receives the count, if it is not known yet.
    counts: Option<oneshot::Receiver<ReclaimCount>>,
}

/// Purges on this node and on the other nodes, and returns the result. Errors: the task failed, and the purge was not
/// done.
pub async fn purge(shared: &Arc<ProcessState>, mut asked: PurgeRequest) -> Result<PurgeResult, JoinError> {
    asked.scopes = shared.cache.fills.with_equivalents(asked.scopes);
    let patience = asked.waits.then_some(asked.patience);
    let (at_edges, removes) = (std::mem::take(&mut asked.at_edges), asked.effect == Effect::Remove);
    let order = Order::Purge(asked.effect, asked.scopes.clone());
    // 1. The guard counts this purge as one that is not in the stream yet.
    // 2. It is put in force here and published, both at once: neither waits for the other.
    // 3. The guard ends, when the purge is in the stream or waits for the engine.
    // Between 1 and 3, this node asks no other node for a response: that node may not know of the purge, and its old
    // response would be stored here as a new one.
    let telling = publish::telling(shared.cluster.as_deref());
    let here = async {
        // Only writes to near tiers may take time.
        let begun = match shared.cache.store.has_near() {
            false => begin(&shared.cache, asked),
            true => {
                let this = Arc::clone(&shared.cache);
                tokio::task::spawn_blocking(move || begin(&this, asked)).await?
            }
        };
        Ok(begun.end().await)
    };
    let elsewhere = async {
        let _telling = telling;
        Some(shared.cluster.as_ref()?.tell(order).await)
    };
    let (here, told) = tokio::join!(here, elsewhere);
    shared.cache.twin.agree().await;
    // Only now: a fetch of an edge gets no purged response of this cache.
    let edges = edges::purge(shared, &at_edges, removes).await;
    let (mut nodes, mut position) = (None, None);
    if let (Some(cluster), Some(told)) = (&shared.cluster, &told) {
        nodes = Some(cluster.nodes(told.as_ref(), patience).await);
        position = told.as_ref().ok().map(|point| cluster.shown(point));
    }
    Ok(PurgeResult { nodes, edges, position, ..here? })
}

/// Puts a purge in force on this node, even if its entries cannot be counted.
fn begin(cache: &Arc<Cache>, asked: PurgeRequest) -> PurgeInForce {
    let is_found =
        |scope: &Scope| matches!(scope, Scope::Url(key) if !cache.store.purges.has_partitions(key));
    let begun = match asked.scopes.iter().all(is_found) {
        true => begin_with_urls(cache, asked),
        false => begin_with_more(cache, asked),
    };
    if let Err(error) = cache.store.disks.sync_purges() {
        tracing::warn!("purged responses may return after a crash of the machine: {error}");
    }
    begun
}

/// Puts a purge of URLs without partitions in force. Its entries are counted without a search, unless responses on a disk vary.
fn begin_with_urls(cache: &Arc<Cache>, asked: PurgeRequest) -> PurgeInForce {
    let PurgeRequest { scopes, effect, counts, waits, .. } = asked;
    // 1. The purge is in force: no later request uses these responses. 2. They are counted. 3. They are removed.
    // Counted before 1, a response that is stored meanwhile would be removed and missing from the count.
    let ordered = cache.fills.enforce(scopes, effect, clock::now());
    let store = &cache.store;
    let mut count = Count::of(ordered, true);
    store.count_urls(&mut count);
    let is_all = store.count_urls_on_disks(&mut count);
    let has_disks = store.has_near();
    let reached = count.reached();
    let purged = PurgeResult { disk: has_disks.then_some("done"), ..PurgeResult::by(effect) };
    if is_all {
        store.forget_pages(count.ordered());
        return PurgeInForce { purged: purged.counted(reached), counts: None };
    }
    if counts && waits {
        let counts = cache.reclaim.count_on_disks(cache, count);
        return PurgeInForce::counting(purged, counts);
    }
    store.forget_pages(count.ordered());
    if count.ordered().removes() {
        cache.reclaim.free_on_disks(cache);
    }
    PurgeInForce { purged: PurgeResult { disk: Some("under-way"), ..purged.counted(reached) }, counts: None }
}

fn begin_with_more(cache: &Arc<Cache>, asked: PurgeRequest) -> PurgeInForce {
    let PurgeRequest { scopes, effect, counts, waits, .. } = asked;
    let counted = match (counts, waits) {
        (false, _) => CountedTiers::Nowhere,
        (true, false) => CountedTiers::InMemory,
        (true, true) => CountedTiers::Everywhere,
    };
    let counts = cache.reclaim.enforce(cache, scopes, effect, counted);
    let disk = match counted {
        CountedTiers::Nowhere => return PurgeInForce { purged: PurgeResult::by(effect), counts: None },
        CountedTiers::InMemory => "under-way",
        CountedTiers::Everywhere => "done",
    };
    let disk = cache.store.has_near().then_some(disk);
    PurgeInForce::counting(PurgeResult { disk, ..PurgeResult::by(effect) }, counts)
}

impl PurgeInForce {
    /// `counts` is `None` if too many purges wait for their counts.
    fn counting(purged: PurgeResult, counts: Option<oneshot::Receiver<ReclaimCount>>) -> Self {
        match counts {
            Some(counts) => Self { purged, counts: Some(counts) },
            None => Self {
                purged: purged.not_counted("too many purges wait for their counts already".to_owned()),
                counts,
            },
        }
    }

    /// Waits for the count, if one was requested.
    async fn end(self) -> PurgeResult {
        let Self { purged, counts } = self;
        let Some(counts) = counts else { return purged };
        match counts.await {
            Ok(reached) => purged.counted(reached),
            Err(_) => purged.not_counted("no thread could count them; see the log".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_counts_one_object_as_one() {
        let table = [
            (0, 0, "0 objects stale, 0 bytes"),
            (1, 160, "1 object stale, 160 bytes"),
            (2, 1, "2 objects stale, 1 byte"),
        ];
        for (objects, bytes, text) in table {
            let purged = PurgeResult::by(Effect::Stale).counted(ReclaimCount { objects, bytes });
            assert_eq!(purged.to_string(), text);
        }
    }
}
