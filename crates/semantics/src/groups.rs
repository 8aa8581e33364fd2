//! Groups of responses: cache groups (RFC 9875), and the tags of surrogates.
//!
//! A group belongs to one origin ([`crate::key::origin`]), and responses to unsafe requests invalidate it.
//! Tags are for administrators and apply to all origins. Both are compared byte by byte. Other modules decide
//! the effect of a purge.

use http::Method;
use sfv::{BareItem, List, ListEntry, Parser};

use crate::fields::{Fields, joined, trim};
use crate::invalidate::is_unsafe;

/// The field that names a response's groups (RFC 9875 section 2).
pub const GROUPS: &str = "cache-groups";
/// The field that names the groups to invalidate (RFC 9875 section 3).
const INVALIDATION: &str = "cache-group-invalidation";

/// The fields that name tags, with the bytes that separate tags in each.
const TAGS: [(&str, &[u8]); 3] = [("cache-tag", b","), (SURROGATE_KEY, b" \t,"), ("xkey", b" \t,")];
/// Souin separates its members by commas; Fastly by spaces, and a member may have commas.
const SURROGATE_KEY: &str = "surrogate-key";

/// All fields that name groups or tags.
pub const FIELDS: [&str; 4] = [GROUPS, TAGS[0].0, TAGS[1].0, TAGS[2].0];

/// Returns the groups of a response. Empty if the field is not a list of strings: then it counts as absent
/// (RFC 9651 section 1.2). Parameters are ignored.
///
/// RFC 9875 requires support for at least 32 groups of 32 characters; this function reads as many as fit into a head.
pub fn groups(response: &impl Fields) -> Vec<String> {
    strings(response, GROUPS)
}

/// Returns the groups of its origin that the response to a request with this method invalidates, for any
/// status: none after a safe method (RFC 9875 section 3).
pub fn invalidated(method: &Method, response: &impl Fields) -> Vec<String> {
    if is_unsafe(method) { strings(response, INVALIDATION) } else { Vec::new() }
}

/// Returns the tags of a response: the members of `Cache-Tag`, `Surrogate-Key` and `xkey`. Quotation marks belong to
/// tags. A member of `Surrogate-Key` with commas is a tag as a whole, too.
pub fn tags(response: &impl Fields) -> impl Iterator<Item = &[u8]> {
    let in_field = move |name, separators| response.lines(name).flat_map(move |line| split(line, separators));
    let wholes = in_field(SURROGATE_KEY, b" \t").filter(|member| member.contains(&b','));
    TAGS.into_iter().flat_map(move |(name, separators)| in_field(name, separators)).chain(wholes)
}

/// Whether a response may have groups or tags, because it has such a field.
pub fn is_tagged(response: &impl Fields) -> bool {
    response.contains_any(&FIELDS)
}

fn split<'v>(value: &'v [u8], separators: &'static [u8]) -> impl Iterator<Item = &'v [u8]> {
    value.split(|byte| separators.contains(byte)).map(trim).filter(|member| !member.is_empty())
}

