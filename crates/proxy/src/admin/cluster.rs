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
    let node = match node(query) {
        Ok(node) => node,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, why),
    };
    let missing = missing(cluster, &node);
    if let Some(why) = missing.as_ref().filter(|_| drains) {
        return refuse(StatusCode::BAD_REQUEST, why.clone());
    }
    match (cluster.drain(&node, drains).await, missing) {
        // A node that is gone can be resumed if it was drained before.
        (Ok(false), Some(why)) => refuse(StatusCode::BAD_REQUEST, why),
        (Ok(_), _) => json(&Told { node: &node, draining: drains }),
        (Err(error), _) => {
            refuse(StatusCode::SERVICE_UNAVAILABLE, format!("the engine does not answer: {error}"))
        }
    }
}

/// Returns the name of the node in `query`.
fn node(query: Option<&str>) -> Result<String, String> {
    let query = Query::read(query, &["node"])?;
    let node = query.get("node").filter(|node| !node.is_empty()).ok_or("which node? write node=NAME")?;
    Ok(node.to_owned())
}

/// Returns the message that no node has this name; `None` if one has.
fn missing(cluster: &Cluster, node: &str) -> Option<String> {
    let view = cluster.members.view();
    let names: Vec<_> = view.nodes.iter().map(|node| node.name.as_str()).collect();
    let is_known = names.contains(&node);
    (!is_known)
        .then(|| format!("no node is called '{}'; there are: {}", node.escape_debug(), names.join(", ")))
}
