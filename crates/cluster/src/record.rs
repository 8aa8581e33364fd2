//! The format of a response on the engine, for the second tier: all nodes decode the same bytes to the same
//! response, or reject them.
//!
//! A value begins with [`MAGIC`] and a checksum of the rest; then follow a letter and its content. Numbers are
//! little-endian, and each text is preceded by its length.
//!
//! - `v`: responses to this URL vary; a signature lists the selecting fields. Each variant has a separate record.
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

/// The content of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'r> {
    /// Responses vary by the fields of this signature.
    Varies {
        /// The cache key.
        key: &'r [u8],
        /// One of the responses' signatures.
        signature: &'r [u8],
    },
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
    /// Content within the record: its length in bytes, and the bytes.
    Inline(u32, Piece<'r>),
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
        let mut out = Out(MAGIC.to_vec());
        out.number(0_u64.to_le_bytes());
        match self {
            Self::Varies { key, signature } => {
                out.0.push(b'v');
                out.text(key);
                out.text(signature);
            }
            Self::Response(response) => response.encode(&mut out),
        }
        let (head, rest) = (MAGIC.len(), MAGIC.len() + 8);
        let sum = sum(&out.0[rest..]);
        out.0[head..rest].copy_from_slice(&sum.to_le_bytes());
        out.0
    }

    /// Decodes a value; `None` if it is damaged or of another layout.
    pub fn decode(value: &'r [u8]) -> Option<Self> {
        let (written, rest) = value.strip_prefix(MAGIC)?.split_first_chunk()?;
        if u64::from_le_bytes(*written) != sum(rest) {
            return None;
        }
        let (letter, rest) = rest.split_first()?;
        let mut from = In(rest);
        let record = match letter {
            b'v' => Self::Varies { key: from.text()?, signature: from.text()? },
            b'r' => Self::Response(Box::new(Response::decode(&mut from)?)),
            _ => return None,
        };
        from.0.is_empty().then_some(record)
    }
}

impl<'r> Response<'r> {
    fn encode(&self, out: &mut Out) {
        out.0.push(b'r');
        out.number(self.expires.to_le_bytes());
        out.text(self.engine.as_bytes());
        self.position.parts().into_iter().for_each(|number| out.number(number.to_le_bytes()));
        self.head.encode(&mut out.0);
        match &self.content {
            Content::Inline(len, piece) => {
                out.0.push(b'i');
                out.number(len.to_le_bytes());
                out.0.extend_from_slice(&piece.encode());
            }
            Content::Chunks { number, len, sums } => {
                out.0.push(b'c');
                [*number, *len].iter().chain(sums).for_each(|number| out.number(number.to_le_bytes()));
            }
        }
    }

    fn decode(from: &mut In<'r>) -> Option<Self> {
        Some(Self {
            expires: from.number()?,
            engine: std::str::from_utf8(from.text()?).ok()?,
            position: Position::new(from.number()?, from.number()?),
            head: from.head()?,
            content: Content::decode(from)?,
        })
    }
}

impl<'r> Content<'r> {
    fn decode(from: &mut In<'r>) -> Option<Self> {
        match from.bytes()? {
            [b'i'] => {
                let len = from.length()?;
                let piece = Piece::decode(std::mem::take(&mut from.0))?;
                (u64::from(len) < INLINE).then_some(Self::Inline(len, piece))
            }
            [b'c'] => {
                let (number, len) = (from.number()?, from.number()?);
                let (sums, rest) = from.0.as_chunks();
                from.0 = rest;
                let sums: Vec<_> = sums.iter().map(|sum| u64::from_le_bytes(*sum)).collect();
                (sums.len() as u64 == chunks(len)).then_some(Self::Chunks { number, len, sums })
            }
            _ => None,
        }
    }

    /// Returns the bytes of content.
    pub fn len(&self) -> u64 {
        match self {
            Self::Inline(len, _) => u64::from(*len),
            Self::Chunks { len, .. } => *len,
        }
    }

    /// Whether there is no content.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

struct Out(Vec<u8>);

impl Out {
    fn number<const N: usize>(&mut self, bytes: [u8; N]) {
        self.0.extend(bytes);
    }

    fn text(&mut self, text: &[u8]) {
        self.number((text.len() as u32).to_le_bytes());
        self.0.extend_from_slice(text);
    }
}

struct In<'r>(&'r [u8]);

impl<'r> In<'r> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn length(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn number(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Option<&'r [u8]> {
        let len = self.length()? as usize;
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(text)
    }

    fn head(&mut self) -> Option<StoredHead<'r>> {
        let (head, rest) = StoredHead::decode(self.0)?;
        self.0 = rest;
        Some(head)
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use larder_semantics::freshness::Freshness;
    use proptest::prelude::*;

    use super::*;

    /// The random data for the tests of a record.
    type Made = ([Vec<u8>; 3], u32, u64, String, (u64, u64));

    fn response<'r>(made: &'r Made, content: Content<'r>) -> Record<'r> {
        let ([key, signature, own], initial_age, expires, engine, (millis, count)) = made;
        let freshness = Freshness { initial_age: *initial_age, ..Freshness::default() };
        let (status, cost, shared) = (StatusCode::OK, 7, &b""[..]);
        Record::Response(Box::new(Response {
            head: StoredHead { key, signature, status, freshness, cost, shared, own },
            expires: *expires,
            engine,
            position: Position::new(*millis, *count),
            content,
        }))
    }

    proptest! {
        #[test]
        fn what_was_written_comes_back(made: Made, body: Vec<u8>, number: u64, len in 0..10 * CHUNK, damage: (usize, u8)) {
            let sums = (0..chunks(len)).collect();
            for record in [
                Record::Varies { key: &made.0[0], signature: &made.0[1] },
                response(&made, Content::Inline(7, Piece::Plain(&body))),
                response(&made, Content::Inline(7, Piece::Zstd(&body))),
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
