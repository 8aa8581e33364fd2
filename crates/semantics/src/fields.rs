//! Header fields of any representation: one trait over maps and serialised heads, and the list syntax that
//! many fields share (RFC 9110 section 5.6.1).
//!
//! Names are given in lower case and compared without regard to case. The other modules interpret the fields.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue};
use memchr::memchr;

/// A collection of field lines.
pub trait Fields {
    /// Iterates over the values of all lines called `name` (lower case), in order.
    fn lines<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a;

    /// Returns the value of the first line called `name`.
    fn first<'a>(&'a self, name: &'a str) -> Option<&'a [u8]> {
        self.lines(name).next()
    }

    /// Whether there is a line called `name`.
    fn contains(&self, name: &str) -> bool {
        self.lines(name).next().is_some()
    }

    /// Whether there is a line with one of these names (lower case).
    fn contains_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.contains(name))
    }

    /// Returns all lines, each `Name: value\r\n`, if they are at hand in this form.
    fn as_sent(&self) -> Option<&[u8]> {
        None
    }
}

impl Fields for HeaderMap {
    fn lines<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        // A message has few names, and comparing them costs less than hashing one.
        self.iter().filter(move |(own, _)| own.as_str() == name).map(|(_, value)| value.as_bytes())
    }

    fn contains(&self, name: &str) -> bool {
        self.keys().any(|own| own.as_str() == name)
    }
}

/// Serialised field lines, each `Name: value\r\n`, without a status line before and an empty line behind.
/// Malformed lines are skipped.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadLines<'a>(pub &'a [u8]);

impl<'h> HeadLines<'h> {
    /// Iterates over all lines as name and value, in order.
    pub fn iter(self) -> impl Iterator<Item = (&'h [u8], &'h [u8])> {
        self.split()
            .filter_map(|line| line.split_at_checked(memchr(b':', line)?))
            .map(|(name, rest)| (name, trim(&rest[1..])))
    }

    /// Iterates over the values of all lines called `name` (lower case), in order.
    pub fn called<'n>(self, name: &'n str) -> impl Iterator<Item = &'h [u8]> + use<'h, 'n> {
        self.split().filter_map(move |line| value_of(line, name))
    }

    /// Whether there is a line with one of these names (lower case). The lines are split once for all names.
    pub fn has_any(self, names: &[&str]) -> bool {
        self.split().any(|line| names.iter().any(|name| value_of(line, name).is_some()))
    }

    fn split(self) -> impl Iterator<Item = &'h [u8]> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let end = memchr(b'\n', rest).unwrap_or(rest.len());
            let line = rest.get(..end).filter(|_| !rest.is_empty())?;
            rest = rest.get(end + 1..).unwrap_or_default();
            Some(line.strip_suffix(b"\r").unwrap_or(line))
        })
    }

    /// Returns the same fields as a map.
    pub fn to_map(self) -> HeaderMap {
        to_map(self.iter())
    }
}

/// Returns the value of `line`, if it is called `name`.
#[inline]
fn value_of<'h>(line: &'h [u8], name: &str) -> Option<&'h [u8]> {
    // The colon must follow the name immediately, so that most lines are skipped after one comparison.
    let (start, rest) = line.split_at_checked(name.len())?;
    let value = rest.strip_prefix(b":")?;
    start.eq_ignore_ascii_case(name.as_bytes()).then(|| trim(value))
}

/// Returns a map of these lines. Malformed ones are left out.
pub fn to_map<'l>(lines: impl Iterator<Item = (&'l [u8], &'l [u8])>) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(lines.size_hint().0);
    for (name, value) in lines {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            map.append(name, value);
        }
    }
    map
}

impl Fields for HeadLines<'_> {
    fn lines<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.called(name)
    }

    fn as_sent(&self) -> Option<&[u8]> {
        Some(self.0)
    }
}

/// Iterates over the members of every line of a list field. Commas inside quoted strings do not separate
/// members; white space around members and empty members are dropped (RFC 9110 section 5.6.1).
pub fn members<'a>(fields: &'a impl Fields, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
    fields.lines(name).flat_map(list)
}

/// Returns the value of a field, all of its lines together (RFC 9110 section 5.2); `None` without one.
pub(crate) fn joined<'a>(fields: &'a impl Fields, name: &'a str) -> Option<Cow<'a, [u8]>> {
    let mut lines = fields.lines(name);
    let first = lines.next()?;
    Some(lines.fold(Cow::Borrowed(first), |whole, line| Cow::Owned([&whole, line].join(&b", "[..]))))
}

/// Iterates over the members of one value of a list field.
pub fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    QuotedSplit { rest: value, separator: b',', escapes: true }.map(trim).filter(|member| !member.is_empty())
}

/// Iterates over the members of a list of entity-tags, in which a backslash is an ordinary character (RFC
/// 9110 section 8.8.3).
pub(crate) fn entity_tags(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    QuotedSplit { rest: value, separator: b',', escapes: false }.map(trim).filter(|member| !member.is_empty())
}

/// Iterates over a member and its parameters, which semicolons separate; empty ones stay.
pub(crate) fn parameters(member: &[u8]) -> impl Iterator<Item = &[u8]> {
    QuotedSplit { rest: member, separator: b';', escapes: true }.map(trim)
}

