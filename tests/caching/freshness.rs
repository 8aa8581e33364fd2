//! RFC 9111 sections 4.2 and 5.2.1: the age of a response, its lifetime, and the request directives of clients.

use crate::date;
use larder_testkit::{Larder, Origin};

/// Whether a response with these fields is fresh on the second request.
fn is_fresh(fields: &str) -> bool {
    let response = format!("200 OK\n{fields}\n\nbody");
    let origin = Origin::by(move |_| response.clone());
    let larder = Larder::before(&origin);
    larder.get("/");
    larder.get("/").is_hit()
}

#[test]
fn section_4_2_3_age_adds_the_time_in_this_cache() {
    for fields in ["Age: 30".to_owned(), format!("Date: {}", date(30)), format!("Age: 5\nDate: {}", date(30))]
    {
        let response = format!("200 OK\nCache-Control: max-age=1000\n{fields}\n\nbody");
        let origin = Origin::by(move |_| response.clone());
        let larder = Larder::before(&origin);
        larder.get("/");
        let age = larder.get("/").age().expect("an age");
        assert!((30..60).contains(&age), "{fields}: {age}");
    }
}

#[test]
fn section_4_2_a_response_is_fresh_while_younger_than_its_lifetime() {
    assert!(is_fresh("Cache-Control: max-age=100\nAge: 50"));
    assert!(!is_fresh("Cache-Control: max-age=100\nAge: 100"));
    assert!(!is_fresh(&format!("Cache-Control: max-age=100\nDate: {}", date(100))));
    assert!(is_fresh(&format!("Date: {}\nExpires: {}", date(50), date(-50))));
    assert!(!is_fresh(&format!("Date: {}\nExpires: {}", date(50), date(60))));
    assert!(!is_fresh("Expires: soon"));
}

#[test]
fn section_4_2_2_requests_with_cookies_get_no_guessed_lifetime() {
    let origin = Origin::by(|seen| {
        let (modified, user) = (date(360_000), seen.field("cookie").unwrap_or("no user"));
        format!("200 OK\nLast-Modified: {modified}\n\n{user}")
    });
    let larder = Larder::before(&origin);
    for cookie in ["a=1", "b=2"] {
        let response = larder.ask(&format!("GET /\nCookie: {cookie}"));
        let refused = response.cache().ends_with("detail=cookie-guess");
        assert_eq!((response.text(), refused), (cookie, true), "{response:?}");
    }
    assert_eq!(larder.get("/").text(), "no user");
    // The response stored without a cookie is neither used nor replaced.
    assert_eq!(larder.ask("GET /\nCookie: a=1").text(), "a=1");
    assert!(larder.get("/").is_hit());
    let guessing = Larder::with_site(&[&origin], "heuristic_cookies = true");
    assert_eq!(guessing.ask("GET /\nCookie: a=1").text(), "a=1");
    assert!(guessing.get("/").is_hit());
}

#[test]
fn section_4_2_2_a_lifetime_is_guessed_from_last_modified_only() {
    let hours = |hours: i64| format!("Date: {}\nLast-Modified: {}", date(0), date(hours * 3600));
    assert!(is_fresh(&hours(10)));
    assert!(is_fresh(&format!("{}\nAge: 1800", hours(10))));
    assert!(!is_fresh(&format!("{}\nAge: 3600", hours(10))));
    assert!(!is_fresh(&format!("{}\nAge: 86400", hours(10_000))));
    // A response with a cookie is for one user, unless its fields allow shared storage explicitly.
    assert!(!is_fresh(&format!("{}\nSet-Cookie: a=b", hours(10))));
    assert!(!is_fresh("ETag: \"1\""));
    assert!(!is_fresh(&format!("Date: {}", date(0))));
}

#[test]
fn section_4_2_2_a_lifetime_is_guessed_for_some_statuses_only() {
    let origin = Origin::by(|seen| format!("{} Status\nLast-Modified: {}", &seen.target[1..], date(36_000)));
    let larder = Larder::before(&origin);
    for (status, guessed) in [("200", true), ("404", true), ("410", true), ("302", false), ("500", false)] {
        let path = format!("/{status}");
        larder.get(&path);
        assert_eq!(larder.get(&path).is_hit(), guessed, "{status}");
    }
}

#[test]
fn rfc_9110_section_6_6_1_a_missing_date_is_added() {
    let origin = Origin::in_order(["200 OK", "200 OK\nDate: Thu, 01 Jan 2015 00:00:00 GMT"]);
    let larder = Larder::before(&origin);
    let added = larder.get("/");
    assert_eq!(added.field("date").map(str::len), Some(29));
    assert_eq!(larder.get("/").field("date"), Some("Thu, 01 Jan 2015 00:00:00 GMT"));
}

