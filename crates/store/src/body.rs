//! The bytes of a stored response's content, as the origin sent it and in other codings.

mod coded;
mod packed;
pub(crate) mod record;
pub(crate) mod sliced;

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::arena::Extent;
use crate::charge::allocated;

pub use coded::{CodedBody, body_of};
pub use packed::PackedBody;
pub use record::Record;
pub use sliced::{SlicePart, SlicedBody};

/// Bodies of at least this length are stored in a file and sent by `sendfile`; shorter ones are sent in the
/// same write as their head.
pub const SENDFILE_FROM: u64 = 64 << 10;

/// Content at rest: two words for any length.
#[derive(Debug)]
pub enum Body {
    /// Content shorter than [`SENDFILE_FROM`] bytes.
    Heap(Box<[u8]>),
    /// Longer content. The box keeps the enum small, so that short bodies need no room for these variants.
    Long(Box<LongBody>),
}

/// Content of at least [`SENDFILE_FROM`] bytes, content with coded forms, or content that two processes have.
#[derive(Clone, Debug)]
pub enum LongBody {
    /// Content in a memory file.
    File(Arc<Extent>),
    /// Content on a disk.
    Disk(Arc<Record>),
    /// Shorter content in a memory file.
    Packed(PackedBody),
    /// Content in memory, with its coded forms. [`Entry::body`](crate::Entry::body) is the content without them.
    Coded(Arc<CodedBody>),
    /// Content whose slices are entries of their own.
    Sliced(Arc<SlicedBody>),
}

/// The location of the bytes of a body.
#[derive(Clone, Copy, Debug)]
pub enum Storage<'b> {
    /// The bytes are in memory.
    Heap(&'b [u8]),
    /// The bytes are in a memory file.
    File(&'b Arc<Extent>),
    /// The bytes are on a disk.
    Disk(&'b Arc<Record>),
    /// The bytes are in entries of their own, or not stored.
    Slices(&'b Arc<SlicedBody>),
}

impl Body {
    /// Returns an empty body.
    pub fn empty() -> Self {
        Self::Heap(Box::default())
    }

    /// Returns a body for content in a memory file.
    pub fn file(extent: Arc<Extent>) -> Self {
        Self::Long(Box::new(LongBody::File(extent)))
    }

    /// Returns a body for content on a disk.
    pub fn disk(record: Arc<Record>) -> Self {
        Self::Long(Box::new(LongBody::Disk(record)))
    }

    /// Returns a body for content by slices.
    pub fn sliced(sliced: Arc<SlicedBody>) -> Self {
        Self::Long(Box::new(LongBody::Sliced(sliced)))
    }

    /// Returns a body for content with these coded forms.
    pub(crate) fn coded(coded: CodedBody) -> Self {
        Self::Long(Box::new(LongBody::Coded(coded.into())))
    }

    /// Returns the forms in other codings, if a worker has tried to make some.
    #[inline]
    pub(crate) fn forms(&self) -> Option<&CodedBody> {
        match self {
            Self::Heap(_) => None,
            Self::Long(long) => match &**long {
                LongBody::Coded(coded) => Some(coded),
                LongBody::File(_) | LongBody::Disk(_) | LongBody::Packed(_) | LongBody::Sliced(_) => None,
            },
        }
    }

    /// Returns the content without other forms.
    #[inline]
    pub(crate) fn plain(&self) -> &Self {
        self.forms().map_or(self, CodedBody::plain)
    }

    /// Returns the location of the bytes.
    #[inline]
    pub fn place(&self) -> Storage<'_> {
        match self {
            Self::Heap(bytes) => Storage::Heap(bytes),
            Self::Long(long) => match &**long {
                LongBody::File(extent) => Storage::File(extent),
                LongBody::Disk(record) => Storage::Disk(record),
                LongBody::Packed(packed) => Storage::Heap(packed.bytes()),
                LongBody::Coded(coded) => coded.plain().place(),
                LongBody::Sliced(sliced) => Storage::Slices(sliced),
            },
        }
    }

    /// Returns the record on a disk, if the content is on one.
    pub fn record(&self) -> Option<&Arc<Record>> {
        if let Storage::Disk(record) = self.place() { Some(record) } else { None }
    }

    /// Returns the slices of the content, if these are entries of their own.
    #[inline]
    pub fn slices(&self) -> Option<&Arc<SlicedBody>> {
        if let Storage::Slices(sliced) = self.place() { Some(sliced) } else { None }
    }

    /// Returns the bytes of content.
    pub fn len(&self) -> u64 {
        match self.place() {
            Storage::Heap(bytes) => bytes.len() as u64,
            Storage::File(extent) => extent.len(),
            Storage::Disk(record) => record.len(),
            Storage::Slices(sliced) => sliced.len(),
        }
    }

    /// Whether there is no content.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of memory held, page and allocator rounding included.
    pub fn charge(&self) -> u64 {
        match self {
            Self::Heap(bytes) => allocated(bytes.len()) as u64,
            Self::Long(long) => long.charge(),
        }
    }

    /// Copies at most `max` bytes from `from` on; the copy is empty at the end. Blocks while the disk reads.
    ///
    /// # Errors
    /// When a file cannot be read, or does not contain the bytes that were written to it; and for content by slices.
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
            Storage::Slices(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Copies as [`copy`](Self::copy) does, without blocking the thread: another thread waits for the disk.
    ///
    /// # Errors
    /// The same as [`copy`](Self::copy).
    pub async fn load(&self, from: u64, max: usize) -> io::Result<Bytes> {
        match self.record() {
            Some(record) => record.load(self.clamp(from, max)).await,
            None => self.copy(from, max),
        }
    }

    /// Returns the same content for another entry: large bodies are shared, small ones copied.
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

impl LongBody {
    fn charge(&self) -> u64 {
        let behind = match self {
            Self::File(extent) => return charge_of_file(extent.len()),
            Self::Disk(_) => allocated(size_of::<Record>() + 16) as u64,
            // The same as outside of a pack, so that a move changes no size.
            Self::Packed(packed) => return allocated(packed.bytes().len()) as u64,
            Self::Coded(coded) => coded.charge(),
            Self::Sliced(_) => allocated(size_of::<SlicedBody>() + 16) as u64,
        };
        allocated(size_of::<Self>()) as u64 + behind
    }
}

fn charge_of_file(len: u64) -> u64 {
    let long = allocated(size_of::<LongBody>()) + allocated(size_of::<Extent>() + 16);
    len.next_multiple_of(4096).saturating_add(long as u64)
}

/// Returns the bytes of memory that content of this length takes as it arrives, without coded forms.
pub(crate) fn charge_of_new(len: u64) -> u64 {
    match usize::try_from(len).ok().filter(|_| len < SENDFILE_FROM) {
        Some(len) => allocated(len) as u64,
        None => charge_of_file(len),
    }
}
