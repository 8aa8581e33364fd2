//! One stored response, compact: a reference is one word, and beyond key, fields and content an
//! entry costs some 60 bytes.
//!
//! The field lines are kept as they leave (`Name: value\r\n`), without those that differ from one
//! reply to the next (`Date`, `Age`, `Content-Length`, framing); those are made from integers.

use http::{HeaderMap, StatusCode, header};
use larder_semantics::fields::HeadLines;
use larder_semantics::freshness::Freshness;
use triomphe::ThinArc;

use crate::Body;

/// A stored response. Cloning it is one atomic increment.
#[derive(Clone, Debug)]
pub struct Entry(ThinArc<Fixed, u8>);

/// What an entry is besides its bytes; those are `key`, then `signature`, then the field lines.
#[derive(Debug)]
struct Fixed {
    body: Body,
    freshness: Freshness,
    status: StatusCode,
    key_len: u16,
    signature_len: u16,
}

/// The parts of a new entry.
#[derive(Debug)]
pub struct Parts<'a> {
    /// The cache key (`larder_semantics::key`), at most 65,535 bytes.
    pub key: &'a [u8],
    /// The request fields it was selected by (`larder_semantics::vary`); empty without `Vary`.
    pub signature: &'a [u8],
    /// The status code.
    pub status: StatusCode,
    /// When it was received and how long it is good for.
    pub freshness: Freshness,
    /// Its field lines, from [`serialise`].
    pub fields: &'a [u8],
    /// Its content.
    pub body: Body,
}

impl Entry {
    /// Assembles an entry; `None` when key or signature are longer than 65,535 bytes.
    pub fn new(parts: Parts<'_>) -> Option<Self> {
        let fixed = Fixed {
            body: parts.body,
            freshness: parts.freshness,
            status: parts.status,
            key_len: parts.key.len().try_into().ok()?,
            signature_len: parts.signature.len().try_into().ok()?,
        };
        let bytes = [parts.key, parts.signature, parts.fields].concat();
        Some(Self(ThinArc::from_header_and_slice(fixed, &bytes)))
    }

    /// The same content under another head: what a 304 or a HEAD leaves behind
    /// (RFC 9111 sections 3.2 and 4.3.5).
    pub fn refreshed(&self, fields: &[u8], freshness: Freshness) -> Option<Self> {
        let (key, signature) = (self.key(), self.signature());
        let body = self.body().duplicate();
        Self::new(Parts { key, signature, status: self.status(), freshness, fields, body })
    }

    /// The cache key.
    pub fn key(&self) -> &[u8] {
        &self.0.slice[..self.key_len()]
    }

    /// The selecting request fields; empty when the response does not vary.
    pub fn signature(&self) -> &[u8] {
        &self.0.slice[self.key_len()..][..usize::from(self.0.header.header.signature_len)]
    }

    /// The stored field lines.
    pub fn fields(&self) -> HeadLines<'_> {
        HeadLines(&self.0.slice[self.key_len() + usize::from(self.0.header.header.signature_len)..])
    }

    /// The stored status code.
    pub fn status(&self) -> StatusCode {
        self.0.header.header.status
    }

    /// Age and lifetime.
    pub fn freshness(&self) -> &Freshness {
        &self.0.header.header.freshness
    }

    /// The content.
    pub fn body(&self) -> &Body {
        &self.0.header.header.body
    }

    /// Bytes of memory held, allocator rounding included, without the cache's own bookkeeping.
    pub fn charge(&self) -> u64 {
        let counts = 2 * size_of::<usize>();
        self.body().charge() + allocated(counts + size_of::<Fixed>() + self.0.slice.len()) as u64
    }

    fn key_len(&self) -> usize {
        usize::from(self.0.header.header.key_len)
    }
}

/// Field lines as an entry keeps them: `Name: value\r\n` with the customary capitals, without
/// `Date`, `Age` and `Content-Length`.
pub fn serialise(fields: &HeaderMap) -> Vec<u8> {
    let mut lines = Vec::with_capacity(fields.len() * 40);
    for (name, value) in fields {
        if !matches!(*name, header::DATE | header::AGE | header::CONTENT_LENGTH) {
            write_line(&mut lines, name.as_str().as_bytes(), value.as_bytes());
        }
    }
    lines.shrink_to_fit();
    lines
}

/// Appends one field line, its name in the customary capitals (`Content-Type`, `ETag`).
pub fn write_line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    match name {
        b"etag" => out.extend_from_slice(b"ETag"),
        b"www-authenticate" => out.extend_from_slice(b"WWW-Authenticate"),
        b"te" => out.extend_from_slice(b"TE"),
        _ => {
            let mut start = true;
            out.extend(name.iter().map(|&byte| {
                let capital = std::mem::replace(&mut start, byte == b'-');
                if capital { byte.to_ascii_uppercase() } else { byte }
            }));
        }
    }
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// What an allocator of four size classes a doubling (jemalloc, mimalloc) hands out for `size` bytes.
pub(crate) fn allocated(size: usize) -> usize {
    match size {
        0 => 0,
        1..=128 => size.next_multiple_of(16),
        _ => size.next_multiple_of(size.next_power_of_two() >> 3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_up_to_the_classes_of_the_allocator() {
        let classes = [(0, 0), (1, 16), (128, 128), (129, 160), (257, 320), (1024, 1024), (1025, 1280)];
        for (size, class) in classes {
            assert_eq!(allocated(size), class, "{size} bytes");
        }
    }

    #[test]
    fn names_get_their_customary_capitals() {
        let mut fields = HeaderMap::new();
        for name in ["content-type", "etag", "x-a", "date", "content-length"] {
            fields.insert(name, "v".parse().unwrap());
        }
        let lines = String::from_utf8(serialise(&fields)).unwrap();
        let mut lines: Vec<_> = lines.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["Content-Type: v", "ETag: v", "X-A: v"]);
    }

    #[test]
    fn an_entry_is_small() {
        assert_eq!(size_of::<Entry>(), 8);
        assert_eq!(size_of::<Body>(), 16);
        assert!(size_of::<Fixed>() <= 56, "{}", size_of::<Fixed>());
    }
}
