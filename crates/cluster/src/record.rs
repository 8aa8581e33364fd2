//! The format of a response on the engine, for the second tier: all nodes decode the same bytes to the same
//! response, or reject them.
//!
//! A value begins with [`MAGIC`] and a checksum of the rest; then follow a letter and its content. Numbers are
//! little-endian.
//!
//! - `v`: responses to this URL vary; the head of one of them has the selecting fields. Each variant has a separate record.
//! - `r`: a response. Short content is part of it. Longer content is in [`CHUNK`]s, whose checksums it has; their names
//!   contain a number that is used once, so that chunks of different responses are never combined.
//!
//! A response has the position in the stream of purges at which its fetch began, and the process of the engine then. It also
//! has its intended lifetime on the engine; with the remaining lifetime, which the engine counts, that gives its age. Its
//! head ([`StoredHead`]) is as if it had been received in second 0, since the clocks of nodes may differ.

use larder_semantics::stored_head::StoredHead;

use crate::{Position, key_hash};

/// The start of a value; another layout has another one.
pub const MAGIC: &[u8; 8] = b"larder 2";
/// Bytes of content in a chunk; the last chunk may have fewer.
pub const CHUNK: u64 = 1 << 20;
/// Content that is shorter is part of the record.
pub const INLINE: u64 = 64 << 10;
/// No value that a node writes, a record or a chunk with its seal, is longer than this.
pub const LONGEST: u64 = CHUNK + 256;

