//! Configurations of TLS to origins and parent proxies: the authorities that they trust, and the certificate that they send.

use std::sync::Arc;

use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::client::{WantsClientCert, WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, ConfigBuilder, Error, RootCertStore};
use webpki::anchor_from_trusted_cert;
use x509_cert::der::Decode;

use super::tls_fault::is_of_authority;
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
    let config = trusting(roots);
    let config = config.map_err(|error| OriginTlsFault::Other(format!("cannot set up TLS: {error}")))?;
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
    Ok(Arc::new(trusting(of_system())?.with_no_client_auth()))
}

fn trusting(roots: RootCertStore) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, Error> {
    let config = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let roots = Arc::new(roots);
    Ok(match WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), provider()).build() {
        Ok(usual) => config.dangerous().with_custom_certificate_verifier(Arc::new(Verifier { usual, roots })),
        // Nothing is trusted.
        Err(_) => config.with_root_certificates(roots),
    })
}

/// Verifies certificates of origins. As for OpenSSL, a trusted certificate may also be that of the origin itself, although it is
/// one of an authority: `openssl req -x509` makes such certificates.
#[derive(Debug)]
struct Verifier {
    usual: Arc<WebPkiServerVerifier>,
    roots: Arc<RootCertStore>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let is_trusted = || anchor_from_trusted_cert(own).is_ok_and(|own| self.roots.roots.contains(&own));
        match self.usual.verify_server_cert(own, between, name, ocsp, now) {
            // Its validity was verified before.
            Err(Error::InvalidCertificate(fault)) if is_of_authority(&fault) && is_trusted() => {
                verify_server_name(&ParsedCertificate::try_from(own)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            Err(Error::InvalidCertificate(fault)) if is_of_authority(&fault) && signs_itself(own) => {
                Err(CertificateError::UnknownIssuer.into())
            }
            verdict => verdict,
        }
    }

    crate::net::tls::verifies_signatures!();
}

fn signs_itself(certificate: &[u8]) -> bool {
    let parsed = x509_cert::Certificate::from_der(certificate);
    parsed.is_ok_and(|parsed| parsed.tbs_certificate.issuer == parsed.tbs_certificate.subject)
}

/// Returns the root certificates that the system trusts.
fn of_system() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}
