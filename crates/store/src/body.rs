//! The bytes of a stored response's content, as the origin sent it and in other codings.

mod coded;

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::charge::allocated;
use crate::{Extent, Record};

pub use coded::{Coded, body_of};

/// Bodies from this length on live in a file and leave by `sendfile`; shorter ones leave in the same
/// write as their head.
pub const SENDFILE_FROM: u64 = 64 << 10;

/// Content at rest: two words, whatever its size.
#[derive(Debug)]
pub enum Body {
    /// Up to [`SENDFILE_FROM`] bytes.
    Heap(Box<[u8]>),
    /// More. A word of its own, which short bodies then need not have room for.
    Long(Box<Long>),
}

/// Content of more than [`SENDFILE_FROM`] bytes.
#[derive(Clone, Debug)]
pub enum Long {
    /// In a memory file.
    File(Arc<Extent>),
    /// On a disk.
    Disk(Arc<Record>),
    /// In memory, with its coded forms. [`Entry::body`](crate::Entry::body) is the content without them.
    Coded(Arc<Coded>),
}

/// Where the bytes of a body are.
#[derive(Clone, Copy, Debug)]
pub enum Storage<'b> {
    /// In memory.
    Heap(&'b [u8]),
    /// In a memory file.
    File(&'b Arc<Extent>),
    /// On a disk.
    Disk(&'b Arc<Record>),
}

impl Body {
    /// No content.
    pub fn empty() -> Self {
        Self::Heap(Box::default())
    }

    /// Content in a memory file.
    pub fn file(extent: Arc<Extent>) -> Self {
        Self::Long(Box::new(Long::File(extent)))
    }

    /// Content on a disk.
    pub fn disk(record: Arc<Record>) -> Self {
        Self::Long(Box::new(Long::Disk(record)))
    }

    /// This content, with these forms of it.
    pub(crate) fn coded(coded: Coded) -> Self {
        Self::Long(Box::new(Long::Coded(coded.into())))
    }

    /// Its forms in other codings, if it has been tried to make some.
    #[inline]
    pub(crate) fn forms(&self) -> Option<&Coded> {
        match self {
            Self::Heap(_) => None,
            Self::Long(long) => match &**long {
                Long::Coded(coded) => Some(coded),
                Long::File(_) | Long::Disk(_) => None,
            },
        }
    }

    /// The content without other forms.
    #[inline]
    pub(crate) fn plain(&self) -> &Self {
        self.forms().map_or(self, Coded::plain)
    }

    /// Where its bytes are.
    #[inline]
    pub fn place(&self) -> Storage<'_> {
        match self {
            Self::Heap(bytes) => Storage::Heap(bytes),
            Self::Long(long) => match &**long {
                Long::File(extent) => Storage::File(extent),
                Long::Disk(record) => Storage::Disk(record),
                Long::Coded(coded) => coded.plain().place(),
            },
        }
    }

    /// Where on a disk it is, if it is there.
    pub fn record(&self) -> Option<&Arc<Record>> {
        if let Storage::Disk(record) = self.place() { Some(record) } else { None }
    }

    /// Bytes of content.
    pub fn len(&self) -> u64 {
        match self.place() {
            Storage::Heap(bytes) => bytes.len() as u64,
            Storage::File(extent) => extent.len(),
            Storage::Disk(record) => record.len(),
        }
    }

    /// True without content.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory held, page and allocator rounding included.
    pub fn charge(&self) -> u64 {
        match self {
            Self::Heap(bytes) => allocated(bytes.len()) as u64,
            Self::Long(long) => allocated(size_of::<Long>()) as u64 + long.charge(),
        }
    }

    /// A copy of at most `max` bytes from `from` on; empty at the end. Waits for a disk.
    ///
    /// # Errors
    /// When a file cannot be read, or has not the bytes that were written to it.
    pub fn copy(&self, from: u64, max: usize) -> io::Result<Bytes> {
        let range = self.clamp(from, max);
        match self.place() {
            Storage::Heap(bytes) => {
                Ok(Bytes::copy_from_slice(&bytes[range.start as usize..range.end as usize]))
            }
            Storage::File(extent) => {
                let mut copy = vec![0; (range.end - range.start) as usize];
                extent.read(range.start, &mut copy)?;
                Ok(copy.into())
            }
            Storage::Disk(record) => record.read(range),
        }
    }

    /// The same as [`copy`](Self::copy), while others go on: a disk is waited for elsewhere.
    ///
    /// # Errors
    /// As there.
    pub async fn load(&self, from: u64, max: usize) -> io::Result<Bytes> {
        match self.record() {
            Some(record) => record.load(self.clamp(from, max)).await,
            None => self.copy(from, max),
        }
    }

    /// The same content for another entry: large bodies are shared, small ones copied.
    pub fn duplicate(&self) -> Self {
        match self {
            Self::Heap(bytes) => Self::Heap(bytes.clone()),
            Self::Long(long) => Self::Long(long.clone()),
        }
    }

    fn clamp(&self, from: u64, max: usize) -> Range<u64> {
        let from = from.min(self.len());
        from..from.saturating_add(max as u64).min(self.len())
    }
}

impl Long {
    fn charge(&self) -> u64 {
        match self {
            Self::File(extent) => {
                extent.len().next_multiple_of(4096) + allocated(size_of::<Extent>() + 16) as u64
            }
            Self::Disk(_) => allocated(size_of::<Record>() + 16) as u64,
            Self::Coded(coded) => coded.charge(),
        }
    }
}
