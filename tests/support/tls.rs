//! Certificates for listeners with TLS.

use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, KeyPair, date_time_ymd};

/// A certificate that signs itself.
pub(crate) struct SelfSigned {
    pub(crate) cert: PathBuf,
    key: PathBuf,
}

impl SelfSigned {
    /// One for `name`, in `folder`.
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        Self::until(folder, name, 2040)
    }

    /// The same with a certificate that ends with the first day of `year`.
    pub(crate) fn until(folder: &Path, name: &str, year: i32) -> Self {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.not_after = date_time_ymd(year, 1, 1);
        let signing = KeyPair::generate().expect("a key");
        let made = params.self_signed(&signing).expect("a certificate");
        let [cert, key] = ["cert", "key"].map(|name| folder.join(name));
        std::fs::write(&cert, made.pem()).expect("written");
        std::fs::write(&key, signing.serialize_pem()).expect("written");
        Self { cert, key }
    }

    /// The table of a config with it.
    pub(crate) fn table(&self) -> String {
        format!("[[tls]]\ncert = '{}'\nkey = '{}'\n", self.cert.display(), self.key.display())
    }
}
