//! The path prefix of a site, and the prefix that replaces it at an origin; and the characters of paths.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};

/// The bytes that are encoded: all that a path may not contain unencoded (RFC 3986 section 3.3).
pub const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');

/// A path prefix in whole segments: `/shop` is a prefix of `/shop`, `/shop/` and `/shop/1?a`, not of `/shopping`. The
/// default is a prefix of all paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathPrefix(
    /// Without a trailing slash.
    String,
);

impl PathPrefix {
    /// Parses a prefix; `None` if `text` has no leading slash, or has dot segments or characters that are invalid in a
    /// path. A trailing slash makes no difference.
    pub fn new(text: &str) -> Option<Self> {
        let is_valid = text.starts_with('/')
            && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#\"<>\\^`{|}".contains(&byte))
            && !has_dot_segments(text);
        is_valid.then(|| Self(text.trim_end_matches('/').to_owned()))
    }

    /// Whether it is a prefix of all paths.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a number that is greater for longer prefixes.
    pub fn specificity(&self) -> usize {
        self.0.len()
    }

    /// Returns the part of a path, with or without a query, behind this prefix; `None` for other paths. Percent-encoded
    /// letters and digits equal plain ones (RFC 3986 section 6.2.2.2).
    pub fn rest<'p>(&self, path: &'p str) -> Option<&'p str> {
        let (mut left, mut rest) = (self.0.as_str(), path);
        while !left.is_empty() {
            let ((one, after_one), (other, after_other)) = (unit(left)?, unit(rest)?);
            if one != other {
                return None;
            }
            (left, rest) = (after_one, after_other);
        }
        (self.is_root() || rest.is_empty() || rest.starts_with(['/', '?', '#'])).then_some(rest)
    }

    /// Returns the path of `rest` below this prefix.
    pub fn join(&self, rest: &str) -> String {
        let slash = if self.is_root() && !rest.starts_with('/') { "/" } else { "" };
        [&self.0, slash, rest].concat()
    }
}

impl std::fmt::Display for PathPrefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_root() { "/" } else { &self.0 })
    }
}

/// Whether a path has segments `.` or `..`, also percent-encoded ones and those after a backslash. An origin may
/// resolve such a path to one outside of its prefix.
pub fn has_dot_segments(path_and_query: &str) -> bool {
    let path = path_and_query.split(['?', '#']).next().unwrap_or_default();
    if !path.contains('.') && !path.contains('%') {
        return false;
    }
    let path = path.to_ascii_lowercase().replace("%2e", ".").replace("%2f", "/").replace("%5c", "\\");
    path.split(['/', '\\']).any(|segment| matches!(segment.split(';').next(), Some("." | "..")))
}

/// Returns the other spellings of the encoded bytes in `url`, a URL or its path, by which clients mean the same: in upper and
/// lower case, and without the encoding where that makes no difference (RFC 3986 section 6.2.2).
pub fn spellings(url: &str) -> Vec<String> {
    let mut others = Vec::new();
    if !url.contains('%') || !url.is_ascii() {
        return others;
    }
    for (is_upper, is_kept) in [(true, true), (false, true), (true, false), (false, false)] {
        let (mut other, mut rest) = (String::with_capacity(url.len()), url);
        while let Some(((byte, differs), behind)) = unit(rest) {
            match rest.len() - behind.len() == 3 && (differs || is_kept) {
                true if is_upper => other += &format!("%{byte:02X}"),
                true => other += &format!("%{byte:02x}"),
                false => other.push(byte.into()),
            }
            rest = behind;
        }
        if other != url && !others.contains(&other) {
            others.push(other);
        }
    }
    others
}

/// Returns the first character of a path and the rest. The boolean tells a percent-encoded character from a plain one,
/// if the encoding makes a difference.
fn unit(path: &str) -> Option<((u8, bool), &str)> {
    let first = *path.as_bytes().first()?;
    let is_coded = |digits: &&str| first == b'%' && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let digits = path.get(1..3).filter(is_coded);
    if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
        let is_unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        return Some(((byte, !is_unreserved), &path[3..]));
    }
    Some(((first, false), path.get(1..)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn prefixes_are_whole_segments() {
        let table = [
            ("/shop", "/shop", Some("")),
            ("/shop/", "/shop", Some("")),
            ("/shop", "/shop/a?b", Some("/a?b")),
            ("/shop", "/shop?b", Some("?b")),
            ("/shop", "/%73ho%70/a", Some("/a")),
            ("/shop", "/shopping", None),
            ("/shop", "/Shop", None),
            ("/shop", "/sho", None),
            ("/shop", "/shop%2fa", None),
            ("/caf%C3%A9", "/caf%c3%a9/a", Some("/a")),
            ("/a/b", "/a%2Fb", None),
            ("/", "/a", Some("/a")),
            ("/", "", Some("")),
            ("/", "?a", Some("?a")),
            ("/", "*", Some("*")),
        ];
        for (prefix, path, rest) in table {
            assert_eq!(PathPrefix::new(prefix).unwrap().rest(path), rest, "{prefix} {path}");
        }
        for wrong in ["", "shop", "/a?b", "/a b", "/a/../b", "/a/%2E", "/a#b", "/ä"] {
            assert_eq!(PathPrefix::new(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_rest_is_joined_to_another_prefix() {
        let table = [
            ("/app", "/a", "/app/a"),
            ("/app/", "", "/app"),
            ("/app", "?a", "/app?a"),
            ("/", "/a", "/a"),
            ("/", "", "/"),
            ("/", "?a", "/?a"),
        ];
        for (prefix, rest, path) in table {
            assert_eq!(PathPrefix::new(prefix).unwrap().join(rest), path);
        }
    }

    #[test]
    fn dot_segments_are_found_however_they_are_written() {
        for path in
            ["/a/../b", "/..", "/a/.", "/a/%2e%2E/b", "/a/.%2e", "/a%2f..%2fb", "/a/..\\b", "/a/..;x/b"]
        {
            assert!(has_dot_segments(path), "{path}");
        }
        for path in ["/a.b", "/a/...", "/.well-known/a", "/a?b=../c", "/a/%2ea", "*", ""] {
            assert!(!has_dot_segments(path), "{path}");
        }
    }

    proptest! {
        #[test]
        fn any_path_is_read_without_a_panic(prefix: String, path: String) {
            has_dot_segments(&path);
            if let Some(prefix) = PathPrefix::new(&format!("/{prefix}")) {
                prefix.rest(&path);
            }
        }

        #[test]
        fn a_path_below_a_prefix_leaves_its_rest(prefix in "(/[a-z]{1,3}){0,3}", rest in "(/[a-z%]{0,3}){0,3}") {
            let whole = PathPrefix::new(&format!("{prefix}/")).unwrap();
            let path = format!("{prefix}{rest}");
            prop_assert_eq!(whole.rest(&path), Some(rest.as_str()));
        }
    }
}
