//! The reasons of failed TLS handshakes with an origin, in messages that say how to resolve them.

use std::io;

use larder_semantics::status::Why;
use rustls::{AlertDescription, CertificateError, Error};

/// An error between the TCP connection and the end of the TLS handshake.
#[derive(Debug, thiserror::Error)]
pub enum TlsFault {
    /// No trusted authority has signed the certificate.
    #[error("no trusted authority has signed its certificate")]
    Untrusted,
    /// The certificate has expired, or is not valid yet.
    #[error("{0}")]
    OutOfDate(&'static str),
    /// The certificate is valid for these other names only.
    #[error("its certificate is for {}", only(.0))]
    OtherName(Vec<String>),
    /// The server does not use TLS.
    #[error("the server at its port does not use TLS")]
    NoTls,
    /// The certificate is not valid for another reason.
    #[error("{0}")]
    Certificate(&'static str),
    /// Any other error.
    #[error("{0}")]
    Other(String),
}

impl TlsFault {
    /// Returns the reason for the client.
    pub(super) fn why(&self) -> Why {
        match self {
            Self::Untrusted => Why::OriginTlsUntrusted,
            Self::OutOfDate(_) => Why::OriginTlsExpired,
            Self::OtherName(_) => Why::OriginTlsName,
            Self::NoTls => Why::OriginNotTls,
            Self::Certificate(_) => Why::OriginTlsCertificate,
            Self::Other(_) => Why::OriginTls,
        }
    }

    fn of(error: &Error) -> Self {
        match error {
            Error::InvalidCertificate(fault) => Self::of_certificate(fault),
            Error::InvalidMessage(_) => Self::NoTls,
            Error::AlertReceived(alert) => Self::Other(format!("it refuses: {}", words_of(*alert))),
            Error::PeerIncompatible(_) => Self::Other(
                "it offers neither TLS 1.2 nor TLS 1.3 with a cipher suite that Larder supports".to_owned(),
            ),
            Error::PeerMisbehaved(_) | Error::InappropriateMessage { .. } => {
                Self::Other("it violates the TLS protocol".to_owned())
            }
            other => Self::Other(other.to_string()),
        }
    }

    fn of_certificate(fault: &CertificateError) -> Self {
        match fault {
            CertificateError::UnknownIssuer => Self::Untrusted,
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                Self::OutOfDate("its certificate has expired")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Self::OutOfDate("its certificate is not valid yet")
            }
            CertificateError::NotValidForName => Self::OtherName(Vec::new()),
            CertificateError::NotValidForNameContext { presented, .. } => Self::OtherName(presented.clone()),
            CertificateError::Revoked => Self::Certificate("its certificate has been revoked"),
            CertificateError::BadEncoding => Self::Certificate("its certificate cannot be read"),
            CertificateError::BadSignature => Self::Certificate("the signature of its certificate is wrong"),
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                Self::Certificate("its certificate is not for servers")
            }
            fault if is_of_authority(fault) => {
                Self::Certificate("its certificate is one of an authority (CA:TRUE), not one of a server")
            }
            _ => Self::Certificate("its certificate is not valid"),
        }
    }
}

impl From<io::Error> for TlsFault {
    fn from(error: io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref()) {
            Some(fault) => Self::of(fault),
            None if error.kind() == io::ErrorKind::UnexpectedEof => {
                Self::Other("it closed the connection during the handshake".to_owned())
            }
            None => Self::Other(error.to_string()),
        }
    }
}

/// Returns the names of a certificate that is for no other.
fn only(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| name_in(name).escape_debug().to_string()).collect();
    if names.is_empty() { "another name".to_owned() } else { format!("{} only", names.join(", ")) }
}

/// Whether a certificate is refused for being one of an authority.
pub(super) fn is_of_authority(fault: &CertificateError) -> bool {
    matches!(fault, CertificateError::Other(other) if other.0.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity))
}

/// Returns the name in `DnsName("docs.example")`, the form in which errors report a certificate's names.
fn name_in(text: &str) -> &str {
    let inner = text.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.map_or(text, |inner| inner.trim_matches('"'))
}

fn words_of(alert: AlertDescription) -> &'static str {
    match alert {
        AlertDescription::HandshakeFailure => "no cipher suite or certificate in common",
        AlertDescription::ProtocolVersion => "no TLS version in common",
        AlertDescription::UnrecognisedName => "it does not serve the requested server name",
        AlertDescription::CertificateRequired | AlertDescription::BadCertificate => {
            "it requires another certificate of its clients: client_cert and client_key in the site's table name one"
        }
        AlertDescription::AccessDenied => "access denied",
        AlertDescription::NoApplicationProtocol => "it does not support the requested version of HTTP",
        AlertDescription::InternalError => "it has an internal error",
        _ => "it gave no known reason",
    }
}
