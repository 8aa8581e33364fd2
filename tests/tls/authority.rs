//! A certificate authority of a test, and the certificates that it signs.

use std::fs;
use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519,
    SignatureAlgorithm, date_time_ymd,
};
use tempfile::TempDir;

/// An authority that clients can trust.
pub(crate) struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key.
pub(crate) struct Pair {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, "the test's authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        fs::write(folder.path().join("ca.pem"), certificate.pem()).expect("written");
        Self { folder, issuer: Issuer::new(params, key) }
    }

    /// Returns the file with the authority's certificate.
    pub(crate) fn file(&self) -> String {
        self.folder.path().join("ca.pem").display().to_string()
    }

    /// Writes a certificate for `names`, and replaces an earlier one called `name`.
    pub(crate) fn pair(&self, name: &str, names: &[&str]) -> Pair {
        self.signed(name, names, &PKCS_ECDSA_P256_SHA256)
    }

    /// Writes a certificate like [`Self::pair`], with an Ed25519 key.
    pub(crate) fn ed25519(&self, name: &str, names: &[&str]) -> Pair {
        self.signed(name, names, &PKCS_ED25519)
    }

    /// Writes an expired certificate.
    pub(crate) fn expired(&self, name: &str) -> Pair {
        self.until(name, &[], &PKCS_ECDSA_P256_SHA256, 2001)
    }

    fn signed(&self, name: &str, names: &[&str], algorithm: &'static SignatureAlgorithm) -> Pair {
        self.until(name, names, algorithm, 2040)
    }

    fn until(&self, name: &str, names: &[&str], algorithm: &'static SignatureAlgorithm, year: i32) -> Pair {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.not_after = date_time_ymd(year, 1, 1);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate_for(algorithm).expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let file = |end: &str| self.folder.path().join(format!("{name}.{end}"));
        let pair = Pair { cert: file("pem"), key: file("key") };
        fs::write(&pair.key, key.serialize_pem()).expect("written");
        fs::write(&pair.cert, certificate.pem()).expect("written");
        pair
    }
}

impl Pair {
    /// Returns the table of a config with this certificate.
    pub(crate) fn table(&self) -> String {
        format!("[[tls]]\ncert = '{}'\nkey = '{}'\n", self.cert.display(), self.key.display())
    }
}
