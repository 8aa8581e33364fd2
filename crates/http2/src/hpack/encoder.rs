//! Encodes field sections without a dynamic table and without Huffman codes: names by their index in the static table,
//! values verbatim. So a stored section can be copied into the stream of any connection.

use super::integer;
use super::names::Name;

/// The first index of `:status` in the static table.
const STATUS: u8 = 8;
/// The first index that does not fit into a prefix of 4 bits: all names but those of pseudo-header fields have such an
/// index, which takes one more byte.
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
#[inline]
pub fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    field_of(out, Name::of(name), name, value);
}

fn field_of(out: &mut Vec<u8>, known: Name, name: &[u8], value: &[u8]) {
    if let (Name::Known(index @ SHORT..), 0..LONG) = (known, value.len()) {
        // The usual case, in one piece.
        out.extend_from_slice(&[SHORT, index - SHORT, value.len() as u8]);
        return out.extend_from_slice(value);
    }
    if write_name(out, known, name) {
        integer::write(out, 7, 0, value.len());
        out.extend_from_slice(value);
    }
}

/// Appends a field as [`field`] does, with the value that `write` appends.
#[inline]
pub fn field_with(out: &mut Vec<u8>, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
    if !write_name(out, Name::of(name), name) {
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

/// Appends a name. Returns false for a field that is omitted. Inlined, since many names are constants.
#[inline(always)]
fn write_name(out: &mut Vec<u8>, known: Name, name: &[u8]) -> bool {
    match known {
        Name::Omitted => return false,
        Name::Known(index @ SHORT..) => out.extend_from_slice(&[SHORT, index - SHORT]),
        Name::Known(index) => out.push(index),
        Name::Other => write_other_name(out, name),
    }
    true
}

fn write_other_name(out: &mut Vec<u8>, name: &[u8]) {
    out.push(0);
    integer::write(out, 7, 0, name.len());
    let at = out.len();
    out.extend_from_slice(name);
    out[at..].make_ascii_lowercase();
}
