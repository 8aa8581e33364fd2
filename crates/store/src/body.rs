//! The bytes of a stored response's content.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::entry::allocated;
use crate::{Extent, Record};

/// Bodies from this length on live in a file and leave by `sendfile`; shorter ones leave in the same
/// write as their head.
pub const SENDFILE_FROM: u64 = 64 << 10;

/// Content at rest: three words, whatever its size.
#[derive(Debug)]
pub enum Body {
    /// Up to [`SENDFILE_FROM`] bytes.
    Heap(Box<[u8]>),
    /// More, in a memory file.
    File(Arc<Extent>),
    /// More, on a disk.
    Disk(Arc<Record>),
}

impl Body {
    /// No content.
    pub fn empty() -> Self {
        Self::Heap(Box::default())
    }

    /// Bytes of content.
    pub fn len(&self) -> u64 {
        match self {
            Self::Heap(bytes) => bytes.len() as u64,
            Self::File(extent) => extent.len(),
            Self::Disk(record) => record.len(),
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
            Self::File(extent) => {
                extent.len().next_multiple_of(4096) + allocated(size_of::<Extent>() + 16) as u64
            }
            Self::Disk(_) => allocated(size_of::<Record>() + 16) as u64,
        }
    }

    /// A copy of at most `max` bytes from `from` on; empty at the end. Waits for a disk.
    ///
    /// # Errors
    /// When a file cannot be read, or has not the bytes that were written to it.
    pub fn copy(&self, from: u64, max: usize) -> io::Result<Bytes> {
        let range = self.clamp(from, max);
        match self {
            Self::Heap(bytes) => Ok(Bytes::copy_from_slice(&bytes[range.start as usize..range.end as usize])),
            Self::File(extent) => {
                let mut copy = vec![0; (range.end - range.start) as usize];
                extent.read(range.start, &mut copy)?;
                Ok(copy.into())
            }
            Self::Disk(record) => record.read(range),
        }
    }

    /// The same as [`copy`](Self::copy), while others go on: a disk is waited for elsewhere.
    ///
    /// # Errors
    /// As there.
    pub async fn load(&self, from: u64, max: usize) -> io::Result<Bytes> {
        match self {
            Self::Disk(record) => record.load(self.clamp(from, max)).await,
            Self::Heap(_) | Self::File(_) => self.copy(from, max),
        }
    }

    /// The same content for another entry: large bodies are shared, small ones copied.
    pub fn duplicate(&self) -> Self {
        match self {
            Self::Heap(bytes) => Self::Heap(bytes.clone()),
            Self::File(extent) => Self::File(Arc::clone(extent)),
            Self::Disk(record) => Self::Disk(Arc::clone(record)),
        }
    }

    fn clamp(&self, from: u64, max: usize) -> Range<u64> {
        let from = from.min(self.len());
        from..from.saturating_add(max as u64).min(self.len())
    }
}
