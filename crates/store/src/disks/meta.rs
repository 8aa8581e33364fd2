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

use http::StatusCode;
use larder_semantics::freshness::{Flags, Freshness};

/// The version of the layout. A later layout gets another number; records with other numbers are ignored.
const LAYOUT: u8 = 1;

/// The content of a record beside its body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meta<'m> {
    /// The record is a response.
    Response(RecordHead<'m>),
    /// Responses vary by the fields of this signature; the keys of the variants contain this number.
    Varies(u64, &'m [u8]),
    /// The newer head of the record with this serial.
    Newer(u64, RecordHead<'m>),
}

/// A response without its body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RecordHead<'m> {
    pub(super) status: StatusCode,
    pub(super) freshness: Freshness,
    pub(super) signature: &'m [u8],
    /// Field lines that other responses may have as well.
    pub(super) shared: &'m [u8],
    /// Field lines of this response alone.
    pub(super) own: &'m [u8],
}

/// Returns the key of a URL's record.
pub(super) fn page_key(key: &[u8]) -> Vec<u8> {
    [b"p", key].concat()
}

/// Returns the key of a variant.
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
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        out.push(LAYOUT);
        match self {
            Self::Response(head) => {
                out.push(b'r');
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

    /// Returns `None` for bytes in another layout.
    pub(super) fn decode(bytes: &'m [u8]) -> Option<Self> {
        let (layout, rest) = bytes.split_first()?;
        let (kind, rest) = rest.split_first()?;
        match (*layout, kind) {
            (LAYOUT, b'r') => RecordHead::decode(rest).map(Self::Response),
            (LAYOUT, b'v') => {
                let (number, signature) = rest.split_first_chunk()?;
                Some(Self::Varies(u64::from_le_bytes(*number), signature))
            }
            (LAYOUT, b'h') => {
                let (serial, rest) = rest.split_first_chunk()?;
                Some(Self::Newer(u64::from_le_bytes(*serial), RecordHead::decode(rest)?))
            }
            _ => None,
        }
    }
}

impl<'m> RecordHead<'m> {
    fn encode(&self, out: &mut Vec<u8>) {
        let Freshness {
            received,
            initial_age,
            lifetime,
            date,
            stale_while_revalidate,
            stale_if_error,
            flags,
        } = self.freshness;
        out.extend(self.status.as_u16().to_le_bytes());
        out.push(flags.bits());
        let lens = [self.signature, self.shared, self.own].map(|part| part.len() as u32);
        for number in [received, initial_age, lifetime, date, stale_while_revalidate, stale_if_error]
            .into_iter()
            .chain(lens)
        {
            out.extend(number.to_le_bytes());
        }
        for part in [self.signature, self.shared, self.own] {
            out.extend_from_slice(part);
        }
    }

    fn decode(bytes: &'m [u8]) -> Option<Self> {
        let (status, rest) = bytes.split_first_chunk()?;
        let (flags, mut rest) = rest.split_first()?;
        let mut number = || {
            let (number, behind) = rest.split_first_chunk()?;
            rest = behind;
            Some(u32::from_le_bytes(*number))
        };
        let freshness = Freshness {
            received: number()?,
            initial_age: number()?,
            lifetime: number()?,
            date: number()?,
            stale_while_revalidate: number()?,
            stale_if_error: number()?,
            flags: Flags::from_bits(*flags),
        };
        let [signature, shared, own] = [number()?, number()?, number()?].map(|len| len as usize);
        let (signature, rest) = rest.split_at_checked(signature)?;
        let (shared, rest) = rest.split_at_checked(shared)?;
        // Unused bytes may follow.
        let own = rest.get(..own)?;
        let status = StatusCode::from_u16(u16::from_le_bytes(*status)).ok()?;
        Some(Self { status, freshness, signature, shared, own })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_written_comes_back(
            status in 100_u16..1000, numbers: [u32; 6], flags in 0_u8..64, id: u64, signature: Vec<u8>,
            shared: Vec<u8>, own: Vec<u8>,
        ) {
            let [received, initial_age, lifetime, date, stale_while_revalidate, stale_if_error] = numbers;
            let flags = Flags::from_bits(flags);
            let freshness = Freshness {
                received, initial_age, lifetime, date, stale_while_revalidate, stale_if_error, flags,
            };
            let status = StatusCode::from_u16(status).unwrap();
            let head =
                || RecordHead { status, freshness, signature: &signature, shared: &shared, own: &own };
            for meta in [Meta::Response(head()), Meta::Varies(id, &signature), Meta::Newer(id, head())] {
                let bytes = meta.encode();
                prop_assert_eq!(Meta::decode(&bytes), Some(meta));
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            let _ = Meta::decode(&bytes);
            let _ = Meta::decode(&[&[LAYOUT, b'r'], &bytes[..]].concat());
            let _ = (cache_key(&bytes), variant_number(&bytes));
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
