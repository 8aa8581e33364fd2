//! Purges of this node that the other nodes have to obey.

use std::collections::VecDeque;
use std::sync::Arc;

use http::HeaderValue;
use larder_cluster::message::Order;
use larder_semantics::purge::{Effect, Scope};

use super::Cluster;
use super::stream::{PublishGuard, parts};

/// Records that a purge is about to be put in force; the caller publishes it to the other nodes next ([`UnpublishedPurges`]).
pub(crate) fn telling(cluster: Option<&Cluster>) -> Option<PublishGuard<'_>> {
    cluster.map(|cluster| cluster.invalidations.stream.telling())
}

/// Purges that have to be published to the other nodes. If this value is dropped before, they are published later.
pub(crate) struct UnpublishedPurges<'s> {
    cluster: Option<&'s Arc<Cluster>>,
    orders: VecDeque<Order>,
}

/// Collects these purges for publication to the other nodes.
pub(crate) fn untold<'s>(
    cluster: Option<&'s Arc<Cluster>>,
    purges: &[(Effect, &[Scope])],
) -> UnpublishedPurges<'s> {
    let purges = purges.iter().filter(|(_, scopes)| cluster.is_some() && !scopes.is_empty());
    UnpublishedPurges {
        cluster,
        orders: purges.map(|(effect, scopes)| Order::Purge(*effect, scopes.to_vec())).collect(),
    }
}

impl UnpublishedPurges<'_> {
    /// Publishes purges, which are in force here, to the other nodes, and returns when they are in the stream, if they
    /// can be. Returns the field line which ensures that a client that moves to another node gets no older response;
    /// `None` if there are no purges, or if one is not in the stream.
    pub(crate) async fn tell(mut self) -> Option<HeaderValue> {
        let cluster = self.cluster?;
        let (mut last, mut is_told) = (None, true);
        while let Some(order) = self.orders.pop_front() {
            parts(order.clone()).iter().for_each(|part| cluster.invalidations.in_force(part));
            match cluster.tell(order).await {
                Ok(point) => last = Some(point),
                Err(error) => {
                    tracing::debug!("purges reach other nodes late: {error}");
                    is_told = false;
                }
            }
        }
        last.filter(|_| is_told).map(|point| cluster.shown(&point))
    }
}

impl Drop for UnpublishedPurges<'_> {
    fn drop(&mut self) {
        if let Some(cluster) = self.cluster {
            self.orders.drain(..).for_each(|order| cluster.tell_later(order));
        }
    }
}
