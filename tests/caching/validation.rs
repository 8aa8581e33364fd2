//! RFC 9111 section 4.3: validation by clients and by the cache, and updates of stored responses.

use larder_testkit::{Larder, Origin};

const STALE: &str = "200 OK\nCache-Control: max-age=100\nAge: 100\nETag: \"1\"\n\
    Last-Modified: Thu, 01 Jan 2015 00:00:00 GMT\nOld: o\n\nbody";

#[test]
fn section_4_3_1_validation_sends_stored_validators_instead_of_the_clients() {
    let origin = Origin::in_order([STALE, "304 Not Modified\nETag: \"1\""]);
    let larder = Larder::before(&origin);
    larder.get("/");
    let response =
        larder.ask("GET /\nIf-None-Match: \"mine\"\nIf-Modified-Since: Thu, 01 Jan 2004 00:00:00 GMT");
    let asked = origin.last();
    assert_eq!(asked.field("if-none-match"), Some("\"1\""));
    assert_eq!(asked.field("if-modified-since"), Some("Thu, 01 Jan 2015 00:00:00 GMT"));
    assert_eq!((response.status, response.text()), (200, "body"));
    assert_eq!(response.cache(), "fwd=stale; fwd-status=304; detail=expired");
}

#[test]
fn rfc_3229_no_difference_to_the_stored_response_is_asked_for() {
    let origin = Origin::in_order([STALE, "304 Not Modified\nETag: \"1\""]);
    let larder = Larder::before(&origin);
    let feed = "GET /\nA-IM: feed\nIf-None-Match: \"mine\"";
    for own in [None, Some("\"1\"")] {
        assert_eq!(larder.ask(feed).text(), "body");
        let asked = origin.last();
        assert_eq!([asked.field("if-none-match"), asked.field("a-im")], [own, None]);
    }
}

#[test]
fn section_4_3_4_a_304_freshens_what_is_stored() {
    let news = "304 Not Modified\nETag: \"1\"\nCache-Control: max-age=1000\nNew: n\nContent-Type: x/y\nContent-Encoding: x";
    let origin = Origin::in_order([STALE, news]);
    let larder = Larder::before(&origin);
    larder.get("/");
    for hit in [false, true] {
        let response = larder.get("/");
        assert_eq!((response.text(), response.is_hit()), ("body", hit));
        assert_eq!((response.field("new"), response.field("old")), (Some("n"), Some("o")));
        let of_content =
            ["content-length", "content-type", "content-encoding"].map(|name| response.field(name));
        assert_eq!(of_content, [Some("4"), None, None]);
        assert!(response.age() < Some(60));
    }
    assert_eq!(origin.count(), 2);
}

#[test]
fn section_4_3_3_a_full_validation_response_replaces_the_stored_one() {
    let origin = Origin::in_order([STALE, "200 OK\nCache-Control: max-age=100\nETag: \"2\"\n\nnew body"]);
    let larder = Larder::before(&origin);
    larder.get("/");
    assert_eq!(larder.get("/").cache(), "fwd=stale; fwd-status=200; stored; detail=expired");
    let third = larder.get("/");
    assert_eq!((third.text(), third.is_hit(), third.field("old")), ("new body", true, None));
}

#[test]
fn section_15_4_5_a_304_or_head_confirms_no_other_status() {
    for status in ["301 Moved Permanently", "404 Not Found", "410 Gone", "500 Internal Server Error"] {
        for method in ["GET", "HEAD"] {
            // The date of the error page is later than that of the page that now exists.
            let origin = Origin::by(move |seen| {
                let later =
                    "Last-Modified: Thu, 01 Jan 2015 00:00:00 GMT\nETag: \"1\"\nCache-Control: max-age=100";
                match (seen.method.as_str(), seen.number) {
                    (_, 0) => format!("{status}\nLocation: /b\nAge: 100\n{later}\n\nold"),
                    ("GET", _) if seen.field("if-none-match").is_some() => {
                        format!("304 Not Modified\n{later}")
                    }
                    _ => format!("200 OK\n{later}\n\nnew"),
                }
            });
            let larder = Larder::before(&origin);
            assert_eq!(larder.get("/").text(), "old");
            assert_eq!(larder.ask(&format!("{method} /")).status, 200, "{status}");
            assert_eq!(
                (larder.get("/").text(), larder.get("/").is_hit()),
                ("new", true),
                "{method} {status}"
            );
        }
    }
}

#[test]
fn section_4_3_4_a_304_with_another_tag_confirms_nothing() {
    let origin =
        Origin::in_order([STALE, "304 Not Modified\nETag: \"2\"", "200 OK\nETag: \"2\"\n\nnew body"]);
    let larder = Larder::before(&origin);
    larder.get("/");
    assert_eq!(larder.get("/").text(), "new body");
    assert_eq!((origin.count(), origin.last().field("if-none-match").map(str::to_owned)), (3, None));
}

#[test]
fn section_5_2_2_5_a_304_can_forbid_storing() {
    let news = "304 Not Modified\nETag: \"1\"\nCache-Control: no-store";
    let origin = Origin::in_order([STALE, news, "200 OK\n\nnew body"]);
    let larder = Larder::before(&origin);
    larder.get("/");
    assert_eq!(larder.get("/").text(), "body");
    assert_eq!(larder.get("/").text(), "new body");
    assert_eq!(origin.last().field("if-none-match"), None);
}

