//! Selection among the variants of a URI (RFC 9111 section 4.1).
//!
//! A signature consists of the request fields that a response's `Vary` names, with their normalised values,
//! in a self-describing form: an entry stores its signature, and a request is matched against it without the
//! response. Normalisation depends on the field (RFC 9110 section 12.5):
//! - `Accept`: white space around commas, empty members and the distribution over lines do not count;
//! - `Accept-Encoding`, `Accept-Language`, `Accept-Charset`: letter case and order, apart from weights, do
//!   not count either. Origins that prefer the first of equally weighted languages indicate so by
//!   `Content-Language`: for such responses the order of equal languages counts;
//! - `Authorization`, `Cookie`, `Origin`, `Referer`, `User-Agent`: each byte counts;
//! - all others count line by line as written, except for white space around commas outside of quoted strings.

use std::borrow::Cow;

use http::{HeaderName, header};

use crate::choices::Choices;
use crate::cookies::{COOKIE, WithCookies};
use crate::fields::{Fields, between_commas, is_open, members, trim};
use crate::status::Why;
use crate::wire::{put_length, put_part, take_length, take_part};

/// Whether the response varies by properties that no request field shows: `Vary` contains `*`, or a member
/// that is not a field name.
pub fn is_any(response: &impl Fields) -> bool {
    members(response, "vary").any(|member| field_name(member).is_none())
}

/// Whether the response varies by fields in which proxies describe the client, which the client's request
/// does not have.
pub fn is_by_client(response: &impl Fields) -> bool {
    let told = [&b"x-forwarded-for"[..], b"forwarded"];
    members(response, "vary").any(|name| told.iter().any(|told| name.eq_ignore_ascii_case(told)))
}

/// Returns the field name of a member; `*` is a token, and would count as a name.
fn field_name(member: &[u8]) -> Option<HeaderName> {
    HeaderName::from_bytes(member).ok().filter(|_| member != b"*")
}

/// The first byte of a value in which the order of equal choices counts: no field value contains it.
const ORDERED: &[u8] = b"\x01";
/// The most names in a `Vary`; a response with more is not stored.
const MOST_NAMES: usize = 64;
/// The most bytes of a normalised field; longer ones count as written.
const LONGEST: usize = 1024;

/// Appends the signature of `request` for `response`: nothing if the response does not vary.
///
/// # Errors
/// [`Why::VaryAny`] if no signature could ever match, or `Vary` lists too many names (nothing is appended then).
pub fn write(response: &impl Fields, request: &impl Fields, out: &mut Vec<u8>) -> Result<(), Why> {
    write_with(response, &[], request, out)
}

/// Does the same for a response that also varies by `more`: fields (lower case), and cookies as `cookie:NAME`.
///
/// # Errors
/// The same as for [`write`].
pub fn write_with(
    response: &impl Fields,
    more: &[String],
    request: &impl Fields,
    out: &mut Vec<u8>,
) -> Result<(), Why> {
    let mut names: Vec<Cow<'_, str>> = more.iter().map(|name| name.as_str().into()).collect();
    for member in members(response, "vary") {
        let name = field_name(member).filter(|_| names.len() < MOST_NAMES).ok_or(Why::VaryAny)?;
        names.push(name.as_str().to_owned().into());
    }
    names.sort_unstable();
    names.dedup();
    let is_ordered = response.contains("content-language");
    for name in names {
        write_field(request, &name, is_ordered && *name == *header::ACCEPT_LANGUAGE.as_str(), out);
    }
    Ok(())
}

fn write_field(request: &impl Fields, name: &str, is_ordered: bool, out: &mut Vec<u8>) {
    if name.starts_with(COOKIE) {
        put_field(&WithCookies(request), name, is_ordered, out)
    } else {
        put_field(request, name, is_ordered, out)
    }
}

fn put_field(request: &impl Fields, name: &str, is_ordered: bool, out: &mut Vec<u8>) {
    put_part(out, name.as_bytes());
    if request.contains(name) {
        let mut value = Vec::from(if is_ordered { ORDERED } else { b"" });
        normalise(request, name, is_ordered, &mut |piece| {
            value.extend_from_slice(piece);
            true
        });
        put_length(out, value.len() + 1);
        out.extend_from_slice(&value);
    } else {
        put_length(out, 0);
    }
}

