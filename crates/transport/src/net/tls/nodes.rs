//! TLS between the nodes of a cluster: both ends authenticate as nodes, by the cluster's token or by certificates.
//!
//! With a token, all nodes derive the same Ed25519 key from that, and present it as a raw public key instead of a
//! certificate (RFC 7250). A peer that completes a handshake has the key, and so knows the token. The keys of a
//! connection come from an ephemeral key exchange, so a token that leaks later does not decrypt recorded traffic. TLS
//! 1.3 only. Sessions are not resumed: each connection begins with full authentication, and connections between nodes
//! are long-lived.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use larder_words::debug_as;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::aws_lc_rs::sign::any_eddsa_type;
use rustls::crypto::verify_tls13_signature_with_raw_key;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible,
    ServerConfig, SignatureScheme,
};
use tokio::net::TcpStream;
use webpki::EndEntityCert;

use super::accept::{HandshakeError, TlsConnection, accept};
use super::certificates::{Certificates, authorities};
use super::provider;
use crate::base::settings::{CertificateFault, CertificateFiles, ClusterKey, NodeTlsFiles, OriginTls};
use crate::net::concurrency::ConcurrencyLimit;

/// The prefix of a seed in the PKCS #8 encoding of an Ed25519 key (RFC 8410 section 7).
const ED25519: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
/// Bytes of a seed.
const SEED: usize = 32;
/// Maximum of concurrent handshakes, and of waiting ones.
const HANDSHAKES: (usize, usize) = (256, 4096);

/// TLS between the nodes of a cluster.
pub struct Nodes {
    /// For connections from other nodes.
    server: Arc<ServerConfig>,
    /// For connections to other nodes.
    pub client: OriginTls,
    /// The certificate of this node; `None` if nodes authenticate by the token.
    own: Option<(Arc<Certificates>, CertificateFiles)>,
    handshakes: Arc<ConcurrencyLimit>,
}

/// An error of the setup of TLS between nodes.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The file of the authorities is unusable.
    #[error("{0}")]
    Authorities(String),
    /// The certificate of this node, or its key, is unusable.
    #[error("{0}")]
    Own(CertificateFault),
    /// The name is invalid.
    #[error("{0}")]
    Name(String),
    /// Any other error.
    #[error("{0}")]
    Other(String),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Other(format!("cannot set up TLS: {error}"))
    }
}

impl Nodes {
    /// Sets up TLS between nodes whose token leads to `secret` and whose keys on the engine begin with `prefix`. The
    /// error is the reason why TLS cannot be set up.
    pub fn by_token(secret: &ClusterKey, prefix: &str) -> Result<Self, Fault> {
        let key = key(&**secret, prefix)?;
        let public = key.end_entity_cert()?.clone().into_owned();
        let verifier = Arc::new(SameKey(public));
        let server = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13])?;
        let server = server
            .with_client_cert_verifier(Arc::clone(&verifier) as _)
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::clone(&key))));
        let client = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13])?;
        let client = client.dangerous().with_custom_certificate_verifier(verifier);
        let client = client.with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(key)));
        Ok(Self::of(server, client, None, None))
    }

    /// Sets up TLS between nodes with certificates from the authorities in `files`.
    ///
    /// # Errors
    /// A description of the problem with the files.
    pub fn by_files(files: &NodeTlsFiles) -> Result<Self, Fault> {
        let path = files.ca.display();
        let roots = Arc::new(authorities(&files.ca).map_err(Fault::Authorities)?);
        let name = files.name.clone().map(ServerName::try_from).transpose();
        let name = name.map_err(|_| Fault::Name("it is neither a host name nor an address".to_owned()))?;
        let own = Certificates::one(&files.own).map(Arc::new).map_err(Fault::Own)?;
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), provider()).build();
        let clients = clients.map_err(|error| Fault::Authorities(format!("{path}: {error}")))?;
        let clients = Arc::new(NameVerifier { clients, name: name.clone() });
        let server = ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13])?;
        let server = server.with_client_cert_verifier(clients).with_cert_resolver(Arc::clone(&own) as _);
        let client = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13])?;
        let client = client.with_root_certificates(roots).with_client_cert_resolver(Arc::clone(&own) as _);
        Ok(Self::of(server, client, name, Some((own, files.own.clone()))))
    }

    fn of(
        mut server: ServerConfig,
        mut client: ClientConfig,
        name: Option<ServerName<'static>>,
        own: Option<(Arc<Certificates>, CertificateFiles)>,
    ) -> Self {
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        server.enable_secret_extraction = true;
        client.resumption = Resumption::disabled();
        // All names of nodes lead to the same identity, and SNI would disclose names to observers.
        client.enable_sni = false;
        let client = OriginTls { config: Arc::new(client), name };
        let (most, waiting) = HANDSHAKES;
        let handshakes = Arc::new(ConcurrencyLimit::new(most, waiting));
        Self { server: Arc::new(server), client, own, handshakes }
    }

    /// Whether nodes authenticate by the token.
    pub fn is_by_token(&self) -> bool {
        self.own.is_none()
    }

    /// Reads the certificate of this node again if its files have changed. If the new one is unusable, the old one
    /// stays in use.
    pub fn look(&self) {
        if let Some((certificates, files)) = &self.own {
            for problem in certificates.refresh(std::slice::from_ref(files), false) {
                tracing::error!("{problem}");
            }
        }
    }

    /// Makes the handshake with the node at the other end of `stream`, within `limit`. Errors: the reason for the
    /// failure; the peer may not be a node.
    pub async fn accept(
        &self,
        stream: TcpStream,
        node: SocketAddr,
        limit: Duration,
    ) -> Result<TlsConnection, HandshakeError> {
        accept(stream, ip_of(node), Arc::clone(&self.server), &self.handshakes, limit).await
    }
}

