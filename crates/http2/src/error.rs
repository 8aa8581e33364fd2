//! The reasons for the end of a stream or a connection.

use std::fmt;

/// An error code (RFC 9113 section 7). Codes without a name are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u32);

impl Code {
    /// No error.
    pub const NO_ERROR: Self = Self(0x0);
    /// The peer has violated the protocol.
    pub const PROTOCOL_ERROR: Self = Self(0x1);
    /// An unexpected condition in this program.
    pub const INTERNAL_ERROR: Self = Self(0x2);
    /// The peer has sent more than a window allows.
    pub const FLOW_CONTROL_ERROR: Self = Self(0x3);
    /// A frame for a stream that is closed in this direction.
    pub const STREAM_CLOSED: Self = Self(0x5);
    /// A frame with a wrong length.
    pub const FRAME_SIZE_ERROR: Self = Self(0x6);
    /// The stream was not processed; the request may be repeated.
    pub const REFUSED_STREAM: Self = Self(0x7);
    /// The stream is no longer wanted.
    pub const CANCEL: Self = Self(0x8);
    /// Field sections cannot be decoded any more.
    pub const COMPRESSION_ERROR: Self = Self(0x9);
    /// The connection behind a `CONNECT` request has failed.
    pub const CONNECT_ERROR: Self = Self(0xa);
    /// The peer causes excessive work.
    pub const ENHANCE_YOUR_CALM: Self = Self(0xb);
}

/// The reason for the end of a connection. The `GOAWAY` frame with this reason is already written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The code in the frame.
    pub code: Code,
    /// A description of the error, for logs.
    pub reason: &'static str,
}

impl Failure {
    pub(crate) const fn new(code: Code, reason: &'static str) -> Self {
        Self { code, reason }
    }

    pub(crate) const fn protocol(reason: &'static str) -> Self {
        Self::new(Code::PROTOCOL_ERROR, reason)
    }

    pub(crate) const fn frame_size(reason: &'static str) -> Self {
        Self::new(Code::FRAME_SIZE_ERROR, reason)
    }

    pub(crate) const fn flood(reason: &'static str) -> Self {
        Self::new(Code::ENHANCE_YOUR_CALM, reason)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (error code {})", self.reason, self.code.0)
    }
}

impl std::error::Error for Failure {}
