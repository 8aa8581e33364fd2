//! The `[cluster]` table as it was written.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use larder_proxy::settings::{EngineAddress, EngineOutagePolicy, Origin, Token};
use larder_semantics::with_defaults;

/// The way in which nodes prove over TLS that they are nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeProof {
    /// Nodes do not use TLS.
    Off,
    Token,
    Files,
}

with_defaults! {
    /// The `[cluster]` table as written.
    #[derive(Clone, Debug)]
    pub(crate) struct Draft {
        engine: Option<EngineAddress> = None,
        node: Option<String> = None,
        listen: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9146),
        advertise: Option<Origin> = None,
        weight: u16 = 100,
        prefix: String = "larder".to_owned(),
        token: Option<Token> = None,
        tls: Option<NodeProof> = None,
        ca: Option<PathBuf> = None,
        cert: Option<PathBuf> = None,
        key: Option<PathBuf> = None,
        tls_name: Option<String> = None,
        engine_ca: Option<PathBuf> = None,
        engine_cert: Option<PathBuf> = None,
        engine_key: Option<PathBuf> = None,
        heartbeat: Duration = Duration::from_secs(1),
        drop_out: Duration = Duration::from_secs(5),
        max_invalidation_lag: Duration = Duration::from_secs(10),
        without_engine: EngineOutagePolicy = EngineOutagePolicy::Revalidate,
        hot: f64 = 0.1,
        tier: Option<u64> = None,
        tier_lifetime: Duration = Duration::from_secs(3_600),
        tier_compression: bool = true,
        tier_deadline: Duration = Duration::from_millis(100),
    }
}
