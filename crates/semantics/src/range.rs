//! Byte ranges: the ranges that a request asks for (RFC 9110 section 14.2), the part in a partial response
//! (14.4), and the combination of parts (RFC 9111 section 3.4).

use std::fmt;
use std::ops::RangeInclusive;

use http::HeaderMap;

use crate::date;
use crate::fields::{Fields, trim};
use crate::freshness::Freshness;
use crate::wire::{decimal, put_decimal};

/// The most ranges that one request may name.
pub const MOST_RANGES: usize = 32;

/// Fields about the content of one message, which are wrong for another part of the same representation: its place, and
/// its digests (RFC 9530 section 2; RFC 1864).
pub const ABOUT_CONTENT: [&str; 3] = ["content-range", "content-digest", "content-md5"];

/// Whether a field of this name is one of [`ABOUT_CONTENT`].
pub fn is_about_content(name: &[u8]) -> bool {
    ABOUT_CONTENT.iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
}

/// Removes [`ABOUT_CONTENT`] from the fields of a response whose content becomes another part of the representation.
pub fn remove_about_content(fields: &mut HeaderMap) {
    ABOUT_CONTENT.iter().for_each(|name| drop(fields.remove(*name)));
}

/// One range as requested (RFC 9110 section 14.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spec {
    /// The form `first-last`.
    Span(u64, u64),
    /// The form `first-`.
    From(u64),
    /// The form `-length`.
    Suffix(u64),
}

/// The requested ranges of a certain representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeSelection {
    /// These bytes, in the requested order; never empty.
    Satisfied(Vec<RangeInclusive<u64>>),
    /// None of the ranges exists: 416.
    Unsatisfiable,
    /// Too many overlaps, more bytes than the representation has, or one without bytes, which clients that always request
    /// a range take for an error if they get 416: the request is answered as if it had no range (RFC 9110 section 14.2).
    Ignored,
}

/// Parses a `Range` field's value. Returns `None` if the field has to be ignored: another unit, a malformed
/// or backward range, or more than [`MOST_RANGES`].
pub fn parse(value: &[u8]) -> Option<Vec<Spec>> {
    let equals = value.iter().position(|&byte| byte == b'=')?;
    if !value[..equals].eq_ignore_ascii_case(b"bytes") {
        return None;
    }
    let members = || value[equals + 1..].split(|&byte| byte == b',').map(trim).filter(|m| !m.is_empty());
    if members().take(MOST_RANGES + 1).count() > MOST_RANGES {
        return None;
    }
    let specs: Option<Vec<_>> = members().map(spec).collect();
    specs.filter(|specs| !specs.is_empty())
}

fn spec(member: &[u8]) -> Option<Spec> {
    let dash = member.iter().position(|&byte| byte == b'-')?;
    match (&member[..dash], &member[dash + 1..]) {
        (b"", length) => decimal(length).map(Spec::Suffix),
        (first, b"") => decimal(first).map(Spec::From),
        (first, last) => {
            let (first, last) = (decimal(first)?, decimal(last)?);
            (first <= last).then_some(Spec::Span(first, last))
        }
    }
}

/// Applies `specs` to a representation of `complete` bytes.
pub fn resolve(specs: &[Spec], complete: u64) -> RangeSelection {
    let Some(end) = complete.checked_sub(1) else { return RangeSelection::Ignored };
    let resolve = |spec: &Spec| match *spec {
        Spec::Span(first, last) => (first <= end).then(|| first..=last.min(end)),
        Spec::From(first) => (first <= end).then_some(first..=end),
        Spec::Suffix(length) => (length > 0).then(|| complete.saturating_sub(length)..=end),
    };
    let ranges: Vec<_> = specs.iter().filter_map(resolve).collect();
    let overlaps = |n: usize| ranges[..n].iter().any(|earlier| overlap(earlier, &ranges[n]));
    let bytes = ranges.iter().fold(0_u64, |sum, range| sum.saturating_add(range.end() - range.start() + 1));
    if ranges.is_empty() {
        RangeSelection::Unsatisfiable
    } else if bytes > complete || (0..ranges.len()).filter(|&n| overlaps(n)).count() > 1 {
        RangeSelection::Ignored
    } else {
        RangeSelection::Satisfied(ranges)
    }
}

fn overlap(one: &RangeInclusive<u64>, other: &RangeInclusive<u64>) -> bool {
    one.start() <= other.end() && other.start() <= one.end()
}

