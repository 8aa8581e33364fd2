//! Sealed records that are ready to be sent.

use std::cell::RefCell;

use crate::net::input::{borrow_buffer, give_buffer};

/// Bytes of a large buffer: a batch of the longest records (`Output::BATCH`), and another record.
const LARGE: usize = 5 << 14;
/// Large buffers that each thread keeps.
const SPARE: usize = 32;

thread_local! {
    /// Their bytes are initialised.
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Records in the order in which they are sent.
///
/// The bytes of the buffer stay initialised after they are sent: initialising them again would cost a fifth of sealing
/// the next record.
#[derive(Debug, Default)]
pub struct Records {
    bytes: Vec<u8>,
    /// The range of bytes that are ready and not sent yet.
    from: usize,
    to: usize,
}

impl Records {
    /// Creates a buffer in which `bytes` are ready to be sent.
    pub fn new(mut bytes: Vec<u8>) -> Self {
        bytes.shrink_to_fit();
        let to = bytes.len();
        Self { bytes, from: 0, to }
    }

    /// Returns the bytes that are ready to be sent.
    pub fn ready(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }

    /// Returns the number of bytes that are ready to be sent.
    pub fn len(&self) -> usize {
        self.to - self.from
    }

    /// Returns the number of bytes up to the end of the ready ones, including those that were sent.
    pub fn end(&self) -> usize {
        self.to
    }

    /// Whether no bytes are ready to be sent.
    pub fn is_empty(&self) -> bool {
        self.from == self.to
    }

    /// Notes that the first `count` bytes were sent.
    pub fn sent(&mut self, count: usize) {
        self.from += count;
        if self.is_empty() {
            (self.from, self.to) = (0, 0);
        }
    }

    /// Returns the buffer to the pool if all bytes are sent.
    pub fn release_buffers(&mut self) {
        if self.is_empty() && self.bytes.capacity() > 0 {
            give(std::mem::take(&mut self.bytes));
        }
    }

    /// Returns room for `length` bytes behind the ready bytes.
    pub fn room(&mut self, length: usize) -> &mut [u8] {
        if self.bytes.capacity() == 0 {
            self.bytes = borrow_buffer();
        }
        let end = self.to + length;
        if end > self.bytes.capacity() && end <= LARGE {
            self.enlarge();
        }
        if end > self.bytes.len() {
            self.bytes.resize(end, 0);
        }
        &mut self.bytes[self.to..end]
    }

    /// Adds the first `length` bytes of the room to the ready bytes.
    pub fn add(&mut self, length: usize) {
        self.to += length;
    }

    /// Continues in a large buffer.
    fn enlarge(&mut self) {
        let mut large = BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_else(|| vec![0; LARGE]);
        large[..self.to].copy_from_slice(&self.bytes[..self.to]);
        give(std::mem::replace(&mut self.bytes, large));
    }
}

/// Returns a buffer to the pool of buffers of its size.
fn give(buffer: Vec<u8>) {
    if buffer.len() != LARGE {
        return give_buffer(buffer);
    }
    BUFFERS.with_borrow_mut(|spare| {
        if spare.len() < SPARE {
            spare.push(buffer);
        }
    });
}
