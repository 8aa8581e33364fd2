//! TLS to the origins of a site.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use super::CertificateFiles;

/// The TLS settings of a site for its origins.
#[derive(Clone, Debug, Default)]
pub struct OriginTlsFiles {
    /// Certificates of the authorities that sign the origins' certificates, in PEM; `None`: the system's.
    pub ca: Option<PathBuf>,
    /// The client certificate for origins that request one.
    pub client: Option<CertificateFiles>,
    /// The server name that is sent to origins and verified in their certificates; `None`: the host of the origin's
    /// URL.
    pub name: Option<String>,
}

/// The TLS settings with their files read.
#[derive(Clone, Debug)]
pub struct OriginTls {
    /// The TLS configuration with the authorities and the client certificate.
    pub config: Arc<ClientConfig>,
    /// The server name for all origins.
    pub name: Option<ServerName<'static>>,
}