/// Parses a field that is a list of strings, all of its lines together (RFC 9651 section 4.2).
fn strings(response: &impl Fields, name: &str) -> Vec<String> {
    let Some(whole) = joined(response, name) else { return Vec::new() };
    let members = Parser::new(&whole).parse::<List>().unwrap_or_default();
    let string = |member| match member {
        ListEntry::Item(item) => match item.bare_item {
            BareItem::String(string) => Some(string.into()),
            _ => None,
        },
        ListEntry::InnerList(_) => None,
    };
    members.into_iter().map(string).collect::<Option<_>>().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use proptest::prelude::*;

    use super::*;
    use crate::fields::HeadLines;

    #[test]
    fn groups_are_a_list_of_strings() {
        let cases: [(&str, &[&str]); 16] = [
            ("", &[]),
            ("Cache-Groups: \"scripts\"\r\n", &["scripts"]),
            ("cache-groups: \"eurovision-results\", \"australia\"\r\n", &["eurovision-results", "australia"]),
            ("Cache-Groups: \"a\"\r\nETag: \"x\"\r\nCache-Groups: \"b\" ,\t\"c\"\r\n", &["a", "b", "c"]),
            ("Cache-Groups: \"a\";q=1;x, \"b\"\r\n", &["a", "b"]),
            ("Cache-Groups: \"A\", \"a\"\r\n", &["A", "a"]),
            (r#"Cache-Groups: "a, b", "say \"c\\d\"", """#, &["a, b", "say \"c\\d\"", ""]),
            ("Cache-Groups:\r\n", &[]),
            ("Cache-Groups: token\r\n", &[]),
            ("Cache-Groups: \"a\", token\r\n", &[]),
            ("Cache-Groups: \"a\", (\"b\" \"c\")\r\n", &[]),
            ("Cache-Groups: \"a\",\r\n", &[]),
            ("Cache-Groups: \"a\" \"b\"\r\n", &[]),
            ("Cache-Groups: \"open\r\n", &[]),
            ("Cache-Groups: \"a\"\r\nCache-Groups: 1\r\n", &[]),
            ("Cache-Groups: \"\u{e9}\"\r\n", &[]),
        ];
        for (head, expected) in cases {
            assert_eq!(groups(&HeadLines(head.as_bytes())), expected, "{head}");
        }
    }

    #[test]
    fn more_and_longer_groups_than_the_least_are_read() {
        let names: Vec<_> = (0..1_000).map(|n| format!("{n:0>40}")).collect();
        let quoted: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
        let head = format!("Cache-Groups: {}\r\n", quoted.join(", "));
        assert_eq!(groups(&HeadLines(head.as_bytes())), names);
    }

    #[test]
    fn only_unsafe_requests_invalidate() {
        let head = HeadLines(b"Cache-Group-Invalidation: \"eurovision-results\", \"australia\"\r\n");
        for method in ["POST", "PUT", "DELETE", "PATCH", "UNHEARD-OF"] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(invalidated(&method, &head), ["eurovision-results", "australia"], "{method}");
        }
        for method in ["GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "QUERY"] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert!(invalidated(&method, &head).is_empty(), "{method}");
        }
        assert!(groups(&head).is_empty());
    }

    #[test]
    fn tags_come_with_commas_or_with_spaces() {
        let cases: [(&str, &[&str]); 9] = [
            ("Cache-Tag: a, b c ,,d\r\n", &["a", "b c", "d"]),
            ("Cache-Tag: \"a, b\", c\r\n", &["\"a", "b\"", "c"]),
            ("Surrogate-Key: a  b\tc,d\r\n", &["a", "b", "c", "d", "c,d"]),
            ("Surrogate-Key: a, b\r\n", &["a", "b", "a,"]),
            ("xkey: a1,b1\r\nxkey: , c ,d\te\r\n", &["a1", "b1", "c", "d", "e"]),
            ("xkey: a\r\nxkey: b c\r\n", &["a", "b", "c"]),
            ("XKey: x\r\nCache-Tag: A\r\nSurrogate-Key: s\r\n", &["A", "s", "x"]),
            ("Cache-Groups: \"a\"\r\n", &[]),
            ("ETag: \"a\"\r\n", &[]),
        ];
        for (head, expected) in cases {
            let head = HeadLines(head.as_bytes());
            let found: Vec<_> = tags(&head).map(|tag| std::str::from_utf8(tag).unwrap()).collect();
            assert_eq!(found, expected, "{head:?}");
            assert_eq!(is_tagged(&head), !head.contains("etag"), "{head:?}");
        }
    }

    proptest! {
        #[test]
        fn names_come_back_as_they_were_written(names in prop::collection::vec("[ -~]{0,40}", 0..40)) {
            let escape = |name: &String| format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""));
            let mut map = HeaderMap::new();
            for name in &names {
                map.append(GROUPS, escape(name).parse().unwrap());
            }
            prop_assert_eq!(groups(&map), names);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            let head = [b"Cache-Groups:", &bytes[..], b"\nCache-Tag:", &bytes, b"\nxkey:", &bytes].concat();
            let head = HeadLines(&head);
            let names = groups(&head);
            prop_assert!(names.len() <= bytes.len());
            prop_assert!(tags(&head).all(|tag| !tag.is_empty()));
        }
    }
}
