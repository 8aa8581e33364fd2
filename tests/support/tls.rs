//! Certificates for listeners with TLS.

use std::path::{Path, PathBuf};

/// A certificate that signs itself.
pub(crate) struct SelfSigned {
    pub(crate) cert: PathBuf,
    key: PathBuf,
}

impl SelfSigned {
    /// One for `name`, in `folder`.
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).expect("a certificate");
        let [cert, key] = ["cert", "key"].map(|name| folder.join(name));
        std::fs::write(&cert, made.cert.pem()).expect("written");
        std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
        Self { cert, key }
    }

    /// The table of a config with it.
    pub(crate) fn table(&self) -> String {
        format!("[[tls]]\ncert = '{}'\nkey = '{}'\n", self.cert.display(), self.key.display())
    }
}
