//! Configurations of TLS to origins and parent proxies: the authorities that they trust, and the certificate that they send.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};

use crate::base::settings::{CertificateFault, OriginTls, OriginTlsFiles};
use crate::net::tls::certificates::{self, Certificate};
use crate::net::tls::provider;

/// An error in the configuration of TLS to the origins of a site.
#[derive(Debug)]
pub enum OriginTlsFault {
    /// The file of the authorities is unusable.
    Authorities(String),
    /// The client certificate, or its key, is unusable.
    Client(CertificateFault),
    /// The name to verify is invalid.
    Name(String),
    /// Any other error.
    Other(String),
}

/// Sets up TLS to the origins of a site with its own TLS settings, from `files`.
///
/// # Errors
/// The first problem: its file and a description.
pub fn tls_of_site(files: &OriginTlsFiles) -> Result<OriginTls, OriginTlsFault> {
    let roots = match &files.ca {
        None => of_system(),
        Some(path) => certificates::authorities(path).map_err(OriginTlsFault::Authorities)?,
    };
    let config = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let config = config.map_err(|error| OriginTlsFault::Other(format!("cannot set up TLS: {error}")))?;
    let config = config.with_root_certificates(roots);
    let config = match &files.client {
        None => config.with_no_client_auth(),
        Some(pair) => {
            let certificate = Certificate::read(pair).map_err(OriginTlsFault::Client)?;
            config.with_client_cert_resolver(certificate.for_client())
        }
    };
    let name = files.name.clone().map(ServerName::try_from).transpose();
    let name =
        name.map_err(|_| OriginTlsFault::Name("the name is neither a host name nor an address".to_owned()))?;
    Ok(OriginTls { config: Arc::new(config), name })
}

/// Sets up TLS to origins with the system's root certificates and without a client certificate.
///
/// # Errors
/// When the cryptography provider cannot be set up.
pub fn tls() -> Result<Arc<ClientConfig>, rustls::Error> {
    let config = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    Ok(Arc::new(config.with_root_certificates(of_system()).with_no_client_auth()))
}

/// Returns the root certificates that the system trusts.
fn of_system() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}
