//! Reads a message from its start, even if only part of it has arrived.

use std::ops::Range;

use crate::Malformed;

/// The reason why reading stopped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The message is valid so far, but incomplete.
    Short,
    /// A value ends beyond the longest message.
    TooLong(Malformed),
    /// The message is invalid, and further bytes do not change that.
    Malformed(Malformed),
}

impl Stop {
    pub(crate) fn malformed<T>(why: impl Into<String>) -> Result<T, Self> {
        Err(Self::Malformed(Malformed(why.into())))
    }
}

/// Returns the error in a complete message.
pub(crate) fn whole(stop: Stop) -> Malformed {
    match stop {
        Stop::Malformed(why) | Stop::TooLong(why) => why,
        Stop::Short => Malformed("the message ends too early".to_owned()),
    }
}

/// A position in a message of at most `limit` bytes, of which `bytes` have arrived.
///
/// A read beyond the limit fails immediately, so that a length from the peer cannot make the reader wait or allocate
/// beyond the limit.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    limit: usize,
    is_whole: bool,
}

impl<'a> Cursor<'a> {
    /// Returns a cursor for a message that consists of all `bytes`: reading it never stops [short](Stop::Short).
    pub(crate) fn whole(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, limit: bytes.len(), is_whole: true }
    }

    /// Returns a cursor for a message that begins with `bytes` and ends within `limit` bytes.
    pub(crate) fn partial(bytes: &'a [u8], limit: usize) -> Self {
        Self { bytes: &bytes[..bytes.len().min(limit)], at: 0, limit, is_whole: false }
    }

    /// Returns the number of bytes read so far.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Returns the maximum number of further bytes.
    pub(crate) fn room(&self) -> usize {
        self.limit - self.at
    }

    /// Advances past the next `length` bytes and returns their range.
    pub(crate) fn take(&mut self, length: usize) -> Result<Range<usize>, Stop> {
        if length > self.room() {
            let (at, limit) = (self.at, self.limit);
            let why = Malformed(format!("{length} bytes at byte {at} of a message of at most {limit}"));
            return Err(if self.is_whole { Stop::Malformed(why) } else { Stop::TooLong(why) });
        }
        let taken = self.at..self.at + length;
        if taken.end > self.bytes.len() {
            return Err(Stop::Short);
        }
        self.at = taken.end;
        Ok(taken)
    }

    /// Returns the bytes of a range from [`take`](Self::take).
    pub(crate) fn bytes(&self, taken: &Range<usize>) -> &'a [u8] {
        &self.bytes[taken.clone()]
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let taken = self.take(N)?;
        let mut array = [0; N];
        array.copy_from_slice(&self.bytes[taken]);
        Ok(array)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Stop> {
        self.array().map(|[byte]| byte)
    }

    /// Reads an unsigned number, most significant byte first.
    pub(crate) fn u32(&mut self) -> Result<u32, Stop> {
        self.array().map(u32::from_be_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::{Cursor, Stop};

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_its_bytes_are_there() {
        let mut cursor = Cursor::partial(b"abc", 10);
        assert_eq!(cursor.take(2), Ok(0..2));
        assert_eq!(cursor.take(8), Err(Stop::Short));
        assert!(matches!(cursor.take(9), Err(Stop::TooLong(_))));
        assert!(matches!(cursor.take(usize::MAX), Err(Stop::TooLong(_))));
        assert_eq!(cursor.take(1), Ok(2..3));
    }

    #[test]
    fn a_whole_message_is_never_short() {
        assert!(matches!(Cursor::whole(b"abc").take(4), Err(Stop::Malformed(_))));
        assert!(matches!(Cursor::whole(b"abc").u32(), Err(Stop::Malformed(_))));
    }

    #[test]
    fn the_cursor_does_not_read_beyond_its_limit() {
        assert!(matches!(Cursor::partial(b"abcdef", 3).u32(), Err(Stop::TooLong(_))));
    }
}
