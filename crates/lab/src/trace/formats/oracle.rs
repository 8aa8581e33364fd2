//! oracleGeneral: packed little-endian records of `u32` time in seconds, `u64` object, `u32` size in bytes,
//! `i64` number of the next access to the object, counted from 1, or -1 for none.
//!
//! The next access is ignored: it is cheap to compute, and a sample changes it.

use std::io::Read;

use super::Fault;
use super::records::{Records, u32_at, u64_at};
use crate::trace::sink::{Fact, Facts, Sink};

const RECORD: usize = 24;

/// The maximum number of a request: more than any file has.
const MANY: i64 = 1 << 40;

/// Whether `head` begins with such records: each next access comes after the record itself, or never.
pub(in crate::trace) fn resembles(head: &[u8]) -> bool {
    let records = head.chunks_exact(RECORD);
    records.len() > 0
        && records.enumerate().all(|(at, record)| {
            let next = u64_at(record, 16) as i64;
            [-1, i64::MAX].contains(&next) || (at as i64 + 1..MANY).contains(&next)
        })
}

pub(super) fn read(input: impl Read, sink: &mut Sink) -> Result<(), Fault> {
    let mut records = Records::new(input, RECORD);
    while let Some(record) = records.next(sink)? {
        let time = u64::from(u32_at(record, 0)) * 1_000_000;
        let size = Fact::Known(u32_at(record, 12).into());
        sink.number(u64_at(record, 4), Facts { time, size, ..Facts::NONE })?;
    }
    Ok(())
}