#[test]
fn section_4_3_2_clients_conditions_are_answered_from_the_cache() {
    let origin = Origin::always(
        "200 OK\nCache-Control: max-age=100\nETag: W/\"1\"\n\
         Last-Modified: Thu, 01 Jan 2015 00:00:00 GMT\nX: y\n\nbody",
    );
    let larder = Larder::before(&origin);
    larder.get("/");
    let table = [
        ("If-None-Match: \"1\"", 304),
        ("If-None-Match: \"0\", W/\"1\"", 304),
        ("If-None-Match: *", 304),
        ("If-None-Match: \"2\"", 200),
        ("If-None-Match: \"2\"\nIf-Modified-Since: Fri, 01 Jan 2016 00:00:00 GMT", 200),
        ("If-Modified-Since: Thu, 01 Jan 2015 00:00:00 GMT", 304),
        ("If-Modified-Since: Wed, 31 Dec 2014 23:59:59 GMT", 200),
        ("If-Modified-Since: yesterday", 200),
    ];
    for (fields, status) in table {
        for method in ["GET", "HEAD"] {
            let response = larder.ask(&format!("{method} /\n{fields}"));
            assert_eq!((response.status, response.is_hit()), (status, true), "{method} {fields}");
            assert_eq!(
                (response.field("etag"), response.field("x").is_some()),
                (Some("W/\"1\""), status == 200)
            );
        }
    }
    assert_eq!(origin.count(), 1);
}

#[test]
fn section_4_3_1_a_conditional_miss_fetches_unconditionally_and_answers_304() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\nETag: \"1\"\n\nbody");
    let larder = Larder::before(&origin);
    assert_eq!(larder.ask("GET /\nIf-None-Match: \"1\"").status, 304);
    assert_eq!(origin.last().field("if-none-match"), None);
    let second = larder.get("/");
    assert_eq!((second.text(), second.is_hit()), ("body", true));
}

#[test]
fn section_4_3_5_a_head_freshens_or_spoils_what_is_stored() {
    let table = [
        ("Cache-Control: max-age=100\nETag: \"1\"\nContent-Length: 4\nNew: n", true),
        ("Cache-Control: max-age=100\nContent-Length: 4\nNew: n", false),
        ("Cache-Control: max-age=100\nTransfer-Encoding: chunked\nNew: n", false),
        ("Cache-Control: max-age=100\nETag: \"2\"\nContent-Length: 4", false),
        ("Cache-Control: max-age=100\nETag: \"1\"\nContent-Length: 5", false),
    ];
    for (fields, good) in table {
        let origin = Origin::by(move |seen| match seen.method.as_str() {
            "HEAD" => format!("200 OK\n{fields}"),
            _ => STALE.to_owned(),
        });
        let larder = Larder::before(&origin);
        larder.get("/");
        larder.ask("HEAD /");
        let stored = larder.ask("GET /\nCache-Control: only-if-cached");
        assert_eq!((stored.is_hit(), stored.status == 200), (good, good), "{fields}");
        assert_eq!(stored.field("new"), good.then_some("n"));
    }
}

#[test]
fn section_4_3_a_validator_without_lifetime_is_validated_each_time() {
    let origin = Origin::by(|seen| match seen.field("if-none-match") {
        Some("\"1\"") => "304 Not Modified\nETag: \"1\"".to_owned(),
        _ => "200 OK\nETag: \"1\"\n\nbody".to_owned(),
    });
    let larder = Larder::before(&origin);
    larder.get("/");
    for _ in 0..2 {
        let response = larder.get("/");
        assert_eq!((response.text(), response.cache().contains("fwd-status=304")), ("body", true));
    }
    assert_eq!(origin.count(), 3);
}

#[test]
fn rfc_6265_a_cookie_in_a_304_reaches_only_its_client() {
    let news = "304 Not Modified\nETag: \"1\"\nCache-Control: max-age=1000\nSet-Cookie: user=1";
    let origin = Origin::in_order([STALE, news]);
    let larder = Larder::before(&origin);
    larder.get("/");
    let asked = larder.get("/");
    assert_eq!((asked.text(), asked.field("set-cookie")), ("body", Some("user=1")));
    let other = larder.get("/");
    assert_eq!((other.text(), other.field("set-cookie"), other.is_hit()), ("body", None, true));
}

#[test]
fn section_5_2_1_5_an_unstorable_reload_keeps_the_stored_response() {
    for fields in ["Cache-Control: no-cache, no-store", "Cache-Control: no-cache\nAuthorization: Basic eA=="]
    {
        let origin = Origin::in_order([
            "200 OK\nCache-Control: max-age=100\nETag: \"1\"\n\nbody",
            "304 Not Modified\nETag: \"1\"",
        ]);
        let larder = Larder::before(&origin);
        larder.get("/");
        assert_eq!(larder.ask(&format!("GET /\n{fields}")).text(), "body", "{fields}");
        assert_eq!(origin.last().field("if-none-match"), Some("\"1\""), "{fields}");
        let plain = larder.get("/");
        assert_eq!((plain.text(), plain.is_hit(), origin.count()), ("body", true, 2), "{fields}");
    }
}
