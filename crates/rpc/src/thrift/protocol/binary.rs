//! The binary encoding: numbers of fixed width, most significant byte first
//! (thrift-binary-protocol.md of Apache Thrift).

use std::ops::Range;

use bytes::{BufMut, BytesMut};

use super::{Elements, Header, Kind, STOP, Type};
use crate::cursor::{Cursor, Stop};

/// The first byte of a message with a version.
pub(super) const FIRST: u8 = 0x80;
/// The version, above the message's type.
pub(super) const VERSION: u32 = 0x8001_0000;

const TYPES: &[(u8, Type)] = &[
    (2, Type::Byte),
    (3, Type::Byte),
    (4, Type::Double),
    (6, Type::I16),
    (8, Type::I32),
    (10, Type::I64),
    (11, Type::Binary),
    (12, Type::Struct),
    (13, Type::Map),
    (14, Type::List),
    (15, Type::List),
    (16, Type::Uuid),
];

pub(super) fn message(cursor: &mut Cursor<'_>) -> Result<Header, Stop> {
    let first = cursor.u32()?;
    if first & 0xffff_0000 != VERSION {
        return Stop::malformed(format!("a binary message of version {:#06x}, not 0x8001", first >> 16));
    }
    let kind = Kind::of(first as u8)?;
    let name = binary(cursor)?;
    Ok(Header { kind, name, sequence: i32::from_be_bytes(cursor.array()?) })
}

pub(super) fn old_message(cursor: &mut Cursor<'_>) -> Result<Header, Stop> {
    let name = binary(cursor)?;
    let kind = Kind::of(cursor.byte()?)?;
    Ok(Header { kind, name, sequence: i32::from_be_bytes(cursor.array()?) })
}

pub(super) fn field(cursor: &mut Cursor<'_>) -> Result<Option<(Type, i16)>, Stop> {
    match cursor.byte()? {
        STOP => Ok(None),
        code => Ok(Some((type_of(code)?, i16::from_be_bytes(cursor.array()?)))),
    }
}

pub(super) fn integer(cursor: &mut Cursor<'_>, of: Type) -> Result<i64, Stop> {
    match of {
        Type::I16 => cursor.array().map(i16::from_be_bytes).map(i64::from),
        Type::I32 => cursor.array().map(i32::from_be_bytes).map(i64::from),
        _ => cursor.array().map(i64::from_be_bytes),
    }
}

pub(super) fn binary(cursor: &mut Cursor<'_>) -> Result<Range<usize>, Stop> {
    let length = size(cursor)?;
    cursor.take(length)
}

pub(super) fn list(cursor: &mut Cursor<'_>) -> Result<Elements, Stop> {
    let code = cursor.byte()?;
    elements([Some(code), None], size(cursor)?)
}

pub(super) fn map(cursor: &mut Cursor<'_>) -> Result<Elements, Stop> {
    let [key, value] = cursor.array()?;
    elements([Some(key), Some(value)], size(cursor)?)
}

/// Reads the types and the count of a container. An empty container may have any types, as some writers send it.
fn elements(codes: [Option<u8>; 2], count: usize) -> Result<Elements, Stop> {
    if count == 0 {
        return Ok(([None, None], 0));
    }
    let [first, second] = codes.map(|code| code.map(type_of).transpose());
    Ok(([first?, second?], count))
}

fn size(cursor: &mut Cursor<'_>) -> Result<usize, Stop> {
    let size = i32::from_be_bytes(cursor.array()?);
    usize::try_from(size).or_else(|_| Stop::malformed(format!("a length of {size}")))
}

fn type_of(code: u8) -> Result<Type, Stop> {
    let known = TYPES.iter().find(|(known, _)| *known == code);
    known.map_or_else(|| Stop::malformed(format!("no value is of type {code}")), |(_, of)| Ok(*of))
}

pub(super) fn put_field(bytes: &mut BytesMut, of: Type, id: i16) {
    let code = TYPES.iter().find(|(_, known)| *known == of).map_or(STOP, |(code, _)| *code);
    bytes.put_u8(code);
    bytes.put_i16(id);
}
