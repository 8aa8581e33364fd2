//! The nodes of a test's cluster.

use std::net::SocketAddr;

use serde_json::Value;

use crate::engine::Engine;
use crate::support::{Larder, Origin, eventually, site};

/// Starts a node called `name` in the cluster of `engine`, before `origin`, with more keys of `[cluster]`.
pub(crate) fn node(engine: &Engine, origin: &Origin, name: &str, keys: &str) -> Larder {
    node_by(&engine.url(), origin, name, keys)
}

/// Starts a node like [`node`], in the cluster of the engine at `url`.
pub(crate) fn node_by(url: &str, origin: &Origin, name: &str, keys: &str) -> Larder {
    Larder::start(&config(url, origin, name, keys))
}

/// Returns the config file of a node.
pub(crate) fn config(url: &str, origin: &Origin, name: &str, keys: &str) -> String {
    let cluster = format!(
        "[cluster]\nengine = '{url}'\nnode = '{name}'\nlisten = '127.0.0.1:0'\nheartbeat = '50ms'\ndrop_out = '2s'\n{keys}\n"
    );
    format!("{cluster}{}", site(&[origin], ""))
}

/// Starts three nodes, `a`, `b` and `c`, and waits until they see each other.
pub(crate) fn three(engine: &Engine, origin: &Origin, keys: &str) -> Vec<Larder> {
    let nodes: Vec<_> = ["a", "b", "c"].map(|name| node(engine, origin, name, keys)).into();
    wait_for(&nodes, &["a", "b", "c"]);
    nodes
}

/// Waits until each of `nodes` sees exactly the nodes `names`.
pub(crate) fn wait_for(nodes: &[Larder], names: &[&str]) {
    for node in nodes {
        eventually(&format!("{names:?} in the cluster"), || (names_of(node) == names).then_some(()));
    }
}

/// Returns the names of the nodes that `node` sees.
pub(crate) fn names_of(node: &Larder) -> Vec<String> {
    let nodes = cluster(node)["nodes"].clone();
    let name = |node: &Value| node["name"].as_str().expect("a name").to_owned();
    nodes.as_array().expect("a list").iter().map(name).collect()
}

/// Returns the response to `GET /cluster`.
pub(crate) fn cluster(node: &Larder) -> Value {
    serde_json::from_slice(&node.ask_admin("GET /cluster").body).expect("json")
}

/// Returns a count of the requests of `node` to other nodes.
pub(crate) fn asked(node: &Larder, name: &str) -> u64 {
    cluster(node)["peers"][name].as_u64().expect("a number")
}

/// Returns the address by which other nodes reach it.
pub(crate) fn peer_address(node: &Larder) -> SocketAddr {
    node.find_door("peers").unwrap_or_else(|| node.door("peers, TLS"))
}

/// The keys of nodes that reach each other over TLS, by their token.
pub(crate) const OVER_TLS: &str = "token = '0123456789abcdef'\ntls = 'token'";
