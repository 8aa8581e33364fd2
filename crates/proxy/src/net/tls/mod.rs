//! TLS on listeners: rustls makes the handshake, and records are sealed and opened here.

pub(crate) mod accept;
pub(crate) mod admin;
pub mod certificates;
pub(crate) mod challenges;
pub mod client_certificates;
mod fault;
mod keys;
pub mod nodes;
pub(crate) mod output;
pub(crate) mod record;
pub(crate) mod records;
pub(crate) mod server;
pub(crate) mod tickets;
pub mod trial;

#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use rustls::crypto::aws_lc_rs::cipher_suite;
use rustls::crypto::{CryptoProvider, aws_lc_rs};

/// Makes [`provider`] that of all libraries in this process which ask for the process's own.
pub fn install() {
    // It fails where one is installed already, which is this one.
    let _ = CryptoProvider::clone(&provider()).install_default();
}

/// The cryptography of all TLS connections: AEAD suites only, and the hybrid key exchange of X25519 and ML-KEM first.
///
/// AES-128 comes before AES-256: its hash is SHA-256, which processors have instructions for, and a handshake hashes more than
/// it encrypts.
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
