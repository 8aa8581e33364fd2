//! Where the certificates of the listeners are.

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
}

impl CertificateFiles {
    /// Whether these are the same files, wherever they were configured.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.cert, &self.key) == (&other.cert, &other.key)
    }

    /// What is wrong with the pair, with the place where it was configured in front.
    pub fn blame(&self, why: &str) -> String {
        format!("{}: {why}", self.place)
    }
}