/// The content of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'r> {
    /// Responses vary by the fields of the signature of this one.
    Varies(StoredHead<'r>),
    /// A response.
    Response(Box<Response<'r>>),
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response<'r> {
    /// Its head. The initial age is the age when it was written.
    pub head: StoredHead<'r>,
    /// The time for which the engine should keep it, in milliseconds.
    pub expires: u64,
    /// The process of the engine that had the stream of purges when the fetch began.
    pub engine: &'r str,
    /// The last entry of that process that had been applied then.
    pub position: Position,
    /// The content.
    pub content: Content<'r>,
}

/// Content, or the location of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content<'r> {
    /// Content within the record: its length in bytes, and the value of its [`Piece`].
    Inline(u64, &'r [u8]),
    /// Content in chunks.
    Chunks {
        /// The number in the names of the chunks.
        number: u64,
        /// Bytes of content.
        len: u64,
        /// The checksum of each chunk's content.
        sums: Vec<u64>,
    },
}

/// A part of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'r> {
    /// The plain bytes.
    Plain(&'r [u8]),
    /// The bytes compressed by Zstandard (RFC 8878).
    Zstd(&'r [u8]),
}

impl<'r> Piece<'r> {
    /// Decodes a chunk's value; `None` if it is malformed.
    pub fn decode(value: &'r [u8]) -> Option<Self> {
        match value.split_first()? {
            (0, rest) => Some(Self::Plain(rest)),
            (1, rest) => Some(Self::Zstd(rest)),
            _ => None,
        }
    }

    /// Returns the value of a chunk.
    pub fn encode(self) -> Vec<u8> {
        let (coding, bytes) = match self {
            Self::Plain(bytes) => (0, bytes),
            Self::Zstd(bytes) => (1, bytes),
        };
        [&[coding], bytes].concat()
    }
}

/// A checksum that detects damage. It does not protect against an attacker.
pub fn sum(bytes: &[u8]) -> u64 {
    key_hash(bytes)
}

/// Returns the number of chunks of content with `len` bytes.
pub fn chunks(len: u64) -> u64 {
    len.div_ceil(CHUNK)
}

impl<'r> Record<'r> {
    /// Returns the value of the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = [&MAGIC[..], &[0; 8]].concat();
        match self {
            Self::Varies(head) => {
                out.push(b'v');
                head.encode(&mut out);
            }
            Self::Response(response) => response.encode(&mut out),
        }
        let (head, rest) = (MAGIC.len(), MAGIC.len() + 8);
        let sum = sum(&out[rest..]);
        out[head..rest].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Decodes a value; `None` if it is damaged or of another layout.
    pub fn decode(value: &'r [u8]) -> Option<Self> {
        let mut rest = value.strip_prefix(MAGIC)?;
        if number(&mut rest)? != sum(rest) {
            return None;
        }
        match rest.split_first()? {
            (b'v', rest) => {
                let (head, rest) = StoredHead::decode(rest)?;
                rest.is_empty().then_some(Self::Varies(head))
            }
            (b'r', rest) => Response::decode(rest).map(|response| Self::Response(Box::new(response))),
            _ => None,
        }
    }
}

impl<'r> Response<'r> {
    fn encode(&self, out: &mut Vec<u8>) {
        let [millis, count] = self.position.parts();
        out.push(b'r');
        write(out, [self.expires, millis, count, self.engine.len() as u64]);
        out.extend_from_slice(self.engine.as_bytes());
        self.head.encode(out);
        match &self.content {
            Content::Inline(len, piece) => {
                out.push(b'i');
                write(out, [*len]);
                out.extend_from_slice(piece);
            }
            Content::Chunks { number, len, sums } => {
                out.push(b'c');
                write(out, [*number, *len].into_iter().chain(sums.iter().copied()));
            }
        }
    }

    fn decode(mut rest: &'r [u8]) -> Option<Self> {
        let expires = number(&mut rest)?;
        let position = Position::new(number(&mut rest)?, number(&mut rest)?);
        let len = usize::try_from(number(&mut rest)?).ok()?;
        let (engine, rest) = rest.split_at_checked(len)?;
        let (head, rest) = StoredHead::decode(rest)?;
        let engine = std::str::from_utf8(engine).ok()?;
        Some(Self { head, expires, engine, position, content: Content::decode(rest)? })
    }
}

impl<'r> Content<'r> {
    fn decode(bytes: &'r [u8]) -> Option<Self> {
        let (letter, mut rest) = bytes.split_first()?;
        match letter {
            b'i' => {
                let len = number(&mut rest)?;
                (len < INLINE).then_some(Self::Inline(len, rest))
            }
            b'c' => {
                let (number, len) = (number(&mut rest)?, number(&mut rest)?);
                let (sums, []) = rest.as_chunks() else { return None };
                let sums: Vec<_> = sums.iter().map(|sum| u64::from_le_bytes(*sum)).collect();
                (sums.len() as u64 == chunks(len)).then_some(Self::Chunks { number, len, sums })
            }
            _ => None,
        }
    }

    /// Returns the bytes of content.
    pub fn len(&self) -> u64 {
        match self {
            Self::Inline(len, _) | Self::Chunks { len, .. } => *len,
        }
    }

    /// Whether there is no content.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn write(out: &mut Vec<u8>, numbers: impl IntoIterator<Item = u64>) {
    numbers.into_iter().for_each(|number| out.extend(number.to_le_bytes()));
}

/// Takes a number from the start of `bytes`.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*number))
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use larder_semantics::freshness::Freshness;
    use proptest::prelude::*;

    use super::*;

    /// The random data for the tests of a record.
    type Made = ([Vec<u8>; 3], u32, u64, String, (u64, u64));

    fn head(([key, signature, own], initial_age, ..): &Made) -> StoredHead<'_> {
        let freshness = Freshness { initial_age: *initial_age, ..Freshness::default() };
        StoredHead { key, signature, status: StatusCode::OK, freshness, cost: 7, shared: &[], own }
    }

    fn response<'r>(made: &'r Made, content: Content<'r>) -> Record<'r> {
        let (.., expires, engine, (millis, count)) = made;
        Record::Response(Box::new(Response {
            head: head(made),
            expires: *expires,
            engine,
            position: Position::new(*millis, *count),
            content,
        }))
    }

    proptest! {
        #[test]
        fn an_encoded_record_decodes_as_written_and_a_damaged_one_does_not(made: Made, body: Vec<u8>, number: u64, len in 0..10 * CHUNK, damage: (usize, u8)) {
            let sums = (0..chunks(len)).collect();
            for record in [
                Record::Varies(head(&made)),
                response(&made, Content::Inline(7, &body)),
                response(&made, Content::Chunks { number, len, sums }),
            ] {
                let mut value = record.encode();
                prop_assert_eq!(Record::decode(&value), Some(record));
                prop_assert_eq!(Record::decode(&value[..value.len() - 1]), None);
                let at = damage.0 % value.len();
                value[at] ^= damage.1.max(1);
                prop_assert_eq!(Record::decode(&value), None, "a byte has changed at {}", at);
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>, letter in "[vr]") {
            let _ = (Record::decode(&bytes), Piece::decode(&bytes));
            let rest = [letter.as_bytes(), &bytes].concat();
            let value = [&MAGIC[..], &sum(&rest).to_le_bytes(), &rest].concat();
            if let Some(record) = Record::decode(&value) {
                prop_assert_eq!(record.encode(), value);
            }
        }

        #[test]
        fn a_chunk_comes_back_as_it_was_written(bytes: Vec<u8>) {
            for piece in [Piece::Plain(&bytes), Piece::Zstd(&bytes)] {
                let value = piece.encode();
                prop_assert_eq!(Piece::decode(&value), Some(piece));
            }
        }
    }

    #[test]
    fn no_record_has_more_or_fewer_chunks_than_its_content() {
        let made = Made::default();
        let record = response(&made, Content::Chunks { number: 1, len: CHUNK + 1, sums: vec![1] });
        assert_eq!(Record::decode(&record.encode()), None);
    }
}
