//! Looks for a response in the second tier before a request is sent to an origin, and counts the result.

use larder_store::Entry;
use larder_store::tier::Query;

use super::lookup::{TierLookup, TierMiss};
use crate::cluster::Cluster;

/// Returns the second tier's response to `query`.
pub(super) async fn recall(cluster: &Cluster, query: Query<'_>) -> Option<Entry> {
    let Query { key, signature, is_for_node, fill, .. } = query;
    let (tier, room) = cluster.tier_for(key, is_for_node).zip(fill)?;
    if !tier.reads.admits() {
        tier.figures.lock().skipped += 1;
        return None;
    }
    tier.figures.lock().asked += 1;
    let ordered = cluster.invalidations.stream.ordered();
    let found = TierLookup { cluster, tier, key, signature }.response(room).await;
    tier.reads.went(match &found {
        Err(TierMiss::Failed(error)) => Err(error),
        _ => Ok(()),
    });
    let found = match found {
        // Purges of this node that came meanwhile need not be in the stream yet.
        Ok(_) if ordered.is_none() || ordered != cluster.invalidations.stream.ordered() => {
            Err(TierMiss::Unpublished)
        }
        found => found,
    };
    let mut figures = tier.figures.lock();
    match &found {
        Ok(_) => figures.hits += 1,
        Err(unfit) => {
            tracing::debug!("second tier: {}: {unfit}", cluster.record(key, &[]));
            match unfit.result() {
                "outdated" => figures.outdated += 1,
                "damaged" => figures.damaged += 1,
                "failed" => figures.failed += 1,
                _ => {}
            }
        }
    }
    found.ok()
}
