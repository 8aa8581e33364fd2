//! What a client has sent and nobody has consumed yet.
//!
//! Room is borrowed from a pool of the thread when bytes are expected and given back when all have
//! been consumed, so that idle connections hold none.

use std::cell::RefCell;

use bytes::Bytes;

/// Room to read into; a head rarely needs more.
const ROOM: usize = 16 << 10;
/// Buffers kept per thread for connections that wake up.
const SPARE: usize = 64;

thread_local! {
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer from the thread's pool.
pub(crate) fn borrow_buffer() -> Vec<u8> {
    BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_else(|| Vec::with_capacity(ROOM))
}

/// Gives a buffer to the thread's pool, its content forgotten.
pub(crate) fn give_buffer(mut buffer: Vec<u8>) {
    buffer.clear();
    BUFFERS.with_borrow_mut(|spare| {
        if spare.len() < SPARE && (ROOM..=4 * ROOM).contains(&buffer.capacity()) {
            spare.push(buffer);
        }
    });
}

/// Bytes in the order they came.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    consumed: usize,
}

impl Input {
    /// The bytes not yet consumed.
    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[self.consumed..]
    }

    /// True when all are consumed.
    pub(crate) fn is_empty(&self) -> bool {
        self.consumed == self.bytes.len()
    }

    /// Consumes `count` bytes.
    pub(crate) fn consume(&mut self, count: usize) {
        self.consumed += count;
        if self.is_empty() {
            self.clear();
        }
    }

    /// Consumes `count` bytes and hands out a copy.
    pub(crate) fn take(&mut self, count: usize) -> Bytes {
        let taken = Bytes::copy_from_slice(&self.unread()[..count]);
        self.consume(count);
        taken
    }

    /// Consumes everything.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.consumed = 0;
    }

    /// The buffer, with some capacity left behind the bytes.
    pub(crate) fn make_room(&mut self) -> &mut Vec<u8> {
        if self.bytes.capacity() == 0 {
            self.bytes = borrow_buffer();
        }
        if self.consumed > 0 && self.bytes.capacity() - self.bytes.len() < ROOM / 2 {
            self.bytes.drain(..self.consumed);
            self.consumed = 0;
        }
        if self.bytes.capacity() - self.bytes.len() < ROOM / 2 {
            self.bytes.reserve(ROOM);
        }
        &mut self.bytes
    }

    /// Gives the buffer back, if nothing is in it.
    pub(crate) fn rest(&mut self) {
        if self.is_empty() && self.bytes.capacity() > 0 {
            self.consumed = 0;
            give_buffer(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_in_order_while_room_is_made() {
        let (mut input, mut next_in, mut next_out) = (Input::default(), 0_u32, 0_u32);
        for round in 1..2_000_u32 {
            for _ in 0..round % 700 {
                input.make_room().push(next_in as u8);
                next_in += 1;
            }
            let count = input.unread().len().min(round as usize % 900);
            for byte in input.take(count) {
                assert_eq!(byte, next_out as u8);
                next_out += 1;
            }
            input.rest();
        }
        assert!(next_out > 100_000);
    }
}
