//! Paths for rules: one normal form for all spellings of a client.

use std::borrow::Cow;

use percent_encoding::percent_decode;

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

/// Whether a path has segments `.` or `..`, encoded or not, or with parameters (`..;a`), which some origins
/// remove first. Clients resolve such segments before they send a request (RFC 3986 section 5.2.4), and
/// origins differ in their interpretation.
pub fn has_dot_segments(path: &str) -> bool {
    let decoded: Cow<'_, [u8]> = percent_decode(path.as_bytes()).into();
    let name = |segment: &'_ [u8]| memchr::memchr(b';', segment).unwrap_or(segment.len());
    segments_of(&decoded).any(|segment| matches!(&segment[..name(segment)], b"." | b".."))
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
    fn dot_segments_are_found_in_each_spelling() {
        for path in
            ["/a/../b", "/.", "/%2e%2E/x", "/a%2f..", "/a\\..\\b", "/a/..;/b", "/.;x=y", "/a/%2e.%3bx"]
        {
            assert!(has_dot_segments(path), "{path}");
        }
        for path in ["/", "/.well-known/x", "/a..b/...", "/a/...;/b", "/a;..", "*"] {
            assert!(!has_dot_segments(path), "{path}");
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
        fn a_normal_path_has_no_segments_that_lead_elsewhere(path in "/[a.%2e2f/]{0,12}") {
            let normal = normal(&path);
            prop_assert!(normal.starts_with(b"/"));
            let mut segments = normal.split(|byte| *byte == b'/').skip(1).peekable();
            while let Some(segment) = segments.next() {
                let is_last = segments.peek().is_none();
                prop_assert!(!matches!(segment, b"." | b"..") && (is_last || !segment.is_empty()), "{path}");
            }
        }
    }
}
