//! Parent proxies: the HTTP proxies through which this one reaches origins; and what clients are told about the use of
//! this one.

use std::time::Duration;

use ipnet::IpNet;
use larder_words::{debug_as, with_defaults};

/// A parent proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct ParentProxy {
    /// Whether it is reached over TLS.
    pub https: bool,
    /// Whether it is one of SOCKS 5 (RFC 1928) rather than HTTP.
    pub socks: bool,
    /// Its host and port.
    pub authority: String,
    /// The user name and password of its URL, percent-encoded, with a colon between them.
    pub user: Option<String>,
}

with_defaults! {
    /// The parent proxies of requests to origins.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ParentSettings {
        /// For http origins, the preferred one first; empty: they are reached directly.
        pub http: Vec<ParentProxy> = Vec::new(),
        /// For https origins and tunnels.
        pub https: Vec<ParentProxy> = Vec::new(),
        /// Destinations that are reached directly.
        pub no_proxy: Vec<NoProxy> = Vec::new(),
        /// The destinations that are reached through the proxies; empty: all.
        pub only: Vec<NoProxy> = Vec::new(),
        /// Whether origins are reached directly while no parent answers.
        pub falls_back: bool = false,
        /// Time for which a parent that could not be reached gets no further requests.
        pub fail_timeout: Duration = Duration::from_secs(10),
    }
}

/// Destinations that are reached without a parent, or through one only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoProxy {
    /// All.
    All,
    /// Addresses of this network. Names are not resolved for it.
    Network(IpNet),
    /// Names, at all ports or only at this one.
    Domain {
        /// A name in lower case, which includes the names below it; behind a dot: only those.
        name: String,
        /// The port.
        port: Option<u16>,
    },
}

with_defaults! {
    /// The proxy auto-configuration file of forward listeners.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Pac {
        /// Whether listeners have the file.
        pub is_on: bool = true,
        /// Destinations that clients reach without this proxy.
        pub direct: Vec<NoProxy> = Vec::new(),
        /// Whether clients reach all destinations directly while this proxy does not answer.
        pub falls_back: bool = false,
    }
}

impl ParentProxy {
    /// Returns the scheme of its URL.
    pub fn scheme(&self) -> &'static str {
        match self.socks {
            true => "socks5",
            false if self.https => "https",
            false => "http",
        }
    }
}

impl ParentSettings {
    /// Returns these settings with other parents, which lead to all destinations.
    pub fn with(&self, parents: &[ParentProxy]) -> Self {
        let [http, https] = [parents, parents].map(<[_]>::to_vec);
        Self { http, https, only: Vec::new(), ..self.clone() }
    }
}

debug_as!(ParentProxy, |proxy| "{}://{}", proxy.scheme(), proxy.authority);
