//! `GET /cluster`: the cluster from the view of this node. `POST /cluster/drain` and `/cluster/resume`: take keys from
//! a node, and return them.

use http::{Response, StatusCode};
use serde::Serialize;

use super::query::Query;
use super::{Answer, TEXT, json, plain, response};
use crate::cluster::{Cluster, ClusterReport};
use crate::flow::worker::Shared;

/// The new state of a node.
#[derive(Debug, Serialize)]
struct Told<'t> {
    node: &'t str,
    draining: bool,
}

/// Answers a request for `path`.
pub(super) async fn answer(shared: &Shared, path: &str, query: Option<&str>) -> Response<Answer> {
    let refuse = |status, why: String| response(status, TEXT, format!("{why}\n").into());
    let Some(cluster) = shared.cluster.as_deref() else {
        return refuse(StatusCode::NOT_FOUND, "there is no cluster: [cluster] has no engine".to_owned());
    };
    if path == "/cluster" {
        return plain(query, || ClusterReport::of(cluster));
    }
    let drains = path == "/cluster/drain";
    let node = match node(cluster, query, drains) {
        Ok(node) => node,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, why),
    };
    match cluster.drain(&node, drains).await {
        Ok(()) => json(&Told { node: &node, draining: drains }),
        Err(error) => refuse(StatusCode::SERVICE_UNAVAILABLE, format!("the engine does not answer: {error}")),
    }
}

/// Returns the node that `query` names. A node that is gone can be resumed, but not drained.
fn node(cluster: &Cluster, query: Option<&str>, drains: bool) -> Result<String, String> {
    let query = Query::read(query, &["node"])?;
    let node = query.get("node").filter(|node| !node.is_empty()).ok_or("no node: write node=NAME")?;
    let view = cluster.members.view();
    let names: Vec<_> = view.nodes.iter().map(|node| node.name.as_str()).collect();
    match names.contains(&node) || !drains {
        true => Ok(node.to_owned()),
        false => Err(format!("unknown node '{}'; known: {}", node.escape_debug(), names.join(", "))),
    }
}
