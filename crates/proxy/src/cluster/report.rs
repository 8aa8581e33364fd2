//! What `/cluster` shows of the cluster.

use std::time::Duration;

use serde::Serialize;

use super::members::Member;
use super::{Cluster, engine, invalidations, peers, sealed, tier};

/// The cluster, as this node sees it.
#[derive(Debug, Serialize)]
pub(crate) struct ClusterReport {
    /// This node.
    pub(crate) node: String,
    /// `member`, `alone` or `name taken`.
    pub(crate) standing: &'static str,
    pub(crate) engine: engine::EngineReport,
    pub(crate) invalidations: invalidations::InvalidationsReport,
    pub(crate) nodes: Vec<Node>,
    /// Those that were members within the last hour and no longer are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) gone: Vec<Gone>,
    pub(crate) peers: peers::PeersReport,
    /// What was ignored because no node wrote it.
    pub(crate) forged: sealed::SealsReport,
    /// Of what other nodes own.
    pub(crate) copies: usize,
    /// What the engine keeps of responses, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tier: Option<tier::TierReport>,
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
    /// False for a moment after it could not be asked, and if it does not encrypt while this node does.
    reachable: bool,
    /// For how long it could not be asked, in seconds, if it cannot be.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreachable_seconds: Option<u64>,
    /// Requests of this node that it has yet to answer.
    in_flight: u64,
}

/// A node that left the cluster.
#[derive(Debug, Serialize)]
pub(crate) struct Gone {
    name: String,
    advertise: String,
    /// How long ago it was seen to have left, in seconds.
    seconds: u64,
}

impl ClusterReport {
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
            reachable: peer.is_well() && cluster.may_ask(node),
            unreachable_seconds: peer.life.lost_for().map(|time| time.as_secs()),
            in_flight: peer.in_flight(),
        });
        Self {
            node: cluster.settings.node.clone(),
            standing: view.standing.word(),
            engine: cluster.engine.report(),
            invalidations: cluster.invalidations.report(),
            nodes: nodes.collect(),
            gone: cluster.members.gone().into_iter().map(Gone::of).collect(),
            peers: cluster.figures.report(),
            forged: cluster.forged.report(),
            copies: cluster.hot.copies(),
            tier: cluster.tier.as_ref().map(tier::Tier::report),
        }
    }
}

impl Gone {
    fn of((node, time): (Member, Duration)) -> Self {
        Self { name: node.name, advertise: node.advertise.to_string(), seconds: time.as_secs() }
    }
}
