//! The files of the listeners' certificates.

use std::path::PathBuf;

/// A certificate and its key, in two files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The chain in PEM, the leaf certificate first.
    pub cert: PathBuf,
    /// The key in PEM.
    pub key: PathBuf,
    /// The place of the pair in the config, for error messages: `larder.toml:7`.
    pub place: String,
    /// The place of the chain in the config, with the name of its setting: `larder.toml:8: tls.cert`.
    pub cert_place: String,
    /// The same for the key.
    pub key_place: String,
}

impl CertificateFiles {
    /// Creates a pair whose files were configured in the same place.
    pub fn at(cert: PathBuf, key: PathBuf, place: &str) -> Self {
        let place = || place.to_owned();
        Self { cert, key, place: place(), cert_place: place(), key_place: place() }
    }

    /// Whether both pairs have the same files, wherever they were configured.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.cert, &self.key) == (&other.cert, &other.key)
    }

    /// Returns the error message for `fault`, with the place of the file's configuration in front.
    pub fn blame(&self, fault: &CertificateFault) -> String {
        let place = if fault.is_of_key { &self.key_place } else { &self.cert_place };
        format!("{place}: {fault}")
    }
}

/// An error in a certificate or its key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct CertificateFault {
    /// Whether the key is invalid, or does not match the certificate.
    pub is_of_key: bool,
    /// The file and the reason.
    pub why: String,
}

impl CertificateFault {
    /// Creates a fault of a chain.
    pub(crate) fn of_cert(why: String) -> Self {
        Self { is_of_key: false, why }
    }

    /// Creates a fault of a key.
    pub fn of_key(why: String) -> Self {
        Self { is_of_key: true, why }
    }
}