/// Removes optional white space at both ends (RFC 9110 section 5.6.3).
pub(crate) fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// The bytes that tokens have.
const TOKEN: [bool; 256] = {
    let (mut allowed, mut at) = ([false; 256], 0);
    while at < 128 {
        allowed[at] = (at as u8).is_ascii_alphanumeric();
        at += 1;
    }
    let (others, mut at) = (b"!#$%&'*+-.^_`|~", 0);
    while at < others.len() {
        allowed[others[at] as usize] = true;
        at += 1;
    }
    allowed
};

/// Whether `text` is a token (RFC 9110 section 5.6.2).
pub(crate) fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| TOKEN[usize::from(*byte)])
}

/// Whether `value` is one quoted string (RFC 9110 section 5.6.4).
pub(crate) fn is_quoted(value: &[u8]) -> bool {
    let mut quotes = Quotes { escapes: true, ..Quotes::default() };
    let Some((last, rest)) = value.split_last() else { return false };
    !rest.is_empty() && rest.iter().all(|&byte| quotes.enclose(byte)) && !quotes.enclose(*last)
}

/// Whether `value` has a quoted string without an end.
pub fn is_open(value: &[u8]) -> bool {
    let mut quotes = Quotes { escapes: true, ..Quotes::default() };
    value.iter().for_each(|&byte| _ = quotes.enclose(byte));
    quotes.open
}

/// Iterates over the parts of a value between commas outside quoted strings, without white space around them.
/// Empty parts stay: not every field is a list.
pub(crate) fn between_commas(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut quotes = Quotes { escapes: true, ..Quotes::default() };
    value.split(move |&byte| !quotes.enclose(byte) && byte == b',').map(trim)
}

/// Splits at a separator outside quoted strings. A quoted string without an end extends to the end of the value.
struct QuotedSplit<'a> {
    rest: &'a [u8],
    separator: u8,
    escapes: bool,
}

impl<'a> Iterator for QuotedSplit<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        // Few values have a quoted string.
        let mut end = self.rest.iter().position(|&byte| byte == self.separator || byte == b'"');
        if end.is_some_and(|at| self.rest[at] == b'"') {
            let mut quotes = Quotes { escapes: self.escapes, ..Quotes::default() };
            end = self.rest.iter().position(|&byte| !quotes.enclose(byte) && byte == self.separator);
        }
        let (member, rest) = match end {
            Some(end) => (&self.rest[..end], &self.rest[end + 1..]),
            None => (self.rest, &self.rest[self.rest.len()..]),
        };
        self.rest = rest;
        Some(member)
    }
}

/// Tracks, byte by byte, whether a value is inside a quoted string.
#[derive(Default)]
struct Quotes {
    escapes: bool,
    open: bool,
    escaped: bool,
}

impl Quotes {
    /// Consumes `byte`, and returns whether it is inside a quoted string, or opens one.
    fn enclose(&mut self, byte: u8) -> bool {
        if std::mem::take(&mut self.escaped) {
            return true;
        }
        self.escaped = self.open && self.escapes && byte == b'\\';
        self.open ^= byte == b'"';
        self.open
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_split_outside_quoted_strings() {
        let cases: [(&str, &[&str]); 7] = [
            ("", &[]),
            (" , ,\t", &[]),
            ("a", &["a"]),
            ("a,b , c", &["a", "b", "c"]),
            (r#"a="1,2", b"#, &[r#"a="1,2""#, "b"]),
            (r#"a="\",", b"#, &[r#"a="\",""#, "b"]),
            (r#"a, "open, b"#, &["a", r#""open, b"#]),
        ];
        for (value, expected) in cases {
            let found: Vec<_> = list(value.as_bytes()).map(|m| std::str::from_utf8(m).unwrap()).collect();
            assert_eq!(found, expected, "{value}");
        }
    }

    #[test]
    fn a_backslash_in_an_entity_tag_escapes_nothing() {
        let found: Vec<_> = entity_tags(br#""a\", "b,c""#).collect();
        assert_eq!(found, [&br#""a\""#[..], br#""b,c""#]);
    }

    #[test]
    fn serialised_heads_are_fields() {
        let head = HeadLines(b"A: 1\r\nb:2 \r\nnot a field\r\na:\t3\r\nLast: x");
        assert_eq!(head.lines("a").collect::<Vec<_>>(), [b"1", b"3"]);
        assert_eq!(head.first("b"), Some(&b"2"[..]));
        assert_eq!(head.first("last"), Some(&b"x"[..]));
        assert!(!head.contains("not a field"));
        let map = head.to_map();
        assert_eq!(map.lines("a").collect::<Vec<_>>(), [b"1", b"3"]);
        assert_eq!(map.len(), 4);
    }

    proptest! {
        #[test]
        fn any_bytes_are_split_without_a_panic(bytes: Vec<u8>) {
            prop_assert!(list(&bytes).all(|member| !member.is_empty()));
            prop_assert!(HeadLines(&bytes).to_map().len() <= bytes.len());
        }
    }
}
