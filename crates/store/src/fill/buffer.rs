//! The arrived part of a body, and its location.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::reader::Piece;
use crate::body::SENDFILE_FROM;
use crate::{Arena, Body, Entry, Extent};

#[derive(Debug)]
pub(super) enum Buffer {
    Growing(FillBuffer),
    /// All of the body, as it was stored.
    Stored(Entry),
}

/// A body in progress: its beginning in a memory file if it is large, the bytes behind that in the heap.
#[derive(Debug, Default)]
pub(super) struct FillBuffer {
    file: Option<Arc<Extent>>,
    heap: Vec<u8>,
    /// The position of the first byte in the heap.
    from: u64,
    /// The kernel refused to extend the memory file. Further bytes stay in the heap until all readers have read them.
    is_refused: bool,
}

impl Buffer {
    /// Appends to a body that will have `expected` bytes, if its length is known. Errors: once, when the kernel refuses
    /// to extend the memory file: readers can still read the body, but it cannot be stored.
    pub(super) fn append(&mut self, bytes: &[u8], expected: Option<u64>, arena: &Arena) -> io::Result<()> {
        match self {
            Self::Growing(growing) => growing.append(bytes, expected, arena),
            Self::Stored(_) => Ok(()),
        }
    }

    /// Returns at most `most` bytes from `position` on, and their number; `None` if the bytes are not there.
    pub(super) fn piece(&self, position: u64, most: u64) -> Option<(Piece, u64)> {
        match self {
            Self::Growing(growing) => growing.piece(position, most),
            Self::Stored(entry) => Some((Piece::Stored(entry.clone(), position, most), most)),
        }
    }

    /// Frees the bytes before `position`, where that is worth the effort.
    pub(super) fn discard(&mut self, position: u64) {
        if let Self::Growing(growing) = self {
            growing.discard(position);
        }
    }

    /// Passes the body to `store`, which makes an entry of it; readers read from the entry from now on.
    pub(super) fn seal(&mut self, store: impl FnOnce(Body) -> Option<Entry>) -> Option<Entry> {
        let Self::Growing(growing) = self else { return None };
        let entry = store(growing.take()?)?;
        *self = Self::Stored(entry.clone());
        Some(entry)
    }
}

impl FillBuffer {
    fn append(&mut self, bytes: &[u8], expected: Option<u64>, arena: &Arena) -> io::Result<()> {
        let is_small = self.file.is_none() && ((self.heap.len() + bytes.len()) as u64) < SENDFILE_FROM;
        if is_small && self.heap.is_empty() {
            let expected = expected.filter(|expected| *expected < SENDFILE_FROM);
            self.heap.reserve_exact(expected.unwrap_or_default() as usize);
        }
        if !is_small && !self.is_refused {
            match self.write(bytes, arena) {
                Ok(()) => return Ok(()),
                Err(error) => {
                    self.is_refused = true;
                    self.heap.extend_from_slice(bytes);
                    return Err(error);
                }
            }
        }
        self.heap.extend_from_slice(bytes);
        Ok(())
    }

    /// Appends to the memory file, and moves the heap's bytes there first.
    fn write(&mut self, bytes: &[u8], arena: &Arena) -> io::Result<()> {
        let file = match &self.file {
            Some(file) => file,
            None => {
                let file = arena.extent(None)?;
                file.append(&self.heap)?;
                (self.from, self.heap) = (file.len(), Vec::new());
                self.file.insert(Arc::new(file))
            }
        };
        file.append(bytes)?;
        self.from = file.len();
        Ok(())
    }

    fn piece(&self, position: u64, most: u64) -> Option<(Piece, u64)> {
        if let Some(file) = self.file.as_ref().filter(|file| position < file.len()) {
            let len = most.min(file.len() - position);
            return Some((Piece::File(Arc::clone(file), position, len), len));
        }
        let at = position.checked_sub(self.from)? as usize;
        let bytes = self.heap.get(at..at.checked_add(most as usize)?)?;
        Some((Piece::Bytes(Bytes::copy_from_slice(bytes)), most))
    }

    fn discard(&mut self, position: u64) {
        if let Some(file) = &self.file {
            file.discard(position);
        }
        let read = (position.saturating_sub(self.from) as usize).min(self.heap.len());
        // Removed in halves, so that the remaining bytes are not moved for each piece.
        if self.is_refused && read >= self.heap.len() / 2 {
            self.heap.drain(..read);
            self.from += read as u64;
        }
    }

    /// Takes the whole body, if it is in one place.
    fn take(&mut self) -> Option<Body> {
        match &self.file {
            _ if self.is_refused => None,
            Some(file) => Some(Body::file(Arc::clone(file))),
            None => Some(Body::Heap(std::mem::take(&mut self.heap).into_boxed_slice())),
        }
    }
}

impl Default for Buffer {
    fn default() -> Self {
        Self::Growing(FillBuffer::default())
    }
}
