//! What a cluster is told: plain data, already checked.

use std::net::SocketAddr;
use std::time::Duration;

pub use super::engine_address::EngineAddress;
use crate::base::settings::{EngineTls, NodeTls, Origin, Token};

/// The cluster that this proxy is a node of.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the engine is.
    pub engine: EngineAddress,
    /// The certificates of connections to it, if they are over TLS.
    pub engine_tls: EngineTls,
    /// What this node is called: different for each, and the same after a restart.
    pub node: String,
    /// Where other nodes connect.
    pub listen: SocketAddr,
    /// By which URL they do; `None`: by the address that this node listens on.
    pub advertise: Option<Origin>,
    /// How much of the keys it owns, against the others' weights. At least 1.
    pub weight: u16,
    /// What the names of all keys in the engine begin with.
    pub prefix: String,
    /// By which they know each other, and what they wrote on the engine.
    pub token: Option<Token>,
    /// How connections between nodes are encrypted; `None`: they are not.
    pub tls: Option<NodeTls>,
    /// How often it says that it is there.
    pub heartbeat: Duration,
    /// For how long that is believed.
    pub drop_out: Duration,
    /// For how long hits need no news of what was purged.
    pub max_invalidation_lag: Duration,
    /// How hits beyond that are answered.
    pub without_engine: WithoutEngine,
    /// The share of the memory that copies of what other nodes own may take: 0 to 1.
    pub hot: f64,
    /// What the engine keeps of responses; `None`: nothing.
    pub tier: Option<Tier>,
}

/// What the engine keeps of responses.
#[derive(Clone, Debug)]
pub struct Tier {
    /// Bytes of content that it takes at most.
    pub object: u64,
    /// For how long it keeps them at most.
    pub lifetime: Duration,
    /// Whether they are compressed.
    pub compression: bool,
    /// How long a request waits for each of its answers.
    pub deadline: Duration,
}

/// How hits are answered while purges of other nodes cannot be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutEngine {
    /// They count as stale.
    Revalidate,
    /// They are served.
    Serve,
}
