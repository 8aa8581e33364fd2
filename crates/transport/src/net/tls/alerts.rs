//! The alerts of handshakes that fail. rustls makes them, except for some errors, and some of its codes are not those of
//! the standards.

use rustls::{AlertDescription, Error, InvalidMessage, PeerIncompatible, PeerMisbehaved};

/// The error of rustls when there is no certificate for the name that a client requests.
pub(super) const NO_CERTIFICATE: &str = "no server certificate chain resolved";

/// The error of rustls in TLS 1.2 when the client supports no signature of the certificate's key.
pub(super) const NO_SCHEME: &str = "incompatible signing key";

/// Bytes in front of a hello's session: the headers of the record and of the message, the version, the random bytes.
const FRONT: usize = 5 + 4 + 2 + 32;
/// Extensions of a hello.
const SERVER_NAME: u16 = 0;
const GROUPS: u16 = 10;
const VERSIONS: u16 = 43;
const TLS13: [u8; 2] = [3, 4];

/// Returns the alert for `error` where that of rustls is another one or missing. `record` may contain the client's hello.
pub(super) fn alert_for(error: &Error, record: &[u8]) -> Option<AlertDescription> {
    use AlertDescription as Alert;
    let offered = extensions(record).unwrap_or_default();
    let has = |wanted: u16| offered.iter().any(|(kind, _)| *kind == wanted);
    let is_v13 = offered.iter().any(|(kind, versions)| {
        *kind == VERSIONS && versions.get(1..).is_some_and(|all| all.as_chunks().0.contains(&TLS13))
    });
    Some(match error {
        Error::InvalidMessage(InvalidMessage::InvalidEmptyPayload | InvalidMessage::InvalidContentType)
        | Error::PeerMisbehaved(
            PeerMisbehaved::MessageInterleavedWithHandshakeMessage
            | PeerMisbehaved::TooManyEmptyFragments
            | PeerMisbehaved::TooManyWarningAlertsReceived
            | PeerMisbehaved::IllegalMiddleboxChangeCipherSpec,
        ) => Alert::UnexpectedMessage,
        Error::InvalidMessage(InvalidMessage::MessageTooLarge) => Alert::RecordOverflow,
        Error::InvalidMessage(InvalidMessage::UnknownProtocolVersion) => Alert::ProtocolVersion,
        Error::PeerMisbehaved(PeerMisbehaved::ServerNameDifferedOnRetry) => Alert::IllegalParameter,
        // RFC 8446 section 9.2. Without TLS 1.3, these extensions are optional.
        Error::PeerIncompatible(PeerIncompatible::KeyShareExtensionRequired) => Alert::MissingExtension,
        Error::PeerIncompatible(PeerIncompatible::SignatureAlgorithmsExtensionRequired) if is_v13 => {
            Alert::MissingExtension
        }
        Error::PeerIncompatible(PeerIncompatible::NoKxGroupsInCommon) if is_v13 && !has(GROUPS) => {
            Alert::MissingExtension
        }
        // RFC 6066 section 3.
        Error::General(why) if why == NO_CERTIFICATE && has(SERVER_NAME) => Alert::UnrecognisedName,
        Error::General(why) if why == NO_CERTIFICATE || why == NO_SCHEME => Alert::HandshakeFailure,
        // RFC 5246 section 7.4.6. In TLS 1.3, this alert is encrypted, and rustls has the right one.
        Error::NoCertificatesPresented => Alert::HandshakeFailure,
        Error::General(_) => Alert::InternalError,
        _ => return None,
    })
}

/// Returns the extensions of the hello in `record`; `None` if it is another message, or only a part of a hello.
fn extensions(record: &[u8]) -> Option<Vec<(u16, &[u8])>> {
    let mut rest = record.get(FRONT..)?;
    let (_session, _suites, _compression) =
        (vector(&mut rest, 1)?, vector(&mut rest, 2)?, vector(&mut rest, 1)?);
    let mut rest = vector(&mut rest, 2)?;
    let mut found = Vec::new();
    while let Some((kind, after)) = rest.split_first_chunk() {
        rest = after;
        found.push((u16::from_be_bytes(*kind), vector(&mut rest, 2)?));
    }
    Some(found)
}

/// Removes a vector from the front of `bytes`, whose length has `width` bytes (RFC 8446 section 3.4).
fn vector<'b>(bytes: &mut &'b [u8], width: usize) -> Option<&'b [u8]> {
    let (length, rest) = bytes.split_at_checked(width)?;
    let length = length.iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
    let (content, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some(content)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_of_a_hello_are_read_or_refused(bytes: Vec<u8>, width in 0..3_usize) {
            let _ = extensions(&[&[0; FRONT][..], &bytes].concat());
            let mut rest = &bytes[..];
            if let Some(content) = vector(&mut rest, width) {
                prop_assert_eq!(width + content.len() + rest.len(), bytes.len());
            }
        }
    }
}
