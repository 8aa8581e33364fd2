//! Building blocks of the byte strings made here: lengths, length-prefixed parts, decimal numbers.

/// Appends `value` in base 128, least significant digits first.
pub(crate) fn put_length(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a length of [`put_length`] from the start.
pub(crate) fn take_length(bytes: &mut &[u8]) -> Option<usize> {
    let mut value = 0;
    for shift in (0..usize::BITS).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= usize::from(byte & 0x7f).checked_mul(1 << shift)?;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Appends `part` and its length.
pub(crate) fn put_part(out: &mut Vec<u8>, part: &[u8]) {
    put_length(out, part.len());
    out.extend_from_slice(part);
}

/// Takes a part of [`put_part`] from the start.
pub(crate) fn take_part<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = take_length(bytes)?;
    let (part, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(part)
}

/// Appends `value` in decimal.
pub(crate) fn put_decimal(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

/// Parses one or more decimal digits; any other byte is an error, and too large a number becomes the maximum.
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit)).then(|| digits.iter().fold(0, add))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_come_back_one_by_one(parts: Vec<Vec<u8>>) {
            let mut bytes = Vec::new();
            parts.iter().for_each(|part| put_part(&mut bytes, part));
            let mut rest = &bytes[..];
            for part in &parts {
                prop_assert_eq!(take_part(&mut rest), Some(&part[..]));
            }
            prop_assert_eq!(take_part(&mut rest), None);
        }

        #[test]
        fn any_bytes_are_taken_without_a_panic(bytes: Vec<u8>) {
            let mut rest = &bytes[..];
            while take_part(&mut rest).is_some() {}
        }

        #[test]
        fn decimals_come_back(value: u64) {
            let mut out = Vec::new();
            put_decimal(&mut out, value);
            prop_assert_eq!(std::str::from_utf8(&out).unwrap(), value.to_string());
            prop_assert_eq!(decimal(&out), Some(value));
        }
    }

    #[test]
    fn decimals_are_digits_only_and_saturate() {
        let cases: [(&[u8], Option<u64>); 6] = [
            (b"0", Some(0)),
            (b"007", Some(7)),
            (b"99999999999999999999999", Some(u64::MAX)),
            (b"", None),
            (b"-1", None),
            (b"1.0", None),
        ];
        for (text, value) in cases {
            assert_eq!(decimal(text), value, "{}", text.escape_ascii());
        }
    }
}
