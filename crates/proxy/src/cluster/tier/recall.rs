//! Looks for a response in the second tier before a request is sent to an origin, and counts the result.

use std::sync::atomic::Ordering;

use larder_store::Entry;
use larder_store::fill::FillWriter;

use super::reading::{Reading, Unfit};
use crate::cache::Cache;
use crate::cluster::Cluster;
use crate::exchange::request::Request;

/// Returns the second tier's response for `request`, whose fill `writer` leads.
pub(crate) async fn recall(
    cluster: &Cluster,
    cache: &Cache,
    request: &Request,
    writer: &mut FillWriter,
) -> Option<Entry> {
    let tier = cluster.tier_for(request)?;
    let figures = &tier.figures;
    if !tier.reads.admits() {
        figures.skipped.fetch_add(1, Ordering::Relaxed);
        return None;
    }
    figures.asked.fetch_add(1, Ordering::Relaxed);
    let ordered = cluster.invalidations.stream.ordered();
    let found = Reading { cluster, tier, request }.response(cache, writer).await;
    tier.reads.went(match &found {
        Err(Unfit::Failed(error)) => Err(error),
        _ => Ok(()),
    });
    let found = match found {
        // Purges of this node that came meanwhile need not be in the stream yet.
        Ok(_) if ordered.is_none() || ordered != cluster.invalidations.stream.ordered() => {
            Err(Unfit::Unpublished)
        }
        found => found,
    };
    let count = match &found {
        Ok(_) => &figures.hits,
        Err(unfit) => {
            tracing::debug!("{}: second tier: {unfit}", request.logged_url());
            match unfit.result() {
                "outdated" => &figures.outdated,
                "damaged" => &figures.damaged,
                "failed" => &figures.failed,
                _ => return None,
            }
        }
    };
    count.fetch_add(1, Ordering::Relaxed);
    found.ok()
}
