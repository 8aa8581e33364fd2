//! The names and values that origins may read in cookies and in queries.
//!
//! Origins differ. PHP decodes names, removes spaces before them, ends them at a bracket or a null byte, and writes
//! underscores for some characters. Python ends the value of a cookie at white space, older parsers at a comma. A
//! decision that depends on a cookie or a parameter has to hold for all of these readings.

use percent_encoding::percent_decode;

/// Iterates over the cookies that origins may read in `part`, a part of `Cookie` between semicolons: the one that RFC
/// 6265 section 5.4 describes, and those behind a comma or white space. A part without an equals sign is a name.
pub fn cookies(part: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let has_commas = memchr::memchr2(b'=', b',', part).is_some_and(|at| part[at..].contains(&b','));
    let pieces = has_commas.then(|| part.split(|byte| *byte == b','));
    let pieces = pieces.into_iter().flatten().filter(|piece| piece.contains(&b'='));
    std::iter::once(part)
        .chain(pieces)
        .flat_map(|piece| std::iter::once(pair(piece)).chain(behind_blanks(piece)))
}

/// Iterates over the cookies of `piece` whose names follow white space.
fn behind_blanks(piece: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let piece = piece.trim_ascii_start();
    let words = memchr::memchr2(b' ', b'\t', piece).map(|_| piece.split(|byte| matches!(byte, b' ' | b'\t')));
    let (mut next, mut last) = (0, &[][..]);
    let found = words.into_iter().flatten().filter_map(move |word| {
        let start = next;
        next += word.len() + 1;
        let Some(at) = memchr::memchr(b'=', word) else {
            last = if word.is_empty() { last } else { word };
            return None;
        };
        let before = std::mem::take(&mut last);
        let name = if at == 0 { before } else { &word[..at] };
        Some((name, piece[start + at + 1..].trim_ascii()))
    });
    found.filter(|(name, _)| !name.is_empty())
}

fn pair(piece: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b'=', piece) {
        Some(at) => (&piece[..at], piece[at + 1..].trim_ascii()),
        None => (piece, &[]),
    }
}

/// Iterates over the parameters that origins may read in `query` (without its question mark), encoded as they are there.
/// Older parsers separate them by semicolons, too.
pub fn parameters(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let pieces = query.split('&').flat_map(|piece| {
        let more = piece.contains(';').then(|| piece.split(';'));
        std::iter::once(piece).chain(more.into_iter().flatten())
    });
    pieces.filter(|piece| !piece.is_empty()).map(|piece| piece.split_once('=').unwrap_or((piece, "")))
}

/// Whether `holds` is true for one of the names that origins may read in the name of a cookie or parameter.
pub fn any_name(written: &[u8], mut holds: impl FnMut(&[u8]) -> bool) -> bool {
    let mut any = |name: &[u8]| {
        let base = before(b'[', name);
        holds(name) || (base != name && !base.is_empty() && holds(base))
    };
    // Some languages take bytes such as 0xa0 for white space. PHP keeps white space at the end.
    let is_blank = |byte: u8| byte.is_ascii_control() || byte == b' ';
    let mut any_trimmed = |name: &[u8]| {
        let whole = trimmed(name, is_blank);
        let bare = trimmed(whole, |byte| !byte.is_ascii_graphic());
        let start = name.iter().position(|byte| !is_blank(*byte)).unwrap_or(name.len());
        any(&name[start..])
            || (whole.len() < name.len() && any(whole))
            || (bare.len() < whole.len() && any(bare))
    };
    let is_coded = memchr::memchr2(b'%', b'+', written).is_some();
    any_trimmed(written)
        || (is_coded && any_trimmed(before(0, &decode(written))))
        || wide(written).is_some_and(|written| any_trimmed(before(0, &decode(&written))))
}

/// Whether `holds` is true for one of the values that origins may read in the value of a cookie or parameter.
pub fn any_value(written: &[u8], mut holds: impl FnMut(&[u8]) -> bool) -> bool {
    let is_coded = memchr::memchr2(b'%', b'+', written).is_some();
    let mut any = |value: &[u8]| {
        holds(value)
            || (is_coded && (holds(&decode(value)) || holds(&percent_decode(value).collect::<Vec<u8>>())))
            || wide(value).is_some_and(|value| holds(&decode(&value)))
    };
    let end = written.iter().position(ends_value);
    let quoted = written.strip_prefix(b"\"");
    let bare = quoted.and_then(|value| value.strip_suffix(b"\"")).unwrap_or(written);
    any(bare)
        || end.is_some_and(|end| any(&written[..end]))
        || quoted.is_some_and(|value| any(&unquoted(value)))
}

/// Returns the byte for comparisons of names: PHP replaces characters by underscores, and ASP.NET ignores case.
pub fn folded(byte: u8) -> u8 {
    match byte {
        b'.' | b' ' | b'[' => b'_',
        byte => byte.to_ascii_lowercase(),
    }
}

