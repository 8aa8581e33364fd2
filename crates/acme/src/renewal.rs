//! The time of a certificate's renewal that the authority suggests (ACME renewal information, RFC 9773).

use std::time::Duration;

use instant_acme::CertificateIdentifier;
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::AuthorityKeyIdentifier;

use crate::{Account, Boxed, Problem};

/// Bytes of the header of a short value in DER.
const HEADER: usize = 2;

/// The suggestion of an authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// The start of the window of renewal, in UNIX seconds.
    pub start: u64,
    /// The end of the window.
    pub end: u64,
    /// The time to wait before the next query.
    pub wait: Duration,
}

/// Returns the identifier of a certificate, in DER, for the authority (RFC 9773 section 4.1); `None` if it has none.
pub fn identifier(leaf: &[u8]) -> Option<CertificateIdentifier<'static>> {
    let parsed = x509_cert::Certificate::from_der(leaf).ok()?.tbs_certificate;
    let (_, authority) = parsed.get::<AuthorityKeyIdentifier>().ok()??;
    let serial = parsed.serial_number.to_der().ok()?;
    // A serial number has at most 20 bytes (RFC 5280 section 4.1.2.2).
    let serial = serial.get(HEADER..)?;
    let authority = authority.key_identifier?;
    Some(CertificateIdentifier::new(authority.as_bytes().into(), serial.into()).into_owned())
}

impl Account {
    /// Asks for the time of renewal of a certificate.
    #[inline(never)]
    pub fn renewal<'a>(
        &'a self,
        certificate: &'a CertificateIdentifier<'_>,
    ) -> Boxed<'a, Result<Renewal, Problem>> {
        Box::pin(async move {
            let (info, wait) = self.0.renewal_info(certificate).await?;
            let seconds = |time: i64| u64::try_from(time).unwrap_or(0);
            let window = info.suggested_window;
            let (start, end) = (window.start.unix_timestamp(), window.end.unix_timestamp());
            Ok(Renewal { start: seconds(start), end: seconds(end), wait })
        })
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyIdMethod, KeyPair, SerialNumber};

    use super::*;

    /// The first row is the example of RFC 9773 section 4.1.
    #[test]
    fn a_certificate_is_known_by_its_authority_and_its_serial_number() {
        let example = [
            0x69, 0x88, 0x5b, 0x6b, 0x87, 0x46, 0x40, 0x41, 0xe1, 0xb3, 0x7b, 0x84, 0x7b, 0xa0, 0xae, 0x2c,
            0xde, 0x01, 0xc8, 0xd4,
        ];
        let table: [(&[u8], &[u8], &str); 2] = [
            (&example, &[0x87, 0x65, 0x43, 0x21], "aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE"),
            (&[0xc0, 0xff, 0xee], &[0x4a, 0xfe], "wP_u.Sv4"),
        ];
        for (authority, serial, expected) in table {
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_identifier_method = KeyIdMethod::PreSpecified(authority.to_vec());
            let issuer = Issuer::new(params, KeyPair::generate().expect("a key"));
            let mut params = CertificateParams::new(vec!["a.test".to_owned()]).expect("a name");
            params.serial_number = Some(SerialNumber::from_slice(serial));
            params.use_authority_key_identifier_extension = true;
            let made =
                params.signed_by(&KeyPair::generate().expect("a key"), &issuer).expect("a certificate");
            assert_eq!(identifier(made.der()).map(|id| id.to_string()).as_deref(), Some(expected));
        }
        let without = CertificateParams::new(vec!["a.test".to_owned()]).expect("a name");
        let made = without.self_signed(&KeyPair::generate().expect("a key")).expect("a certificate");
        assert_eq!(identifier(made.der()), None);
    }
}
