//! A cache that validates a stored response before each use.

use crate::{cache, gateway};
use larder_testkit::{Answer, Larder, Origin, eventually};

const TAGGED: &str = "200 OK\nCache-Control: max-age=100, stale-while-revalidate=100\nETag: \"1\"\n\nbody";

fn always(origin: &Origin, keys: &str) -> Larder {
    Larder::with_site(&[origin], &format!("validate = 'always'\n{keys}"))
}

/// Returns an origin that answers 304 to requests with the tag `"1"`.
fn validating() -> Origin {
    Origin::by(|seen| match seen.field("if-none-match") {
        Some("\"1\"") => "304 Not Modified\nETag: \"1\"".to_owned(),
        _ => TAGGED.to_owned(),
    })
}

#[test]
fn whatever_is_stored_is_validated_each_time() {
    let origin = validating();
    let larder = always(&origin, "");
    assert_eq!(larder.get("/").text(), "body");
    for asked in 2..5 {
        let response = larder.get("/");
        assert_eq!(
            (response.text(), response.cache().as_str()),
            ("body", "fwd=stale; fwd-status=304; detail=always-validated")
        );
        assert_eq!(origin.count(), asked);
    }
}

#[test]
fn a_new_answer_takes_the_place_of_the_old_one() {
    let origin = Origin::in_order([TAGGED, "200 OK\nETag: \"2\"\n\nnew", "304 Not Modified\nETag: \"2\""]);
    let larder = always(&origin, "");
    for text in ["body", "new", "new"] {
        assert_eq!(larder.get("/").text(), text);
    }
    assert_eq!(origin.last().field("if-none-match"), Some("\"2\""));
}

#[test]
fn a_response_without_a_validator_gets_a_generated_tag() {
    let origin = Origin::always("200 OK\n\nbody");
    let larder = always(&origin, "");
    larder.get("/");
    assert_eq!(larder.get("/").text(), "body");
    let shown = origin.last().field("if-none-match").expect("a tag").to_owned();
    let behind = gateway(&Origin::always("200 OK\n\nbody"), "");
    assert_eq!(behind.get("/").field("etag"), Some(&*shown), "the one that a gateway computes");
}

#[test]
fn a_redirect_or_an_error_is_stored_only_to_stand_in() {
    for answer in [
        "301 Moved Permanently\nLocation: /x\nCache-Control: max-age=100\n\nelsewhere",
        "404 Not Found\nCache-Control: max-age=100\n\nnone",
    ] {
        let origin = Origin::always(answer);
        for (keys, is_stored) in [("", false), ("stale_if_error = '1h'", true)] {
            let larder = always(&origin, keys);
            for _ in 0..2 {
                assert_eq!(larder.get("/").cache().contains("stored"), is_stored, "{answer} {keys}");
            }
        }
    }
}

#[test]
fn a_304_for_a_generated_tag_confirms_the_response() {
    let origin = Origin::by(|seen| match seen.field("if-none-match") {
        Some(tag) => format!("304 Not Modified\nETag: {tag}"),
        None => "200 OK\nLast-Modified: Fri, 01 Jan 2100 00:00:00 GMT\n\nbody".to_owned(),
    });
    let larder = always(&origin, "");
    larder.get("/");
    for asked in [2, 3] {
        let response = larder.get("/");
        assert_eq!((response.status, response.text(), origin.count()), (200, "body", asked));
        assert_eq!(
            origin.last().field("if-modified-since").is_some(),
            asked == 3,
            "no date that says less than it should"
        );
    }
}

#[test]
fn requests_do_not_wait_for_fetches_that_began_earlier() {
    let (gate, origin) = Origin::gated(|seen, held| {
        if seen.number == 0 {
            held.pass();
        }
        Answer::with_body("200 OK\nCache-Control: max-age=100", format!("{}", seen.number).as_bytes())
    });
    let larder = always(&origin, "");
    let mut first = larder.client();
    first.send("GET /");
    eventually("the first at the origin", || (origin.count() == 1).then_some(()));
    assert_eq!(larder.client().ask("GET /").text(), "1");
    gate.open();
    assert_eq!(first.receive("GET").text(), "0");
}

#[test]
fn no_stale_response_replaces_a_dead_origin_without_stale_if_error() {
    for (keys, status) in [("", 502), ("stale_if_error = '1h'", 200)] {
        let origin = validating();
        let larder = always(&origin, keys);
        larder.get("/");
        origin.die();
        assert_eq!(larder.get("/").status, status, "{keys}");
        assert_eq!(larder.ask("HEAD /").status, status, "{keys}");
    }
}

#[test]
fn other_requests_are_validated_as_well() {
    let origin = validating();
    let larder = always(&origin, "");
    larder.get("/");
    assert_eq!(larder.ask("GET /\nCache-Control: only-if-cached").status, 504);
    assert_eq!(larder.ask("GET /\nIf-None-Match: \"1\"").status, 304);
    let part = larder.ask("GET /\nRange: bytes=1-2");
    assert_eq!((part.status, part.text()), (206, "od"));
    larder.ask("HEAD /");
    assert_eq!(origin.count(), 4);
}

#[test]
fn unsafe_requests_pass_and_what_is_stored_stays_to_be_validated() {
    let origin = validating();
    let larder = always(&origin, "");
    larder.get("/");
    assert_eq!(larder.ask("POST /\n\nx").cache(), "fwd=method; fwd-status=200; detail=method");
    larder.get("/");
    assert_eq!(origin.last().field("if-none-match"), Some("\"1\""));
}

#[test]
fn in_front_of_a_gateway_the_backend_is_asked_once() {
    let origin = Origin::by(|seen| match seen.method.as_str() {
        "GET" => "200 OK\n\nbody".to_owned(),
        _ => "204 No Content".to_owned(),
    });
    let behind = gateway(&origin, "");
    let front = cache(&format!("http://{}", behind.address()), "validate = 'always'");
    for (asked, request) in
        [(1, "GET /paths"), (1, "GET /paths"), (2, "POST /users\n\nx"), (3, "GET /paths"), (3, "GET /paths")]
    {
        let response = front.client().ask(request);
        assert_eq!((response.status < 300, origin.count()), (true, asked), "{request}");
        front.settle();
    }
}

#[test]
fn each_cookie_gets_its_own_through_one_cache() {
    let origin = Origin::by(|seen| format!("200 OK\n\nfor {}", seen.field("cookie").unwrap_or("anyone")));
    let behind = gateway(&origin, "");
    let front = cache(&format!("http://{}", behind.address()), "validate = 'always'");
    for user in ["a", "b", "a", "a", "b"] {
        let response = front.client().ask(&format!("GET /me\nCookie: {user}"));
        assert_eq!(response.text(), format!("for {user}"));
        front.settle();
    }
}
