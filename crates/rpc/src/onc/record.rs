//! Record marking (RFC 5531, section 11): messages on a stream, in fragments with a length before each.

use bytes::{Bytes, BytesMut};

use crate::Malformed;
use crate::cursor::Stop;

/// The bytes before each fragment: the highest bit marks the last fragment of the record, the rest is the length.
const MARK: usize = 4;
const LAST: u32 = 1 << 31;

/// The maximum number of empty fragments in one record. They are useless, but this number is harmless.
const EMPTY: usize = 16;

/// Assembles the records of a stream.
#[derive(Debug)]
pub(super) struct Records {
    /// The maximum length of a record, in bytes.
    pub(super) limit: usize,
    record: BytesMut,
    empty: usize,
}

impl Records {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, record: BytesMut::new(), empty: 0 }
    }

    /// Takes the next record from the front of `buffer`. Returns `None` until it is complete. Errors: `TooLong`, or
    /// `Malformed`; then, nothing of the record that has arrived is lost.
    pub(super) fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Bytes>, Stop> {
        while let Some(mark) = buffer.first_chunk::<MARK>() {
            let mark = u32::from_be_bytes(*mark);
            let length = (mark & !LAST) as usize;
            self.check(length, mark & LAST != 0)?;
            if buffer.len() - MARK < length {
                return Ok(None);
            }
            let fragment = buffer.split_to(MARK + length).split_off(MARK);
            if mark & LAST == 0 {
                self.record.extend_from_slice(&fragment);
                continue;
            }
            self.empty = 0;
            if self.record.is_empty() {
                return Ok(Some(fragment.freeze()));
            }
            self.record.extend_from_slice(&fragment);
            return Ok(Some(self.record.split().freeze()));
        }
        Ok(None)
    }

    /// Returns what has arrived of a record that is too long.
    pub(super) fn begun(&self, buffer: &BytesMut) -> Vec<u8> {
        [&self.record[..], buffer.get(MARK..).unwrap_or_default()].concat()
    }

    fn check(&mut self, length: usize, last: bool) -> Result<(), Stop> {
        if length > self.limit - self.record.len() {
            let (before, limit) = (self.record.len(), self.limit);
            let why = format!("a fragment of {length} bytes after {before} in a record of at most {limit}");
            return Err(Stop::TooLong(Malformed(why)));
        }
        if length == 0 && !last {
            self.empty += 1;
            if self.empty > EMPTY {
                return Stop::malformed(format!("more than {EMPTY} empty fragments in a record"));
            }
        }
        Ok(())
    }
}

/// Returns the mark of a record of `length` bytes in one fragment.
pub(super) fn mark(length: usize) -> [u8; MARK] {
    (LAST | length as u32).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::{EMPTY, Records, mark};
    use crate::cursor::whole;

    fn records(wire: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let mut records = Records::new(8);
        let mut buffer = BytesMut::from(wire);
        let mut found = Vec::new();
        while let Some(record) = records.next(&mut buffer).map_err(|stop| whole(stop).to_string())? {
            found.push(record.to_vec());
        }
        Ok(found)
    }

    #[test]
    fn fragments_make_records() {
        for (wire, expected) in [
            (&b"\x80\0\0\x02ab"[..], Ok(vec![b"ab".to_vec()])),
            (b"\0\0\0\x01a\0\0\0\x01b\x80\0\0\x01c", Ok(vec![b"abc".to_vec()])),
            (b"\0\0\0\x02ab\x80\0\0\0", Ok(vec![b"ab".to_vec()])),
            (b"\0\0\0\0\x80\0\0\x01a\x80\0\0\x01b", Ok(vec![b"a".to_vec(), b"b".to_vec()])),
            (b"\x80\0\0\0", Ok(vec![Vec::new()])),
            (b"\0\0\0\x02ab", Ok(vec![])),
            (b"\x80\0\0\x02a", Ok(vec![])),
            (b"\x80\0\0", Ok(vec![])),
            (b"\x80\0\0\x09", Err("a fragment of 9 bytes after 0 in a record of at most 8")),
            (b"\0\0\0\x07abcdefg\0\0\0\x02", Err("a fragment of 2 bytes after 7 in a record of at most 8")),
            (b"\xff\xff\xff\xff", Err("a fragment of 2147483647 bytes after 0 in a record of at most 8")),
        ] {
            assert_eq!(records(wire), expected.map_err(str::to_owned), "{wire:?}");
        }
    }

    #[test]
    fn a_record_does_not_go_on_for_ever_without_content() {
        let wire = [&[0; 4][..]; EMPTY].concat();
        assert_eq!(records(&wire), Ok(vec![]));
        assert_eq!(
            records(&[&wire[..], &[0; 4]].concat()),
            Err("more than 16 empty fragments in a record".into())
        );
    }

    #[test]
    fn a_record_is_one_fragment() {
        assert_eq!(mark(5), [0x80, 0, 0, 5]);
    }
}
