//! The listening sockets of a worker, and the protocol of each.

use std::net::{TcpListener as StdListener, UdpSocket as StdUdpSocket};
use std::os::unix::net::UnixListener as StdUnixListener;

use crate::base::settings::Door;
use crate::exchange::arrival::Arrival;

/// The protocol of a listening address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// HTTP.
    Http(Arrival),
    /// RPC.
    Door {
        /// The RPC protocol.
        door: Door,
        /// Whether clients connect over TLS.
        tls: bool,
    },
    /// HTTP between the nodes of a cluster.
    Peer {
        /// Whether nodes connect over TLS.
        tls: bool,
    },
}

impl Front {
    pub(super) fn speaks_tls(self) -> bool {
        matches!(
            self,
            Self::Http(Arrival { tls: true, .. }) | Self::Door { tls: true, .. } | Self::Peer { tls: true }
        )
    }

    /// Whether this is ONC RPC, which also comes in datagrams.
    pub fn is_onc(self) -> bool {
        matches!(self, Self::Door { door: Door::Onc, .. })
    }
}

/// The sockets of one worker.
#[derive(Default)]
pub struct Sockets {
    /// Listeners on addresses.
    pub streams: Vec<(Front, StdListener)>,
    /// Unix sockets.
    pub unix: Vec<(Front, StdUnixListener)>,
    /// Sockets for datagrams of ONC RPC.
    pub datagrams: Vec<StdUdpSocket>,
}
