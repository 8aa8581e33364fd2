//! The data beside a body on a disk, and the keys of the records.
//!
//! The response to a URL is one record. Where responses vary, the URL's record only names the selecting fields, and
//! each variant has its own record. A purge removes the URL's record; the keys of the variants contain a number that
//! the next URL's record does not repeat, so that no purged variant is found again. The changes of a 304 to the head
//! of a long response are a separate record, too: the body stays where it is. So there are three kinds of keys:
//!
//! - `p`, cache key: the response, or the fields by which responses vary;
//! - `v`, number (8 bytes), length of the cache key (4 bytes), cache key, signature: a variant;
//! - `h`, one of the keys above: the newer head of that record.
//!
//! Numbers are little-endian.

use std::sync::Arc;

use larder_semantics::stored_head::StoredHead;

use crate::{Body, SlicedBody};

/// The content of a record beside its body: a letter for its kind, then the data.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meta<'m> {
    /// The record is a response. Its head lacks the cache key, which the key of the record has.
    Response(StoredHead<'m>),
    /// The same for a response whose content is in slices, which are records of their own.
    Sliced(Arc<SlicedBody>, StoredHead<'m>),
    /// Responses vary by the fields of this signature; the keys of the variants contain this number.
    Varies(u64, &'m [u8]),
    /// The newer head of the record with this serial.
    Newer(u64, StoredHead<'m>),
}

/// Returns the key of a URL's record.
pub(super) fn page_key(key: &[u8]) -> Vec<u8> {
    [b"p", key].concat()
}

pub(super) fn variant_key(key: &[u8], number: u64, signature: &[u8]) -> Vec<u8> {
    [b"v", &number.to_le_bytes()[..], &(key.len() as u32).to_le_bytes(), key, signature].concat()
}

/// Returns the key of the newer head of the record with `key`.
pub(super) fn head_key(key: &[u8]) -> Vec<u8> {
    [b"h", key].concat()
}

/// Returns the cache key in the key of a record; `None` for the record of a newer head.
pub(super) fn cache_key(key: &[u8]) -> Option<&[u8]> {
    match key.split_first()? {
        (b'p', key) => Some(key),
        (b'v', rest) => {
            let (len, rest) = rest.get(8..)?.split_first_chunk()?;
            rest.get(..u32::from_le_bytes(*len) as usize)
        }
        _ => None,
    }
}

/// Returns the number in a variant's key; `None` for other keys.
pub(super) fn variant_number(key: &[u8]) -> Option<u64> {
    let (number, _) = key.strip_prefix(b"v")?.split_first_chunk()?;
    Some(u64::from_le_bytes(*number))
}

impl<'m> Meta<'m> {
    /// Returns the meta of a response whose content is `body`.
    pub(super) fn of(head: StoredHead<'m>, body: &Body) -> Self {
        match body.slices() {
            Some(sliced) => Self::Sliced(Arc::clone(sliced), head),
            None => Self::Response(head),
        }
    }

    /// Returns the head, if it is that of a response, and the slices of its content.
    pub(super) fn response(self) -> Option<(StoredHead<'m>, Option<Arc<SlicedBody>>)> {
        match self {
            Self::Response(head) => Some((head, None)),
            Self::Sliced(sliced, head) => Some((head, Some(sliced))),
            Self::Varies(..) | Self::Newer(..) => None,
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        match self {
            Self::Response(head) => {
                out.push(b'r');
                head.encode(&mut out);
            }
            Self::Sliced(sliced, head) => {
                out.push(b's');
                out.extend(sliced.encode());
                head.encode(&mut out);
            }
            Self::Varies(number, signature) => {
                out.push(b'v');
                out.extend(number.to_le_bytes());
                out.extend_from_slice(signature);
            }
            Self::Newer(serial, head) => {
                out.push(b'h');
                out.extend(serial.to_le_bytes());
                head.encode(&mut out);
            }
        }
        out
    }

    /// Returns `None` for bytes that another version of Larder has written.
    pub(super) fn decode(bytes: &'m [u8]) -> Option<Self> {
        let number = |bytes: &'m [u8]| {
            let (number, rest) = bytes.split_first_chunk()?;
            Some((u64::from_le_bytes(*number), rest))
        };
        // Unused bytes may follow a head.
        let head = |bytes| StoredHead::decode(bytes).map(|(head, _)| head);
        match bytes.split_first()? {
            (b'r', rest) => head(rest).map(Self::Response),
            (b's', rest) => {
                let (sliced, rest) = rest.split_first_chunk()?;
                Some(Self::Sliced(SlicedBody::decode(sliced)?.into(), head(rest)?))
            }
            (b'v', rest) => number(rest).map(|(number, signature)| Self::Varies(number, signature)),
            (b'h', rest) => number(rest).and_then(|(serial, rest)| Some(Self::Newer(serial, head(rest)?))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use larder_semantics::freshness::Freshness;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_meta_is_decoded_as_it_was_encoded(
            id: u64, signature: Vec<u8>, own: Vec<u8>, unused in prop::collection::vec(Just(0_u8), 0..9),
        ) {
            let (status, freshness) = (StatusCode::OK, Freshness::default());
            let head = || StoredHead {
                key: &[], signature: &signature, status, freshness, cost: 7, shared: b"a: b\r\n", own: &own,
            };
            let sliced = Arc::new(SlicedBody::new(id.max(1), 7).unwrap());
            for meta in [Meta::Response(head()), Meta::Newer(id, head()), Meta::Sliced(sliced, head())] {
                let bytes = [meta.encode(), unused.clone()].concat();
                prop_assert_eq!(Meta::decode(&bytes), Some(meta));
            }
            let varies = Meta::Varies(id, &signature);
            let bytes = varies.encode();
            prop_assert_eq!(Meta::decode(&bytes), Some(varies));
        }

        #[test]
        fn any_bytes_are_decoded_without_a_panic(kind in "[rsvh]?", bytes: Vec<u8>) {
            let _ = Meta::decode(&[kind.as_bytes(), &bytes].concat());
            let _ = (cache_key(&bytes), variant_number(&bytes));
        }

        #[test]
        fn the_former_layout_is_not_decoded(kind in "[rsvh]", bytes: Vec<u8>) {
            // It began with its number, 1.
            let former = [&[1], kind.as_bytes(), &bytes].concat();
            prop_assert_eq!(Meta::decode(&former), None);
        }

        #[test]
        fn records_of_different_responses_have_different_keys(
            one: (Vec<u8>, u64, Vec<u8>), other: (Vec<u8>, u64, Vec<u8>),
        ) {
            let key = |(key, number, signature): &(Vec<u8>, u64, Vec<u8>)| variant_key(key, *number, signature);
            prop_assert_eq!(key(&one) == key(&other), one == other);
            let (variant, page) = (key(&one), page_key(&one.0));
            let head = head_key(&page);
            let keys = [&variant, &page, &head].map(|key| cache_key(key));
            prop_assert_eq!(keys, [Some(&one.0[..]), Some(&one.0[..]), None]);
            let numbers = [&variant, &page, &head].map(|key| variant_number(key));
            prop_assert_eq!(numbers, [Some(one.1), None, None]);
        }
    }
}
