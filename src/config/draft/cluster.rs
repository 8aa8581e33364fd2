//! The `[cluster]` table as it was written.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use larder_proxy::settings::{EngineAddress, Origin, Token, WithoutEngine};

/// The way in which nodes prove over TLS that they are nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeProof {
    /// Nodes do not use TLS.
    Off,
    Token,
    Files,
}

/// The `[cluster]` table as written.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) engine: Option<EngineAddress>,
    pub(crate) node: Option<String>,
    pub(crate) listen: SocketAddr,
    pub(crate) advertise: Option<Origin>,
    pub(crate) weight: u16,
    pub(crate) prefix: String,
    pub(crate) token: Option<Token>,
    pub(crate) tls: Option<NodeProof>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) tls_name: Option<String>,
    pub(crate) engine_ca: Option<PathBuf>,
    pub(crate) engine_cert: Option<PathBuf>,
    pub(crate) engine_key: Option<PathBuf>,
    pub(crate) heartbeat: Duration,
    pub(crate) drop_out: Duration,
    pub(crate) max_invalidation_lag: Duration,
    pub(crate) without_engine: WithoutEngine,
    pub(crate) hot: f64,
    pub(crate) tier: Option<u64>,
    pub(crate) tier_lifetime: Duration,
    pub(crate) tier_compression: bool,
    pub(crate) tier_deadline: Duration,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            engine: None,
            node: None,
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9146),
            advertise: None,
            weight: 100,
            prefix: "larder".to_owned(),
            token: None,
            tls: None,
            ca: None,
            cert: None,
            key: None,
            tls_name: None,
            engine_ca: None,
            engine_cert: None,
            engine_key: None,
            heartbeat: Duration::from_secs(1),
            drop_out: Duration::from_secs(5),
            max_invalidation_lag: Duration::from_secs(10),
            without_engine: WithoutEngine::Revalidate,
            hot: 0.1,
            tier: None,
            tier_lifetime: Duration::from_secs(3_600),
            tier_compression: true,
            tier_deadline: Duration::from_millis(100),
        }
    }
}
