//! What `/cluster` shows of the cluster.

use serde::Serialize;

use super::{Cluster, engine, invalidations, peers, sealed, tier};

/// The cluster, as this node sees it.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// This node.
    pub(crate) node: String,
    /// `member`, `alone` or `name taken`.
    pub(crate) standing: &'static str,
    pub(crate) engine: engine::Report,
    pub(crate) invalidations: invalidations::Report,
    pub(crate) nodes: Vec<Node>,
    pub(crate) peers: peers::Report,
    /// What was ignored because no node wrote it.
    pub(crate) forged: sealed::Report,
    /// Of what other nodes own.
    pub(crate) copies: usize,
    /// What the engine keeps of responses, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tier: Option<tier::Report>,
}

/// A node.
#[derive(Debug, Serialize)]
pub(crate) struct Node {
    name: String,
    is_self: bool,
    advertise: String,
    weight: u16,
    /// Of the keys, 0 to 1.
    share: f64,
    /// It owns nothing, and still serves.
    draining: bool,
    version: String,
    /// False for a moment after it could not be asked.
    reachable: bool,
    /// Requests of this node that it has yet to answer.
    in_flight: u64,
}

impl Report {
    pub(crate) fn of(cluster: &Cluster) -> Self {
        let view = cluster.members.view();
        let nodes = view.nodes.iter().zip(&view.peers).enumerate();
        let nodes = nodes.map(|(index, (node, peer))| Node {
            name: node.name.clone(),
            is_self: node.id == cluster.id,
            advertise: node.advertise.to_string(),
            weight: node.weight,
            share: view.ring.share(index),
            draining: node.draining,
            version: node.version.clone(),
            reachable: peer.is_well(),
            in_flight: peer.in_flight(),
        });
        Self {
            node: cluster.settings.node.clone(),
            standing: view.standing.word(),
            engine: cluster.engine.report(),
            invalidations: cluster.invalidations.report(),
            nodes: nodes.collect(),
            peers: cluster.figures.report(),
            forged: cluster.forged.report(),
            copies: cluster.hot.copies(),
            tier: cluster.tier.as_ref().map(tier::Tier::report),
        }
    }
}
