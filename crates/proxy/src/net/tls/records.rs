//! Bytes on their way out that are written in place: sealed records, frames around content of files.

use crate::net::input::{borrow_buffer, give_buffer};

/// Records or frames, in the order in which they leave.
///
/// The bytes of the buffer stay initialised when they have left: clearing them would cost a fifth of sealing the next.
#[derive(Debug, Default)]
pub(crate) struct Records {
    bytes: Vec<u8>,
    /// What is sealed and was not sent.
    from: usize,
    to: usize,
}

impl Records {
    /// What is ready to be sent.
    pub(crate) fn ready(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }

    /// How many bytes that are.
    pub(crate) fn len(&self) -> usize {
        self.to - self.from
    }

    /// Whether nothing is.
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

    /// Gives the buffer back, if nothing is in it.
    pub(crate) fn rest(&mut self) {
        if self.is_empty() && self.bytes.capacity() > 0 {
            give_buffer(std::mem::take(&mut self.bytes));
        }
    }

    /// Room for `length` bytes behind what is ready.
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

    /// Takes in the first `length` bytes of the room.
    pub(crate) fn add(&mut self, length: usize) {
        self.to += length;
    }
}
