//! The decoder of field sections (RFC 7541 section 6).

use super::dynamic::{Dynamic, TableField};
use super::kind::{Kind, STATIC_KINDS};
use super::list::{Bounds, List, is_sound};
use super::malformed::Malformed;
use super::table::{CONTIGUOUS, STATIC};
use super::{huffman, integer};

/// Decodes the field sections of one connection.
#[derive(Debug)]
pub struct Decoder {
    dynamic: Dynamic,
}

/// The flag of a string that is Huffman-coded.
const HUFFMAN: u8 = 0x80;

impl Decoder {
    /// Returns a decoder for an encoder that may use a dynamic table of `table` bytes.
    pub fn new(table: usize) -> Self {
        Self { dynamic: Dynamic::new(table) }
    }

    /// Decodes the complete section `block` into `list`. Fields beyond `bounds` are omitted from the list, but still
    /// enter the dynamic table.
    ///
    /// # Errors
    /// If the block is malformed.
    pub fn decode(&mut self, mut block: &[u8], list: &mut List, bounds: &Bounds) -> Result<(), Malformed> {
        list.clear();
        let mut begins = true;
        while let Some(&first) = block.first() {
            match first {
                0x80.. => {
                    let index = integer::read(&mut block, 7)?;
                    self.indexed(index, list, bounds)?;
                }
                0x40.. => self.literal(&mut block, 6, list, bounds)?,
                0x20.. => {
                    let size = integer::read(&mut block, 5)?;
                    // Only the start of a block may change the table size (RFC 7541 section 4.2).
                    if !begins || !self.dynamic.resize(size) {
                        return Err(Malformed);
                    }
                    continue;
                }
                _ => self.literal(&mut block, 4, list, bounds)?,
            }
            begins = false;
        }
        Ok(())
    }

    #[inline]
    fn indexed(&mut self, index: usize, list: &mut List, bounds: &Bounds) -> Result<(), Malformed> {
        let TableField { bytes, name, kind, is_sound } = self.get(index)?;
        // Once the list is too large, a byte on the wire must not cause a copy.
        if list.is_too_large() {
            return Ok(());
        }
        let at = list.bytes().len();
        list.bytes().extend_from_slice(bytes);
        list.push(at, name, (kind, is_sound), bounds);
        Ok(())
    }

    /// Decodes a literal field whose index has a prefix of `bits` bits. With a prefix of 6 bits, it enters the table.
    fn literal(
        &mut self,
        block: &mut &[u8],
        bits: u32,
        list: &mut List,
        bounds: &Bounds,
    ) -> Result<(), Malformed> {
        // A few bytes on the wire can name a long entry of the table repeatedly, and each time it would be copied.
        if list.size() > MOST_OVER * bounds.bytes {
            return Err(Malformed);
        }
        let index = integer::read(block, bits)?;
        let at = list.bytes().len();
        let known = match index {
            0 => {
                string(block, list.bytes())?;
                None
            }
            _ => {
                let TableField { bytes, name, kind, .. } = self.get(index)?;
                list.bytes().extend_from_slice(&bytes[..name]);
                Some(kind)
            }
        };
        let length = list.bytes().len() - at;
        string(block, list.bytes())?;
        let bytes = &list.bytes()[at..];
        let (name, value) = bytes.split_at(length);
        let kind = known.unwrap_or_else(|| Kind::of(name));
        let is_sound = is_sound(kind, name, value);
        if bits == 6 {
            self.dynamic.insert(TableField { bytes, name: length, kind, is_sound });
        }
        list.push(at, length, (kind, is_sound), bounds);
        Ok(())
    }

    #[inline]
    fn get(&self, index: usize) -> Result<TableField<'_>, Malformed> {
        let place = index.checked_sub(1).ok_or(Malformed)?;
        match STATIC.get(place).zip(STATIC_KINDS.get(place)) {
            Some(((name, _), &kind)) => {
                let [start, end] = [CONTIGUOUS.1[place], CONTIGUOUS.1[place + 1]].map(usize::from);
                Ok(TableField { bytes: &CONTIGUOUS.0[start..end], name: name.len(), kind, is_sound: true })
            }
            None => self.dynamic.get(place - STATIC.len()).ok_or(Malformed),
        }
    }

    /// Returns the bytes that the decoder has allocated.
    pub fn allocated(&self) -> usize {
        self.dynamic.allocated()
    }

    /// Checks the invariants of the table.
    ///
    /// # Errors
    /// The broken invariant.
    pub fn validate(&self) -> Result<(), &'static str> {
        self.dynamic.validate()
    }
}

/// The factor by which a list may exceed its bound during decoding, before its block counts as malformed.
const MOST_OVER: usize = 16;

/// Appends a decoded string to `out`.
fn string(block: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let is_coded = block.first().is_some_and(|first| first & HUFFMAN != 0);
    let length = integer::read(block, 7)?;
    let (text, rest) = block.split_at_checked(length).ok_or(Malformed)?;
    *block = rest;
    match is_coded {
        true => huffman::decode(text, out),
        false => {
            out.extend_from_slice(text);
            Ok(())
        }
    }
}
