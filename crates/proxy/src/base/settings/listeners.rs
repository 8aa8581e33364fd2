//! Where clients connect.

use std::net::SocketAddr;
use std::path::PathBuf;

use ipnet::IpNet;

use super::CertificateFiles;

/// One listening address and what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The address; port 0 lets the kernel choose.
    pub address: SocketAddr,
    /// What clients may ask here.
    pub role: Role,
    /// Clients reach it over TLS.
    pub tls: bool,
}

/// What a listener does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Speaks for the configured sites.
    Reverse,
    /// Speaks to any origin for its clients: absolute-form requests and `CONNECT`.
    Forward,
}

impl Role {
    /// What it is called in lists and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reverse => "reverse",
            Self::Forward => "forward",
        }
    }
}

/// TLS of the admin listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminTls {
    /// The certificate that this program signs itself, for clients on this machine; `None`: there is no directory for it, and
    /// all clients get those of the sites.
    pub own: Option<CertificateFiles>,
}

/// The networks of proxies that begin each connection with a PROXY header, by what the listener does; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyProtocol {
    /// For the sites' listeners.
    pub reverse: Vec<IpNet>,
    /// For the forward proxy's.
    pub forward: Vec<IpNet>,
}

/// Unix sockets where clients of the sites connect, without TLS. Their clients count as clients at 127.0.0.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixSockets {
    /// Their absolute paths.
    pub paths: Vec<PathBuf>,
    /// The permissions of their files.
    pub mode: u32,
}

impl Default for UnixSockets {
    fn default() -> Self {
        Self { paths: Vec::new(), mode: 0o660 }
    }
}
