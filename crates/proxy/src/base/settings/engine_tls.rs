//! TLS towards the engine of a cluster.

use std::path::PathBuf;

use super::CertificateFiles;

/// The certificates of connections to an engine over TLS. They are read with each new connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineTls {
    /// Certificates of the authorities that sign those of the engine, in PEM; `None`: those that the system trusts.
    pub ca: Option<PathBuf>,
    /// The certificate that is shown to the engine.
    pub own: Option<CertificateFiles>,
}
