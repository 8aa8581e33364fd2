//! Content in a file, to be sent.

use std::fs::File;
use std::ops::Range;

use larder_store::Extent;

/// Content that the kernel sends from a file.
#[derive(Clone, Copy, Debug)]
pub enum ContentFile<'f> {
    /// Complete content in a memory file. Positions count from the beginning of the content.
    Complete(&'f Extent),
    /// A file on a disk, or a memory file with content that is arriving.
    Other(&'f File),
}

impl<'f> ContentFile<'f> {
    /// Returns the file, and the range of its bytes for `range`.
    pub fn in_file(self, range: Range<u64>) -> (&'f File, Range<u64>) {
        match self {
            Self::Complete(extent) => {
                let (file, start) = extent.at(range.start);
                (file, start..start + (range.end - range.start))
            }
            Self::Other(file) => (file, range),
        }
    }

    /// Returns the bytes in `range` if they can be mapped into memory. A disk's error while mapped bytes are read would end
    /// the process.
    #[inline]
    pub fn mapped(self, range: Range<u64>) -> Option<&'f [u8]> {
        match self {
            Self::Complete(extent) => extent.mapped()?.get(range.start as usize..range.end as usize),
            Self::Other(_) => None,
        }
    }
}
