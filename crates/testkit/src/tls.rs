//! Certificates: self-signed, or signed by an authority.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256,
    PKCS_ED25519, PKCS_RSA_SHA256, SignatureAlgorithm, date_time_ymd,
};
use tempfile::TempDir;

use crate::output;

/// The year in which certificates expire.
const LATE: i32 = 2040;

/// A certificate and its key.
pub struct Pair {
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl Pair {
    /// Creates a self-signed certificate for `name`, in the files `cert` and `key` of `folder`.
    pub fn self_signed(folder: &Path, name: &str) -> Self {
        Self::self_signed_until(folder, name, LATE)
    }

    /// Creates a self-signed certificate that expires on the first day of `year`.
    pub fn self_signed_until(folder: &Path, name: &str, year: i32) -> Self {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        Self { cert: folder.join("cert"), key: folder.join("key") }.written(&certificate, &key)
    }

    /// Creates a self-signed certificate as `openssl req -x509` does, with these extensions.
    pub fn by_openssl(folder: &Path, extensions: &[&str]) -> Self {
        let pair = Self { cert: folder.join("cert"), key: folder.join("key") };
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
        openssl.args(["-subj", "/CN=the origin", "-out"]).arg(&pair.cert).arg("-keyout").arg(&pair.key);
        extensions.iter().for_each(|extension| _ = openssl.args(["-addext", extension]));
        output(&mut openssl);
        pair
    }

    fn written(self, certificate: &Certificate, key: &KeyPair) -> Self {
        fs::write(&self.key, key.serialize_pem()).expect("written");
        fs::write(&self.cert, certificate.pem()).expect("written");
        self
    }

    /// Returns a config table with this certificate.
    pub fn table(&self) -> String {
        format!("[[tls]]\ncert = '{}'\nkey = '{}'\n", self.cert.display(), self.key.display())
    }
}

/// An authority that clients can trust.
pub struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    #[expect(clippy::new_without_default, reason = "each is another authority")]
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, "the test's authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        fs::write(folder.path().join("ca.pem"), certificate.pem()).expect("written");
        Self { folder, issuer: Issuer::new(params, key) }
    }

    /// Returns the path of the authority's certificate.
    pub fn file(&self) -> String {
        self.folder.path().join("ca.pem").display().to_string()
    }

    /// Writes a certificate for `names`. It replaces an earlier one called `name`.
    pub fn pair(&self, name: &str, names: &[&str]) -> Pair {
        self.until(name, names, &PKCS_ECDSA_P256_SHA256, LATE)
    }

    /// Writes a certificate with an Ed25519 key.
    pub fn ed25519(&self, name: &str, names: &[&str]) -> Pair {
        self.until(name, names, &PKCS_ED25519, LATE)
    }

    /// Writes a certificate with an RSA key.
    pub fn rsa(&self, name: &str, names: &[&str]) -> Pair {
        self.until(name, names, &PKCS_RSA_SHA256, LATE)
    }

    /// Writes a certificate that has expired.
    pub fn expired(&self, name: &str) -> Pair {
        self.until(name, &[], &PKCS_ECDSA_P256_SHA256, 2001)
    }

    fn until(&self, name: &str, names: &[&str], algorithm: &'static SignatureAlgorithm, year: i32) -> Pair {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.not_after = date_time_ymd(year, 1, 1);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate_for(algorithm).expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let file = |end: &str| self.folder.path().join(format!("{name}.{end}"));
        Pair { cert: file("pem"), key: file("key") }.written(&certificate, &key)
    }
}
