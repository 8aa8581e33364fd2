//! The error of a block that cannot be decoded.

/// A block that cannot be decoded. The tables of both sides differ from here on, so the connection must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;
