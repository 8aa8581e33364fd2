//! TLS on listeners: rustls makes the handshake; then this module seals and opens records.

pub mod accept;
pub mod admin;
mod alerts;
pub mod authority;
pub mod certificates;
pub mod challenges;
pub mod client_certificates;
mod counts;
pub mod fault;
pub mod halves;
mod keys;
pub mod nodes;
pub mod output;
mod pem;
pub mod record;
pub mod records;
pub mod server;
pub mod tickets;
mod validity;

#[cfg(test)]
mod tests;
#[cfg(fuzzing)]
#[path = "tests/trial.rs"]
pub mod trial;

use std::sync::{Arc, OnceLock};

use rustls::crypto::aws_lc_rs::cipher_suite;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ResolvesServerCert, ServerConfig};

/// Installs [`provider`] as the process's default, for all libraries that use the default.
pub fn install() {
    // This fails only if the default is installed already, by an earlier call.
    let _ = CryptoProvider::clone(&provider()).install_default();
}

/// The methods of a verifier of certificates by which peers sign: with any algorithm of [`provider`].
#[macro_export]
macro_rules! verifies_signatures {
    () => {
        $crate::verifies_signatures!(verify_tls12_signature verify_tls13_signature);

        fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
            $crate::net::tls::provider().signature_verification_algorithms.supported_schemes()
        }
    };
    ($($function:ident)+) => {
        $(fn $function(
            &self,
            message: &[u8],
            certificate: &rustls::pki_types::CertificateDer<'_>,
            signed: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            let algorithms = $crate::net::tls::provider().signature_verification_algorithms;
            rustls::crypto::$function(message, certificate, signed, &algorithms)
        })+
    };
}
pub(crate) use verifies_signatures;

/// Returns the config of a listener that shows the certificates of `resolver` to clients with one of these ALPN
/// `protocols`, and resumes no session. `verifier` verifies certificates of clients, if they are requested.
fn server_config(
    resolver: Arc<dyn ResolvesServerCert>,
    verifier: Option<&Arc<dyn ClientCertVerifier>>,
    protocols: &[&[u8]],
) -> Result<ServerConfig, rustls::Error> {
    let config = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let config = match verifier {
        Some(verifier) => config.with_client_cert_verifier(Arc::clone(verifier)),
        None => config.with_no_client_auth(),
    };
    let mut config = config.with_cert_resolver(resolver);
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.ignore_client_order = true;
    Ok(config)
}

/// Returns the cryptography of all TLS connections: AEAD suites only, and the hybrid key exchange of X25519 and ML-KEM
/// first.
///
/// AES-128 is preferred to AES-256 because of its hash, SHA-256: processors have instructions for it, and a handshake
/// hashes more than it encrypts.
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| {
        let groups = vec![
            aws_lc_rs::kx_group::X25519MLKEM768,
            aws_lc_rs::kx_group::X25519,
            aws_lc_rs::kx_group::SECP256R1,
            aws_lc_rs::kx_group::SECP384R1,
        ];
        let suites = vec![
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS13_AES_256_GCM_SHA384,
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
            cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
            cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
            cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
            cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
            cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
            cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        ];
        let default = aws_lc_rs::default_provider();
        Arc::new(CryptoProvider { kx_groups: groups, cipher_suites: suites, ..default })
    }))
}
