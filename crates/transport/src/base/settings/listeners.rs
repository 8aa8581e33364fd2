//! The addresses and sockets for clients.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use http::HeaderName;
use ipnet::IpNet;
use larder_rules::Networks;
use larder_words::{named, with_defaults};

use super::CertificateFiles;

/// One listening address and its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The address; port 0 lets the kernel choose.
    pub address: SocketAddr,
    /// The role, which decides which requests clients may send.
    pub role: Role,
    /// Whether clients connect over TLS.
    pub tls: bool,
}

named! {
    /// The role of a listener.
    pub enum Role, name {
        /// Serves the configured sites.
        Reverse = "reverse",
        /// Forwards requests of its clients to any origin: absolute-form requests and `CONNECT`.
        Forward = "forward",
    }
}

/// TLS of the admin listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminTls {
    /// The self-signed certificate of this program, for clients on this machine; `None`: there is no directory for it,
    /// and all clients get the certificates of the sites.
    pub own: Option<CertificateFiles>,
}

/// The networks of proxies that begin each connection with a PROXY header, by the role of the listener; none by
/// default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyProtocol {
    /// For listeners for sites.
    pub reverse: Vec<IpNet>,
    /// For listeners of the forward proxy.
    pub forward: Vec<IpNet>,
}

/// The proxies in front of this one that tell the addresses of clients in fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// The networks of these proxies.
    pub proxies: Networks,
    /// The field with the client's address alone, such as `CF-Connecting-IP`, which counts more than
    /// `X-Forwarded-For`; `None`: there is none.
    pub real_ip: Option<HeaderName>,
}

impl Trust {
    /// Whether `address` is that of a trusted proxy.
    #[inline]
    pub fn has(&self, address: IpAddr) -> bool {
        self.proxies.contains(address)
    }
}

with_defaults! {
    /// Unix sockets for clients of the sites, without TLS. Their clients count as clients at 127.0.0.1.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct UnixSockets {
        /// The absolute paths of the sockets.
        pub paths: Vec<PathBuf> = Vec::new(),
        /// The permissions of the socket files.
        pub mode: u32 = 0o660,
    }
}
