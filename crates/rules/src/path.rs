//! Paths for rules: one normal form for all spellings of a client.

use std::borrow::Cow;

use percent_encoding::percent_decode;

use crate::pattern::Pattern;

/// Returns the path that conditions are compared with: percent-encoded characters are decoded, backslashes become
/// slashes, segments `.` and `..` are resolved, and repeated slashes become one. So a rule for `/admin/*` also holds
/// for `/%61dmin/x`, `//admin/x` and `/a/../admin/x`, which an origin may treat as the same.
pub fn normal(path: &str) -> Cow<'_, [u8]> {
    let bytes = path.as_bytes();
    let is_plain = |pair: &[u8]| !matches!(pair, [b'%' | b'\\', _] | [b'/', b'/' | b'.']);
    if bytes.windows(2).all(is_plain) && !matches!(bytes.last(), Some(b'%' | b'\\')) {
        return Cow::Borrowed(bytes);
    }
    let decoded: Vec<u8> = percent_decode(bytes).collect();
    let mut segments: Vec<&[u8]> = Vec::new();
    let mut ends_open = false;
    for segment in segments_of(&decoded) {
        ends_open = matches!(segment, b"" | b"." | b"..");
        match segment {
            b"" | b"." => {}
            b".." => _ = segments.pop(),
            _ => segments.push(segment),
        }
    }
    let mut normal = Vec::with_capacity(decoded.len() + 1);
    for segment in segments {
        normal.push(b'/');
        normal.extend_from_slice(segment);
    }
    if ends_open || normal.is_empty() {
        normal.push(b'/');
    }
    Cow::Owned(normal)
}

/// Returns the parts of `path` that the stars or groups of `pattern` match in its [normal form](normal), as they were
/// sent: `%2F` stays encoded, and slashes stay double. `None` if it does not match, or if segments `.` or `..` were
/// resolved.
pub fn sent_captures<'p>(path: &'p str, pattern: &Pattern) -> Option<Vec<&'p str>> {
    let normal = normal(path);
    let captures = pattern.captures(&normal)?;
    let starts = starts(path.as_bytes(), &normal)?;
    captures.into_iter().map(|range| path.get(*starts.get(range.start)?..*starts.get(range.end)?)).collect()
}

/// Returns the position in `path` where each byte of its normal form begins, and at last its length.
fn starts(path: &[u8], normal: &[u8]) -> Option<Vec<usize>> {
    let mut starts = Vec::with_capacity(normal.len() + 1);
    let (mut at, mut is_behind_slash) = (0, false);
    while let Some(decoded) = percent_decode(&path[at..]).next() {
        let byte = if decoded == b'\\' { b'/' } else { decoded };
        if byte != b'/' || !is_behind_slash {
            normal.get(starts.len()).filter(|own| **own == byte)?;
            starts.push(at);
        }
        is_behind_slash = byte == b'/';
        // Alone, a percent sign stands for itself.
        let is_encoded = path[at] == b'%' && (decoded != b'%' || path[at..].starts_with(b"%25"));
        at += if is_encoded { 3 } else { 1 };
    }
    starts.push(at);
    (starts.len() == normal.len() + 1).then_some(starts)
}

/// Whether origins may read a path in ways that no rule foresees: it has dot segments, control characters or line
/// ends, characters in an overlong form of UTF-8, characters that are encoded twice without need, or semicolons of which
/// only some are encoded. Clients send no such paths: they resolve dot segments before (RFC 3986 section 5.2.4).
pub fn is_ambiguous(path: &str) -> bool {
    let decoded: Cow<'_, [u8]> = percent_decode(path.as_bytes()).into();
    // A backslash or an encoded slash may separate segments, or belong to the parameters of one.
    let slashes = |bytes: &[u8]| memchr::memchr2_iter(b'/', b'\\', bytes).count();
    let has_other_slashes = path.contains('\\') || slashes(&decoded) > slashes(path.as_bytes());
    let semicolons = |bytes: &[u8]| memchr::memchr_iter(b';', bytes).count();
    let has_both_semicolons = path.contains(';') && semicolons(&decoded) > semicolons(path.as_bytes());
    has_dot_segments(&decoded)
        || (has_encoded_slash(&decoded) && has_dot_segments(&percent_decode(&decoded).collect::<Vec<_>>()))
        || has_both_semicolons
        || (has_other_slashes && decoded.contains(&b';'))
        || (0..decoded.len()).any(|at| begins_oddly(&decoded[at..]))
}

