//! TLS towards an admin listener: the certificates that are trusted.
//!
//! Without a file, these are the certificates that the system's authorities sign, and the self-signed one of a larder
//! with the same state directory. A certificate in a file is trusted for every name: only its owner has its key.

use std::io;
use std::path::Path;
use std::sync::Arc;

use larder_proxy::net::tls::certificates::read_chain;
use larder_proxy::net::tls::provider;
use larder_proxy::origin::TlsFault;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::state::state_directory;

/// The file in the state directory with the self-signed certificate of the admin listener.
pub(crate) const OWN: &str = "admin.pem";

/// Trusts the certificates of files.
#[derive(Debug)]
struct Verifier {
    /// Certificates that are trusted for every name.
    known: Vec<CertificateDer<'static>>,
    /// Verifies all other certificates; `None`: there is no authority.
    authorities: Option<Arc<WebPkiServerVerifier>>,
}

impl Verifier {
    /// Returns a verifier that trusts the certificates in `file` and those that they have signed. Without a file, it
    /// trusts the system's authorities and the larder of this user.
    fn new(file: Option<&Path>) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        let known = match file {
            Some(path) => read_chain(path)?,
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                // The file exists only if a larder of this user has made one.
                state_directory().and_then(|folder| read_chain(&folder.join(OWN)).ok()).unwrap_or_default()
            }
        };
        if file.is_some() {
            roots.add_parsable_certificates(known.iter().cloned());
        }
        // Without an authority, this fails and there is no verifier.
        let authorities =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build().ok();
        Ok(Self { known, authorities })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.known.iter().any(|known| known == end_entity) {
            return Ok(ServerCertVerified::assertion());
        }
        let Some(authorities) = &self.authorities else { return Err(CertificateError::UnknownIssuer.into()) };
        authorities.verify_server_cert(end_entity, intermediates, name, ocsp, now)
    }

    larder_proxy::verifies_signatures!();
}

/// Makes TLS connections to an admin listener.
#[derive(Clone)]
pub(crate) struct AdminTls(TlsConnector);

impl AdminTls {
    /// Returns a connector that trusts the certificates in `file`, or the default ones without a file. Errors: the
    /// error in the file.
    pub(crate) fn new(file: Option<&Path>) -> Result<Self, String> {
        let failed = |error: rustls::Error| format!("cannot set up TLS: {error}");
        let verifier = Arc::new(Verifier::new(file)?);
        let config = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let config = config.map_err(failed)?.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = config.with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Makes the handshake with `host` at the other end of `stream`. The error is the reason why there is no TLS with
    /// it, and the remedy.
    pub(crate) async fn secure(&self, host: &str, stream: TcpStream) -> Result<TlsStream<TcpStream>, String> {
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
        let name = name.map_err(|_| format!("'{}' is not a host", host.escape_debug()))?;
        self.0.connect(name, stream).await.map_err(explain)
    }
}

/// Returns the reason why there is no TLS, and the remedy.
fn explain(error: io::Error) -> String {
    match TlsFault::from(error) {
        fault @ TlsFault::Untrusted => {
            format!("{fault}: name a file with it, or with its authority, by --admin-ca")
        }
        fault @ TlsFault::OtherName(_) => {
            format!("{fault}: ask by its name, or name a file with the certificate by --admin-ca")
        }
        TlsFault::NoTls => "it speaks HTTP without TLS: use http:// for it".to_owned(),
        fault => fault.to_string(),
    }
}