/// Whether `Range` counts in view of `If-Range` (RFC 9110 section 13.1.5). A date must equal the `Last-Modified`
/// field, and precede the response by at least a second: later dates are weak validators (section 8.8.2.2).
pub fn if_range(request: &impl Fields, stored: &impl Fields, freshness: &Freshness) -> bool {
    let Some(condition) = request.first("if-range") else { return true };
    if is_strong(condition) {
        return stored.first("etag") == Some(condition);
    }
    let modified = date::parse(condition).filter(|_| stored.first("last-modified") == Some(condition));
    modified.is_some_and(|modified| modified < freshness.date)
}

/// Whether a request asks, by another validator than a strong entity-tag, whether a part may be joined to the
/// client's part. The same date may stand for several forms of one content.
pub fn is_resumed_by_date(request: &impl Fields) -> bool {
    request.first("if-range").is_some_and(|condition| !is_strong(condition))
}

/// Whether `tag` is a strong entity-tag (RFC 9110 section 8.8.3).
pub fn is_strong(tag: &[u8]) -> bool {
    tag.len() >= 2 && tag.starts_with(b"\"") && tag.ends_with(b"\"")
}

/// The part of a representation in a partial response. Displays as the value of `Content-Range`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentRange {
    first: u64,
    last: u64,
    complete: Option<u64>,
}

impl ContentRange {
    /// Appends the value of `Content-Range`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"bytes ");
        put_decimal(out, self.first);
        out.push(b'-');
        put_decimal(out, self.last);
        out.push(b'/');
        match self.complete {
            Some(complete) => put_decimal(out, complete),
            None => out.push(b'*'),
        }
    }

    /// Returns `None` unless `range` is a part of `complete` bytes.
    pub fn new(range: RangeInclusive<u64>, complete: u64) -> Option<Self> {
        Self { first: *range.start(), last: *range.end(), complete: Some(complete) }.checked()
    }

    /// Parses the value of `Content-Range`: `bytes 0-4/10` or `bytes 0-4/*`.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (unit, rest) = value.split_at_checked(6)?;
        let dash = rest.iter().position(|&byte| byte == b'-')?;
        let slash = rest.iter().position(|&byte| byte == b'/').filter(|&slash| dash < slash)?;
        let complete = match &rest[slash + 1..] {
            b"*" => None,
            complete => Some(decimal(complete)?),
        };
        let range = Self { first: decimal(&rest[..dash])?, last: decimal(&rest[dash + 1..slash])?, complete };
        unit.eq_ignore_ascii_case(b"bytes ").then_some(range)?.checked()
    }

    /// Returns the range of a 206 with a single part; `None` if the field is missing, malformed or repeated.
    pub fn of(response: &impl Fields) -> Option<Self> {
        let mut lines = response.lines("content-range");
        let range = Self::parse(lines.next()?)?;
        lines.next().is_none().then_some(range)
    }

    fn checked(self) -> Option<Self> {
        // Larger numbers are read as the largest.
        let fits = self.complete.is_none_or(|complete| self.last < complete && complete < u64::MAX);
        // The length of all of `u64` does not fit into a `u64`.
        (self.first <= self.last && self.last < u64::MAX && fits).then_some(self)
    }

    /// Returns the bytes in the part.
    pub fn range(&self) -> RangeInclusive<u64> {
        self.first..=self.last
    }

    /// Returns the number of bytes in the part, which the content of the partial response must have.
    pub fn length(&self) -> u64 {
        self.last - self.first + 1
    }

    /// Returns the length of the whole representation, if it is known.
    pub fn complete(&self) -> Option<u64> {
        self.complete
    }

    /// Whether the part contains all of `range`.
    pub fn contains(&self, range: &RangeInclusive<u64>) -> bool {
        self.first <= *range.start() && *range.end() <= self.last
    }

    /// Whether the part is the whole representation.
    pub fn is_whole(&self) -> bool {
        self.complete == Some(self.length())
    }

    /// Returns the value of `Range` that requests all missing bytes; `None` if that is not one range.
    pub fn rest(&self) -> Option<String> {
        match (self.first, self.complete) {
            _ if self.is_whole() => None,
            (0, _) => Some(format!("bytes={}-", self.last + 1)),
            (first, Some(complete)) if self.last + 1 == complete => Some(format!("bytes=0-{}", first - 1)),
            _ => None,
        }
    }

    /// Returns the union of both parts, if they touch or overlap and belong to representations of one length.
    pub fn joined(&self, other: &Self) -> Option<Self> {
        let touch = self.first <= other.last.saturating_add(1) && other.first <= self.last.saturating_add(1);
        let same = self.complete.is_none() || other.complete.is_none() || self.complete == other.complete;
        let (first, last) = (self.first.min(other.first), self.last.max(other.last));
        let joined = Self { first, last, complete: self.complete.or(other.complete) };
        (touch && same).then_some(joined)?.checked()
    }
}

