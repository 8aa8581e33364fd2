//! The compact encoding: numbers of variable length, field numbers as differences (thrift-compact-protocol.md of Apache
//! Thrift).

use std::ops::Range;

use bytes::{BufMut, BytesMut};

use super::{Elements, Header, Kind, STOP, Type};
use crate::cursor::{Cursor, Stop};

/// The first byte of a message.
pub(super) const FIRST: u8 = 0x82;
/// The version, in the bits below the message's type.
pub(super) const VERSION: u8 = 1;

const TYPES: &[(u8, Type)] = &[
    (1, Type::Flag),
    (2, Type::Flag),
    (3, Type::Byte),
    (4, Type::I16),
    (5, Type::I32),
    (6, Type::I64),
    (7, Type::Double),
    (8, Type::Binary),
    (9, Type::List),
    (10, Type::List),
    (11, Type::Map),
    (12, Type::Struct),
    (13, Type::Uuid),
];

pub(super) fn message(cursor: &mut Cursor<'_>) -> Result<Header, Stop> {
    let [_, second] = cursor.array()?;
    if second & 0x1f != VERSION {
        return Stop::malformed(format!("a compact message of version {}, not {VERSION}", second & 0x1f));
    }
    let kind = Kind::of(second >> 5)?;
    let sequence = varint32(cursor)? as i32;
    Ok(Header { kind, name: binary(cursor)?, sequence })
}

pub(super) fn field(cursor: &mut Cursor<'_>, last: i16) -> Result<Option<(Type, i16)>, Stop> {
    let head = cursor.byte()?;
    if head == STOP {
        return Ok(None);
    }
    let of = type_of(head & 0x0f)?;
    let id = match head >> 4 {
        0 => i16::try_from(integer(cursor)?).ok(),
        difference => last.checked_add(difference.into()),
    };
    id.map_or_else(|| Stop::malformed("a field's number has more than 16 bits"), |id| Ok(Some((of, id))))
}

/// Reads an integer whose sign is in the lowest bit, so that small negative numbers are short.
pub(super) fn integer(cursor: &mut Cursor<'_>) -> Result<i64, Stop> {
    let folded = varint(cursor)?;
    Ok((folded >> 1) as i64 ^ -((folded & 1) as i64))
}

pub(super) fn binary(cursor: &mut Cursor<'_>) -> Result<Range<usize>, Stop> {
    let length = size(cursor)?;
    cursor.take(length)
}

pub(super) fn list(cursor: &mut Cursor<'_>) -> Result<Elements, Stop> {
    let head = cursor.byte()?;
    let count = match head >> 4 {
        15 => size(cursor)?,
        count => count.into(),
    };
    let of = if count == 0 { None } else { Some(element(head & 0x0f)?) };
    Ok(([of, None], count))
}

pub(super) fn map(cursor: &mut Cursor<'_>) -> Result<Elements, Stop> {
    let count = size(cursor)?;
    if count == 0 {
        return Ok(([None, None], 0));
    }
    let types = cursor.byte()?;
    Ok(([Some(element(types >> 4)?), Some(element(types & 0x0f)?)], count))
}

/// Returns the type of an element. In a container there is no field head for a boolean, so it takes a byte.
fn element(code: u8) -> Result<Type, Stop> {
    type_of(code).map(|of| if of == Type::Flag { Type::Byte } else { of })
}

fn type_of(code: u8) -> Result<Type, Stop> {
    let known = TYPES.iter().find(|(known, _)| *known == code);
    known.map_or_else(|| Stop::malformed(format!("no value is of compact type {code}")), |(_, of)| Ok(*of))
}

/// Reads a length. Lengths have 31 bits: a longer one is a negative number of the writer.
fn size(cursor: &mut Cursor<'_>) -> Result<usize, Stop> {
    let size = varint32(cursor)? as i32;
    usize::try_from(size).or_else(|_| Stop::malformed(format!("a length of {size}")))
}

fn varint32(cursor: &mut Cursor<'_>) -> Result<u32, Stop> {
    let value = varint(cursor)?;
    u32::try_from(value).or_else(|_| Stop::malformed(format!("{value} where 32 bits are the most")))
}

/// Reads a number with seven bits in each byte, the lowest first; the highest bit means that another byte follows.
fn varint(cursor: &mut Cursor<'_>) -> Result<u64, Stop> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = cursor.byte()?;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            break;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Stop::malformed("a number has more than 64 bits")
}

pub(super) fn put_varint(bytes: &mut BytesMut, mut value: u64) {
    while value >= 0x80 {
        bytes.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.put_u8(value as u8);
}

pub(super) fn put_integer(bytes: &mut BytesMut, value: i64) {
    put_varint(bytes, (value << 1 ^ value >> 63) as u64);
}

pub(super) fn put_field(bytes: &mut BytesMut, of: Type, id: i16, last: i16) {
    let code = TYPES.iter().find(|(_, known)| *known == of).map_or(STOP, |(code, _)| *code);
    match id.checked_sub(last) {
        Some(difference @ 1..=15) => bytes.put_u8((difference as u8) << 4 | code),
        _ => {
            bytes.put_u8(code);
            put_integer(bytes, id.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::{integer, put_integer, put_varint, varint};
    use crate::cursor::{Cursor, Stop};

    #[test]
    fn numbers_are_as_long_as_they_are_large() {
        for (value, expected) in [
            (0, &[0][..]),
            (127, &[0x7f]),
            (128, &[0x80, 0x01]),
            (300, &[0xac, 0x02]),
            (u64::MAX, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
        ] {
            let mut bytes = BytesMut::new();
            put_varint(&mut bytes, value);
            assert_eq!(bytes, expected, "{value}");
            assert_eq!(varint(&mut Cursor::whole(&bytes)), Ok(value));
        }
    }

    #[test]
    fn signs_are_folded() {
        for (value, expected) in [(0, 0), (-1, 1), (1, 2), (-2, 3), (63, 126), (-64, 127)] {
            let mut bytes = BytesMut::new();
            put_integer(&mut bytes, value);
            assert_eq!(bytes, &[expected][..], "{value}");
        }
        for value in [i64::MIN, i64::MAX] {
            let mut bytes = BytesMut::new();
            put_integer(&mut bytes, value);
            assert_eq!(integer(&mut Cursor::whole(&bytes)), Ok(value));
        }
    }

    #[test]
    fn a_number_has_64_bits() {
        for endless in [&[0xff; 11][..], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]] {
            assert!(matches!(varint(&mut Cursor::partial(endless, 99)), Err(Stop::Malformed(_))));
        }
    }
}
