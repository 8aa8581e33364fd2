//! Errors of the record layer.

use std::io;

/// The reason why a client's bytes end its connection. The values are those of the alerts (RFC 8446 section 6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what they are")]
pub enum Fault {
    #[error("unexpected message")]
    UnexpectedMessage = 10,
    #[error("a record that cannot be decrypted")]
    BadRecordMac = 20,
    #[error("record too long")]
    RecordOverflow = 22,
    #[error("invalid value in a message")]
    IllegalParameter = 47,
    #[error("malformed message")]
    Decode = 50,
    #[error("record of another version")]
    ProtocolVersion = 70,
    #[error("no further record may be sealed with this key")]
    Internal = 80,
    #[error("renegotiation")]
    NoRenegotiation = 100,
    /// The client has sent an alert, so no alert is sent in return.
    #[error("the client ended the handshake with an alert")]
    Alerted = 255,
}

impl From<Fault> for io::Error {
    fn from(fault: Fault) -> Self {
        Self::new(io::ErrorKind::InvalidData, fault)
    }
}
