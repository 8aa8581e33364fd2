//! Content that is stored by slices: the response is one entry, and each slice of its content another one, under a key
//! that no request has.
//!
//! The entry has a number of its own, which the keys of its slices contain. So slices are found only through the entry:
//! whatever removes or replaces it, a purge or another representation, hides all of its slices at once.

use std::io::Write;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// The last byte of the key of a slice, where that of a request has its role.
const MARK: u8 = b'S';
/// The most bytes of such a key behind that of the response.
const LONGEST: usize = 1 + 16 + 1 + 20 + 1;
/// The most slices of a response that are removed with it. Others stay until they are evicted; no request finds them.
const MOST_REMOVED: u64 = 1 << 13;

/// The content of a response whose slices are entries of their own.
#[derive(Debug)]
pub struct SlicedBody {
    number: u64,
    len: u64,
    size: u64,
    /// The position behind the content that was requested last.
    read_to: AtomicU64,
}

impl PartialEq for SlicedBody {
    fn eq(&self, other: &Self) -> bool {
        self.encode() == other.encode()
    }
}

impl Eq for SlicedBody {}

/// A part of one slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlicePart {
    /// The number of the slice, from 0.
    pub index: u64,
    /// The bytes in the slice.
    pub bytes: Range<u64>,
}

impl SlicedBody {
    /// Returns content of `len` bytes in slices of `size` bytes, none of which is stored. `None` without a byte of either.
    pub fn new(len: u64, size: u64) -> Option<Self> {
        Self::numbered(fastrand::u64(..), len, size)
    }

    fn numbered(number: u64, len: u64, size: u64) -> Option<Self> {
        (len > 0 && size > 0).then(|| Self { number, len, size, read_to: AtomicU64::new(0) })
    }

    /// Records that the content in `range` is requested, and returns whether that follows what was requested last.
    pub fn reads_on(&self, range: &Range<u64>) -> bool {
        let last = self.read_to.swap(range.end, Ordering::Relaxed);
        range.start > 0 && last == range.start
    }

    /// Returns the bytes of content, stored or not.
    #[allow(clippy::len_without_is_empty, reason = "it has at least one byte")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns the bytes of content in the slice with this number, which may be the last one.
    pub fn range(&self, index: u64) -> Range<u64> {
        range_of(index, self.len, self.size)
    }

    /// Returns the number of the slice with this byte.
    pub fn index(&self, byte: u64) -> u64 {
        byte / self.size
    }

    /// Returns the bytes of content in the slices that `bytes` of it, in one piece, need at least.
    pub fn len_of_slices(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.size).saturating_mul(self.size).min(self.len)
    }

    /// Returns the parts of slices that make up the content in `range`.
    pub fn parts(&self, range: Range<u64>) -> impl Iterator<Item = SlicePart> + use<> {
        let (len, size, end) = (self.len, self.size, range.end.min(self.len));
        let mut at = range.start;
        std::iter::from_fn(move || {
            let index = (at < end).then_some(at / size)?;
            let slice = range_of(index, len, size);
            let bytes = at - slice.start..end.min(slice.end) - slice.start;
            at = slice.end;
            Some(SlicePart { index, bytes })
        })
    }

    /// Returns the key of a slice of the response under `key`.
    pub fn key(&self, key: &[u8], index: u64) -> Vec<u8> {
        let mut own = Vec::with_capacity(key.len() + LONGEST);
        own.extend_from_slice(key);
        // No request has a target with a NUL, so that no response has this key. Writing to a vector does not fail.
        let _ = write!(own, "\0{:016x}.{index}", self.number);
        own.push(MARK);
        own
    }

    /// Returns the keys of the slices that are removed with the response under `key`.
    pub(crate) fn keys<'k>(&'k self, key: &'k [u8]) -> impl Iterator<Item = Vec<u8>> + use<'k> {
        let slices = self.len.div_ceil(self.size).min(MOST_REMOVED);
        (0..slices).map(move |index| self.key(key, index))
    }

    /// Returns the encoding: number, length and size, little-endian.
    pub(crate) fn encode(&self) -> [u8; 24] {
        let mut out = [0; 24];
        for (place, number) in out.as_chunks_mut().0.iter_mut().zip([self.number, self.len, self.size]) {
            *place = number.to_le_bytes();
        }
        out
    }

    /// Decodes what [`encode`](Self::encode) returns; `None` for other bytes.
    pub(crate) fn decode(bytes: &[u8; 24]) -> Option<Self> {
        let mut numbers = bytes.as_chunks().0.iter().map(|number| u64::from_le_bytes(*number));
        Self::numbered(numbers.next()?, numbers.next()?, numbers.next()?)
    }
}

/// Returns the bytes in a slice of content of `len` bytes.
fn range_of(index: u64, len: u64, size: u64) -> Range<u64> {
    let from = index.saturating_mul(size).min(len);
    from..from.saturating_add(size).min(len)
}

/// Whether `key` is that of a slice, which is no response to a request.
pub(crate) fn is_of_slice(key: &[u8]) -> bool {
    key.last() == Some(&MARK)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_are_the_range_without_gaps(len in 1..500_u64, size in 1..60_u64, from in 0..500_u64, more in 0..500_u64) {
            let sliced = SlicedBody::new(len, size).unwrap();
            let range = from.min(len)..from.saturating_add(more).min(len);
            let mut at = range.start;
            for SlicePart { index, bytes } in sliced.parts(range.clone()) {
                let slice = sliced.range(index);
                prop_assert_eq!(slice.start + bytes.start, at);
                prop_assert!(bytes.start < bytes.end && slice.start + bytes.end <= slice.end);
                at = slice.start + bytes.end;
            }
            prop_assert_eq!(at, range.end.max(range.start));
        }

        #[test]
        fn any_bytes_are_decoded_without_a_panic(bytes: [u8; 24]) {
            if let Some(sliced) = SlicedBody::decode(&bytes) {
                prop_assert_eq!(sliced.encode(), bytes);
                let _ = (sliced.range(u64::MAX), sliced.parts(0..1).count());
            }
        }
    }

    #[test]
    fn slices_of_two_responses_under_one_key_have_different_keys() {
        let [one, other] = [(); 2].map(|()| SlicedBody::new(100, 10).unwrap());
        assert_ne!(one.key(b"k", 0), other.key(b"k", 0));
        assert!(is_of_slice(&one.key(b"k", 0)) && !is_of_slice(b"http://aR"));
    }
}
