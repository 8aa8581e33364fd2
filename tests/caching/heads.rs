//! HEAD beside GET: the same decisions about stored responses and about requests to the origin.

use larder_testkit::{Larder, Origin};

const FRESH: &str = "max-age=100\nAge: 0";
const STALE: &str = "max-age=9\nAge: 9999";
const TOLERANT: &str = "max-age=9, stale-while-revalidate=900, stale-if-error=900\nAge: 60";
const LENIENT: &str = "max-age=9, stale-if-error=900\nAge: 60";

/// Starts an origin that sends `first` once, and `later` afterwards.
fn changing(first: &'static str, later: &'static str) -> Origin {
    Origin::by(move |seen| match seen.number {
        0 => format!("200 OK\nCache-Control: {first}\n\nold"),
        _ => later.to_owned(),
    })
}

#[test]
fn head_and_get_get_the_same_stored_response_or_refusal() {
    let only_stored = "Cache-Control: only-if-cached";
    let table = [
        (FRESH, only_stored, "200 OK", (200, "hit"), 1),
        (STALE, only_stored, "200 OK", (504, "detail=only-if-cached"), 1),
        (FRESH, "Cache-Control: only-if-cached, no-cache", "200 OK", (504, "detail=only-if-cached"), 1),
        (FRESH, "Cache-Control: only-if-cached, min-fresh=999", "200 OK", (504, "detail=only-if-cached"), 1),
        (STALE, "Cache-Control: max-stale", "200 OK", (200, "hit; detail=max-stale"), 1),
        (TOLERANT, "X: y", "503 Busy", (200, "hit; detail=stale-while-revalidate"), 2),
        (TOLERANT, only_stored, "503 Busy", (200, "hit; detail=stale-while-revalidate"), 2),
        (LENIENT, "X: y", "503 Busy", (200, "fwd=stale; fwd-status=503; detail=stale-if-error"), 2),
        (
            LENIENT,
            "Cache-Control: max-age=5",
            "500 Oops",
            (200, "fwd=stale; fwd-status=500; detail=stale-if-error"),
            2,
        ),
        (
            STALE,
            "Cache-Control: stale-if-error=99999",
            "502 No",
            (200, "fwd=stale; fwd-status=502; detail=stale-if-error"),
            2,
        ),
    ];
    for (stored, asked, later, expected, requests) in table {
        for method in ["GET", "HEAD"] {
            let origin = changing(stored, later);
            let larder = Larder::before(&origin);
            larder.get("/");
            let response = larder.ask(&format!("{method} /\n{asked}"));
            origin.wait_for(requests);
            let found = (response.status, response.cache());
            assert_eq!((found.0, found.1.as_str()), expected, "{method} {asked} of {stored}");
            larder.settle();
            assert_eq!(origin.count(), requests, "{method} {asked} of {stored}");
        }
    }
}

#[test]
fn head_gets_the_error_of_get_where_no_stored_response_stands_in() {
    for (stored, asked, later) in [
        (LENIENT, "Cache-Control: no-cache", "503 Busy"),
        (LENIENT, "X: y", "404 Not Found"),
        ("max-age=9, must-revalidate\nAge: 60", "X: y", "503 Busy"),
        ("max-age=9, stale-if-error=9\nAge: 60", "X: y", "503 Busy"),
    ] {
        for method in ["GET", "HEAD"] {
            let larder = Larder::before(&changing(stored, later));
            larder.get("/");
            let response = larder.ask(&format!("{method} /\n{asked}"));
            assert_eq!(response.status.to_string(), later[..3], "{method} {asked} of {stored}");
        }
    }
}

#[test]
fn only_if_cached_gets_504_where_nothing_is_stored() {
    let origin = Origin::always("200 OK\n\nbody");
    let larder = Larder::before(&origin);
    for method in ["GET", "HEAD"] {
        let response = larder.ask(&format!("{method} /\nCache-Control: only-if-cached"));
        assert_eq!((response.status, origin.count()), (504, 0), "{method}");
    }
}

#[test]
fn a_background_refresh_carries_no_directive_or_condition_of_its_client() {
    let own = ["cache-control", "pragma", "if-none-match", "if-match", "range", "if-range"];
    for directive in ["only-if-cached", "no-store"] {
        for method in ["GET", "HEAD"] {
            let origin = changing(TOLERANT, "200 OK\nCache-Control: max-age=100\n\nnew");
            let larder = Larder::before(&origin);
            larder.get("/");
            larder.ask(&format!(
                "{method} /\nCache-Control: {directive}\nPragma: no-cache\nIf-None-Match: \"1\"\nIf-Match: *\n\
                 Range: bytes=0-1\nIf-Range: \"1\""
            ));
            origin.wait_for(2);
            let sent = origin.last();
            let found: Vec<_> = own.into_iter().filter(|name| sent.field(name).is_some()).collect();
            assert_eq!((sent.method.as_str(), found), ("GET", vec![]), "{method} {directive}");
            larder.settle();
            let after = larder.get("/");
            assert_eq!((after.text(), after.is_hit()), ("new", true), "{method} {directive}");
        }
    }
}
