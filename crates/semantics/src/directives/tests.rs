use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;

use super::*;

fn fields(lines: &[(&'static str, &str)]) -> HeaderMap {
    lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
}

fn response(lines: &[(&'static str, &str)]) -> ResponseDirectives {
    let mut map = HeaderMap::new();
    for (name, value) in lines {
        map.append(*name, value.parse().unwrap());
    }
    ResponseDirectives::parse(&map, &["larder-cache-control".into(), "cdn-cache-control".into()])
}

#[test]
fn lifetimes_are_exact() {
    let cases = [
        ("max-age=3600", Some(3600)),
        ("MaX-AgE=3600", Some(3600)),
        ("max-age=\"3600\"", Some(3600)),
        ("max-age=003600", Some(3600)),
        ("max-age=99999999999", Some(u32::MAX)),
        ("max-age=0", Some(0)),
        ("max-age=-3600", Some(0)),
        ("max-age='3600'", Some(0)),
        ("max-age=3600.5", Some(0)),
        ("max-age=a3600", Some(0)),
        ("max-age=3600a", Some(0)),
        ("max-age= 3600", Some(0)),
        ("max-age", Some(0)),
        ("max-age=", Some(0)),
        ("max-age =3600", Some(0)),
        ("max-age\t=\t3600", Some(0)),
        ("max-age:3600", Some(0)),
        ("max-age=60 60", Some(0)),
        ("max-age=\"60", Some(0)),
        ("max-age=\"60\"\"", Some(0)),
        ("\"max-age=60\"", Some(0)),
        ("max-age=60; x", Some(0)),
        ("max-age=60, max-age = 1", Some(0)),
        ("max-age = 1, max-age=60", Some(0)),
        ("extension=\"max-age=3600\"", None),
        ("extension=\"max-age=3600\", max-age=1", Some(1)),
        ("max-age=1, extension=\"max-age=3600\"", Some(1)),
        ("max-age=1, max-age=1800", Some(1)),
        ("max-age=1800, max-age=1", Some(1800)),
    ];
    for (value, expected) in cases {
        assert_eq!(response(&[("cache-control", value)]).max_age, expected, "{value}");
    }
    assert_eq!(response(&[("cache-control", "max-age=2"), ("cache-control", "max-age=1")]).max_age, Some(2));
}

#[test]
fn the_qualified_forms_withhold_fields() {
    let names = |names: &[&'static str]| names.iter().map(|n| HeaderName::from_static(n)).collect::<Vec<_>>();
    let cases = [
        ("no-cache", true, false, names(&[])),
        ("No-CaChE=\"A, b\"", false, false, names(&["a", "b"])),
        ("no-cache=a", false, false, names(&["a"])),
        ("no-cache=\"\"", true, false, names(&[])),
        ("no-cache=\"a b\"", true, false, names(&[])),
        ("no-cache=\"a\", no-cache", true, false, names(&["a"])),
        ("private", false, true, names(&[])),
        ("private=\"set-cookie\"", false, false, names(&["set-cookie"])),
        ("private=", false, true, names(&[])),
        ("private=\"a, b c\"", false, true, names(&[])),
        // Fields without which the response would mean something else.
        ("private=\"a, Content-Encoding\"", false, true, names(&[])),
        ("no-cache=\"a, Content-Encoding\"", true, false, names(&[])),
        ("no-cache=\"a\", private=content-type", false, true, names(&["a"])),
        ("private=\"Cache-Control\"", false, true, names(&[])),
        ("private=\"cdn-cache-control\"", false, true, names(&[])),
        ("no-cache=\"Vary\"", true, false, names(&[])),
        ("no-cache=\"ETag\"", true, false, names(&[])),
        ("private=\"xkey\"", false, true, names(&[])),
        (
            "private=\"Date, Age, Transfer-Encoding\"",
            false,
            false,
            names(&["date", "age", "transfer-encoding"]),
        ),
        ("no-cache=''", true, false, names(&[])),
        ("no-cache=\", private=\"", true, true, names(&[])),
    ];
    for (value, no_cache, private, withheld) in cases {
        let found = response(&[("cache-control", value)]);
        assert_eq!((found.no_cache, found.private, found.withheld), (no_cache, private, withheld), "{value}");
    }
}

#[test]
fn malformed_members_restrict() {
    let cases = [
        ("private; max-age=60", (false, false, true)),
        ("max-age=60; Private", (false, false, true)),
        ("max-age=60 private", (false, false, true)),
        ("no-store; no-cache", (true, true, false)),
        ("private =x", (false, false, true)),
        ("x=\"a, private", (false, false, true)),
        ("max-age=60, x=a\"b, no-store", (true, false, false)),
        ("x=\"a; private\", y", (false, false, false)),
        ("x-private; public", (false, false, false)),
        ("no-store=1", (true, false, false)),
        ("No-Store\t=", (true, false, false)),
        ("no-cache = \"a\"", (false, true, false)),
        ("max-age=\"1, no-store\"", (true, false, false)),
    ];
    for (value, expected) in cases {
        let found = response(&[("cache-control", value)]);
        assert_eq!((found.no_store, found.no_cache, found.private), expected, "{value}");
        assert!(!found.public, "{value}");
    }
}

#[test]
fn targeted_fields_are_exact_dictionaries() {
    let cases = [
        ("max-age=100", Some(100)),
        ("max-age=100;p=1", Some(100)),
        ("foobar, max-age=100", Some(100)),
        ("foobar=(1 2), max-age=100", Some(100)),
        ("max-age=1, max-age=100", Some(100)),
        ("max-age=99999999999", Some(u32::MAX)),
        ("max-age=-1", Some(0)),
    ];
    for (value, expected) in cases {
        let found = response(&[("cdn-cache-control", value), ("cache-control", "no-store")]);
        assert!(found.targeted && !found.no_store, "{value}");
        assert_eq!(found.max_age, expected, "{value}");
    }
    let ignored = [
        "",
        "max-age=100, &&&",
        "max-age=\"100\"",
        "max-age=100.5",
        "max-age =100",
        "max-age= 100",
        "MaX-aGe=100",
        "max-age=100,",
        "max-age=(100)",
        "max-age",
        "no-store=1, max-age=100",
        "public=?0, max-age=100",
    ];
    for value in ignored {
        let found = response(&[("cdn-cache-control", value), ("cache-control", "no-store")]);
        assert!(!found.targeted && found.no_store, "{value}");
    }
}

#[test]
fn malformed_directives_permit_nothing() {
    let long = "max-age=600, s-maxage=600, stale-while-revalidate=600, public, ";
    let cases = [
        ("s-maxage = 1, max-age=600", ""),
        ("stale-if-error =0", ""),
        ("must-revalidate =1", ""),
        ("public=0, s-maxage", ""),
        (long, "max-age =1"),
        (long, "max-age=\"1\""),
        (long, "Max-Age=1"),
        (long, "must-revalidate=1"),
    ];
    for (value, target) in cases {
        let found = response(&[("cache-control", value), ("cdn-cache-control", target)]);
        assert!(found.malformed && !found.permits_sharing(), "{value} {target}");
        let stale =
            [found.s_maxage, found.max_age, found.stale_if_error].into_iter().flatten().all(|n| n == 0);
        assert!(stale || target.is_empty(), "{value} {target}");
    }
    assert_eq!(response(&[("cache-control", cases[0].0)]).s_maxage, Some(0));
    assert_eq!(response(&[("cache-control", cases[1].0)]).stale_if_error, Some(0));
    assert!(response(&[("cache-control", cases[2].0)]).must_revalidate);
    assert!(response(&[("cache-control", "no-store, must-understand=1")]).forbids_storing());
    assert!(!response(&[("cache-control", "no-store, must-understand")]).forbids_storing());
}

#[test]
fn the_first_valid_target_wins() {
    let found = response(&[
        ("cdn-cache-control", "max-age=1"),
        ("larder-cache-control", "max-age=2, private=\"a\""),
        ("cache-control", "max-age=3"),
    ]);
    assert_eq!((found.max_age, found.withheld.len(), found.private), (Some(2), 1, false));
    let found = response(&[("cdn-cache-control", "max-age=1"), ("larder-cache-control", "!")]);
    assert_eq!(found.max_age, Some(1));
}

#[test]
fn requests_ask() {
    let nothing = RequestDirectives::default();
    let cases = [
        ("", nothing),
        ("max-age=0", RequestDirectives { max_age: Some(0), ..nothing }),
        ("max-age=x", RequestDirectives { max_age: Some(0), ..nothing }),
        ("max-age = 60", RequestDirectives { max_age: Some(0), ..nothing }),
        ("no-cache =1", RequestDirectives { no_cache: true, ..nothing }),
        ("foo; no-store", RequestDirectives { no_store: true, ..nothing }),
        ("max-age=1, max-age=2", RequestDirectives { max_age: Some(1), ..nothing }),
        ("min-fresh =2", RequestDirectives { min_fresh: Some(u32::MAX), ..nothing }),
        ("max-stale", RequestDirectives { max_stale: Some(u32::MAX), ..nothing }),
        ("max-stale=5", RequestDirectives { max_stale: Some(5), ..nothing }),
        ("max-stale=x", RequestDirectives { max_stale: Some(0), ..nothing }),
        ("max-stale = 9", RequestDirectives { max_stale: Some(0), ..nothing }),
        ("min-fresh=5, No-Store", RequestDirectives { min_fresh: Some(5), no_store: true, ..nothing }),
        ("only-if-cached", RequestDirectives { only_if_cached: true, ..nothing }),
        (
            "no-cache, stale-if-error=9",
            RequestDirectives { no_cache: true, stale_if_error: Some(9), ..nothing },
        ),
        ("x=\"no-cache\"", nothing),
    ];
    for (value, expected) in cases {
        assert_eq!(RequestDirectives::parse(&fields(&[("cache-control", value)])), expected, "{value}");
    }
}

#[test]
fn pragma_counts_without_cache_control_only() {
    let asks = |lines: &[_]| RequestDirectives::parse(&fields(lines)).no_cache;
    assert!(asks(&[("pragma", "x, No-Cache")]));
    assert!(asks(&[("pragma", "no-cache; x")]));
    assert!(!asks(&[("pragma", "x")]));
    assert!(!asks(&[("pragma", "no-cache"), ("cache-control", "max-age=5")]));
}

/// Spells the directive `name=value` (without `=` if `value` is empty) in the way called `way`.
fn spelled(name: &str, value: &str, way: usize) -> String {
    let equals = if value.is_empty() { "" } else { "=" };
    match way {
        0 => format!("{name}{equals}{value}"),
        1 => format!("{}{equals}{value}", name.to_uppercase()),
        2 => format!("{name} {equals}{value}"),
        3 => format!("{name}={value} 1"),
        4 => format!("{name}\t=\t{value}"),
        5 => format!("{name}=\"{value}"),
        6 => format!("{name}{equals}{value}; x"),
        7 => format!("{name}='{value}'"),
        8 => format!("{name}=={value}"),
        9 => format!("\"{name}{equals}{value}\""),
        10 => format!("{name}:{value}"),
        _ => format!("x {name}{equals}\"{value}\""),
    }
}

fn permissions(found: &ResponseDirectives) -> [u32; 9] {
    let shared = found.s_maxage.or(found.max_age);
    let validated =
        found.must_revalidate || found.proxy_revalidate || found.s_maxage.is_some() || found.no_cache;
    [
        // Without a lifetime, another field may give one.
        shared.unwrap_or(u32::MAX),
        if validated { 0 } else { found.stale_while_revalidate.unwrap_or(u32::MAX) },
        if validated { 0 } else { found.stale_if_error.unwrap_or(u32::MAX) },
        u32::from(!found.forbids_storing()),
        u32::from(!found.no_cache && !found.withheld.iter().any(|name| name == "b")),
        u32::from(!found.private && !found.withheld.iter().any(|name| name == "a")),
        u32::from(found.permits_sharing()),
        u32::from(found.immutable),
        u32::from(!found.no_transform),
    ]
}

const DIRECTIVES: [(&str, &str); 14] = [
    ("max-age", "60"),
    ("max-age", "0"),
    ("s-maxage", "9"),
    ("stale-while-revalidate", "5"),
    ("stale-if-error", "0"),
    ("no-store", ""),
    ("no-cache", ""),
    ("private", ""),
    ("private", "a"),
    ("public", ""),
    ("must-revalidate", ""),
    ("must-understand", ""),
    ("immutable", ""),
    ("no-transform", ""),
];

proptest! {
    #[test]
    fn no_spelling_makes_a_response_fresher(
        chosen in proptest::collection::vec((0..DIRECTIVES.len(), 0..12_usize), 1..5),
        field in proptest::sample::select(&["cache-control", "cdn-cache-control"][..]),
    ) {
        let mut chosen = chosen;
        chosen.sort_by_key(|(directive, _)| DIRECTIVES[*directive].0);
        chosen.dedup_by_key(|(directive, _)| DIRECTIVES[*directive].0);
        let text = |way: &dyn Fn(usize) -> usize| -> String {
            let members = chosen.iter().map(|&(n, own)| spelled(DIRECTIVES[n].0, DIRECTIVES[n].1, way(own)));
            members.collect::<Vec<_>>().join(", ")
        };
        let (plain, other) = (text(&|_| 0), text(&|own| own));
        let [expected, found] = [&plain, &other].map(|value| permissions(&response(&[(field, value)])));
        for (most, found) in expected.into_iter().zip(found) {
            prop_assert!(found <= most, "{}: {:?} after {:?}", field, other, plain);
        }
    }

    #[test]
    fn withheld_fields_are_found_as_by_a_whole_parse(
        texts in proptest::collection::vec("([a-z\", =]|no-cache=|private=|No-Cache=\"a\"){0,6}", 2),
    ) {
        let names = ["cache-control", "cdn-cache-control"].map(HeaderName::from_static);
        let map: HeaderMap = names.into_iter().zip(texts.iter().filter_map(|text| text.parse().ok())).collect();
        let targets = ["cdn-cache-control".into()];
        prop_assert_eq!(withheld(&map, &targets), ResponseDirectives::parse(&map, &targets).withheld);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>, text in "[a-z=\",; ?0-9.-]{0,40}") {
        for value in [&bytes[..], text.as_bytes()] {
            let Ok(value) = HeaderValue::from_bytes(value) else { continue };
            let map: HeaderMap = ["cache-control", "cdn-cache-control"]
                .map(|name| (HeaderName::from_static(name), value.clone())).into_iter().collect();
            RequestDirectives::parse(&map);
            ResponseDirectives::parse(&map, &["cdn-cache-control".into()]);
        }
    }
}
