//! The bytes that a client has sent and that no parser has consumed yet.
//!
//! A connection borrows a buffer from the pool of its thread when it expects bytes, and returns it once all bytes are
//! consumed. So idle connections hold no buffer.

use std::cell::RefCell;
use std::io;

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::net::RecvFlags;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Decides when to parse lines that end with an empty line, while they arrive: when an empty line may have arrived, and
/// whenever the input has doubled. So malformed input is rejected early, and a sender of single bytes costs little more
/// than one that sends all bytes at once.
#[derive(Debug, Default)]
pub struct HeadSearch {
    searched: usize,
    parsed: usize,
}

impl HeadSearch {
    /// Returns the state after a parse of `input` that found no end.
    #[inline]
    pub fn after(input: &[u8]) -> Self {
        Self { searched: input.len(), parsed: input.len() }
    }

    /// Whether to parse `input`, which begins with the input of the previous call. Always true from `limit` bytes on.
    pub fn is_worth_it(&mut self, input: &[u8], limit: usize) -> bool {
        if input.is_empty() {
            return false;
        }
        let has_grown = input.len() >= 2 * self.parsed || input.len() >= limit;
        let is_worth_it = has_grown || self.may_end(input);
        self.searched = input.len();
        if is_worth_it {
            self.parsed = input.len();
        }
        is_worth_it
    }

    /// Whether the bytes that were not searched before contain an empty line.
    fn may_end(&self, input: &[u8]) -> bool {
        let new = &input[self.searched.saturating_sub(2).min(input.len())..];
        let is_empty_line = |at| matches!(&new[at + 1..], [b'\n', ..] | [b'\r', b'\n', ..]);
        memchr::memchr_iter(b'\n', new).any(is_empty_line)
    }
}

/// Bytes of a new buffer; a head rarely needs more.
const ROOM: usize = 16 << 10;
/// Buffers that each thread keeps for connections that become active.
const SPARE: usize = 64;
/// Bytes of a new large buffer, and large buffers that each thread keeps.
const LARGE_ROOM: usize = 5 * ROOM;
const SPARE_LARGE: usize = 8;
/// Bytes of the largest buffer that is kept.
const MOST_ROOM: usize = 2 * LARGE_ROOM;

thread_local! {
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    static LARGE_BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Takes a buffer from the thread's pool, or allocates one.
pub(crate) fn borrow_buffer() -> Vec<u8> {
    BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_else(|| Vec::with_capacity(ROOM))
}

/// Takes a buffer for many replies, which would have to grow repeatedly otherwise.
pub(crate) fn borrow_large_buffer() -> Vec<u8> {
    LARGE_BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_else(|| Vec::with_capacity(LARGE_ROOM))
}

/// Clears a buffer and returns it to the thread's pool of its size.
pub(crate) fn give_buffer(mut buffer: Vec<u8>) {
    buffer.clear();
    let (pool, most) = match buffer.capacity() {
        0..ROOM => return,
        ROOM..LARGE_ROOM => (&BUFFERS, SPARE),
        LARGE_ROOM..=MOST_ROOM => (&LARGE_BUFFERS, SPARE_LARGE),
        _ => return,
    };
    pool.with_borrow_mut(|spare| {
        if spare.len() < most {
            spare.push(buffer);
        }
    });
}

/// Receives into the spare capacity of `buffer`. A read that does not fill the buffer has emptied the socket. It
/// reports `WouldBlock` to the runtime, so that the next read waits instead of making a useless system call.
pub fn receive(stream: &TcpStream, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let mut received = None;
    let tried = stream.try_io(Interest::READABLE, || {
        let room = buffer.capacity() - buffer.len();
        let (count, _) = rustix::net::recv(stream, spare_capacity(buffer), RecvFlags::empty())?;
        received = Some(count);
        if 0 < count && count < room { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
    });
    received.map_or(tried, Ok)
}

/// Received bytes in the order of their arrival.
#[derive(Debug, Default)]
pub struct Input {
    bytes: Vec<u8>,
    consumed: usize,
}

impl Input {
    /// Returns the bytes that are not consumed yet.
    #[inline]
    pub fn unread(&self) -> &[u8] {
        &self.bytes[self.consumed..]
    }

    /// Returns the same bytes, to be changed.
    #[inline]
    pub fn unread_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.consumed..]
    }

    /// Whether all bytes are consumed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.consumed == self.bytes.len()
    }

    /// Consumes `count` bytes.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        self.consumed += count;
        if self.is_empty() {
            self.clear();
        }
    }

    /// Consumes `count` bytes and returns a copy of them.
    #[inline]
    pub fn take(&mut self, count: usize) -> Bytes {
        let taken = Bytes::copy_from_slice(&self.unread()[..count]);
        self.consume(count);
        taken
    }

    /// Consumes all bytes.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.consumed = 0;
    }

    /// Returns the buffer, with spare capacity behind its bytes.
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

    /// The same with room for at least `room` bytes.
    pub(crate) fn make_room_for(&mut self, room: usize) -> &mut Vec<u8> {
        let buffer = self.make_room();
        if room > buffer.capacity() - buffer.len() {
            buffer.reserve(room);
        }
        buffer
    }

    /// Returns the buffer to the pool if all bytes are consumed.
    #[inline]
    pub fn release_buffers(&mut self) {
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
    fn a_head_arriving_byte_by_byte_is_parsed_few_times() {
        let head = format!("HTTP/1.1 200 OK\r\n{}\r\n", "Name: value\r\n".repeat(1_000));
        let (mut looking, head) = (HeadSearch::default(), head.as_bytes());
        let mut parsed = 0;
        for end in 1..head.len() {
            if looking.is_worth_it(&head[..end], usize::MAX) {
                looking = HeadSearch::after(&head[..end]);
                parsed += 1;
            }
        }
        assert!(parsed <= 16, "{parsed} times");
        assert!(looking.is_worth_it(head, usize::MAX));
        assert!(looking.is_worth_it(head, head.len()), "from the limit on it is parsed each time");
    }

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
            input.release_buffers();
        }
        assert!(next_out > 100_000);
    }
}
