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

    fn of(name: &'n [u8]) -> Self {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        let first = |known: &[(&str, u8)]| {
            known
                .iter()
                .find(|(known, _)| is(known))
                .map_or(Self::Other(name), |(_, index)| Self::Known(*index))
        };
        // Few names have the same length, so this takes few comparisons.
        match name.len() {
            0 => Self::Omitted,
            3 => first(&[("age", 21), ("via", 60)]),
            4 => first(&[("date", 33), ("etag", 34), ("vary", 59), ("link", 45)]),
            5 => first(&[("allow", 22)]),
            6 => first(&[("server", 54)]),
            7 if is("upgrade") => Self::Omitted,
            7 => first(&[("expires", 36), ("refresh", 52)]),
            8 => first(&[("location", 46)]),
            10 if is("connection") || is("keep-alive") => Self::Omitted,
            10 => first(&[("set-cookie", 55)]),
            11 => first(&[("retry-after", 53)]),
            12 => first(&[("content-type", 31)]),
            13 => first(&[
                ("cache-control", 24),
                ("last-modified", 44),
                ("accept-ranges", 18),
                ("content-range", 30),
            ]),
            14 => first(&[("content-length", 28)]),
            16 if is("proxy-connection") => Self::Omitted,
            16 => first(&[
                ("content-encoding", 26),
                ("content-language", 27),
                ("content-location", 29),
                ("www-authenticate", 61),
            ]),
            17 if is("transfer-encoding") => Self::Omitted,
            18 => first(&[("proxy-authenticate", 48)]),
            19 => first(&[("content-disposition", 25)]),
            25 => first(&[("strict-transport-security", 56)]),
            27 => first(&[("access-control-allow-origin", 20)]),
            _ => Self::Other(name),
        }
    }
}
