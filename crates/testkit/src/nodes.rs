//! The nodes of a test's cluster.

use std::net::SocketAddr;

use serde_json::Value;

use crate::engine::Engine;
use crate::{Larder, Origin, eventually, site};

/// Starts a node called `name` in the cluster of `engine`, in front of `origin`, with more keys of `[cluster]`.
pub fn node(engine: &Engine, origin: &Origin, name: &str, keys: &str) -> Larder {
    node_by(&engine.url(), origin, name, keys)
}

/// Starts a node in the cluster of the engine at `url`.
pub fn node_by(url: &str, origin: &Origin, name: &str, keys: &str) -> Larder {
    Larder::start(&config(url, origin, name, keys))
}

/// Returns the config file of a node.
pub fn config(url: &str, origin: &Origin, name: &str, keys: &str) -> String {
    let cluster = format!(
        "[cluster]\nengine = '{url}'\nnode = '{name}'\nlisten = '127.0.0.1:0'\nheartbeat = '50ms'\ndrop_out = '2s'\n{keys}\n"
    );
    format!("{cluster}{}", site(&[origin], ""))
}

/// Starts three nodes, `a`, `b` and `c`, and waits until they know each other.
pub fn three(engine: &Engine, origin: &Origin, keys: &str) -> Vec<Larder> {
    let nodes: Vec<_> = ["a", "b", "c"].map(|name| node(engine, origin, name, keys)).into();
    wait_for(&nodes, &["a", "b", "c"]);
    nodes
}

/// Waits until each of `nodes` sees exactly the nodes with these names.
pub fn wait_for(nodes: &[Larder], names: &[&str]) {
    for node in nodes {
        eventually(&format!("{names:?} in the cluster"), || (names_of(node) == names).then_some(()));
    }
}

/// Returns the names of the nodes that `node` sees.
pub fn names_of(node: &Larder) -> Vec<String> {
    let nodes = cluster(node)["nodes"].clone();
    let name = |node: &Value| node["name"].as_str().expect("a name").to_owned();
    nodes.as_array().expect("a list").iter().map(name).collect()
}

/// Returns the response to `GET /cluster`.
pub fn cluster(node: &Larder) -> Value {
    serde_json::from_slice(&node.ask_admin("GET /cluster").body).expect("json")
}

/// Returns one of the counters of requests to other nodes.
pub fn asked(node: &Larder, name: &str) -> u64 {
    cluster(node)["peers"][name].as_u64().expect("a number")
}

/// Returns the address at which other nodes connect to this one.
pub fn peer_address(node: &Larder) -> SocketAddr {
    node.find_door("peers").unwrap_or_else(|| node.door("peers, TLS"))
}

/// The config keys of nodes that connect over TLS, authenticated by their token.
pub const OVER_TLS: &str = "token = '0123456789abcdef'\ntls = 'token'";
