//! Reads the records of a segment in order, and resynchronises behind damage.

use std::io;
use std::ops::ControlFlow;

use crate::files::{File, read_all};
use crate::record::{ALIGN, FIXED, RecordPrefix, Secret};

/// Bytes read at once: many small records, and a small part of a large body.
const WINDOW: usize = 256 << 10;
/// Bytes skipped where the disk returns a read error.
const UNREADABLE: u64 = 4096;
/// The most attempts to mend heads in one scan, so that a body full of similar bytes does not cost minutes.
const MOST_MENDED: usize = 4096;

/// Passes the heads of all records that begin in `from..to` to `see`, with their offsets, and returns the
/// number of places with other bytes. Bodies are not read. A head with one flipped bit is passed in its
/// original form, so that the objects that it removed or replaced stay removed; it does not count as such a
/// place, since a check of the record finds it.
pub(crate) fn scan(
    file: &dyn File,
    (from, to): (u64, u64),
    secret: &Secret,
    see: &mut dyn FnMut(u64, &RecordPrefix) -> ControlFlow<()>,
) -> u64 {
    let mut window = Window { file, to, bytes: Vec::new(), from: 0 };
    let (mut at, mut damaged, mut is_lost) = (from.next_multiple_of(ALIGN), 0, false);
    let mut tries = 0..MOST_MENDED;
    while at + FIXED as u64 <= to {
        let Ok(bytes) = window.view(at, FIXED) else {
            (damaged, is_lost) = (damaged + u64::from(!is_lost), true);
            at += UNREADABLE;
            continue;
        };
        let is_blank = bytes.iter().all(|&byte| byte == 0);
        let whole = RecordPrefix::decode(bytes, secret);
        let is_tried = whole.is_none() && RecordPrefix::is_alike(bytes) && tries.next().is_some();
        let mended = is_tried.then(|| RecordPrefix::mend(bytes, secret)).flatten();
        if let Some(fixed) = whole.or(mended)
            && fixed.len() <= to - at
            && window.has_names(at, &fixed)
        {
            if see(at, &fixed).is_break() {
                return damaged;
            }
            (at, is_lost) = (at + fixed.len(), false);
            continue;
        }
        damaged += u64::from(!is_lost && !is_blank);
        is_lost |= !is_blank;
        at += ALIGN;
    }
    damaged
}

/// A part of a file's bytes.
struct Window<'a> {
    file: &'a dyn File,
    to: u64,
    bytes: Vec<u8>,
    from: u64,
}

impl Window<'_> {
    /// Returns the `len` bytes from `at` on, which must lie before the end.
    fn view(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
        let is_in = at >= self.from && at + len as u64 <= self.from + self.bytes.len() as u64;
        if !is_in {
            let most = usize::try_from(self.to - at).unwrap_or(usize::MAX);
            self.bytes.resize(len.max(WINDOW).min(most), 0);
            self.from = at;
            if let Err(error) = read_all(self.file, &mut self.bytes, at) {
                // A smaller piece may still be readable.
                self.bytes.resize(len, 0);
                if read_all(self.file, &mut self.bytes, at).is_err() {
                    self.bytes.clear();
                    return Err(error);
                }
            }
        }
        let start = (at - self.from) as usize;
        Ok(&self.bytes[start..start + len])
    }

    fn has_names(&mut self, at: u64, fixed: &RecordPrefix) -> bool {
        let len = (fixed.head() - FIXED as u64) as usize;
        len == 0 || self.view(at + FIXED as u64, len).is_ok_and(|bytes| fixed.names(bytes).is_some())
    }
}