#[test]
fn section_5_2_1_clients_may_ask_for_more_or_accept_less() {
    // The stored response is 50 seconds old and fresh for another 50.
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\nAge: 50\nETag: \"1\"\n\nbody");
    let cases = [
        ("max-age=90", "hit"),
        ("max-age=10", "fwd=request; fwd-status=200; stored; detail=request-max-age"),
        ("max-age=0", "fwd=request; fwd-status=200; stored; detail=request-max-age"),
        ("min-fresh=20", "hit"),
        ("min-fresh=80", "fwd=request; fwd-status=200; stored; detail=request-min-fresh"),
        ("no-cache", "fwd=request; fwd-status=200; stored; detail=request-no-cache"),
        ("no-store", "hit"),
        ("only-if-cached", "hit"),
        ("unknown, max-age", "fwd=request; fwd-status=200; stored; detail=request-max-age"),
    ];
    let larder = Larder::before(&origin);
    larder.get("/");
    for (directive, expected) in cases {
        let response = larder.ask(&format!("GET /\nCache-Control: {directive}"));
        assert_eq!(response.cache(), expected, "{directive}");
    }
}

#[test]
fn section_5_2_1_2_max_stale_permits_stale_responses() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\nAge: 150\n\nbody");
    let larder = Larder::before(&origin);
    larder.get("/");
    for (directive, accepted) in [("max-stale", true), ("max-stale=1000", true), ("max-stale=10", false)] {
        let response = larder.ask(&format!("GET /\nCache-Control: {directive}"));
        assert_eq!(response.cache() == "hit; detail=max-stale", accepted, "{directive}: {response:?}");
    }
}

#[test]
fn section_5_2_2_2_must_revalidate_responses_are_never_stale() {
    for directive in ["must-revalidate", "proxy-revalidate", "s-maxage=100", "no-cache"] {
        let response =
            format!("200 OK\nCache-Control: max-age=100, {directive}\nAge: 150\nETag: \"1\"\n\nbody");
        let origin = Origin::by(move |_| response.clone());
        let larder = Larder::before(&origin);
        larder.get("/");
        let second = larder.ask("GET /\nCache-Control: max-stale");
        assert!(second.cache().starts_with("fwd=stale"), "{directive}: {second:?}");
    }
}

#[test]
fn section_5_2_1_7_only_if_cached_asks_no_origin() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\nAge: 100\nETag: \"1\"\n\nbody");
    let larder = Larder::before(&origin);
    let absent = larder.ask("GET /\nCache-Control: only-if-cached");
    assert_eq!((absent.status, origin.count()), (504, 0));
    larder.get("/");
    let stale = larder.ask("GET /\nCache-Control: only-if-cached");
    assert_eq!((stale.status, origin.count()), (504, 1));
}

#[test]
fn section_5_2_directives_with_white_space_restrict_as_unreadable_ones() {
    let modified = format!("Last-Modified: {}", date(1_000_000));
    for (fields, fresh) in [
        ("Cache-Control: max-age=600", true),
        ("Cache-Control: max-age = 1", false),
        ("Cache-Control: s-maxage = 1, max-age=600", false),
        ("Cache-Control: max-age=600, no-store =1", false),
        ("Cache-Control: max-age=600, private = x", false),
        ("Cache-Control: max-age=600, no-cache\t=", false),
        ("CDN-Cache-Control: max-age = 1\nCache-Control: max-age=600", false),
    ] {
        assert_eq!(is_fresh(&format!("{fields}\n{modified}")), fresh, "{fields}");
    }
    for directive in ["must-revalidate =1", "proxy-revalidate\t= 1"] {
        let origin = Origin::by(move |_| {
            format!("200 OK\nCache-Control: max-age=100, {directive}\nAge: 150\nETag: \"1\"\n\nbody")
        });
        let larder = Larder::before(&origin);
        larder.get("/");
        let answer = larder.ask("GET /\nCache-Control: max-stale");
        assert!(answer.cache().starts_with("fwd=stale"), "{directive}: {answer:?}");
    }
    let origin = Origin::by(|seen| match seen.number {
        0 => "200 OK\nCache-Control: max-age=100, stale-if-error =0\nAge: 150\n\nold".to_owned(),
        _ => "503 Busy".to_owned(),
    });
    let larder = Larder::before(&origin);
    assert_eq!([larder.get("/").status, larder.get("/").status], [200, 503]);
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\nAge: 50\n\nbody");
    let larder = Larder::before(&origin);
    larder.get("/");
    for directive in ["max-age = 60", "min-fresh =10", "no-cache = x"] {
        let answer = larder.ask(&format!("GET /\nCache-Control: {directive}"));
        assert!(answer.cache().starts_with("fwd=request"), "{directive}: {answer:?}");
    }
}

#[test]
fn rfc_8246_an_immutable_response_is_not_validated_while_fresh() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100, immutable\nETag: \"1\"\n\nbody");
    let larder = Larder::before(&origin);
    larder.get("/");
    assert!(larder.ask("GET /\nCache-Control: max-age=0").is_hit());
    assert!(!larder.ask("GET /\nCache-Control: no-cache").is_hit());
}
