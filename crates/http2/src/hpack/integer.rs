//! Integers with a prefix of a few bits (RFC 7541 section 5.1).

use super::malformed::Malformed;

/// The maximum number of bytes after the prefix. No length or index here needs more than 28 bits.
const MOST_BYTES: usize = 4;

/// Reads an integer whose first byte has a prefix of `bits` bits, and advances `input`.
#[inline]
pub(super) fn read(input: &mut &[u8], bits: u32) -> Result<usize, Malformed> {
    let mask = (1_usize << bits) - 1;
    let (&first, rest) = input.split_first().ok_or(Malformed)?;
    *input = rest;
    let value = usize::from(first) & mask;
    if value < mask { Ok(value) } else { read_rest(input, value) }
}

/// Reads the bytes after the first one, and adds them to `value`.
fn read_rest(input: &mut &[u8], mut value: usize) -> Result<usize, Malformed> {
    for number in 0..MOST_BYTES {
        let (&byte, rest) = input.split_first().ok_or(Malformed)?;
        *input = rest;
        value += (usize::from(byte) & 0x7f) << (7 * number);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Malformed)
}

/// Appends `value` with a prefix of `bits` bits; `flags` are the other bits of the first byte.
#[inline]
pub(super) fn write(out: &mut Vec<u8>, bits: u32, flags: u8, value: usize) {
    let mask = (1_usize << bits) - 1;
    if value < mask {
        out.push(flags | value as u8);
    } else {
        out.push(flags | mask as u8);
        write_rest(out, value - mask);
    }
}

fn write_rest(out: &mut Vec<u8>, mut left: usize) {
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc7541_c_1_examples() {
        for (bits, value, wire) in [(5, 10, &[0x0a][..]), (5, 1337, &[0x1f, 0x9a, 0x0a]), (8, 42, &[0x2a])] {
            let mut out = Vec::new();
            write(&mut out, bits, 0, value);
            assert_eq!(out, wire);
            assert_eq!(read(&mut &out[..], bits), Ok(value));
        }
    }

    #[test]
    fn integers_end_and_have_a_limit() {
        for wire in [&[][..], &[0x1f], &[0x1f, 0x80], &[0x1f, 0x80, 0x80, 0x80, 0x80, 0x00], &[0xff; 20]] {
            assert_eq!(read(&mut &wire[..], 5), Err(Malformed), "{wire:?}");
        }
        assert_eq!(read(&mut &[0x1f, 0xff, 0xff, 0xff, 0x7f][..], 5), Ok(0x1f + 0x0fff_ffff));
    }

    #[test]
    fn a_written_hpack_integer_is_read_with_its_value() {
        for bits in 1..=8 {
            for value in (0..300).chain([16_383, 16_384, 1 << 20, (1 << 28) - 1]) {
                let mut out = Vec::new();
                write(&mut out, bits, 0, value);
                out.push(9);
                let mut rest = &out[..];
                assert_eq!((read(&mut rest, bits), rest), (Ok(value), &[9][..]));
            }
        }
    }
}
