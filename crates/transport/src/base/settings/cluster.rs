//! The settings of a cluster: plain data, already validated.

use std::net::SocketAddr;
use std::time::Duration;

pub use larder_engine::EngineAddress;

use crate::base::settings::{EngineTls, NodeTls, Origin, Token};

/// The cluster that this proxy is a node of.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address of the engine.
    pub engine: EngineAddress,
    /// The certificates for connections to the engine over TLS.
    pub engine_tls: EngineTls,
    /// The name of this node: unique, and the same after a restart.
    pub node: String,
    /// The address for connections from other nodes.
    pub listen: SocketAddr,
    /// The URL of this node for other nodes; `None`: the address of `listen`.
    pub advertise: Option<Origin>,
    /// The weight that determines this node's share of the keys. At least 1.
    pub weight: u16,
    /// The prefix of all keys in the engine.
    pub prefix: String,
    /// The shared secret by which nodes authenticate each other and their data on the engine.
    pub token: Option<Token>,
    /// The encryption of connections between nodes; `None`: no encryption.
    pub tls: Option<NodeTls>,
    /// Interval between heartbeats on the engine.
    pub heartbeat: Duration,
    /// Time after its last heartbeat for which a node counts as a member.
    pub drop_out: Duration,
    /// Maximum time without updates about purges for which hits are served normally.
    pub max_invalidation_lag: Duration,
    /// The treatment of hits after that time.
    pub without_engine: EngineOutagePolicy,
    /// Maximum share of the memory for copies of responses that other nodes own: 0 to 1.
    pub hot: f64,
    /// The second tier, which stores responses on the engine; `None`: no second tier.
    pub tier: Option<Tier>,
}

/// The second tier of the cache, on the engine.
#[derive(Clone, Debug)]
pub struct Tier {
    /// Maximum size of a stored content, in bytes.
    pub object: u64,
    /// Maximum time for which a response is stored.
    pub lifetime: Duration,
    /// Whether responses are compressed.
    pub compression: bool,
    /// Maximum time for which a request waits for a reply of the engine.
    pub deadline: Duration,
}

/// The treatment of hits while this node cannot receive the purges of other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineOutagePolicy {
    /// Hits count as stale.
    Revalidate,
    /// Hits are served.
    Serve,
}
