//! The Huffman code (RFC 7541 section 5.2 and appendix B).
//!
//! The code is canonical: codes of one length are consecutive, in the order of their symbols. So only the lengths are
//! written here; codes and tables are computed from them at compile time.

use super::malformed::Malformed;

/// The symbol that is used only for padding.
const END: u16 = 256;
/// The longest code, in bits.
const LONGEST: usize = 30;

/// The length of each symbol's code, in bits.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28,
    28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6,
    6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7,
    8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7,
    15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24,
    23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23,
    23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26,
    26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20,
    21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27,
    27, 27, 26, 30,
];

/// The codes of one length.
#[derive(Clone, Copy)]
struct Run {
    /// The first code.
    first: u32,
    /// The number of codes.
    count: u32,
    /// The position of their first symbol in [`Tables::symbols`].
    start: usize,
}

struct Tables {
    runs: [Run; LONGEST + 1],
    /// All symbols in the order of their codes.
    symbols: [u16; 257],
    /// For the next eight bits: the symbol and the length of its code; the length is 0 if the code is longer than eight
    /// bits.
    short: [(u8, u8); 256],
}

static TABLES: Tables = tables();

const fn tables() -> Tables {
    let mut runs = [Run { first: 0, count: 0, start: 0 }; LONGEST + 1];
    let mut symbols = [0; 257];
    let mut short = [(0, 0); 256];
    let (mut code, mut at, mut length) = (0_u32, 0, 1);
    while length <= LONGEST {
        code <<= 1;
        runs[length].first = code;
        runs[length].start = at;
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == length {
                symbols[at] = symbol as u16;
                if length <= 8 {
                    let mut byte = (code as usize) << (8 - length);
                    let end = byte + (1 << (8 - length));
                    while byte < end {
                        short[byte] = (symbol as u8, length as u8);
                        byte += 1;
                    }
                }
                (code, at) = (code + 1, at + 1);
            }
            symbol += 1;
        }
        runs[length].count = code - runs[length].first;
        length += 1;
    }
    Tables { runs, symbols, short }
}

/// Bits that have been read but not decoded yet.
#[derive(Default)]
struct Bits {
    /// The valid bits are the lowest; the bits above them are undefined.
    bits: u64,
    count: usize,
}

impl Bits {
    /// Adds bits unless there are enough for the longest code.
    #[inline]
    fn fill(&mut self, input: &mut &[u8]) {
        if self.count > 32 {
            return;
        }
        if let Some((&bytes, rest)) = input.split_first_chunk::<4>() {
            self.bits = self.bits << 32 | u64::from(u32::from_be_bytes(bytes));
            self.count += 32;
            *input = rest;
            return;
        }
        for &byte in std::mem::take(input) {
            self.bits = self.bits << 8 | u64::from(byte);
            self.count += 8;
        }
    }

    /// Returns the next `wanted` bits, which must be available.
    fn first(&self, wanted: usize) -> u32 {
        (self.bits >> (self.count - wanted)) as u32 & ((1_u32 << wanted) - 1)
    }

    /// Returns the next eight bits; missing bits are ones, as in padding.
    fn window(&self) -> usize {
        match self.count {
            8.. => self.first(8) as usize,
            count => ((self.bits << (8 - count) | (0xff >> count)) & 0xff) as usize,
        }
    }

    /// Returns the next symbol and the length of its code, if the code is complete.
    fn symbol(&self) -> Option<(u16, usize)> {
        let (symbol, length) = TABLES.short[self.window()];
        if length > 0 {
            return Some((u16::from(symbol), usize::from(length)))
                .filter(|(_, length)| *length <= self.count);
        }
        (9..=LONGEST.min(self.count)).find_map(|length| {
            let run = &TABLES.runs[length];
            let place = self.first(length).checked_sub(run.first).filter(|place| *place < run.count)?;
            Some((TABLES.symbols[run.start + place as usize], length))
        })
    }

    /// Whether the remaining bits are padding: at most seven bits, all ones.
    fn is_padding(&self) -> bool {
        self.count == 0 || self.count < 8 && self.first(self.count) == (1 << self.count) - 1
    }
}

/// Appends the decoded `input`, which becomes at most 8/5 times as long.
pub(super) fn decode(input: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let (mut bits, mut input) = (Bits::default(), input);
    out.reserve(2 * input.len());
    loop {
        bits.fill(&mut input);
        // Codes of usual characters have at most eight bits.
        while bits.count >= 8
            && let (symbol, length @ 1..) = TABLES.short[bits.first(8) as usize]
        {
            out.push(symbol);
            bits.count -= usize::from(length);
        }
        if bits.count < 8 && !input.is_empty() {
            continue;
        }
        bits.fill(&mut input);
        match bits.symbol() {
            Some((END, _)) => return Err(Malformed),
            Some((symbol, length)) => {
                out.push(symbol as u8);
                bits.count -= length;
            }
            None if bits.is_padding() => return Ok(()),
            None => return Err(Malformed),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Encodes `input` with the code of each symbol, bit by bit.
    pub(crate) fn encode(input: &[u8]) -> Vec<u8> {
        let code = |symbol: usize| {
            let run = TABLES.runs[usize::from(LENGTHS[symbol])];
            let place = (0..symbol).filter(|before| LENGTHS[*before] == LENGTHS[symbol]).count();
            (run.first + place as u32, LENGTHS[symbol])
        };
        let mut bits: Vec<bool> = Vec::new();
        for &byte in input {
            let (code, length) = code(byte.into());
            bits.extend((0..length).rev().map(|bit| code >> bit & 1 == 1));
        }
        bits.resize(bits.len().next_multiple_of(8), true);
        let byte = |bits: &[bool]| bits.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
        bits.chunks(8).map(byte).collect()
    }

    fn decoded(input: &[u8]) -> Result<Vec<u8>, Malformed> {
        let mut out = Vec::new();
        decode(input, &mut out).map(|()| out)
    }

    #[test]
    fn the_code_is_complete_and_some_codes_are_those_of_appendix_b() {
        let sum: u64 = LENGTHS.iter().map(|length| 1 << (LONGEST as u32 - u32::from(*length))).sum();
        assert_eq!(sum, 1 << LONGEST);
        for (symbol, code, length) in [
            (b'0', 0, 5),
            (b'a', 3, 5),
            (b' ', 0x14, 6),
            (b'~', 0x1ffd, 13),
            (0xff, 0x3ff_ffee, 26),
            (b'\n', 0x3fff_fffc, 30),
        ] {
            let run = TABLES.runs[length];
            let place = code - run.first;
            assert_eq!(TABLES.symbols[run.start + place as usize], u16::from(symbol));
        }
    }

    #[test]
    fn padding_is_short_and_all_ones() {
        // `a` is 00011, and three bits remain.
        assert_eq!(decoded(&[0b0001_1111]), Ok(b"a".to_vec()));
        for wire in [&[0b0001_1110][..], &[0b0001_1111, 0xff], &[0xff], &[0xff, 0xff, 0xff, 0xff]] {
            assert_eq!(decoded(wire), Err(Malformed), "{wire:?}");
        }
    }

    proptest! {
        #[test]
        fn huffman_text_decodes_to_the_encoded_bytes(text in prop::collection::vec(any::<u8>(), 0..80)) {
            prop_assert_eq!(decoded(&encode(&text)), Ok(text));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(wire in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(text) = decoded(&wire) {
                prop_assert_eq!(encode(&text), wire);
            }
        }
    }
}
