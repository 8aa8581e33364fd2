//! libCacheSim's own binary format: a header of 1024 bytes that names each field's type, then packed records.

use std::io::Read;

use super::Fault;
use super::records::{Records, u16_at, u32_at, u64_at};
use crate::trace::sink::{Fact, Facts, Sink};

const MAGIC: u64 = 0x1234_5678_9abc_def0;
const HEADER: usize = 1024;
/// The position of the fields' types in the header, and their maximum length in bytes.
const TYPES: (usize, usize) = (8, 240);
/// The positions in the header of the field numbers for object, size and time, counted from 1.
const ROLES: [usize; 3] = [248, 249, 250];
const RECORD: usize = 1004;
const END: usize = 1016;

/// The position of a number in a record, and its type.
#[derive(Clone, Copy)]
struct Field {
    at: usize,
    kind: u8,
}

/// Whether a file that begins with `head` has this format.
pub(in crate::trace) fn resembles(head: &[u8]) -> bool {
    head.len() >= HEADER && u64_at(head, 0) == MAGIC
}

pub(super) fn read(mut input: impl Read, sink: &mut Sink) -> Result<(), Fault> {
    let mut header = [0; HEADER];
    input.read_exact(&mut header)?;
    let (length, [object, size, time]) = layout(&header).map_err(Fault::Bad)?;
    let object = object.ok_or_else(|| Fault::Bad("its header names no field for the object".to_owned()))?;
    let mut records = Records::new(input, length);
    while let Some(record) = records.next(sink)? {
        let time = time.map_or(0, |field| field.value(record)).saturating_mul(1_000_000);
        let size = size.map_or(1, |field| field.value(record)).min(u32::MAX.into());
        sink.number(object.value(record), Facts { time, size: Fact::Known(size), ..Facts::NONE })?;
    }
    Ok(())
}

/// Returns the length of a record, and the positions of the fields of [`ROLES`] in it.
fn layout(header: &[u8; HEADER]) -> Result<(usize, [Option<Field>; 3]), String> {
    if u64_at(header, 0) != MAGIC || u64_at(header, END) != MAGIC {
        return Err("it has no header of lcs".to_owned());
    }
    let types = &header[TYPES.0..TYPES.0 + TYPES.1];
    let types = types.split(|byte| *byte == 0).next().unwrap_or_default();
    let types = types.strip_prefix(b"<").ok_or("its records are not little-endian")?;
    let mut fields = Vec::with_capacity(types.len());
    let mut length = 0;
    for &kind in types {
        let width =
            width(kind).ok_or_else(|| format!("its header has a field of type '{}'", kind.escape_ascii()))?;
        fields.push(Field { at: length, kind });
        length += width;
    }
    if length == 0 || length != u32_at(header, RECORD) as usize {
        return Err(format!(
            "its header has records of {} bytes and fields of {length}",
            u32_at(header, RECORD)
        ));
    }
    let role =
        |at: usize| usize::from(header[at]).checked_sub(1).and_then(|number| fields.get(number)).copied();
    Ok((length, ROLES.map(role)))
}

fn width(kind: u8) -> Option<usize> {
    match kind {
        b'c' | b'b' | b'B' => Some(1),
        b'h' | b'H' => Some(2),
        b'i' | b'I' | b'f' => Some(4),
        b'q' | b'Q' | b'd' => Some(8),
        _ => None,
    }
}

impl Field {
    /// Returns the number in `record`. A negative integer counts as its bits, and a negative float as 0.
    fn value(self, record: &[u8]) -> u64 {
        match self.kind {
            b'h' | b'H' => u16_at(record, self.at).into(),
            b'i' | b'I' => u32_at(record, self.at).into(),
            b'q' | b'Q' => u64_at(record, self.at),
            b'f' => f32::from_bits(u32_at(record, self.at)) as u64,
            b'd' => f64::from_bits(u64_at(record, self.at)) as u64,
            _ => record[self.at].into(),
        }
    }
}
