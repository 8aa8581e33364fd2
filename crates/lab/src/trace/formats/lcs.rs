//! libCacheSim's own binary format: a header, then packed records. The header has 1024 bytes and names each field's type, or
//! since 2025 has 8192 bytes and a version, from which the fields follow.

use std::io::Read;

use super::Fault;
use super::records::{Records, u16_at, u32_at, u64_at};
use super::words::LARGEST;
use crate::trace::sink::{Fact, Facts, Sink};
use crate::trace::summary::Exclusion;

const MAGIC: u64 = 0x1234_5678_9abc_def0;
const HEADER: usize = 1024;
/// The position of the fields' types in the header, and their maximum length in bytes.
const TYPES: (usize, usize) = (8, 240);
/// The positions in the header of the field numbers for object, size, time and operation, counted from 1.
const ROLES: [usize; 4] = [248, 249, 250, 253];
const RECORD: usize = 1004;
const END: usize = 1016;

/// The length of a header with a version, and the positions in it.
const LONG_HEADER: usize = 8192;
const VERSION: usize = 8;
const LONG_END: usize = 8184;

/// libCacheSim's numbers of operations that read an object: none said, get, gets and read.
const READS: [u64; 4] = [0, 1, 2, 12];

/// The position of a number in a record, and its type.
#[derive(Clone, Copy)]
struct Field {
    at: usize,
    kind: u8,
}

/// The records of a file.
struct Layout {
    /// The length of a record, in bytes.
    length: usize,
    object: Field,
    size: Option<Field>,
    time: Option<Field>,
    operation: Option<Field>,
}

/// Whether a file that begins with `head` has this format.
pub(in crate::trace) fn resembles(head: &[u8]) -> bool {
    head.len() >= HEADER && u64_at(head, 0) == MAGIC
}

pub(super) fn read(mut input: impl Read, sink: &mut Sink) -> Result<(), Fault> {
    let mut header = vec![0; HEADER];
    input.read_exact(&mut header)?;
    // A version is a small number; the types of fields are text.
    let layout = if header[VERSION + 1] == 0 {
        header.resize(LONG_HEADER, 0);
        input.read_exact(&mut header[HEADER..])?;
        layout_of_version(&header)
    } else {
        layout(&header)
    };
    let Layout { length, object, size, time, operation } = layout.map_err(Fault::Bad)?;
    let mut records = Records::new(input, length);
    while let Some(record) = records.next(sink)? {
        if operation.is_some_and(|field| !READS.contains(&field.value(record))) {
            sink.leave_out(Exclusion::Method);
            continue;
        }
        let time = time.map_or(0, |field| field.value(record)).saturating_mul(1_000_000);
        let size = size.map_or(1, |field| field.value(record)).min(LARGEST);
        sink.number(object.value(record), Facts { time, size: Fact::Known(size), ..Facts::NONE })?;
    }
    Ok(())
}

/// Returns the layout that a header of [`HEADER`] bytes describes.
fn layout(header: &[u8]) -> Result<Layout, String> {
    check_end(header, END)?;
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
    let [object, size, time, operation] = ROLES.map(role);
    let object = object.ok_or("its header names no field for the object")?;
    Ok(Layout { length, object, size, time, operation })
}

/// Returns the layout that belongs to the version in a header of [`LONG_HEADER`] bytes. From version 4 on, records end with
/// features: one, two, four and so on.
fn layout_of_version(header: &[u8]) -> Result<Layout, String> {
    check_end(header, LONG_END)?;
    let (length, size, operation) = match u64_at(header, VERSION) {
        1 => (24, b'I', None),
        2 => (28, b'I', Some(16)),
        3 => (36, b'q', Some(20)),
        version @ 4..=8 => (36 + (4 << (version - 4)), b'q', Some(20)),
        version => return Err(format!("its header has version {version}, and 1 to 8 are known")),
    };
    let field = |at: usize, kind: u8| Field { at, kind };
    Ok(Layout {
        length,
        object: field(4, b'Q'),
        size: Some(field(12, size)),
        time: Some(field(0, b'I')),
        operation: operation.map(|at| field(at, b'B')),
    })
}

/// Fails unless the header's last word, at `end`, marks its end.
fn check_end(header: &[u8], end: usize) -> Result<(), String> {
    let is_whole = u64_at(header, 0) == MAGIC && u64_at(header, end) == MAGIC;
    is_whole.then_some(()).ok_or_else(|| "it has no header of lcs".to_owned())
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
