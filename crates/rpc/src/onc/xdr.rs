//! XDR (RFC 4506): the few types that calls and replies use.

use std::ops::Range;

use bytes::{BufMut, BytesMut};

use crate::cursor::{Cursor, Stop};

/// The length of every item is a multiple of this number of bytes.
const UNIT: usize = 4;

/// Returns the number of bytes after `length` bytes that fill the last unit.
pub(super) fn padding(length: usize) -> usize {
    length.wrapping_neg() % UNIT
}

/// Reads `opaque<most>` or `string<most>`, and returns the range of its bytes.
pub(super) fn opaque(cursor: &mut Cursor<'_>, most: usize) -> Result<Range<usize>, Stop> {
    let length = cursor.u32()? as usize;
    if length > most {
        return Stop::malformed(format!("{length} bytes where {most} are the most"));
    }
    let place = cursor.take(length)?;
    cursor.take(padding(length))?;
    Ok(place)
}

pub(super) fn put_opaque(out: &mut BytesMut, value: &[u8]) {
    out.put_u32(value.len() as u32);
    out.put_slice(value);
    out.put_bytes(0, padding(value.len()));
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::{opaque, put_opaque};
    use crate::cursor::{Cursor, Stop};

    #[test]
    fn strings_fill_units() {
        for (value, wire) in [
            (&b""[..], &b"\0\0\0\0"[..]),
            (b"a", b"\0\0\0\x01a\0\0\0"),
            (b"abcd", b"\0\0\0\x04abcd"),
            (b"abcde", b"\0\0\0\x05abcde\0\0\0"),
        ] {
            let mut out = BytesMut::new();
            put_opaque(&mut out, value);
            assert_eq!(out, wire);
            assert_eq!(opaque(&mut Cursor::whole(wire), 8), Ok(4..4 + value.len()));
        }
    }

    #[test]
    fn a_string_ends_in_its_message_and_is_no_longer_than_declared() {
        for (wire, most) in
            [(&b"\0\0\0\x05abcde"[..], 8), (b"\0\0\0\x04abc", 8), (b"\0\0\0\x04abcd", 3), (b"\0\0", 8)]
        {
            assert!(matches!(opaque(&mut Cursor::whole(wire), most), Err(Stop::Malformed(_))), "{wire:?}");
        }
    }
}
