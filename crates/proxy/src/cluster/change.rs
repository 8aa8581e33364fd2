//! A change that goes through this gateway, as reported to the gateways beside the same backend on other nodes.
//!
//! These gateways blank the pools that it concerns when the backend has answered it, before its client receives the
//! answer, and when the last of the answer's content is sent. That is enough. A tag that another gateway has by then
//! is blanked there. A tag that it makes of an answer in flight belongs to an earlier generation: a ticket reads the
//! generation before the backend is asked. Requests that reach the backend later are answered with the change. So
//! generations may differ between nodes, and the engine keeps none.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, StatusCode};
use larder_cluster::message::{Order, Pools};
use larder_tags::Segment;

use super::Cluster;
use crate::exchange::request::Request;
use crate::exchange::route::Route;

/// A change in progress, and the gateways that have to blank their tags.
pub(crate) struct Change {
    held: larder_tags::Change,
    others: Option<(Arc<Cluster>, Pools)>,
}

impl Change {
    pub(crate) fn new(cluster: Option<&Arc<Cluster>>, request: &Request, held: larder_tags::Change) -> Self {
        let pools = |site: &str| Pools {
            site: site.to_owned(),
            pool: match held.segment() {
                Segment::Named(name) => Some(name.to_string()),
                Segment::Anywhere => None,
            },
        };
        let others = match (cluster, &request.route) {
            (Some(cluster), Route::Site(site)) => Some((Arc::clone(cluster), pools(&site.settings.name))),
            _ => None,
        };
        Self { held, others }
    }

    /// Reports that the backend has answered, and returns when that is in the stream, if it can be. Then it returns
    /// the field line which ensures that a client that moves to another node gets no older response.
    pub(crate) async fn answered(&mut self, status: StatusCode) -> Option<HeaderValue> {
        self.held.answered(status);
        let (cluster, pools) = self.others.as_ref()?;
        match cluster.tell(self.order(pools.clone())).await {
            Ok(point) => Some(cluster.shown(&point)),
            Err(error) => {
                tracing::warn!("a change of {} reaches other gateways late: {error}", pools.site);
                None
            }
        }
    }

    /// Reports that a try got no answer and another one is in flight: the doubt begins now, here and at the other
    /// gateways.
    pub(crate) fn lost_try(&self) {
        self.held.lost_try();
        if let Some((cluster, pools)) = &self.others {
            cluster.tell_later(Order::Doubt(pools.clone()));
        }
    }

    /// Reports that the backend has not received any of the request, and never will.
    pub(crate) fn never_sent(&mut self) {
        self.held.never_sent();
        self.others = None;
    }

    /// Returns the field lines to be added to every answer.
    pub(crate) fn lines(&self) -> HeaderMap {
        self.held.lines()
    }

    fn order(&self, pools: Pools) -> Order {
        if self.held.is_over() { Order::Blank(pools) } else { Order::Doubt(pools) }
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        if let Some((cluster, pools)) = self.others.take() {
            cluster.tell_later(self.order(pools));
        }
    }
}
