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

    pub(super) fn is_onc(self) -> bool {
        matches!(self, Self::Door { door: Door::Onc, .. })
    }
}

/// The sockets of one worker.
#[derive(Default)]
pub(super) struct Sockets {
    pub(super) streams: Vec<(Front, StdListener)>,
    pub(super) unix: Vec<(Front, StdUnixListener)>,
    pub(super) datagrams: Vec<StdUdpSocket>,
}
