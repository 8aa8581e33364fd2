//! The boundaries of messages: framed (a length before each) or buffered (consecutive, without lengths).

use bytes::{Bytes, BytesMut};

use crate::Malformed;

/// Bytes of the length before a framed message.
pub(super) const FRAME: usize = 4;
/// The head of a frame without a message.
const EMPTY: &[u8] = &[0; FRAME];
/// The first byte in a frame of THeader, a transport of some servers: its magic number is 0x0fff.
const HEADER: u8 = 0x0f;

/// The sequence of messages on a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Transport {
    /// Each message follows its length.
    #[default]
    Framed,
    /// The end of a message is found only by reading it.
    Buffered,
}

impl Transport {
    /// Returns the transport of a connection that begins with `bytes`. Returns `None` if these are too few to decide.
    ///
    /// # Errors
    /// An empty frame, or a transport that is not supported.
    ///
    /// A message with a version begins with a byte that cannot begin a length. A message without a version begins with
    /// the length of its method's name, as a frame begins with its own length. The next byte differs: in a message it
    /// is the first letter of a name; in a frame it is the first byte of a version, or the first byte of a name's
    /// length, which is always 0.
    pub(super) fn of(bytes: &[u8]) -> Result<Option<Self>, Malformed> {
        let Some(first) = bytes.first() else { return Ok(None) };
        match (first, bytes.get(FRAME)) {
            (0x80.., _) => Ok(Some(Self::Buffered)),
            _ if bytes.starts_with(EMPTY) => Err(empty()),
            (_, Some(&HEADER)) => {
                let why = "the transport is THeader; the framed and the buffered one are supported";
                Err(Malformed(why.to_owned()))
            }
            (_, Some(0 | 0x80 | 0x82)) => Ok(Some(Self::Framed)),
            (_, Some(_)) => Ok(Some(Self::Buffered)),
            (_, None) => Ok(None),
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

/// Returns the message so far in the frame at the front of `buffer`, if that frame is longer than `limit`.
pub(super) fn overlong(buffer: &[u8], limit: usize) -> Option<&[u8]> {
    let (head, message) = buffer.split_first_chunk::<FRAME>()?;
    let length = usize::try_from(i32::from_be_bytes(*head)).ok()?;
    (length > limit).then_some(message)
}

/// Takes a frame of at most `limit` bytes from the front of `buffer`. Returns `None` until it is complete. Errors: a
/// longer frame, or an empty one, since no message is empty.
pub(super) fn unframe(buffer: &mut BytesMut, limit: usize) -> Result<Option<Bytes>, Malformed> {
    let Some(head) = buffer.first_chunk::<FRAME>() else { return Ok(None) };
    let declared = i32::from_be_bytes(*head);
    let Some(length) = usize::try_from(declared).ok().filter(|length| *length <= limit) else {
        return Err(Malformed(format!("a frame of {declared} bytes where {limit} are the most")));
    };
    if length == 0 {
        return Err(empty());
    }
    let is_complete = buffer.len() - FRAME >= length;
    Ok(is_complete.then(|| buffer.split_to(FRAME + length).split_off(FRAME).freeze()))
}

fn empty() -> Malformed {
    Malformed("a frame without a message".to_owned())
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
            assert_eq!(Transport::of(bytes), Ok(expected), "{bytes:?}");
        }
    }

    #[test]
    fn empty_frames_and_theader_are_no_transport() {
        for bytes in [&b"\0\0\0\0"[..], b"\0\0\0\0\0\0\0\x08", b"\0\0\0\x2e\x0f\xff\0\0"] {
            assert!(Transport::of(bytes).is_err(), "{bytes:?}");
        }
    }
}