/// Returns the signature of `request` for a response that varies by the same fields as the one with this `signature`.
pub fn again(mut signature: &[u8], request: &impl Fields) -> Vec<u8> {
    let mut out = Vec::with_capacity(signature.len());
    while let Some((name, stored)) = take_field(&mut signature) {
        let is_ordered = stored.is_some_and(|stored| stored.starts_with(ORDERED));
        write_field(request, name, is_ordered, &mut out);
    }
    out
}

/// Iterates over the request fields in a signature: their names, and their normalised values if the request had them.
pub fn fields(mut signature: &[u8]) -> impl Iterator<Item = (&str, Option<&[u8]>)> {
    let shown = |value| <[u8]>::strip_prefix(value, ORDERED).unwrap_or(value);
    std::iter::from_fn(move || take_field(&mut signature).map(|(name, value)| (name, value.map(shown))))
}

/// Whether two signatures are of responses that vary by the same fields.
pub fn same_fields(mut one: &[u8], mut other: &[u8]) -> bool {
    let name = |signature: &mut &[u8]| take_field(signature).map(|(name, _)| name.to_owned());
    while !one.is_empty() && !other.is_empty() {
        match (name(&mut one), name(&mut other)) {
            (Some(one), Some(other)) if one == other => {}
            _ => return false,
        }
    }
    one.is_empty() && other.is_empty()
}

/// Whether a request selects the response with this signature.
///
/// `content_language` is the response's: a response in the language that the client prefers to all others
/// also matches a request that expresses this differently from the one it was stored for.
pub fn matches(mut signature: &[u8], request: &impl Fields, content_language: Option<&[u8]>) -> bool {
    while !signature.is_empty() {
        let Some((name, stored)) = take_field(&mut signature) else { return false };
        let same = match name.starts_with(COOKIE) {
            true => is_same(stored, &WithCookies(request), name),
            false => is_same(stored, request, name),
        };
        let language = || name == "accept-language" && content_language.is_some_and(|l| prefers(request, l));
        if !same && !language() {
            return false;
        }
    }
    true
}

/// Whether the request's field `name` equals `stored`.
fn is_same(stored: Option<&[u8]>, request: &impl Fields, name: &str) -> bool {
    let has = request.contains(name);
    stored.map_or(!has, |stored| equals(stored, request, name) && (!stored.is_empty() || has))
}

/// Takes a name and its value, if the request had one, from the start.
fn take_field<'a>(signature: &mut &'a [u8]) -> Option<(&'a str, Option<&'a [u8]>)> {
    let name = std::str::from_utf8(take_part(signature)?).ok()?;
    let length = take_length(signature)?;
    let Some(length) = length.checked_sub(1) else { return Some((name, None)) };
    let (value, rest) = signature.split_at_checked(length)?;
    *signature = rest;
    Some((name, Some(value)))
}

/// Whether the request's field, normalised, equals `stored`.
fn equals(stored: &[u8], request: &impl Fields, name: &str) -> bool {
    let ordered = stored.strip_prefix(ORDERED);
    let mut rest = Some(ordered.unwrap_or(stored));
    normalise(request, name, ordered.is_some(), &mut |piece| {
        rest = rest.and_then(|rest| rest.strip_prefix(piece));
        rest.is_some()
    });
    rest.is_some_and(<[u8]>::is_empty)
}

/// Emits the normal form of a field, piece by piece, while `emit` returns true.
///
/// A form that counts as written begins with NUL where another form could equal it: no value contains that byte.
fn normalise(request: &impl Fields, name: &str, is_ordered: bool, emit: &mut impl FnMut(&[u8]) -> bool) {
    let is_long = || request.lines(name).map(<[u8]>::len).sum::<usize>() > LONGEST;
    // A quoted string without an end could extend over the comma between two lines.
    let is_literal = || is_long() || request.lines(name).any(is_open);
    match name {
        // The value of a cookie counts as written.
        name if name.starts_with(COOKIE) => _ = join(request.lines(name), b"\n", emit),
        "authorization" | "cookie" | "origin" | "referer" | "user-agent" => {
            join(request.lines(name).map(trim), b"\n", emit);
        }
        _ if is_literal() => _ = emit(b"\0") && join(request.lines(name), b"\n", emit),
        "accept" => _ = join(members(request, name), b",", emit),
        "accept-encoding" | "accept-language" | "accept-charset" => {
            match Choices::of(request, name, is_ordered) {
                Some(choices) => choices.emit(emit),
                None => _ = join(members(request, name), b",", emit),
            }
        }
        _ => {
            let mut lines = request.lines(name).enumerate();
            lines.all(|(index, line)| (index == 0 || emit(b"\n")) && join(between_commas(line), b",", emit));
        }
    }
}

