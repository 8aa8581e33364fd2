//! The encoding of a stored response without its content. Every tier that keeps responses as bytes uses it.
//!
//! | bytes | content |
//! |-------|---------|
//! | 1     | [`VERSION`] |
//! | 1     | the flags of the freshness |
//! | 2     | the status code |
//! | 24    | received, initial age, lifetime, `Date`, staleness allowed while revalidating, and when the origin fails |
//! | 4     | the cost |
//! | 16    | the lengths of the four parts that follow |
//! | ...   | cache key, signature, shared field lines, own field lines |
//!
//! Numbers are little-endian. There is one encoding of each head, so that an equal head is equal bytes. The encoding
//! detects no damage: the tier protects the bytes, and adds what it alone needs.

use http::StatusCode;

use crate::freshness::{Flags, Freshness};

/// The version of the encoding. Heads of other versions are not decoded.
pub const VERSION: u8 = 1;

/// The numbers of 4 bytes: times, cost, lengths.
const NUMBERS: usize = 11;

/// A stored response without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredHead<'h> {
    /// The cache key ([`crate::key`]); empty in a tier that has it in another place.
    pub key: &'h [u8],
    /// The request fields that select the response ([`crate::vary`]); empty without `Vary`.
    pub signature: &'h [u8],
    /// The status code.
    pub status: StatusCode,
    /// The time at which it was received, and its lifetime.
    pub freshness: Freshness,
    /// The cost of fetching it, in microseconds.
    pub cost: u32,
    /// Field lines that other responses may have as well, each with its line end.
    pub shared: &'h [u8],
    /// The other field lines.
    pub own: &'h [u8],
}

impl<'h> StoredHead<'h> {
    /// Appends the encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let Freshness {
            received,
            initial_age,
            lifetime,
            date,
            stale_while_revalidate,
            stale_if_error,
            flags,
        } = self.freshness;
        let parts = [self.key, self.signature, self.shared, self.own];
        let times = [received, initial_age, lifetime, date, stale_while_revalidate, stale_if_error];
        let lengths = parts.map(|part| part.len() as u32);
        out.extend([VERSION, flags.bits()]);
        out.extend(self.status.as_u16().to_le_bytes());
        for number in times.into_iter().chain([self.cost]).chain(lengths) {
            out.extend(number.to_le_bytes());
        }
        parts.iter().for_each(|part| out.extend_from_slice(part));
    }

    /// Decodes a head at the start of `bytes`, and returns it with the bytes behind it; `None` if it is malformed or of
    /// another version.
    pub fn decode(bytes: &'h [u8]) -> Option<(Self, &'h [u8])> {
        let (&[VERSION, flags, low, high], rest) = bytes.split_first_chunk()? else { return None };
        let (numbers, mut rest) = rest.split_first_chunk::<{ 4 * NUMBERS }>()?;
        let mut numbers = numbers.as_chunks().0.iter().map(|number| u32::from_le_bytes(*number));
        let freshness = Freshness {
            received: numbers.next()?,
            initial_age: numbers.next()?,
            lifetime: numbers.next()?,
            date: numbers.next()?,
            stale_while_revalidate: numbers.next()?,
            stale_if_error: numbers.next()?,
            flags: Flags::from_bits(flags),
        };
        let cost = numbers.next()?;
        let mut part = || {
            let (part, behind) = rest.split_at_checked(numbers.next()? as usize)?;
            rest = behind;
            Some(part)
        };
        let (key, signature, shared, own) = (part()?, part()?, part()?, part()?);
        let status = StatusCode::from_u16(u16::from_le_bytes([low, high])).ok()?;
        Some((Self { key, signature, status, freshness, cost, shared, own }, rest))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_head_is_decoded_as_it_was_encoded(
            status in 100_u16..1000, numbers: [u32; 7], flags: u8, parts: [Vec<u8>; 4], behind: Vec<u8>,
        ) {
            let [received, initial_age, lifetime, date, stale_while_revalidate, stale_if_error, cost] = numbers;
            let flags = Flags::from_bits(flags);
            let freshness = Freshness {
                received, initial_age, lifetime, date, stale_while_revalidate, stale_if_error, flags,
            };
            let status = StatusCode::from_u16(status).unwrap();
            let [key, signature, shared, own] = parts.each_ref().map(Vec::as_slice);
            let head = StoredHead { key, signature, status, freshness, cost, shared, own };
            let mut bytes = Vec::new();
            head.encode(&mut bytes);
            prop_assert_eq!(StoredHead::decode(&bytes[..bytes.len() - 1]), None);
            bytes.extend_from_slice(&behind);
            prop_assert_eq!(StoredHead::decode(&bytes), Some((head, &behind[..])));
            bytes[0] = VERSION + 1;
            prop_assert_eq!(StoredHead::decode(&bytes), None, "another version");
        }

        #[test]
        fn any_bytes_are_decoded_without_a_panic(bytes: Vec<u8>, lengths: [u8; 4]) {
            let _ = StoredHead::decode(&bytes);
            let lengths = lengths.map(|length| u32::from(length % 9).to_le_bytes()).concat();
            let plausible = [&[VERSION, 0, 200, 0][..], &[1; 28], &lengths, &bytes].concat();
            if let Some((head, behind)) = StoredHead::decode(&plausible) {
                let mut again = Vec::new();
                head.encode(&mut again);
                prop_assert_eq!([&again, behind].concat(), plausible);
            }
        }
    }
}
