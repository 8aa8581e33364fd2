//! The reasons why there is no connection to an origin.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::tls_fault::TlsFault;
use crate::base::error::cause;

/// The reason why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The name has no address, or the name server did not answer.
    #[error("cannot resolve {}: {}", .0, cause(.1))]
    Resolve(String, Arc<io::Error>),
    /// The queue of names to resolve is full.
    #[error("cannot resolve {0}: too many other names wait to be resolved")]
    Busy(String),
    /// All addresses of the name are in networks that clients may not reach.
    #[error("{0} is at {1}, which is not a public address of another machine; allow_private would permit it")]
    Forbidden(String, IpAddr),
    /// The address is a listener of this process.
    #[error("{0} is at {1}, where this proxy listens itself")]
    Own(String, SocketAddr),
    /// The address refused the connection or did not answer.
    #[error("cannot connect to {}: {}", .0, cause(.1))]
    Connect(String, io::Error),
    /// The TLS handshake failed, for example because of the origin's certificate.
    #[error("no TLS with {0}: {1}")]
    Tls(String, TlsFault),
    /// The connection took longer than the timeout.
    #[error("no connection to {0} within {1:?}")]
    Timeout(String, Duration),
    /// The parent proxy cannot be reached.
    #[error("parent proxy {0}: {1}")]
    Parent(String, Box<ConnectError>),
    /// The parent proxy answered that it does not forward the request.
    #[error("parent proxy {0}: {1}")]
    ParentRefused(String, String),
}
