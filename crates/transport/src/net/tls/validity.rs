//! Whether clients accept a certificate: its time, and the chain behind it.

use std::time::Duration;

use rustls::pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, Error, KeyUsage, anchor_from_trusted_cert};
use x509_cert::der::Decode;

use super::certificates::Certificate;
use super::provider;

/// Seconds of a day.
pub(super) const DAY: u64 = 86_400;
/// The longest time before its end at which a certificate is about to expire, in seconds.
const SOON: u64 = 7 * DAY;
/// The same, as a part of its whole lifetime.
const LAST: u64 = 10;

impl Certificate {
    /// Returns the reason why clients refuse the certificate at `now`, in UNIX seconds, or will soon.
    pub fn trouble(&self, now: u64) -> Option<String> {
        let Some(left) = self.not_after.checked_sub(now) else { return Some("has expired".to_owned()) };
        if self.not_before > now {
            return Some("is not valid yet".to_owned());
        }
        let soon = SOON.min((self.not_after - self.not_before) / LAST);
        (left < soon).then(|| match left / DAY {
            0 => "expires within a day".to_owned(),
            1 => "expires in a day".to_owned(),
            days => format!("expires in {days} days"),
        })
    }

    /// Returns the reason, as [`trouble`](Self::trouble) does, why clients that trust the authority of the last certificate in the file refuse the first
    /// one at `now`, in UNIX seconds. Without further certificates in the file, there is none.
    pub fn chain_trouble(&self, now: u64) -> Option<String> {
        let [leaf, between @ .., last] = self.chain() else { return None };
        let has_ended = |certificate: &CertificateDer<'_>| {
            x509_cert::Certificate::from_der(certificate).is_ok_and(|certificate| {
                certificate.tbs_certificate.validity.not_after.to_unix_duration().as_secs() < now
            })
        };
        if between.iter().chain([last]).any(has_ended) {
            return Some("is in a file with a further certificate that has expired".to_owned());
        }
        let verify = || {
            let algorithms = provider().signature_verification_algorithms.all;
            let (anchors, now) = ([anchor_from_trusted_cert(last)?], Duration::from_secs(now));
            let (now, usage) = (UnixTime::since_unix_epoch(now), KeyUsage::server_auth());
            EndEntityCert::try_from(leaf)?
                .verify_for_usage(algorithms, &anchors, between, now, usage, None, None)
                .map(drop)
        };
        match verify() {
            Ok(()) => None,
            Err(Error::UnknownIssuer | Error::InvalidSignatureForPublicKey) => {
                Some("is in a file whose further certificates do not lead from it to an authority".to_owned())
            }
            Err(error) => Some(format!("is in a file whose chain does not verify: {error}")),
        }
    }

    /// Returns the reason, as [`trouble`](Self::trouble) does, why clients may refuse a certificate that is alone in its
    /// file: few of them fetch missing intermediate certificates. `None` for one that signs itself.
    pub fn missing_chain(&self) -> Option<String> {
        let [leaf] = self.chain() else { return None };
        let parsed = x509_cert::Certificate::from_der(leaf).ok()?.tbs_certificate;
        (parsed.issuer != parsed.subject).then(|| {
            let issuer = parsed.issuer;
            format!("is alone in its file: append the intermediate certificates, unless clients trust its issuer {issuer} itself")
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Certificate, DAY};
    use crate::base::settings::CertificateFiles;

    fn data(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src/net/testdata").join(name)
    }

    fn read(cert: PathBuf) -> Certificate {
        let files = CertificateFiles { cert, key: data("leaf.key"), ..CertificateFiles::default() };
        Certificate::read(&files).expect("a certificate")
    }

    #[test]
    fn a_certificate_is_reported_in_the_last_days_of_its_lifetime() {
        let certificate = read(data("leaf.pem"));
        let at = |before: u64| certificate.trouble(certificate.not_after - before);
        assert_eq!((at(8 * DAY), at(7 * DAY)), (None, None));
        assert_eq!(at(7 * DAY - 1).as_deref(), Some("expires in 6 days"));
        assert_eq!(at(DAY).as_deref(), Some("expires in a day"));
        assert_eq!(at(0).as_deref(), Some("expires within a day"));
        assert_eq!(certificate.trouble(certificate.not_after + 1).as_deref(), Some("has expired"));
        assert_eq!(certificate.trouble(certificate.not_before - 1).as_deref(), Some("is not valid yet"));
        // A tenth of a short life.
        let mut short = certificate.clone();
        short.not_before = short.not_after - 6 * DAY;
        assert_eq!(short.trouble(short.not_after - DAY), None);
        assert_eq!(short.trouble(short.not_after - DAY / 2).as_deref(), Some("expires within a day"));
    }

    #[test]
    fn a_chain_leads_from_the_first_certificate_to_the_last() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = |name: &str| std::fs::read_to_string(data(name)).expect("a file");
        let chain = |parts: &[String]| {
            let file = folder.path().join("chain.pem");
            std::fs::write(&file, parts.concat()).expect("written");
            let certificate = read(file);
            certificate.chain_trouble(certificate.not_before + DAY)
        };
        let (leaf, authority) = (text("leaf.pem"), text("ca.pem"));
        assert_eq!(chain(std::slice::from_ref(&leaf)), None);
        assert_eq!(chain(&[leaf.clone(), authority.clone()]), None);
        let broken = chain(&[leaf.clone(), leaf]).expect("a trouble");
        assert_eq!(broken, "is in a file whose further certificates do not lead from it to an authority");
        let late = read(data("leaf.pem")).not_after + 100 * 365 * DAY;
        std::fs::write(folder.path().join("chain.pem"), [text("leaf.pem"), authority].concat())
            .expect("written");
        let expired = read(folder.path().join("chain.pem")).chain_trouble(late).expect("a trouble");
        assert_eq!(expired, "is in a file with a further certificate that has expired");
    }
}