debug_as!(Nodes, |_| "Nodes(..)");

fn ip_of(node: SocketAddr) -> IpAddr {
    node.ip().to_canonical()
}

/// Derives the key of all nodes with the cluster's `secret`; its public part takes the place of a certificate.
fn key(secret: &[u8], prefix: &str) -> Result<Arc<CertifiedKey>, Error> {
    let failed = |_| Error::General("no key follows from the token".to_owned());
    let secret = Salt::new(HKDF_SHA256, b"larder cluster 1 tls").extract(secret);
    let mut pkcs8 = [0; ED25519.len() + SEED];
    let (head, seed) = pkcs8.split_at_mut(ED25519.len());
    head.copy_from_slice(&ED25519);
    secret.expand(&[prefix.as_bytes()], Seed).and_then(|okm| okm.fill(seed)).map_err(failed)?;
    let key = any_eddsa_type(&PrivatePkcs8KeyDer::from(&pkcs8[..]))?;
    let public = key.public_key().ok_or_else(|| Error::General("a key without a public part".to_owned()))?;
    let public = CertificateDer::from(public.as_ref().to_vec());
    Ok(Arc::new(CertifiedKey::new(vec![public], key)))
}

/// The length of a seed, for HKDF.
struct Seed;

impl KeyType for Seed {
    fn len(&self) -> usize {
        SEED
    }
}

/// The methods that both verifiers have in common: peers sign with a raw Ed25519 key, by TLS 1.3.
macro_rules! verifies_raw_keys {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _certificate: &CertificateDer<'_>,
            _signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(PeerIncompatible::Tls12NotOffered.into())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let public = SubjectPublicKeyInfoDer::from(certificate.as_ref());
            let algorithms = provider().signature_verification_algorithms;
            verify_tls13_signature_with_raw_key(message, &public, signed, &algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

/// Accepts peers that present this public key.
#[derive(Debug)]
struct SameKey(CertificateDer<'static>);

impl SameKey {
    fn is_same(&self, shown: &CertificateDer<'_>) -> Result<(), Error> {
        if *shown == self.0 { Ok(()) } else { Err(CertificateError::UnknownIssuer.into()) }
    }
}

impl ServerCertVerifier for SameKey {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.is_same(end_entity).map(|()| ServerCertVerified::assertion())
    }

    verifies_raw_keys!();
}

impl ClientCertVerifier for SameKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.is_same(end_entity).map(|()| ClientCertVerified::assertion())
    }

    verifies_raw_keys!();
}

/// Accepts the certificates that `clients` accepts, if they are valid for `name`.
#[derive(Debug)]
struct NameVerifier {
    clients: Arc<dyn ClientCertVerifier>,
    name: Option<ServerName<'static>>,
}

impl ClientCertVerifier for NameVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.clients.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.clients.verify_client_cert(end_entity, intermediates, now)?;
        if let Some(name) = &self.name {
            let parsed = EndEntityCert::try_from(end_entity).map_err(|_| CertificateError::BadEncoding)?;
            let is_named = parsed.verify_is_valid_for_subject_name(name);
            is_named.map_err(|_| CertificateError::NotValidForName)?;
        }
        Ok(verified)
    }

    super::verifies_signatures!();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public(secret: &str, prefix: &str) -> Vec<u8> {
        let key = key(secret.as_bytes(), prefix).expect("a key");
        key.end_entity_cert().expect("a public part").to_vec()
    }

    #[test]
    fn nodes_have_one_key_for_each_token_and_cluster() {
        let token = "0123456789abcdef";
        assert_eq!(public(token, "larder"), public(token, "larder"));
        assert_ne!(public(token, "larder"), public(token, "other"));
        assert_ne!(public(token, "larder"), public("0123456789abcdeg", "larder"));
        // A golden value, made by another program: with another key, nodes of two versions could not connect.
        let hex: String = public(token, "larder").iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "302a300506032b65700321007876114845bba54fca8f884c95f507a093079fdcca85e90871b9795ce310af88"
        );
    }
}