/// Whether a decoded path has segments `.` or `..`, also with what some origins remove first, such as parameters.
fn has_dot_segments(decoded: &[u8]) -> bool {
    let is_end = |byte: &u8| matches!(byte, b';' | b'?' | b'#');
    let name = |segment: &'_ [u8]| segment.iter().position(is_end).unwrap_or(segment.len());
    segments_of(decoded).any(|segment| matches!(segment[..name(segment)].trim_ascii_end(), b"." | b".."))
}

fn begins_oddly(rest: &[u8]) -> bool {
    match rest {
        [0..=0x1f | 0x7f, ..] | [0xc2, 0x80..=0x9f, ..] | [0xe2, 0x80, 0xa8 | 0xa9, ..] => true,
        [0xc0 | 0xc1, 0x80..=0xbf, ..] | [0xe0, 0x80 | 0x81, 0x80..=0xbf, ..] => true,
        [0xf0, 0x80, 0x80 | 0x81, 0x80..=0xbf, ..] => true,
        // IIS reads four digits here.
        [b'%', b'u' | b'U', digits @ ..] => {
            digits.len() >= 4 && digits[..4].iter().all(u8::is_ascii_hexdigit)
        }
        [b'%', ..] => percent_decode(rest).next().is_some_and(|byte| {
            // A percent sign stands for itself if no digits follow. Of links inside of paths, `/` and such are encoded twice.
            byte != b'%'
                && (byte.is_ascii_control() || byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
        }),
        _ => false,
    }
}

/// Whether origins may read a path in normal form as another one ([`readings`]). No spelling is needed for that in
/// ordinary paths, so this takes a few searches.
pub fn has_readings(normal: &[u8]) -> bool {
    let folders = &normal[..memchr::memrchr(b'/', normal).unwrap_or_default()];
    memchr::memchr3(b';', b'?', b'#', normal).is_some()
        || memchr::memchr(b'%', normal).is_some_and(|at| has_encoded_slash(&normal[at..]))
        || matches!(normal.last(), Some(b'.' | b' '))
        || (memchr::memchr2(b'.', b' ', folders).is_some()
            && folders.split(|byte| *byte == b'/').any(|name| cut(name) != name || is_script(name)))
}

/// Returns the other paths that origins may read in a path in normal form: without the parameters of segments, or from
/// an encoded `?` or `#` on; without the dots and spaces at the ends of segments, which Windows ignores; up to the name
/// of a script, as PHP does; and decoded again, if slashes were encoded twice.
pub fn readings(normal: &[u8]) -> Vec<Vec<u8>> {
    let path = |of: &[u8]| of.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(of.len());
    let mut found: Vec<Vec<u8>> = Vec::new();
    let twice: Vec<u8> = match has_encoded_slash(normal) {
        true => percent_decode(normal).map(|byte| if byte == b'\\' { b'/' } else { byte }).collect(),
        false => Vec::new(),
    };
    for path in [normal, &normal[..path(normal)], &twice, &twice[..path(&twice)]]
        .into_iter()
        .filter(|path| !path.is_empty())
    {
        for (whole, script) in [by_segments(path, |name| name), by_segments(path, cut)] {
            for other in [&whole, &whole[..script]] {
                if other != normal && !found.iter().any(|path| path == other) {
                    found.push(other.to_vec());
                }
            }
        }
    }
    found
}

/// Whether a path in normal form still has an encoded slash or backslash: it was encoded twice.
fn has_encoded_slash(normal: &[u8]) -> bool {
    normal.windows(3).any(|code| [b"%2f", b"%5c"].iter().any(|own| code.eq_ignore_ascii_case(*own)))
}

/// Returns `path` with what `read` returns of each segment, and the length of that path up to the name of its first
/// script.
fn by_segments(path: &[u8], read: impl Fn(&[u8]) -> &[u8]) -> (Vec<u8>, usize) {
    let mut whole = Vec::with_capacity(path.len() + 1);
    let (mut script, mut is_folder) = (None, true);
    for name in path.split(|byte| *byte == b'/').map(read) {
        is_folder = name.is_empty();
        if !is_folder {
            whole.push(b'/');
            whole.extend_from_slice(name);
            script = script.or_else(|| is_script(name).then_some(whole.len()));
        }
    }
    if is_folder || whole.is_empty() {
        whole.push(b'/');
    }
    let script = script.unwrap_or(whole.len());
    (whole, script)
}

/// Returns a segment without its parameters, and the dots and spaces before them.
fn cut(segment: &[u8]) -> &[u8] {
    let name = segment.split(|byte| *byte == b';').next().unwrap_or_default();
    let end = name.iter().rposition(|byte| !matches!(byte, b'.' | b' ')).map_or(0, |last| last + 1);
    &name[..end]
}

/// Whether a segment is the name of a script, as far as its extension tells: the rest of the path is its argument.
fn is_script(name: &[u8]) -> bool {
    const SCRIPTS: [&str; 9] = ["php", "phtml", "php5", "cgi", "pl", "asp", "aspx", "jsp", "cfm"];
    extension(name).is_some_and(|found| SCRIPTS.iter().any(|own| found.eq_ignore_ascii_case(own.as_bytes())))
}

fn segments_of(decoded: &[u8]) -> impl Iterator<Item = &[u8]> {
    decoded.split(|byte| matches!(byte, b'/' | b'\\'))
}

/// Returns the extension of the last segment, without its dot; `None` without one.
pub(crate) fn extension(path: &[u8]) -> Option<&[u8]> {
    let start = memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1);
    let name = &path[start..];
    let dot = memchr::memrchr(b'.', name).filter(|dot| *dot > 0)?;
    Some(&name[dot + 1..]).filter(|extension| !extension.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spellings_of_one_path_are_equal() {
        let cases = [
            ("/admin/x", "/admin/x"),
            ("/%61dmin/x", "/admin/x"),
            ("//admin///x", "/admin/x"),
            ("/a/../admin/./x", "/admin/x"),
            ("/a/%2e%2e/admin/x", "/admin/x"),
            ("/..%2fadmin", "/admin"),
            ("/a%5c..\\admin\\", "/admin/"),
            ("/a/..", "/"),
            ("/a/.", "/a/"),
            ("/a//", "/a/"),
            ("/a%", "/a%"),
            ("/.well-known/x", "/.well-known/x"),
            ("*", "*"),
            ("/", "/"),
        ];
        for (path, expected) in cases {
            assert_eq!(String::from_utf8_lossy(&normal(path)), expected, "{path}");
        }
    }

    #[test]
    fn captures_are_parts_of_the_path_as_it_was_sent() {
        for (pattern, path, expected) in [
            ("/npm/*", "/npm/@types%2fnode", Some(vec!["@types%2fnode"])),
            ("/npm/*", "/n%70m//a%2Fb//c", Some(vec!["a%2Fb//c"])),
            ("/*/x/*", "/a%5Cb/x/%25/", Some(vec!["a%5Cb", "%25/"])),
            ("/*-*", "/100%-%61", Some(vec!["100%", "%61"])),
            ("~^/u/([0-9]+)(/x)?", "/u/1%37", Some(vec!["1%37", ""])),
            ("/a*", "/a/../ab", None),
            ("/b", "/a", None),
        ] {
            let pattern = Pattern::parse(pattern).unwrap();
            assert_eq!(sent_captures(path, &pattern), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn paths_without_one_meaning_are_found_in_each_spelling() {
        for path in [
            "/a/../b",
            "/.",
            "/%2e%2E/x",
            "/a%2f..",
            "/a\\..\\b",
            "/a/..;/b",
            "/.;x=y",
            "/a/%2e.%3bx",
            "/a/..%20/b",
            "/a/..%3fx",
            "/a%00",
            "/a%0a",
            "/a%0D",
            "/a%1f",
            "/a%7f",
            "/a%c2%85",
            "/a%E2%80%A8",
            "/a%e2%80%a9",
            "/%c0%afa",
            "/%c1%81",
            "/%e0%80%af",
            "/%f0%80%80%af",
            "/%u0061",
            "/%U002f",
            "/%2561",
            "/%252e%252e",
            "/a%252f..%252fadmin",
            "/a%255c..%255cadmin",
            "/a%250a",
            "/a;%2fb",
            "/a%3b\\b",
            "/a;x/%3bb",
            "/a%3Bx/;b",
        ] {
            assert!(is_ambiguous(path), "{path}");
        }
        for path in [
            "/",
            "/.well-known/x",
            "/a..b/...",
            "/a/...;/b",
            "/a;..",
            "*",
            "/%C3%85",
            "/%e2%80%a6",
            "/100%",
            "/a%25",
            "/%25zz",
            "/50%2520off",
            "/https%253A%252F%252Fa",
            "/%ue",
            "/caf%e9",
            "/%c0",
            "/a%20b",
            "/a+b",
        ] {
            assert!(!is_ambiguous(path), "{path}");
        }
    }

    #[test]
    fn other_readings_of_a_path_lack_what_some_origins_remove() {
        let cases: [(&str, &[&str]); 18] = [
            ("/a/b.css", &[]),
            ("/a%2Fb%5cc", &["/a/b/c"]),
            ("/v1.2/b..c/.well-known", &[]),
            ("/a;x=1/b;y", &["/a/b"]),
            ("/;x/admin", &["/admin"]),
            ("/admin;x/", &["/admin/"]),
            ("/admin;/", &["/admin/"]),
            ("/admin.", &["/admin"]),
            ("/admin. ./b ", &["/admin/b"]),
            ("/admin?x/b", &["/admin"]),
            ("/admin/#b", &["/admin/"]),
            ("/admin;#/x", &["/admin/x", "/admin;", "/admin"]),
            ("/a.php/b.css", &["/a.php"]),
            ("/a.PHP;x/b", &["/a.PHP/b", "/a.PHP"]),
            ("/a.php", &[]),
            ("/a.php/", &["/a.php"]),
            ("*", &[]),
            ("/", &[]),
        ];
        for (path, expected) in cases {
            let found = readings(path.as_bytes());
            let found: Vec<_> = found.iter().map(|path| str::from_utf8(path).unwrap()).collect();
            if path != "*" {
                assert_eq!(found, expected, "{path}");
            }
            assert_eq!(has_readings(path.as_bytes()), !expected.is_empty(), "{path}");
        }
    }

    #[test]
    fn the_extension_is_that_of_the_last_segment() {
        let cases: [(&str, Option<&str>); 6] = [
            ("/a.b/c.tar.gz", Some("gz")),
            ("/a.b/c", None),
            ("/.env", None),
            ("/a.", None),
            ("/a.JPG", Some("JPG")),
            ("*", None),
        ];
        for (path, expected) in cases {
            assert_eq!(extension(path.as_bytes()), expected.map(str::as_bytes), "{path}");
        }
    }

    proptest! {
        #[test]
        fn captures_as_sent_have_the_same_normal_form(path in "/([ab/\\\\%]|%2[fF5]|%5c|%61){0,9}") {
            let pattern = Pattern::parse("/*b*").unwrap();
            let normal = normal(&path);
            let Some(captures) = pattern.captures(&normal) else { return Ok(()) };
            let sent = sent_captures(&path, &pattern).unwrap();
            for (range, sent) in captures.into_iter().zip(sent) {
                let mut decoded: Vec<u8> = percent_decode(sent.as_bytes()).collect();
                decoded.iter_mut().filter(|byte| **byte == b'\\').for_each(|byte| *byte = b'/');
                decoded.dedup_by(|one, other| (*one, *other) == (b'/', b'/'));
                prop_assert_eq!(&decoded, &normal[range], "{}", sent);
            }
        }

        #[test]
        fn a_normal_path_has_no_segments_that_lead_elsewhere(path in "/[a.%2e2f/]{0,12}") {
            let normal = normal(&path);
            prop_assert!(normal.starts_with(b"/"));
            let mut segments = normal.split(|byte| *byte == b'/').skip(1).peekable();
            while let Some(segment) = segments.next() {
                let is_last = segments.peek().is_none();
                prop_assert!(!matches!(segment, b"." | b"..") && (is_last || !segment.is_empty()), "{path}");
            }
        }

        #[test]
        fn paths_with_other_readings_are_told_from_those_without(path in "/([a.;?/ ]|%252f){0,8}(\\.php)?[/a]{0,3}") {
            let normal = normal(&path);
            prop_assert_eq!(has_readings(&normal), !readings(&normal).is_empty(), "{}", path);
        }
    }
}
