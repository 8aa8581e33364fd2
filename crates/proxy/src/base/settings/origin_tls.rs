//! TLS towards the origins of a site.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use super::CertificateFiles;

/// What a site says of TLS towards its origins.
#[derive(Clone, Debug, Default)]
pub struct OriginTlsFiles {
    /// Certificates of the authorities that sign the origins' certificates, in PEM; `None`: the system's.
    pub ca: Option<PathBuf>,
    /// The certificate that is shown to origins that ask for one.
    pub client: Option<CertificateFiles>,
    /// The name that is sent to origins and that their certificates must have; `None`: the host of the origin's URL.
    pub name: Option<String>,
}

/// The same, read from its files.
#[derive(Clone, Debug)]
pub struct OriginTls {
    /// The authorities and the client's certificate.
    pub config: Arc<ClientConfig>,
    /// The name of all origins.
    pub name: Option<ServerName<'static>>,
}
