//! Values and fields in Thrift's encodings: one reader and one writer for both.
//!
//! This supports only the needs of a service with three methods: there is no writer for containers, and the reader only
//! skips them.

use std::ops::Range;

use bytes::{BufMut, BytesMut};

use crate::cursor::{Cursor, Stop};

mod binary;
mod compact;

/// The maximum nesting depth of an unknown field. Known fields have a depth of one.
const DEPTH: u32 = 32;

/// An encoding of messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Binary, where each message begins with its version.
    #[default]
    Binary,
    /// The older binary protocol without a version ("non-strict").
    OldBinary,
    /// Compact.
    Compact,
}

impl Protocol {
    /// Returns the protocol of a message that begins with `first`.
    pub(super) fn of(first: u8) -> Self {
        match first {
            binary::FIRST => Self::Binary,
            compact::FIRST => Self::Compact,
            _ => Self::OldBinary,
        }
    }
}

/// The type of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Call = 1,
    Reply = 2,
    Exception = 3,
    Oneway = 4,
}

impl Kind {
    fn of(code: u8) -> Result<Self, Stop> {
        match code {
            1 => Ok(Self::Call),
            2 => Ok(Self::Reply),
            3 => Ok(Self::Exception),
            4 => Ok(Self::Oneway),
            _ => Stop::malformed(format!("no message is of type {code}")),
        }
    }
}

/// The start of a message.
#[derive(Debug, Clone)]
pub(super) struct Header {
    pub(super) kind: Kind,
    /// The range of the method's name.
    pub(super) name: Range<usize>,
    pub(super) sequence: i32,
}

/// The types of values, distinguished only if they are read differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    /// A boolean in the field's head of the compact encoding: no bytes follow.
    Flag,
    /// One byte: a boolean or a small number.
    Byte,
    I16,
    I32,
    I64,
    Double,
    /// A string or bytes.
    Binary,
    Struct,
    /// A list or a set.
    List,
    Map,
    Uuid,
}

pub(super) struct Reader<'a> {
    protocol: Protocol,
    cursor: Cursor<'a>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(protocol: Protocol, cursor: Cursor<'a>) -> Self {
        Self { protocol, cursor }
    }

    /// Returns the number of bytes read so far.
    pub(super) fn at(&self) -> usize {
        self.cursor.at()
    }

    pub(super) fn bytes(&self, place: &Range<usize>) -> &'a [u8] {
        self.cursor.bytes(place)
    }

    pub(super) fn message(&mut self) -> Result<Header, Stop> {
        match self.protocol {
            Protocol::Binary => binary::message(&mut self.cursor),
            Protocol::OldBinary => binary::old_message(&mut self.cursor),
            Protocol::Compact => compact::message(&mut self.cursor),
        }
    }

    /// Reads a struct. `take` receives each field's number and type, and returns whether it has read the value.
    pub(super) fn fields(
        &mut self,
        mut take: impl FnMut(&mut Self, i16, Type) -> Result<bool, Stop>,
    ) -> Result<(), Stop> {
        let mut last = 0;
        while let Some((of, id)) = self.field(last)? {
            if !take(self, id, of)? {
                self.skip(of, DEPTH)?;
            }
            last = id;
        }
        Ok(())
    }

    fn field(&mut self, last: i16) -> Result<Option<(Type, i16)>, Stop> {
        match self.protocol {
            Protocol::Compact => compact::field(&mut self.cursor, last),
            _ => binary::field(&mut self.cursor),
        }
    }

    /// Reads a number of type `of`.
    pub(super) fn integer(&mut self, of: Type) -> Result<i64, Stop> {
        match self.protocol {
            Protocol::Compact => compact::integer(&mut self.cursor),
            _ => binary::integer(&mut self.cursor, of),
        }
    }

    pub(super) fn double(&mut self) -> Result<f64, Stop> {
        let bytes = self.cursor.array()?;
        Ok(match self.protocol {
            Protocol::Compact => f64::from_le_bytes(bytes),
            _ => f64::from_be_bytes(bytes),
        })
    }

    /// Reads a string or binary value, and returns its range.
    pub(super) fn binary(&mut self) -> Result<Range<usize>, Stop> {
        match self.protocol {
            Protocol::Compact => compact::binary(&mut self.cursor),
            _ => binary::binary(&mut self.cursor),
        }
    }

    /// Reads a string for display; invalid UTF-8 is replaced.
    pub(super) fn text(&mut self) -> Result<String, Stop> {
        let place = self.binary()?;
        Ok(String::from_utf8_lossy(self.bytes(&place)).into_owned())
    }

    fn skip(&mut self, of: Type, depth: u32) -> Result<(), Stop> {
        let Some(depth) = depth.checked_sub(1) else {
            return Stop::malformed(format!("a field is nested more than {DEPTH} deep"));
        };
        match of {
            Type::Flag => Ok(()),
            Type::Byte => self.cursor.take(1).map(drop),
            Type::I16 | Type::I32 | Type::I64 => self.integer(of).map(drop),
            Type::Double => self.cursor.take(8).map(drop),
            Type::Uuid => self.cursor.take(16).map(drop),
            Type::Binary => self.binary().map(drop),
            Type::Struct => {
                let mut last = 0;
                while let Some((of, id)) = self.field(last)? {
                    self.skip(of, depth)?;
                    last = id;
                }
                Ok(())
            }
            Type::List | Type::Map => self.skip_elements(of, depth),
        }
    }

    fn skip_elements(&mut self, of: Type, depth: u32) -> Result<(), Stop> {
        let (types, count) = match (self.protocol, of) {
            (Protocol::Compact, Type::Map) => compact::map(&mut self.cursor)?,
            (Protocol::Compact, _) => compact::list(&mut self.cursor)?,
            (_, Type::Map) => binary::map(&mut self.cursor)?,
            _ => binary::list(&mut self.cursor)?,
        };
        // An element takes at least a byte, so a count above the number of bytes is invalid.
        if count > self.cursor.room() {
            return Stop::malformed(format!("{count} elements in {} bytes", self.cursor.room()));
        }
        for _ in 0..count {
            for of in types.into_iter().flatten() {
                self.skip(of, depth)?;
            }
        }
        Ok(())
    }
}

