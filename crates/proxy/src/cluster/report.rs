//! The state of the cluster, as `/cluster` shows it.

use std::time::Duration;

use serde::Serialize;

use super::members::Member;
use super::{Cluster, engine, invalidations, peers, sealed, tier};

/// The state of the cluster from the view of this node.
#[derive(Debug, Serialize)]
pub struct ClusterReport {
    /// The name of this node.
    pub(crate) node: String,
    /// `joining`, `member`, `alone` or `name taken`.
    pub standing: &'static str,
    /// The reason why the node is alone, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
    /// The engine.
    pub engine: engine::EngineReport,
    /// The stream of purges.
    pub invalidations: invalidations::InvalidationsReport,
    /// The members.
    pub nodes: Vec<Node>,
    /// The nodes that left the cluster within the last hour and have not returned.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) gone: Vec<DepartedNode>,
    /// Requests to other nodes.
    pub peers: peers::PeersReport,
    /// Counts of forged data that was ignored.
    pub forged: sealed::SealsReport,
    /// The number of copies of responses that other nodes own.
    pub copies: usize,
    /// The second tier, if the engine keeps responses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<tier::TierReport>,
}

#[derive(Debug, Serialize)]
pub struct Node {
    name: String,
    is_self: bool,
    advertise: String,
    weight: u16,
    /// Its share of the keys, 0 to 1.
    share: f64,
    /// Whether it owns no keys, but still serves.
    draining: bool,
    version: String,
    /// False for a while after it could not be asked, and if it does not encrypt while this node does.
    reachable: bool,
    /// Seconds for which it could not be asked, if it cannot be.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreachable_seconds: Option<u64>,
    /// Requests of this node that it has not answered yet.
    in_flight: u64,
}

/// A node that left the cluster.
#[derive(Debug, Serialize)]
pub(crate) struct DepartedNode {
    name: String,
    advertise: String,
    /// Seconds since it was seen to have left.
    seconds: u64,
}

impl ClusterReport {
    /// Returns the state of a cluster.
    pub fn of(cluster: &Cluster) -> Self {
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
            reachable: peer.is_well() && cluster.may_ask(node),
            unreachable_seconds: peer.life.lost_for().map(|time| time.as_secs()),
            in_flight: peer.in_flight(),
        });
        Self {
            node: cluster.settings.node.clone(),
            standing: view.standing.word(),
            trouble: view.trouble.clone(),
            engine: cluster.engine.report(),
            invalidations: cluster.invalidations.report(),
            nodes: nodes.collect(),
            gone: cluster.members.gone().into_iter().map(DepartedNode::of).collect(),
            peers: cluster.figures.report(),
            forged: cluster.forged.report(),
            copies: cluster.hot.copies(),
            tier: cluster.tier.as_ref().map(tier::EngineTier::report),
        }
    }
}

impl DepartedNode {
    fn of((node, time): (Member, Duration)) -> Self {
        Self { name: node.name, advertise: node.advertise.to_string(), seconds: time.as_secs() }
    }
}
