//! The boundaries of messages: framed (a length before each) or buffered (consecutive, without lengths).

use bytes::{Bytes, BytesMut};

use crate::Malformed;

/// Bytes of the length before a framed message.
pub(super) const FRAME: usize = 4;

/// The sequence of messages on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Each message follows its length.
    Framed,
    /// The end of a message is found only by reading it.
    Buffered,
}

impl Transport {
    /// Returns the transport of a connection that begins with `bytes`. Returns `None` if these are too few to decide.
    ///
    /// A message with a version begins with a byte that cannot begin a length. A message without a version begins with
    /// the length of its method's name, as a frame begins with its own length. The next byte differs: in a message it
    /// is the first letter of a name; in a frame it is the first byte of a version, or the first byte of a name's
    /// length, which is always 0.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        match (bytes.first()?, bytes.get(FRAME)) {
            (0x80.., _) => Some(Self::Buffered),
            (_, Some(0 | 0x80 | 0x82)) => Some(Self::Framed),
            (_, Some(_)) => Some(Self::Buffered),
            (_, None) => None,
        }
    }

    /// Puts a message of `length` bytes into a frame if the transport has frames. `bytes` are the start of the message.
    pub(super) fn wrap(self, bytes: &[u8], length: usize) -> Bytes {
        match self {
            Self::Framed => [&(length as u32).to_be_bytes()[..], bytes].concat().into(),
            Self::Buffered => Bytes::copy_from_slice(bytes),
        }
    }
}

/// Takes a frame of at most `limit` bytes from the front of `buffer`. Returns `None` until it is complete. Empty
/// frames, which some clients send when they have no data, are dropped.
pub(super) fn unframe(buffer: &mut BytesMut, limit: usize) -> Result<Option<Bytes>, Malformed> {
    while let Some(head) = buffer.first_chunk::<FRAME>() {
        let declared = i32::from_be_bytes(*head);
        let Some(length) = usize::try_from(declared).ok().filter(|length| *length <= limit) else {
            return Err(Malformed(format!("a frame of {declared} bytes where {limit} are the most")));
        };
        if buffer.len() - FRAME < length {
            return Ok(None);
        }
        let frame = buffer.split_to(FRAME + length).split_off(FRAME);
        if !frame.is_empty() {
            return Ok(Some(frame.freeze()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::Transport::{self, Buffered, Framed};

    #[test]
    fn the_first_bytes_tell_the_transport() {
        for (bytes, expected) in [
            (&b"\x80"[..], Some(Buffered)),
            (b"\x82\x21", Some(Buffered)),
            (b"\0\0\0\x08", None),
            (b"\0\0\0\x08g", Some(Buffered)),
            (b"\0\0\0\x20\0", Some(Framed)),
            (b"\0\0\0\x20\x80", Some(Framed)),
            (b"\0\0\0\x20\x82", Some(Framed)),
            (b"", None),
        ] {
            assert_eq!(Transport::of(bytes), expected, "{bytes:?}");
        }
    }
}
