//! vscsi: records of disk requests, in the two versions that libCacheSim reads.

use super::Fault;
use super::records::{Records, u16_at, u32_at, u64_at};
use crate::trace::input::Input;
use crate::trace::sink::{Fact, Facts, Sink};

/// The layout of a version: positions in a record, in bytes.
struct Version {
    number: u16,
    record: usize,
    /// The version, in the upper byte.
    version: usize,
    length: usize,
    block: usize,
    /// The time in microseconds.
    time: usize,
}

const VERSIONS: [Version; 2] = [
    Version { number: 2, record: 40, version: 2, length: 8, block: 16, time: 24 },
    Version { number: 1, record: 32, version: 14, length: 4, block: 16, time: 24 },
];

impl Version {
    /// Whether `record` shows this version, and a length.
    fn shows(&self, record: &[u8]) -> bool {
        u16_at(record, self.version) >> 8 == self.number
            && (1..1 << 24).contains(&u32_at(record, self.length))
    }
}

/// The number of records that have to show their version.
const SHOWN: usize = 2;

/// Whether `head` begins with such records.
pub(in crate::trace) fn resembles(head: &[u8]) -> bool {
    version(head).is_some()
}

fn version(head: &[u8]) -> Option<&'static Version> {
    VERSIONS.iter().find(|layout| {
        let records = head.chunks_exact(layout.record);
        records.len() >= SHOWN && records.take(super::TRIED).all(|record| layout.shows(record))
    })
}

pub(super) fn read(input: Input, sink: &mut Sink) -> Result<(), Fault> {
    let layout =
        version(input.head()).ok_or_else(|| Fault::Bad("its records have no version of vscsi".to_owned()))?;
    let mut records = Records::new(input, layout.record);
    let mut number = 0;
    while let Some(record) = records.next(sink)? {
        number += 1;
        if !layout.shows(record) {
            sink.broken(number, || "it has no length, or not the version of those before it".to_owned());
            continue;
        }
        let size = Fact::Known(u32_at(record, layout.length).into());
        let time = u64_at(record, layout.time);
        sink.number(u64_at(record, layout.block), Facts { time, size, ..Facts::NONE })?;
    }
    Ok(())
}
