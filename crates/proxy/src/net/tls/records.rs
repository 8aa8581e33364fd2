//! Outgoing bytes that are written in place: sealed records, and frames around the content of files.

use crate::net::input::{borrow_buffer, give_buffer};

/// Records or frames, in the order in which they are sent.
///
/// The bytes of the buffer stay initialised after they are sent: initialising them again would cost a fifth of sealing
/// the next record.
#[derive(Debug, Default)]
pub(crate) struct Records {
    bytes: Vec<u8>,
    /// The range of bytes that are ready and not sent yet.
    from: usize,
    to: usize,
}

impl Records {
    /// Creates a buffer in which `bytes` are ready to be sent.
    pub(crate) fn new(mut bytes: Vec<u8>) -> Self {
        bytes.shrink_to_fit();
        let to = bytes.len();
        Self { bytes, from: 0, to }
    }

    /// Returns the bytes that are ready to be sent.
    pub(crate) fn ready(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }

    /// Returns the number of bytes that are ready to be sent.
    pub(crate) fn len(&self) -> usize {
        self.to - self.from
    }

    /// Whether no bytes are ready to be sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.from == self.to
    }

    /// Notes that the first `count` bytes were sent.
    pub(crate) fn sent(&mut self, count: usize) {
        self.from += count;
        if self.is_empty() {
            (self.from, self.to) = (0, 0);
        }
    }

    /// Returns the buffer to the pool if all bytes are sent.
    pub(crate) fn rest(&mut self) {
        if self.is_empty() && self.bytes.capacity() > 0 {
            give_buffer(std::mem::take(&mut self.bytes));
        }
    }

    /// Returns room for `length` bytes behind the ready bytes.
    pub(crate) fn room(&mut self, length: usize) -> &mut [u8] {
        if self.bytes.capacity() == 0 {
            self.bytes = borrow_buffer();
        }
        let end = self.to + length;
        if end > self.bytes.len() {
            self.bytes.resize(end, 0);
        }
        &mut self.bytes[self.to..end]
    }

    /// Appends a copy of `bytes`.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.room(bytes.len()).copy_from_slice(bytes);
            self.add(bytes.len());
        }
    }

    /// Adds the first `length` bytes of the room to the ready bytes.
    pub(crate) fn add(&mut self, length: usize) {
        self.to += length;
    }
}
