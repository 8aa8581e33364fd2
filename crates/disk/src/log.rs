//! The segments with room for more records.
//!
//! A writer takes an open segment for itself and returns it. So any number of long objects can be in progress at once, each
//! contiguous, and an object that outgrows its segment extends it.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::files::write_all;
use crate::segment::{self, HEADER, Segment};
use crate::shared::DiskState;

/// Records with similar lifetimes are stored together: records moved by the cleaner have proved long-lived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    New,
    Moved,
}

/// A segment with a single writer.
pub(crate) struct OpenSegment {
    pub(crate) segment: Arc<Segment>,
    /// The offset of the next record.
    pub(crate) at: u64,
    class: Class,
}

pub(crate) struct Log {
    shared: Arc<DiskState>,
    idle: Vec<OpenSegment>,
    next_number: u32,
    /// Segments with bytes that are not durable.
    dirty: HashMap<u32, Arc<Segment>>,
    has_new_names: bool,
}

impl Log {
    pub(crate) fn new(shared: Arc<DiskState>, next_number: u32) -> Self {
        Self { shared, idle: Vec::new(), next_number, dirty: HashMap::new(), has_new_names: false }
    }

    pub(crate) fn next_number(&self) -> u32 {
        self.next_number
    }

    /// Takes an open segment: the fullest that is idle, or a new one.
    pub(crate) fn take(&mut self, class: Class) -> io::Result<OpenSegment> {
        let of_class = self.idle.iter().enumerate().filter(|(_, open)| open.class == class);
        match of_class.max_by_key(|(_, open)| open.at).map(|(n, _)| n) {
            Some(n) => Ok(self.idle.swap_remove(n)),
            None => self.create(class),
        }
    }

    fn create(&mut self, class: Class) -> io::Result<OpenSegment> {
        let number = self.next_number;
        let next = number.checked_add(1).ok_or_else(|| io::Error::other("no segment number is left"))?;
        let name = segment::name(number);
        let file = self.shared.files.create(&name)?;
        // Also if the header fails: a name is never used twice.
        self.next_number = next;
        if let Err(error) = write_all(&*file, &segment::encode_header(number, &self.shared.secret), 0) {
            // An empty segment that cannot be removed is harmless.
            let _ = self.shared.files.remove(&name);
            return Err(error);
        }
        self.has_new_names = true;
        let segment = self.shared.segments.add(number, file, HEADER);
        Ok(OpenSegment { segment, at: HEADER, class })
    }

    /// Writes `bytes` at `at` in `open`'s segment, behind the published bytes.
    pub(crate) fn write(&mut self, open: &OpenSegment, bytes: &[u8], at: u64) -> io::Result<()> {
        open.segment.extend(at + bytes.len() as u64);
        self.dirty.entry(open.segment.number).or_insert_with(|| Arc::clone(&open.segment));
        self.shared.counts.written_bytes.add(bytes.len() as u64);
        // Unwritten bytes take no space.
        write_all(&*open.segment.file, bytes, at).inspect_err(|_| open.segment.shrink(open.at))
    }

    /// Takes an open segment back, and seals it when it is full.
    pub(crate) fn give_back(&mut self, open: OpenSegment) -> io::Result<()> {
        if open.at < self.shared.segment {
            self.idle.push(open);
            return Ok(());
        }
        self.seal(&open.segment)
    }

    /// Seals `segment`: it takes no more records, and its bytes become durable.
    pub(crate) fn seal(&mut self, segment: &Segment) -> io::Result<()> {
        segment.sealed.store(true, Ordering::Release);
        segment.file.sync()?;
        self.dirty.remove(&segment.number);
        Ok(())
    }

    /// Seals the segments that have no writer now.
    pub(crate) fn seal_idle(&mut self) -> io::Result<()> {
        let idle = std::mem::take(&mut self.idle);
        idle.iter().map(|open| self.seal(&open.segment)).fold(Ok(()), io::Result::and)
    }

    /// Removes a segment and its file. The removal of the name is durable after the next [`sync`](Self::sync).
    pub(crate) fn retire(&mut self, segment: &Segment) -> io::Result<()> {
        self.has_new_names = true;
        self.shared.segments.retire(segment, &*self.shared.files)?;
        self.dirty.remove(&segment.number);
        Ok(())
    }

    /// Makes all written bytes durable.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        for (number, segment) in std::mem::take(&mut self.dirty) {
            if let Err(error) = segment.file.sync() {
                self.dirty.insert(number, segment);
                return Err(error);
            }
        }
        if std::mem::take(&mut self.has_new_names) {
            self.shared.files.sync().inspect_err(|_| self.has_new_names = true)?;
        }
        Ok(())
    }

    /// Iterates over the idle segments and the ends of their published bytes.
    pub(crate) fn published(&self) -> impl Iterator<Item = (u32, u64)> {
        self.idle.iter().map(|open| (open.segment.number, open.at))
    }
}
