//! Encodes field sections without a dynamic table and without Huffman codes: names by their index in the static table,
//! values verbatim. So a stored section can be copied into the stream of any connection.

use super::integer;

/// The first index of `:status` in the static table.
const STATUS: u8 = 8;
/// The first index that does not fit into a prefix of 4 bits: all response fields of the static table have such an index,
/// which takes one more byte.
const SHORT: u8 = 15;
/// The first length that does not fit into a prefix of 7 bits.
const LONG: usize = 127;

/// In place of an index: the field is omitted.
const OMITTED: u8 = 0;

/// Appends a table size update to 0 (RFC 7541 section 6.3). It must be at the start of a section.
pub fn no_table(out: &mut Vec<u8>) {
    out.push(0x20);
}

/// Appends `:status`. It must be the first field.
pub fn status(out: &mut Vec<u8>, status: u16) {
    let index = match status {
        200 => 8,
        204 => 9,
        206 => 10,
        304 => 11,
        400 => 12,
        404 => 13,
        500 => 14,
        _ => {
            let digit = |divisor: u16| b'0' + (status / divisor % 10) as u8;
            return out.extend_from_slice(&[STATUS, 3, digit(100), digit(10), digit(1)]);
        }
    };
    out.push(0x80 | index);
}

/// Appends a field with its name in lower case. Fields without a name, and those that concern an HTTP/1 connection, are
/// omitted.
pub fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let name = Name::of(name);
    if let (Name::Known(index @ SHORT..), 0..LONG) = (&name, value.len()) {
        // The usual case, in one piece.
        out.extend_from_slice(&[SHORT, index - SHORT, value.len() as u8]);
        return out.extend_from_slice(value);
    }
    if name.write(out) {
        integer::write(out, 7, 0, value.len());
        out.extend_from_slice(value);
    }
}

/// Appends a field as [`field`] does, with the value that `write` appends.
pub fn field_with(out: &mut Vec<u8>, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
    if !Name::of(name).write(out) {
        return;
    }
    // Most lengths take one byte.
    let at = out.len();
    out.push(0);
    write(out);
    let length = out.len() - at - 1;
    if length < LONG {
        out[at] = length as u8;
    } else {
        let mut prefix = Vec::new();
        integer::write(&mut prefix, 7, 0, length);
        out.splice(at..=at, prefix);
    }
}

/// The kind of a response field's name.
enum Name<'n> {
    /// A name in the static table, with its index.
    Known(u8),
    /// No name, or a field that HTTP/2 excludes (RFC 9113 section 8.2.2).
    Omitted,
    Other(&'n [u8]),
}

impl<'n> Name<'n> {
    /// Appends the name. Returns false for a field that is omitted.
    fn write(self, out: &mut Vec<u8>) -> bool {
        match self {
            Self::Omitted => return false,
            Self::Known(index) => integer::write(out, 4, 0, index.into()),
            Self::Other(name) => {
                out.push(0);
                integer::write(out, 7, 0, name.len());
                out.extend(name.iter().map(u8::to_ascii_lowercase));
            }
        }
        true
    }

    #[inline]
    fn of(name: &'n [u8]) -> Self {
        // Few names have the same length, so this takes few comparisons.
        match name.len() {
            0 => Self::Omitted,
            3 => Self::among(name, [(b"age", 21), (b"via", 60)]),
            4 => Self::among(name, [(b"date", 33), (b"etag", 34), (b"vary", 59), (b"link", 45)]),
            5 => Self::among(name, [(b"allow", 22)]),
            6 => Self::among(name, [(b"server", 54)]),
            7 => Self::among(name, [(b"expires", 36), (b"refresh", 52), (b"upgrade", OMITTED)]),
            8 => Self::among(name, [(b"location", 46)]),
            10 => {
                Self::among(name, [(b"set-cookie", 55), (b"connection", OMITTED), (b"keep-alive", OMITTED)])
            }
            11 => Self::among(name, [(b"retry-after", 53)]),
            12 => Self::among(name, [(b"content-type", 31)]),
            13 => Self::among(
                name,
                [
                    (b"cache-control", 24),
                    (b"last-modified", 44),
                    (b"accept-ranges", 18),
                    (b"content-range", 30),
                ],
            ),
            14 => Self::among(name, [(b"content-length", 28)]),
            16 => Self::among(
                name,
                [
                    (b"content-encoding", 26),
                    (b"content-language", 27),
                    (b"content-location", 29),
                    (b"www-authenticate", 61),
                    (b"proxy-connection", OMITTED),
                ],
            ),
            17 => Self::among(name, [(b"transfer-encoding", OMITTED)]),
            18 => Self::among(name, [(b"proxy-authenticate", 48)]),
            19 => Self::among(name, [(b"content-disposition", 25)]),
            25 => Self::among(name, [(b"strict-transport-security", 56)]),
            27 => Self::among(name, [(b"access-control-allow-origin", 20)]),
            _ => Self::Other(name),
        }
    }

    /// Finds a name of this length among known ones, which consist of letters and hyphens. As a number of bytes that the
    /// compiler knows, each is compared in a few instructions.
    #[inline]
    fn among<const N: usize, const K: usize>(name: &'n [u8], known: [(&[u8; N], u8); K]) -> Self {
        let Some(own) = name.first_chunk::<N>() else { return Self::Other(name) };
        // In a name, which is a token, this changes no other byte into a letter or a hyphen.
        let own = own.map(|byte| byte | 0x20);
        match known.iter().find(|(known, _)| **known == own) {
            None => Self::Other(name),
            Some((_, OMITTED)) => Self::Omitted,
            Some((_, index)) => Self::Known(*index),
        }
    }
}
