//! The `[cluster]` table as it was written.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use larder_proxy::settings::{EngineAddress, EngineOutagePolicy, Origin, Token};
use larder_words::with_defaults;

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
        pub(crate) engine: Option<EngineAddress> = None,
        pub(crate) node: Option<String> = None,
        pub(crate) listen: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9146),
        pub(crate) advertise: Option<Origin> = None,
        pub(crate) weight: u16 = 100,
        pub(crate) prefix: String = "larder".to_owned(),
        pub(crate) token: Option<Token> = None,
        pub(crate) tls: Option<NodeProof> = None,
        pub(crate) ca: Option<PathBuf> = None,
        pub(crate) cert: Option<PathBuf> = None,
        pub(crate) key: Option<PathBuf> = None,
        pub(crate) tls_name: Option<String> = None,
        pub(crate) engine_ca: Option<PathBuf> = None,
        pub(crate) engine_cert: Option<PathBuf> = None,
        pub(crate) engine_key: Option<PathBuf> = None,
        pub(crate) heartbeat: Duration = Duration::from_secs(1),
        pub(crate) drop_out: Duration = Duration::from_secs(5),
        pub(crate) max_invalidation_lag: Duration = Duration::from_secs(10),
        pub(crate) without_engine: EngineOutagePolicy = EngineOutagePolicy::Revalidate,
        pub(crate) hot: f64 = 0.1,
        pub(crate) tier: Option<u64> = None,
        pub(crate) tier_lifetime: Duration = Duration::from_secs(3_600),
        pub(crate) tier_compression: bool = true,
        pub(crate) tier_deadline: Duration = Duration::from_millis(100),
    }
}