/// Whether `one` and `other` may be the same name for an origin.
pub fn is_same_name(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| folded(*one) == folded(*other))
}

/// Returns the content of a quoted string up to its end, without its opening quote. Python also reads octal numbers.
fn unquoted(mut rest: &[u8]) -> Vec<u8> {
    let mut content = Vec::with_capacity(rest.len());
    loop {
        let used = match rest {
            [] | [b'"', ..] => return content,
            [b'\\', high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7', ..] => {
                content.push((high - b'0') << 6 | (middle - b'0') << 3 | (low - b'0'));
                4
            }
            [b'\\', byte, ..] => {
                content.push(*byte);
                2
            }
            [byte, ..] => {
                content.push(*byte);
                1
            }
        };
        rest = &rest[used..];
    }
}

/// Decodes text in the encoding of forms.
pub fn decode(text: &[u8]) -> Vec<u8> {
    let spaced: Vec<u8> = text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    percent_decode(&spaced).collect()
}

/// Returns `text` with the characters that are encoded as `%uXXXX`, which ASP.NET decodes; `None` if there are none.
fn wide(text: &[u8]) -> Option<Vec<u8>> {
    let (mut decoded, mut done) = (Vec::new(), 0);
    for at in memchr::memmem::find_iter(text, b"%u").filter(|at| *at + 6 <= text.len()) {
        let digits = str::from_utf8(&text[at + 2..at + 6]).ok();
        let number = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        if let Some(character) = number.and_then(char::from_u32) {
            decoded.extend_from_slice(&text[done..at]);
            decoded.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            done = at + 6;
        }
    }
    decoded.extend_from_slice(&text[done..]);
    (done > 0).then_some(decoded)
}

fn ends_value(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | b',')
}

fn before(end: u8, text: &[u8]) -> &[u8] {
    &text[..memchr::memchr(end, text).unwrap_or(text.len())]
}

fn trimmed(text: &[u8], goes: impl Fn(u8) -> bool) -> &[u8] {
    let start = text.iter().position(|byte| !goes(*byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !goes(*byte)).map_or(start, |last| last + 1);
    &text[start..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> &str {
        str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn cookies_behind_blanks_and_commas_are_read_too() {
        let cases: [(&str, &[(&str, &str)]); 9] = [
            ("a=b", &[("a", "b")]),
            ("a", &[("a", "")]),
            ("a = \"b\"", &[("a ", "\"b\""), ("a", "\"b\"")]),
            ("x=1 s=2", &[("x", "1 s=2"), ("x", "1 s=2"), ("s", "2")]),
            ("x=1 s =2", &[("x", "1 s =2"), ("x", "1 s =2"), ("s", "2")]),
            ("x=1,s=2", &[("x", "1,s=2"), ("x", "1"), ("s", "2")]),
            ("a,b c", &[("a,b c", "")]),
            ("x={\"a\":1,\"b\":2}", &[("x", "{\"a\":1,\"b\":2}"), ("x", "{\"a\":1")]),
            ("x=YQ==", &[("x", "YQ==")]),
        ];
        for (part, expected) in cases {
            let found: Vec<_> =
                cookies(part.as_bytes()).map(|(name, value)| (text(name), text(value))).collect();
            assert_eq!(found, expected, "{part}");
        }
    }

    #[test]
    fn names_are_read_decoded_trimmed_and_up_to_a_bracket() {
        for written in [
            "s_a",
            "s.a",
            "s a",
            "+s.a",
            "%20s_a",
            "%73_a",
            "s_a[]",
            "s_a[x]",
            "s[a",
            "s_a%00b",
            "%u0073_a",
            "s%u005fa%5b",
            "\u{a0}S_A ",
        ] {
            let is_read = any_name(written.as_bytes(), |name| is_same_name(name, b"s_a"));
            assert!(is_read, "{written}");
        }
        for written in ["s_ab", "xs_a", "s_", "s%5Fab", "s-a", "%u00s_a", "%ud800s_a", ""] {
            let is_read = any_name(written.as_bytes(), |name| is_same_name(name, b"s_a"));
            assert!(!is_read, "{written}");
        }
    }

    #[test]
    fn values_are_read_bare_decoded_and_up_to_a_blank() {
        for written in
            ["ad", "\"ad\"", "%61d", "\"\\141d\"", "\"a\\d\" x", "ad x", "ad,x", "\"ad", "%u0061%64"]
        {
            assert!(any_value(written.as_bytes(), |value| value == b"ad"), "{written}");
        }
        assert!(any_value(b"a+d", |value| value == b"a d") && any_value(b"a+d%20", |value| value == b"a+d "));
        assert!(!any_value(b"adx", |value| value == b"ad"));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            for (name, value) in cookies(&bytes) {
                any_name(name, |_| false);
                any_value(value, |_| false);
            }
        }
    }
}
