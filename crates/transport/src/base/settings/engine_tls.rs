//! TLS to the engine of a cluster.

use std::path::PathBuf;

use super::CertificateFiles;

/// The certificates for connections to an engine over TLS. They are read for each new connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineTls {
    /// Certificates of the authorities that sign the engine's certificate, in PEM; `None`: the system's authorities.
    pub ca: Option<PathBuf>,
    /// The client certificate for the engine.
    pub own: Option<CertificateFiles>,
}
