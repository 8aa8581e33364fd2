use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;

use super::*;

fn matches(signature: &[u8], request: &impl Fields, content_language: Option<&[u8]>) -> bool {
    super::matches(signature, request, || content_language)
}

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
fn insignificant_differences_select_the_same_variant() {
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
        ("accept-encoding", &[("accept-encoding", "gzip;q=x")], &[("accept-encoding", "gzip;q=y")], false),
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
fn rfc_9111_section_4_3_4_confirmed_responses_match_only_known_fields() {
    let stored = [("a", "1"), ("b", "1"), ("accept-language", "en, de")];
    let other = [("a", "1"), ("b", "2"), ("accept-language", "de")];
    for (before, after, by_confirmed, by_stored) in [
        ("", "", true, true),
        ("a", "A", true, true),
        ("", "b", true, false),
        ("a", "a, b", true, false),
        ("a, b", "a", true, true),
        ("a", "", true, true),
        ("accept-language", "Accept-Language", true, true),
        ("accept-language", "accept-language, a", true, false),
    ] {
        let old = signature(before, &stored);
        let new = confirmed(&old, &fields(&[("vary", after)]), &fields(&other)).unwrap();
        let language = Some(&b"de"[..]);
        let found = [&other[..], &stored].map(|request| matches(&new, &fields(request), language));
        assert_eq!(found, [by_confirmed, by_stored], "{before:?}, then {after:?}");
        assert_eq!(
            new == old,
            !adds_fields(&old, &fields(&[("vary", after)])) && before.len() == after.len()
        );
    }
    let named = fields(&[("vary", "accept-language"), ("content-language", "en")]);
    let old = signature("accept-language", &stored);
    let new = confirmed(&old, &named, &fields(&[("accept-language", "de, en")])).unwrap();
    assert!(!matches(&new, &fields(&stored), Some(b"en")), "the order counts from now on");
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
