//! RFC 9111 section 4.1: several variants of one URL.

use larder_testkit::{Larder, Origin};

/// Returns an origin that varies by `field`, and returns its value.
fn varying_by(field: &'static str) -> Origin {
    Origin::by(move |seen| {
        let value = seen.field(field).unwrap_or("none");
        format!("200 OK\nCache-Control: max-age=60\nVary: {field}\n\n{value}")
    })
}

#[test]
fn section_4_1_a_variant_answers_only_requests_that_select_it() {
    let origin = varying_by("Colour");
    let larder = Larder::before(&origin);
    for (value, cache) in [
        ("red", "fwd=uri-miss; fwd-status=200; stored"),
        ("blue", "fwd=vary-miss; fwd-status=200; stored; detail=variant-absent"),
        ("red", "hit"),
        ("blue", "hit"),
    ] {
        let response = larder.ask(&format!("GET /\nColour: {value}"));
        assert_eq!((response.text(), response.cache().as_str()), (value, cache));
    }
    assert_eq!(larder.get("/").text(), "none");
    assert!(larder.get("/").is_hit());
}

#[test]
fn section_4_1_differences_that_mean_nothing_select_the_same_variant() {
    let table = [
        ("Accept-Encoding", "gzip, br", "br,gzip"),
        ("Accept-Encoding", "gzip;q=1.0, br;q=0.5", "br;q=0.50 , GZIP"),
        ("Accept-Language", "de, en;q=0.7", "en;q=0.7,DE"),
        ("Accept-Language", "de-AT;q=1,de;q=0.9", "de;q=0.9, de-at"),
    ];
    for (field, first, second) in table {
        let origin = varying_by(field);
        let larder = Larder::before(&origin);
        larder.ask(&format!("GET /\n{field}: {first}"));
        assert!(larder.ask(&format!("GET /\n{field}: {second}")).is_hit(), "{field}: {first} and {second}");
    }
}

#[test]
fn section_4_1_differences_that_mean_something_do_not() {
    let table = [
        ("Accept-Encoding", "gzip, br", "gzip"),
        ("Accept-Encoding", "gzip;q=0.5, br", "gzip, br;q=0.5"),
        ("Accept-Language", "de, en;q=0.7", "en, de;q=0.7"),
        ("Cookie", "a=b, c", "a=b,c"),
        ("Other", "a", "A"),
    ];
    for (field, first, second) in table {
        let origin = varying_by(field);
        let larder = Larder::before(&origin);
        larder.ask(&format!("GET /\n{field}: {first}"));
        assert_eq!(larder.ask(&format!("GET /\n{field}: {second}")).text(), second, "{field}");
    }
}

#[test]
fn section_4_1_all_fields_count_whatever_line_they_are_on() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=60\nVary: A\nVary: B , a\n\nbody");
    let larder = Larder::before(&origin);
    larder.ask("GET /\nA: 1\nB: 2");
    assert!(larder.ask("GET /\nB: 2\nA: 1\nC: 3").is_hit());
    assert!(!larder.ask("GET /\nA: 1\nB: 3").is_hit());
    assert!(!larder.ask("GET /\nA: 1").is_hit());
}

#[test]
fn beyond_max_variants_the_oldest_goes() {
    let origin = varying_by("Colour");
    let larder = Larder::with(&origin, "[memory]\nmax_variants = 2");
    for colour in ["red", "green", "blue"] {
        larder.ask(&format!("GET /\nColour: {colour}"));
    }
    let hit =
        |colour| larder.ask(&format!("GET /\nColour: {colour}\nCache-Control: only-if-cached")).is_hit();
    assert_eq!(["red", "green", "blue"].map(hit), [false, true, true]);
}