/// Emits `parts` with `separator` in between; returns false if `emit` returned false.
fn join<'a>(
    parts: impl Iterator<Item = &'a [u8]>,
    separator: &[u8],
    emit: &mut impl FnMut(&[u8]) -> bool,
) -> bool {
    let mut parts = parts.enumerate();
    parts.all(|(index, part)| (index == 0 || emit(separator)) && emit(part))
}

/// Whether `language` has the highest weight for the client, and no other language has the same.
fn prefers(request: &impl Fields, language: &[u8]) -> bool {
    if request.lines("accept-language").map(<[u8]>::len).sum::<usize>() > LONGEST {
        return false;
    }
    let Some(choices) = Choices::of(request, "accept-language", true) else { return false };
    match choices.sorted() {
        [] => false,
        [best, rest @ ..] => {
            let only = rest.first().is_none_or(|next| next.weight < best.weight);
            only && best.weight > 0 && best.name.eq_ignore_ascii_case(trim(language))
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};
    use proptest::prelude::*;

    use super::*;

    fn fields(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    fn signature(vary: &str, request: &[(&'static str, &str)]) -> Vec<u8> {
        let mut out = Vec::new();
        write(&fields(&[("vary", vary)]), &fields(request), &mut out).unwrap();
        out
    }

    #[test]
    fn responses_are_distinguished_by_cookies_too() {
        let names = ["cookie:lang".to_owned(), "x-device".to_owned()];
        let mut signature = Vec::new();
        let request = fields(&[("cookie", "a=1; lang=de"), ("x-device", "phone")]);
        write_with(&fields(&[]), &names, &request, &mut signature).unwrap();
        let cases: [(&[(&'static str, &str)], bool); 6] = [
            (&[("cookie", "lang=de; b=2"), ("x-device", "phone")], true),
            (&[("cookie", "lang =de"), ("x-device", "phone")], false),
            (&[("cookie", "lang=en"), ("x-device", "phone")], false),
            (&[("cookie", "xlang=de"), ("x-device", "phone")], false),
            (&[("cookie", "lang=de")], false),
            (&[("cookie", "lang=de"), ("cookie", "lang=en"), ("x-device", "phone")], false),
        ];
        for (lines, expected) in cases {
            assert_eq!(matches(&signature, &fields(lines), None), expected, "{lines:?}");
            assert_eq!(again(&signature, &fields(lines)) == signature, expected, "{lines:?}");
        }
    }

    #[test]
    fn a_star_anywhere_never_matches() {
        for lines in
            [&["*"][..], &["*, *"], &["*", "*"], &[", *"], &["", "*"], &["*, foo"], &["foo, *"], &["a b"]]
        {
            let vary: Vec<_> = lines.iter().map(|line| ("vary", *line)).collect();
            let mut out = Vec::new();
            assert_eq!(write(&fields(&vary), &fields(&[]), &mut out), Err(Why::VaryAny), "{lines:?}");
            assert!(out.is_empty());
        }
    }

    #[test]
    fn without_vary_everything_matches() {
        assert!(signature("", &[("foo", "1")]).is_empty());
        assert!(matches(&[], &fields(&[("foo", "2")]), None));
    }

    #[test]
    fn all_named_fields_must_match() {
        let stored = signature("Foo, bar,FOO", &[("foo", "1"), ("bar", "abc"), ("other", "2")]);
        let cases: [(&[(&str, &str)], bool); 5] = [
            (&[("bar", "abc"), ("foo", "1"), ("other", "3")], true),
            (&[("foo", "2"), ("bar", "abc")], false),
            (&[("foo", "1"), ("bar", "abcde")], false),
            (&[("foo", "1")], false),
            (&[], false),
        ];
        for (request, expected) in cases {
            assert_eq!(matches(&stored, &fields(request), None), expected, "{request:?}");
        }
    }

    #[test]
    fn an_absent_field_matches_an_absent_field_only() {
        let stored = signature("foo", &[]);
        assert!(matches(&stored, &fields(&[]), None));
        assert!(!matches(&stored, &fields(&[("foo", "")]), None));
        assert!(!matches(&signature("foo", &[("foo", "")]), &fields(&[]), None));
    }

    #[test]
    fn what_means_nothing_does_not_matter() {
        type Lines = &'static [(&'static str, &'static str)];
        let cases: [(&str, Lines, Lines, bool); 23] = [
            ("foo", &[("foo", "1, 2")], &[("foo", "1"), ("foo", "2")], false),
            ("foo", &[("foo", "1,2")], &[("foo", " 1, 2 ")], true),
            ("foo", &[("foo", "1,,2")], &[("foo", "1,2")], false),
            ("foo", &[("foo", "1 2")], &[("foo", "1  2")], false),
            ("foo", &[("foo", ",acme")], &[("foo", "acme")], false),
            ("foo", &[("foo", "acme")], &[("foo", " acme ")], true),
            ("foo", &[("foo", "a"), ("foo", "b")], &[("foo", "a,b")], false),
            ("foo", &[("foo", ""), ("foo", "")], &[("foo", "")], false),
            ("accept", &[("accept", "a/b, c/d;x=1")], &[("accept", "a/b"), ("accept", "c/d;x=1")], true),
            ("accept", &[("accept", "a/b, c/d")], &[("accept", "c/d, a/b")], false),
            ("foo", &[("foo", "1,2")], &[("foo", "2,1")], false),
            ("foo", &[("foo", "a")], &[("foo", "A")], false),
            ("foo", &[("foo", "\"a,b\"")], &[("foo", "\"a, b\"")], false),
            ("foo", &[("foo", "\"a,b\"")], &[("foo", "\"a"), ("foo", "b\"")], false),
            ("user-agent", &[("user-agent", "(a, b)")], &[("user-agent", "(a,b)")], false),
            ("accept-language", &[("accept-language", "en, de")], &[("accept-language", "De,eN")], true),
            ("accept-language", &[("accept-language", "en, de")], &[("accept-language", "eN,De")], true),
            (
                "accept-language",
                &[("accept-language", "en, de;q=0.5")],
                &[("accept-language", "de;q=0.50, en;q=1")],
                true,
            ),
            (
                "accept-language",
                &[("accept-language", "en, de;q=0.5")],
                &[("accept-language", "en, de;q=0.6")],
                false,
            ),
            ("accept-encoding", &[("accept-encoding", "gzip, br")], &[("accept-encoding", "br, GZIP")], true),
            ("accept-encoding", &[("accept-encoding", "gzip;q=0")], &[("accept-encoding", "gzip")], false),
            ("accept-encoding", &[("accept-encoding", "gzip;q=x")], &[("accept-encoding", "gzip;q=x")], true),
            (
                "accept-encoding",
                &[("accept-encoding", "gzip;q=x")],
                &[("accept-encoding", "gzip;q=y")],
                false,
            ),
        ];
        for (vary, one, other, expected) in cases {
            assert_eq!(matches(&signature(vary, one), &fields(other), None), expected, "{one:?} {other:?}");
        }
    }

    #[test]
    fn the_order_of_equal_languages_counts_for_origins_that_name_theirs() {
        let stored = |response: &[(&'static str, &str)]| {
            let mut out = Vec::new();
            write(&fields(response), &fields(&[("accept-language", "en, de")]), &mut out).unwrap();
            out
        };
        let named = stored(&[("vary", "Accept-Language"), ("content-language", "en")]);
        let unnamed = stored(&[("vary", "Accept-Language")]);
        for (asked, is_named, is_unnamed) in
            [("EN,de", true, true), ("de, en", false, true), ("de;q=0.5, en", false, false)]
        {
            let request = fields(&[("accept-language", asked)]);
            assert_eq!(matches(&named, &request, None), is_named, "{asked}");
            assert_eq!(matches(&unnamed, &request, None), is_unnamed, "{asked}");
            assert_eq!(again(&named, &request) == named, is_named, "{asked}");
        }
        assert_eq!(super::fields(&named).next(), Some(("accept-language", Some(&b"en,de"[..]))));
    }

    #[test]
    fn the_preferred_language_selects() {
        let stored = signature("accept-language", &[("accept-language", "en, de")]);
        let cases = [
            ("fr;q=0.5, de;q=1.0", true),
            ("DE", true),
            ("fr, de;q=0.5", false),
            ("fr, de", false),
            ("de;q=0", false),
            ("de-AT, de;q=0.9", false),
        ];
        for (asked, expected) in cases {
            let request = fields(&[("accept-language", asked)]);
            assert_eq!(matches(&stored, &request, Some(b"de")), expected, "{asked}");
            assert!(!matches(&stored, &request, None));
        }
    }

    #[test]
    fn long_lists_count_as_written() {
        let long = (0..30).map(|n| format!("l{n}")).collect::<Vec<_>>().join(", ");
        let stored = signature("accept-language", &[("accept-language", &long)]);
        assert!(matches(&stored, &fields(&[("accept-language", &long)]), None));
        assert!(!matches(&stored, &fields(&[("accept-language", &long.to_uppercase())]), None));
    }

    #[test]
    fn too_many_names_are_as_bad_as_a_star() {
        let names = |count: usize| (0..count).map(|n| format!("n{n}")).collect::<Vec<_>>().join(",");
        let write = |names: &str| write(&fields(&[("vary", names)]), &fields(&[]), &mut Vec::new());
        assert_eq!((write(&names(64)), write(&names(65))), (Ok(()), Err(Why::VaryAny)));
    }

    #[test]
    fn long_values_count_as_written() {
        let long = "gzip,".repeat(500);
        let stored = signature("accept-encoding", &[("accept-encoding", &long)]);
        assert!(matches(&stored, &fields(&[("accept-encoding", &long)]), None));
        assert!(!matches(&stored, &fields(&[("accept-encoding", &format!("{long}gzip"))]), None));
    }

    /// Returns a value without spaces around commas that follow an even number of quotes.
    fn without_spaces(value: &str) -> String {
        let mut parts: Vec<String> = vec![String::new()];
        for c in value.chars() {
            let last = parts.last_mut().unwrap();
            let is_outside = c == ',' && last.matches('"').count().is_multiple_of(2);
            if is_outside { parts.push(String::new()) } else { last.push(c) }
        }
        parts.iter().map(|part| part.trim()).collect::<Vec<_>>().join(",")
    }

    proptest! {
        /// For an unknown field, two requests select the same variant only if they have the same lines,
        /// except for spaces around commas.
        #[test]
        fn unknown_fields_are_distinguished(
            one in proptest::collection::vec("[ab, \"]{0,4}", 0..3),
            other in proptest::collection::vec("[ab, \"]{0,4}", 0..3),
        ) {
            let lines = |values: &[String]| fields(
                &values.iter().map(|value| ("foo", value.trim())).collect::<Vec<_>>(),
            );
            let mut stored = Vec::new();
            write(&fields(&[("vary", "foo")]), &lines(&one), &mut stored).unwrap();
            let naive = |values: &[String]| match values.iter().all(|value| value.matches('"').count().is_multiple_of(2)) {
                true => values.iter().map(|value| without_spaces(value.trim())).collect(),
                false => values.iter().map(|value| format!("\0{}", value.trim())).collect::<Vec<_>>(),
            };
            let same = naive(&one) == naive(&other);
            prop_assert_eq!(matches(&stored, &lines(&other), None), same);
        }

        #[test]
        fn a_request_matches_its_own_signature_and_normalising_twice_changes_nothing(
            values in proptest::collection::vec("[a-cA-C;q=0-9., \"*]{0,12}", 0..3),
            name in prop::sample::select(vec!["accept-language", "accept-encoding", "cookie", "foo"]),
        ) {
            let lines: Vec<_> = values.iter().map(|value| (name, value.trim())).collect();
            let stored = signature(name, &lines);
            prop_assert!(matches(&stored, &fields(&lines), None));

            let (_, value) = take_field(&mut &stored[..]).unwrap();
            let as_written = |value: &[u8]| value.starts_with(b"\0") || value.contains(&b'\n');
            if let Some(value) = value.filter(|value| !as_written(value)) {
                let again = [(name, std::str::from_utf8(value).unwrap())];
                prop_assert_eq!(signature(name, &again), stored);
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(signature: Vec<u8>, value: Vec<u8>) {
            let mut request = HeaderMap::new();
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                request.insert("accept-language", value);
            }
            matches(&signature, &request, Some(b"de"));
            let vary = fields(&[("vary", "accept-language, foo")]);
            prop_assert!(write(&vary, &request, &mut Vec::new()).is_ok());
        }
    }
}
