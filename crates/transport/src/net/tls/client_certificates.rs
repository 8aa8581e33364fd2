//! Certificates of clients: the trusted authorities, and the data of a verified certificate for requests and logs.

use std::fmt::Write as _;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use larder_rules::CertificateNames;
use larder_words::hex;
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use webpki::EndEntityCert;
use x509_cert::der::Decode;

use super::certificates::authorities;
use super::provider;
use crate::base::file_version::FileVersion;
use crate::base::settings::{ClientAuth, ClientAuthFiles};
use crate::base::shown::{cut, visible};

/// Maximum of bytes of a subject in logs.
const LONGEST_SUBJECT: usize = 200;

/// Reads the authorities of `files`.
///
/// # Errors
/// A description of the problem with the file.
pub fn read(files: &ClientAuthFiles) -> Result<ClientAuth, String> {
    let path = files.ca.display();
    // Taken before the content is read, so that the next check detects a change in between.
    let version = FileVersion::of(&files.ca);
    let roots = authorities(&files.ca)?;
    let count = roots.len();
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
    let builder = if files.is_required { builder } else { builder.allow_unauthenticated() };
    let verifier = builder.build().map_err(|error| format!("{path}: {error}"))?;
    Ok(ClientAuth { files: files.clone(), verifier, count, version })
}

/// Whether the file has not changed since it was read.
pub(super) fn is_current(auth: &ClientAuth) -> bool {
    auth.version == FileVersion::of(&auth.files.ca)
}

/// The identity of a client on a listener that requests certificates; empty if the client has none.
#[derive(Debug, Default)]
pub struct ClientIdentity(Option<ClientCertificate>);

#[derive(Debug)]
struct ClientCertificate {
    field: HeaderValue,
    /// The subject, then the DNS names.
    names: Arc<CertificateNames>,
}

impl ClientIdentity {
    /// Creates the identity of a client with this verified chain, which begins with its own certificate.
    pub(super) fn of(chain: &[CertificateDer<'_>]) -> Arc<Self> {
        let shown = chain.first().and_then(|leaf| {
            let field = HeaderValue::try_from(format!(":{}:", STANDARD.encode(leaf))).ok()?;
            let parsed = EndEntityCert::try_from(leaf).ok();
            let others = parsed.iter().flat_map(|parsed| parsed.valid_dns_names());
            let names = std::iter::once(subject(leaf).into()).chain(others.map(Box::from)).collect();
            Some(ClientCertificate { field, names: Arc::new(CertificateNames(names)) })
        });
        Arc::new(Self(shown))
    }

    /// Returns the value of `Client-Cert` (RFC 9440 section 2.2); `None` without a certificate.
    pub fn field(&self) -> Option<&HeaderValue> {
        self.0.as_ref().map(|shown| &shown.field)
    }

    /// Returns the name for logs; `None` without a certificate.
    pub fn subject(&self) -> Option<&str> {
        self.names()?.0.first().map(|subject| &**subject)
    }

    /// Returns its names; `None` without a certificate.
    pub fn names(&self) -> Option<&Arc<CertificateNames>> {
        self.0.as_ref().map(|shown| &shown.names)
    }
}

/// Returns the subject as in RFC 4514, or the first DNS name or the fingerprint if the subject is empty.
fn subject(leaf: &CertificateDer<'_>) -> String {
    let mut text = String::new();
    let is_read = x509_cert::Certificate::from_der(leaf)
        .is_ok_and(|parsed| write!(text, "{}", parsed.tbs_certificate.subject).is_ok());
    if !is_read || text.is_empty() {
        let parsed = EndEntityCert::try_from(leaf);
        let name = parsed.ok().and_then(|parsed| parsed.valid_dns_names().next().map(str::to_owned));
        text = name.unwrap_or_else(|| fingerprint(leaf));
    }
    text = visible(&text);
    cut(&mut text, LONGEST_SUBJECT);
    text
}

fn fingerprint(leaf: &CertificateDer<'_>) -> String {
    format!("sha256:{}", hex(digest(&SHA256, leaf).as_ref()))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn named(names: &[&str], subject: &[(DnType, &str)]) -> Arc<ClientIdentity> {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in subject {
            params.distinguished_name.push(kind.clone(), *value);
        }
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        ClientIdentity::of(&[made.der().clone()])
    }

    #[test]
    fn a_subject_is_one_short_line_and_the_field_is_the_certificate() {
        type Row<'r> = (&'r [&'r str], &'r [(DnType, &'r str)], &'r str);
        let long = "x".repeat(400);
        let table: [Row<'_>; 4] = [
            (&[], &[(DnType::CommonName, "alice")], "CN=alice"),
            (&[], &[(DnType::CommonName, "a,O=b\n\"")], "CN=a\\,O=b\\0a\\\""),
            (&["one.test", "two.test"], &[], "one.test"),
            (&[], &[(DnType::CommonName, &long)], &format!("CN={}", &long[..LONGEST_SUBJECT - 3])),
        ];
        for (names, subject, expected) in table {
            let identity = named(names, subject);
            assert_eq!(identity.subject(), Some(expected));
            let field = identity.field().unwrap().to_str().unwrap().to_owned();
            let inner = field.strip_prefix(':').and_then(|rest| rest.strip_suffix(':')).unwrap();
            assert!(STANDARD.decode(inner).is_ok(), "{field}");
        }
        assert!(named(&[], &[]).subject().unwrap().starts_with("sha256:"));
        assert_eq!(ClientIdentity::of(&[]).subject(), None);
    }
}
