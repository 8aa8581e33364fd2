//! Consecutive binary records of one length.

use std::io::{self, Read};

use crate::trace::sink::Sink;

/// The approximate number of bytes in one read.
const CHUNK: usize = 256 << 10;

/// The records of an input.
pub(super) struct Records<R> {
    input: R,
    length: usize,
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    count: u64,
}

impl<R: Read> Records<R> {
    /// Returns a reader of records of `length` bytes.
    pub(super) fn new(input: R, length: usize) -> Self {
        let buffer = vec![0; (CHUNK / length).max(1) * length];
        Self { input, length, buffer, begin: 0, end: 0, count: 0 }
    }

    /// Returns the next record. An incomplete last record counts as broken.
    #[inline]
    pub(super) fn next(&mut self, sink: &mut Sink) -> io::Result<Option<&[u8]>> {
        if self.end - self.begin < self.length {
            self.refill()?;
            let left = self.end - self.begin;
            if left < self.length {
                if left > 0 {
                    let length = self.length;
                    sink.broken(self.count + 1, || format!("{left} bytes of {length}, then the file ends"));
                }
                self.begin = self.end;
                return Ok(None);
            }
        }
        let begin = self.begin;
        self.begin += self.length;
        self.count += 1;
        Ok(Some(&self.buffer[begin..self.begin]))
    }

    fn refill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        while self.end < self.length {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(()),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Returns the number at `at` of `record`, which must be long enough.
#[inline]
pub(super) fn u16_at(record: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([record[at], record[at + 1]])
}

/// Returns the number at `at` of `record`, which must be long enough.
#[inline]
pub(super) fn u32_at(record: &[u8], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&record[at..at + 4]);
    u32::from_le_bytes(bytes)
}

/// Returns the number at `at` of `record`, which must be long enough.
#[inline]
pub(super) fn u64_at(record: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&record[at..at + 8]);
    u64::from_le_bytes(bytes)
}
