//! Where the certificates of the listeners are.

use std::fmt;
use std::path::PathBuf;

/// A certificate and its key, in two files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The chain in PEM, the server's certificate first.
    pub cert: PathBuf,
    /// Its key in PEM.
    pub key: PathBuf,
    /// Where the pair was configured, as an error says it: `larder.toml:7`.
    pub place: String,
    /// The same of the chain, with what the key of the config is called: `larder.toml:8: tls.cert`.
    pub cert_place: String,
    /// The same of the key.
    pub key_place: String,
}

impl CertificateFiles {
    /// Those that were configured in one place.
    pub fn at(cert: PathBuf, key: PathBuf, place: &str) -> Self {
        let place = || place.to_owned();
        Self { cert, key, place: place(), cert_place: place(), key_place: place() }
    }

    /// Whether these are the same files, wherever they were configured.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.cert, &self.key) == (&other.cert, &other.key)
    }

    /// What is wrong with one of the files, with the place where that was configured in front.
    pub fn blame(&self, fault: &CertificateFault) -> String {
        let place = if fault.is_of_key { &self.key_place } else { &self.cert_place };
        format!("{place}: {fault}")
    }
}

/// What is wrong with a certificate or its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFault {
    /// Whether the key is wrong, or does not belong to the certificate.
    pub is_of_key: bool,
    /// Which file, and why.
    pub why: String,
}

impl CertificateFault {
    /// The fault of a chain.
    pub(crate) fn of_cert(why: String) -> Self {
        Self { is_of_key: false, why }
    }

    /// The fault of a key.
    pub(crate) fn of_key(why: String) -> Self {
        Self { is_of_key: true, why }
    }
}

impl fmt::Display for CertificateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}
