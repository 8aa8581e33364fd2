//! `GET /cluster`: the cluster from the view of this node. `POST /cluster/drain` and `/cluster/resume`: take keys from
//! a node, and return them. `POST /cluster/leave`: gives the keys of this node away, with its responses.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde::Serialize;
use tokio::time::Instant;

use super::purge::patience;
use super::query::Query;
use super::{Call, Outcome, Refusal, json};
use crate::cluster::members::MemberState;
use crate::cluster::{Cluster, ClusterReport};
use crate::features::departure::{self, Departure};
use crate::flow::worker::ProcessState;

/// The time for a departure by default.
const LEAVING: Duration = Duration::from_secs(30);

/// The new state of a node.
#[derive(Debug, Serialize)]
struct NodeChange<'t> {
    node: &'t str,
    draining: bool,
}

/// What became of the responses of this node.
#[derive(Debug, Serialize)]
struct NodeDeparture<'t> {
    node: &'t str,
    #[serde(flatten)]
    departure: Departure,
}

/// Returns the cluster from the view of this node.
pub(super) fn report(call: &Call<'_>) -> Outcome {
    cluster(&call.state.shared).map(|cluster| json(&ClusterReport::of(cluster)))
}

/// Takes the keys from a node, or returns them to it.
pub(super) async fn drain(call: Call<'_>, drains: bool) -> Outcome {
    let cluster = cluster(&call.state.shared)?;
    let node = node(&call.query)?;
    let missing = missing(cluster, node);
    if let Some(why) = missing.clone().filter(|_| drains) {
        return Err(why.into());
    }
    match (cluster.drain(node, drains).await, missing) {
        // A node that is gone can be resumed if it was drained before.
        (Ok(false), Some(why)) => Err(why.into()),
        (Ok(_), _) => Ok(json(&NodeChange { node, draining: drains })),
        (Err(error), _) => {
            let why = format!("the engine does not answer: {error}");
            Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why))
        }
    }
}

/// Gives the keys of this node, and the hottest of its responses, to the other nodes.
pub(super) async fn leave(call: Call<'_>) -> Outcome {
    let shared = &call.state.shared;
    let cluster = cluster(shared)?;
    let time = call.query.get("timeout").map(patience).transpose()?.unwrap_or(LEAVING);
    let standing = cluster.members.view().standing;
    if standing != MemberState::Member {
        let why = format!("this node is no member of the cluster: {}", standing.word());
        return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why));
    }
    let worker = shared.workers().first().cloned();
    let worker = worker.ok_or_else(|| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "no worker serves"))?;
    let departure = departure::leave(&worker, cluster, Instant::now() + time).await;
    let node = &*cluster.settings.node;
    Ok(json(&NodeDeparture { node, departure }))
}

fn cluster(shared: &ProcessState) -> Result<&Arc<Cluster>, Refusal> {
    let why = "there is no cluster: [cluster] has no engine";
    shared.cluster.as_ref().ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, why))
}

/// Returns the name of the node in `query`.
fn node<'q>(query: &'q Query<'_>) -> Result<&'q str, String> {
    let node = query.get("node").filter(|node| !node.is_empty());
    node.ok_or_else(|| "which node? write node=NAME".to_owned())
}

/// Returns the message that no node has this name; `None` if one has.
fn missing(cluster: &Cluster, node: &str) -> Option<String> {
    let view = cluster.members.view();
    let names: Vec<_> = view.nodes.iter().map(|node| node.name.as_str()).collect();
    let is_known = names.contains(&node);
    (!is_known)
        .then(|| format!("no node is called '{}'; there are: {}", node.escape_debug(), names.join(", ")))
}