impl fmt::Display for ContentRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut written = Vec::new();
        self.write(&mut written);
        f.write_str(&String::from_utf8_lossy(&written))
    }
}

/// Returns the value of `Content-Range` in a 416 (RFC 9110 section 15.5.17).
pub fn unsatisfied(complete: u64) -> String {
    format!("bytes */{complete}")
}

/// Returns the union of two partial responses, if they may be combined: the same strong entity-tag, and parts
/// that join (RFC 9111 section 3.4).
pub fn combined(
    (one, one_fields): (&ContentRange, &impl Fields),
    (other, other_fields): (&ContentRange, &impl Fields),
) -> Option<ContentRange> {
    let tag = one_fields.first("etag").filter(|tag| is_strong(tag))?;
    (other_fields.first("etag") == Some(tag)).then(|| one.joined(other))?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fields::HeadLines;

    #[test]
    fn ranges_are_read() {
        use Spec::{From, Span, Suffix};
        let cases: [(&str, Option<&[Spec]>); 16] = [
            ("bytes=0-4", Some(&[Span(0, 4)])),
            ("Bytes=5-", Some(&[From(5)])),
            ("bytes=-5", Some(&[Suffix(5)])),
            ("bytes=0-0, 2-3 ,-1", Some(&[Span(0, 0), Span(2, 3), Suffix(1)])),
            ("bytes=,0-0,,", Some(&[Span(0, 0)])),
            ("bytes=0-99999999999999999999", Some(&[Span(0, u64::MAX)])),
            ("bytes=", None),
            ("bytes=-", None),
            ("bytes=4-0", None),
            ("bytes=0-4, x", None),
            ("bytes=0 -4", None),
            ("bytes=0-4-5", None),
            ("bytes=+1-4", None),
            ("bytes 0-4", None),
            ("lines=0-4", None),
            ("", None),
        ];
        for (value, expected) in cases {
            assert_eq!(parse(value.as_bytes()).as_deref(), expected, "{value}");
        }
        let many = |count| format!("bytes={}", vec!["0-0"; count].join(","));
        assert_eq!(parse(many(MOST_RANGES).as_bytes()).map(|specs| specs.len()), Some(MOST_RANGES));
        assert_eq!(parse(many(MOST_RANGES + 1).as_bytes()), None);
    }

    #[test]
    fn ranges_resolve_against_a_length() {
        use RangeSelection::{Ignored, Satisfied, Unsatisfiable};
        let cases = [
            ("bytes=0-4", 10, Satisfied(vec![0..=4])),
            ("bytes=5-", 10, Satisfied(vec![5..=9])),
            ("bytes=-3", 10, Satisfied(vec![7..=9])),
            ("bytes=-30", 10, Satisfied(vec![0..=9])),
            ("bytes=8-20", 10, Satisfied(vec![8..=9])),
            ("bytes=8-20, 20-30, 0-0", 10, Satisfied(vec![8..=9, 0..=0])),
            ("bytes=10-", 10, Unsatisfiable),
            ("bytes=-0", 10, Unsatisfiable),
            ("bytes=0-", 0, Ignored),
            ("bytes=-5", 0, Ignored),
            ("bytes=0-5, 3-6", 10, Satisfied(vec![0..=5, 3..=6])),
            ("bytes=0-5, 3-7", 10, Ignored),
            ("bytes=-10, -10", 10, Ignored),
            ("bytes=0-5, 3-7, 4-4", 20, Ignored),
            ("bytes=0-, 0-, 0-", 10, Ignored),
        ];
        for (value, complete, expected) in cases {
            let specs = parse(value.as_bytes()).unwrap();
            assert_eq!(resolve(&specs, complete), expected, "{value} of {complete}");
        }
    }

    #[test]
    fn content_ranges_are_checked() {
        for value in ["bytes 0-4/10", "bytes 9-9/10", "bytes 0-4/*"] {
            assert_eq!(ContentRange::parse(value.as_bytes()).unwrap().to_string(), value);
        }
        let refused = [
            "bytes 4-10/10",
            "bytes 5-4/10",
            "bytes */10",
            "bytes 0-4",
            "bytes 0-/10",
            "bytes=0-4/10",
            "lines 0-4/10",
            "bytes 0/4-10",
            "bytes 0-18446744073709551615/*",
            "bytes 0-4/99999999999999999999",
            "",
        ];
        for value in refused {
            assert_eq!(ContentRange::parse(value.as_bytes()), None, "{value}");
        }
        let part = ContentRange::parse(b"bytes 4-9/10").unwrap();
        assert_eq!((part.length(), part.range(), part.complete()), (6, 4..=9, Some(10)));
        assert!(part.contains(&(6..=8)) && !part.contains(&(3..=8)) && !part.contains(&(6..=10)));
    }

    #[test]
    fn the_rest_of_a_part_is_the_missing_range() {
        let rest = |value: &str| ContentRange::parse(value.as_bytes()).unwrap().rest();
        assert_eq!(rest("bytes 0-4/10").as_deref(), Some("bytes=5-"));
        assert_eq!(rest("bytes 0-4/*").as_deref(), Some("bytes=5-"));
        assert_eq!(rest("bytes 5-9/10").as_deref(), Some("bytes=0-4"));
        assert_eq!(rest("bytes 3-6/10"), None);
        assert_eq!(rest("bytes 0-9/10"), None);
    }

    #[test]
    fn parts_combine_under_one_strong_tag_only() {
        let part = |value: &str| ContentRange::parse(value.as_bytes()).unwrap();
        let joined = |one: &str, etag: &[u8], other: &str, other_etag: &[u8]| {
            let heads = (HeadLines(etag), HeadLines(other_etag));
            combined((&part(one), &heads.0), (&part(other), &heads.1)).map(|part| part.to_string())
        };
        let (a, b, weak) = (b"ETag: \"a\"\r\n", b"ETag: \"b\"\r\n", b"ETag: W/\"a\"\r\n");
        let whole = Some("bytes 0-9/10".to_owned());
        assert_eq!(joined("bytes 0-4/10", a, "bytes 5-9/10", a), whole);
        assert_eq!(joined("bytes 3-9/10", a, "bytes 0-4/*", a), whole);
        assert_eq!(joined("bytes 0-3/10", a, "bytes 5-9/10", a), None);
        assert_eq!(joined("bytes 0-4/10", a, "bytes 5-9/11", a), None);
        assert_eq!(joined("bytes 0-4/10", a, "bytes 5-9/10", b), None);
        assert_eq!(joined("bytes 0-4/10", weak, "bytes 5-9/10", weak), None);
        assert_eq!(joined("bytes 0-4/10", b"", "bytes 5-9/10", b""), None);
    }

    #[test]
    fn if_range_compares_strongly() {
        let modified = "Sun, 06 Nov 1994 08:49:37 GMT";
        let stored = format!("ETag: \"a\"\r\nLast-Modified: {modified}\r\n");
        let date = date::parse(modified.as_bytes()).unwrap();
        let cases = [
            ("If-Range: \"a\"\r\n", 1, true),
            ("If-Range: \"b\"\r\n", 1, false),
            ("If-Range: W/\"a\"\r\n", 1, false),
            ("If-Range: a\r\n", 1, false),
            ("If-Range: Sun, 06 Nov 1994 08:49:37 GMT\r\n", 1, true),
            ("If-Range: Sun, 06 Nov 1994 08:49:37 GMT\r\n", 0, false),
            ("If-Range: Sun, 06 Nov 1994 08:49:38 GMT\r\n", 9, false),
            ("", 0, true),
        ];
        for (request, seconds_older, expected) in cases {
            let freshness = Freshness { date: date + seconds_older, ..Default::default() };
            let found = if_range(&HeadLines(request.as_bytes()), &HeadLines(stored.as_bytes()), &freshness);
            assert_eq!(found, expected, "{request}");
        }
    }

    proptest! {
        #[test]
        fn resolved_ranges_stay_within_the_representation(
            text in "bytes=([0-9]{0,3}-[0-9]{0,3},?){1,4}", complete in 0..1000_u64,
        ) {
            let resolved = parse(text.as_bytes()).map(|specs| resolve(&specs, complete));
            if let Some(RangeSelection::Satisfied(ranges)) = resolved {
                prop_assert!(!ranges.is_empty());
                for range in ranges {
                    let part = ContentRange::new(range, complete).unwrap();
                    prop_assert_eq!(ContentRange::parse(part.to_string().as_bytes()), Some(part));
                }
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>, complete: u64) {
            ContentRange::parse(&bytes);
            let value = [b"bytes=", &bytes[..]].concat();
            if let Some(specs) = parse(&value) {
                resolve(&specs, complete);
            }
        }
    }
}
