//! Certificates by which an authority verifies that a name leads to this process (TLS-ALPN-01, RFC 8737). Clients never
//! get them.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use parking_lot::Mutex;
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::server::ClientHello;
use rustls::sign::CertifiedKey;

use super::provider;

/// The protocol of such a handshake, which carries no content (RFC 8737 section 4).
pub const PROTOCOL: &[u8] = b"acme-tls/1";

/// The certificates for verifications in progress, by name in lower case.
#[derive(Default)]
pub struct Challenges(Mutex<HashMap<String, Arc<CertifiedKey>>>);

impl Challenges {
    /// Presents the certificate with the hash of `key_authorization` for `name`, until [`withdraw`](Self::withdraw)
    /// (RFC 8737 section 3). The error is the reason why the certificate cannot be made.
    pub fn offer(&self, name: &str, key_authorization: &str) -> Result<(), String> {
        let made = certificate(name, key_authorization).map_err(|error| error.to_string())?;
        self.0.lock().insert(name.to_owned(), Arc::new(made));
        Ok(())
    }

    /// Removes the certificate for `name`.
    pub fn withdraw(&self, name: &str) {
        self.0.lock().remove(name);
    }

    /// Returns the certificate for the authority that requests `name`.
    pub(super) fn answer(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        self.0.lock().get(&name.to_ascii_lowercase()).cloned()
    }
}

impl fmt::Debug for Challenges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.lock().keys()).finish()
    }
}

/// Whether `client` is an authority that verifies a name: it offers only this protocol.
pub(super) fn is_asked(client: &ClientHello<'_>) -> bool {
    client.alpn().is_some_and(|mut offered| offered.next() == Some(PROTOCOL) && offered.next().is_none())
}

fn certificate(
    name: &str,
    key_authorization: &str,
) -> Result<CertifiedKey, Box<dyn std::error::Error + Send + Sync>> {
    let mut params = CertificateParams::new(vec![name.to_owned()])?;
    let hash = digest(&SHA256, key_authorization.as_bytes());
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(hash.as_ref())];
    let key = KeyPair::generate()?;
    let made = params.self_signed(&key)?;
    let private = PrivatePkcs8KeyDer::from(key.serialize_der());
    // The certificate is not parsed like others: it has a critical extension that only authorities support.
    Ok(CertifiedKey::new(vec![made.der().clone()], provider().key_provider.load_private_key(private.into())?))
}

#[cfg(test)]
mod tests {
    use x509_cert::der::asn1::ObjectIdentifier;
    use x509_cert::der::{Decode, asn1::OctetString};

    use super::*;

    /// RFC 8737 section 3: the name alone, and a critical extension with the hash of the key authorization.
    #[test]
    fn an_authority_finds_the_hash_in_the_certificate_for_the_name() {
        let challenges = Challenges::default();
        assert!(challenges.answer("site.test").is_none());
        challenges.offer("site.test", "token.thumbprint").expect("a certificate");
        let shown = challenges.answer("SITE.test").expect("the certificate");
        let parsed = x509_cert::Certificate::from_der(&shown.cert[0]).expect("a certificate");
        let extensions = parsed.tbs_certificate.extensions.expect("extensions");
        let identifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.1.31");
        let found =
            extensions.iter().find(|extension| extension.extn_id == identifier).expect("the extension");
        let value = OctetString::from_der(found.extn_value.as_bytes()).expect("a string");
        assert!(found.critical);
        assert_eq!(value.as_bytes(), digest(&SHA256, b"token.thumbprint").as_ref());
        challenges.withdraw("site.test");
        assert!(challenges.answer("site.test").is_none());
    }
}