/// The types of a container's elements (of a map's keys, then values), and their number.
type Elements = ([Option<Type>; 2], usize);

/// Writes one message.
pub(super) struct Writer {
    protocol: Protocol,
    bytes: BytesMut,
    /// The number of the struct's last field; the compact encoding writes differences to it.
    last: i16,
}

impl Writer {
    pub(super) fn message(protocol: Protocol, kind: Kind, name: &[u8], sequence: i32) -> Self {
        let mut writer = Self { protocol, bytes: BytesMut::with_capacity(64), last: 0 };
        match protocol {
            Protocol::Binary => {
                writer.bytes.put_u32(binary::VERSION | kind as u32);
                writer.binary(name);
                writer.bytes.put_i32(sequence);
            }
            Protocol::OldBinary => {
                writer.binary(name);
                writer.bytes.put_u8(kind as u8);
                writer.bytes.put_i32(sequence);
            }
            Protocol::Compact => {
                writer.bytes.put_slice(&[compact::FIRST, compact::VERSION | (kind as u8) << 5]);
                compact::put_varint(&mut writer.bytes, u64::from(sequence as u32));
                writer.binary(name);
            }
        }
        writer
    }

    fn field(&mut self, of: Type, id: i16) {
        match self.protocol {
            Protocol::Compact => compact::put_field(&mut self.bytes, of, id, self.last),
            _ => binary::put_field(&mut self.bytes, of, id),
        }
        self.last = id;
    }

    fn integer(&mut self, of: Type, id: i16, value: i64) {
        self.field(of, id);
        match (self.protocol, of) {
            (Protocol::Compact, _) => compact::put_integer(&mut self.bytes, value),
            (_, Type::I32) => self.bytes.put_i32(value as i32),
            _ => self.bytes.put_i64(value),
        }
    }

    pub(super) fn i32_field(&mut self, id: i16, value: i32) {
        self.integer(Type::I32, id, value.into());
    }

    pub(super) fn i64_field(&mut self, id: i16, value: i64) {
        self.integer(Type::I64, id, value);
    }

    pub(super) fn double_field(&mut self, id: i16, value: f64) {
        self.field(Type::Double, id);
        match self.protocol {
            Protocol::Compact => self.bytes.put_f64_le(value),
            _ => self.bytes.put_f64(value),
        }
    }

    pub(super) fn binary_field(&mut self, id: i16, value: &[u8]) {
        self.binary_head(id, value.len());
        self.bytes.put_slice(value);
    }

    /// Begins a binary field whose `length` bytes are sent after this writer's bytes.
    pub(super) fn binary_head(&mut self, id: i16, length: usize) {
        self.field(Type::Binary, id);
        self.length(length);
    }

    /// Writes a field that is a struct, whose fields `write` writes.
    pub(super) fn struct_field(&mut self, id: i16, write: impl FnOnce(&mut Self)) {
        self.field(Type::Struct, id);
        self.last = 0;
        write(self);
        self.stop();
        self.last = id;
    }

    /// Ends a struct.
    pub(super) fn stop(&mut self) {
        self.bytes.put_u8(STOP);
    }

    fn binary(&mut self, value: &[u8]) {
        self.length(value.len());
        self.bytes.put_slice(value);
    }

    fn length(&mut self, length: usize) {
        match self.protocol {
            Protocol::Compact => compact::put_varint(&mut self.bytes, length as u64),
            _ => self.bytes.put_u32(length as u32),
        }
    }

    pub(super) fn into_bytes(self) -> BytesMut {
        self.bytes
    }
}

/// The byte that ends a struct in both encodings.
pub(super) const STOP: u8 = 0;
