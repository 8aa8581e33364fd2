//! The bytes of a stored response's content.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use crate::Extent;
use crate::entry::allocated;

/// Bodies from this length on live in a memory file and leave by `sendfile`; shorter ones leave in
/// the same write as their head.
pub const SENDFILE_FROM: u64 = 64 << 10;

/// Content at rest: two words, whatever its size.
#[derive(Debug)]
pub enum Body {
    /// Up to [`SENDFILE_FROM`] bytes.
    Heap(Box<[u8]>),
    /// More.
    File(Arc<Extent>),
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
        }
    }

    /// A copy of at most `max` bytes from `from` on; empty at the end.
    ///
    /// # Errors
    /// When the memory file cannot be read.
    pub fn copy(&self, from: u64, max: usize) -> io::Result<Bytes> {
        let len = self.len().saturating_sub(from).min(max as u64) as usize;
        match self {
            Self::Heap(bytes) => {
                let from = (from as usize).min(bytes.len());
                Ok(Bytes::copy_from_slice(&bytes[from..from + len]))
            }
            Self::File(extent) => {
                let mut copy = vec![0; len];
                extent.read(from, &mut copy)?;
                Ok(copy.into())
            }
        }
    }

    /// The same content for another entry: large bodies are shared, small ones copied.
    pub fn duplicate(&self) -> Self {
        match self {
            Self::Heap(bytes) => Self::Heap(bytes.clone()),
            Self::File(extent) => Self::File(Arc::clone(extent)),
        }
    }
}
