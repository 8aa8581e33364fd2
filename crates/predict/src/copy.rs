//! What was learned from all clients, as bytes for the next process: the contexts with their successors, and the URLs. Not
//! the histories of single clients, which last for half a minute.
//!
//! Numbers are little-endian. A list is its length (4 bytes) and its entries. An entry of a table begins with its key (8 bytes)
//! and its credit (1 byte).

use crate::association::Association;
use crate::planner::{KnownUrl, LONGEST_URL, Planner};

/// The version of the copy.
pub const COPY_VERSION: u32 = 1;

/// Takes numbers from the beginning of bytes.
pub(crate) struct CopyReader<'c>(&'c [u8]);

impl CopyReader<'_> {
    pub(crate) fn bytes(&mut self, length: usize) -> Option<&[u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

impl Planner {
    /// Returns a copy of what was learned.
    pub fn copy(&self) -> Vec<u8> {
        let mut copy = Vec::new();
        self.association.write(&mut copy);
        copy.extend((self.urls.iter().count() as u32).to_le_bytes());
        for (key, credit, known) in self.urls.iter() {
            copy.extend(key.to_le_bytes());
            copy.push(credit);
            copy.extend(known.bytes.to_le_bytes());
            copy.extend((known.text.len() as u16).to_le_bytes());
            copy.extend(known.text.as_bytes());
        }
        copy
    }

    /// Takes a copy into a planner that has seen no request yet. Returns `None`, and changes nothing, if it is malformed.
    pub fn restore(&mut self, copy: &[u8]) -> Option<()> {
        let mut reader = CopyReader(copy);
        let (association, mut urls) = (Association::read(&mut reader)?, Vec::new());
        for _ in 0..reader.u32()? {
            let (key, credit, bytes, length) = (reader.u64()?, reader.u8()?, reader.u64()?, reader.u16()?);
            let text =
                str::from_utf8(reader.bytes(length.into())?).ok().filter(|text| text.len() <= LONGEST_URL)?;
            urls.push((key, credit, KnownUrl { text: text.into(), bytes }));
        }
        if !reader.0.is_empty() {
            return None;
        }
        self.association = association;
        urls.into_iter().for_each(|(key, credit, known)| self.urls.put(key, credit, known));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Share;
    use crate::{Answer, ClientRequest, Predictors, mix};

    /// Requests two pages, one after the other, and returns the URLs that are predicted after the first one.
    fn visit(planner: &mut Planner, client: u64) -> Vec<String> {
        let mut predicted = Vec::new();
        for (number, text) in [(1, "http://a/1"), (2, "http://a/2")] {
            let kinds = Predictors { association: true, sequence: false };
            let (now, url, client, share) = (1_000, mix(number), mix(client), Share::percent(10.0));
            let ask = ClientRequest { now, client, site: 0, host: 0, url, text, range: None, kinds, share };
            let mut wishes = Vec::new();
            planner.asked(&ask, &mut wishes);
            planner.answered(&ask, &Answer { is_stored: true, bytes: Some(9), ..Answer::default() });
            predicted.extend(wishes.into_iter().map(|wish| wish.url));
        }
        predicted
    }

    #[test]
    fn a_copy_predicts_what_the_original_does() {
        let mut planner = Planner::default();
        (0..60).for_each(|client| drop(visit(&mut planner, client)));
        let copy = planner.copy();
        let mut next = Planner::default();
        assert_eq!(next.restore(&copy), Some(()));
        assert_eq!(visit(&mut next, 1_000), ["http://a/2"]);
        for length in [0, 5, copy.len() - 1] {
            assert_eq!(Planner::default().restore(&copy[..length]), None, "{length}");
        }
    }
}
