//! RFC 9211: `Cache-Status` reports the outcome of a request, and its reason.

use larder_testkit::{Client, Larder, Origin};

#[test]
fn rfc_9211_every_answer_says_how_it_came_about() {
    let origin = Origin::by(|seen| match seen.target.as_str() {
        "/fresh" => "200 OK\nCache-Control: max-age=100\nVary: V".to_owned(),
        "/stale" => "200 OK\nCache-Control: max-age=100\nAge: 150\nETag: \"1\"".to_owned(),
        "/private" => "200 OK\nCache-Control: private".to_owned(),
        "/no-store" => "200 OK\nCache-Control: no-store".to_owned(),
        "/any" => "200 OK\nCache-Control: max-age=100\nVary: *".to_owned(),
        _ => "200 OK".to_owned(),
    });
    let larder = Larder::before(&origin);
    for (request, expected) in [
        ("GET /fresh", "fwd=uri-miss; fwd-status=200; stored"),
        ("GET /fresh", "hit"),
        ("GET /fresh\nV: 1", "fwd=vary-miss; fwd-status=200; stored; detail=variant-absent"),
        (
            "GET /fresh\nCache-Control: no-cache",
            "fwd=request; fwd-status=200; stored; detail=request-no-cache",
        ),
        ("GET /stale", "fwd=uri-miss; fwd-status=200; stored"),
        ("GET /stale", "fwd=stale; fwd-status=200; stored; detail=expired"),
        ("GET /stale\nCache-Control: max-stale", "hit; detail=max-stale"),
        ("GET /private", "fwd=miss; fwd-status=200; detail=private"),
        ("GET /no-store", "fwd=miss; fwd-status=200; detail=response-no-store"),
        ("GET /any", "fwd=miss; fwd-status=200; detail=vary-any"),
        ("GET /nothing", "fwd=miss; fwd-status=200; detail=no-freshness"),
        ("GET /absent\nCache-Control: only-if-cached", "detail=only-if-cached"),
        ("GET /fresh\n\ncontent", "fwd=bypass; fwd-status=200; detail=bypass"),
        ("POST /fresh", "fwd=method; fwd-status=200; detail=method"),
        ("OPTIONS /fresh", "fwd=method; fwd-status=200; detail=method"),
    ] {
        assert_eq!(larder.ask(request).cache(), expected, "{request}");
    }
}

#[test]
fn rfc_9211_section_2_4_time_to_live_is_what_is_left() {
    let origin =
        Origin::by(|seen| format!("200 OK\nCache-Control: max-age=1000\nAge: {}", &seen.target[1..]));
    let larder = Larder::before(&origin);
    for (age, most) in [("400", 600), ("1400", -400)] {
        larder.get(&format!("/{age}"));
        let response = larder.ask(&format!("GET /{age}\nCache-Control: max-stale"));
        let status = response.field("cache-status").expect("a cache status");
        let left = status.split("; ").find_map(|member| member.strip_prefix("ttl=")).expect("a ttl");
        let left: i64 = left.parse().expect("seconds");
        assert!((most - 60..=most).contains(&left), "{left} of {most}");
    }
}

#[test]
fn rfc_9211_the_detail_tells_malformed_answers_from_unreachable_origins() {
    let origin = Origin::speaking(|peer| {
        peer.request();
        peer.send(b"nonsense\r\n\r\n");
    });
    let larder = Larder::before(&origin);
    let malformed = larder.get("/");
    assert_eq!((malformed.status, malformed.cache().as_str()), (502, "detail=origin-malformed"));
    origin.die();
    let gone = larder.get("/");
    assert_eq!((gone.status, gone.cache().as_str()), (502, "detail=origin-unreachable"));
}

#[test]
fn rfc_9110_section_9_2_2_a_malformed_answer_is_not_retried() {
    for request in ["GET /", "HEAD /", "PUT /\n\nx", "PUT /", "DELETE /"] {
        for answer in ["nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n"] {
            let origin = Origin::speaking(move |peer| {
                while peer.request().is_some() {
                    peer.send(answer.as_bytes());
                }
            });
            let response = Larder::with_site(&[&origin], "retries = 3").ask(request);
            assert_eq!((response.status, origin.count()), (502, 1), "{request}: {answer}");
        }
    }
    let silent = Origin::speaking(|peer| drop(peer.request()));
    assert_eq!(Larder::with_site(&[&silent], "retries = 3").get("/").status, 502);
    assert_eq!(silent.count(), 4);
}

#[test]
fn an_origin_that_takes_too_long_is_given_up() {
    let origin = Origin::speaking(|peer| while peer.request().is_some() {});
    let larder = Larder::with(&origin, "[timeouts]\nfirst_byte = '200ms'");
    let response = larder.get("/");
    assert_eq!((response.status, response.cache().as_str()), (504, "detail=origin-timeout"));
}

#[test]
fn a_site_without_cache_passes_everything() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nbody");
    let larder = Larder::with_site(&[&origin], "cache = false");
    for _ in 0..2 {
        assert_eq!(larder.get("/").cache(), "fwd=bypass; fwd-status=200; detail=bypass");
    }
    assert_eq!(origin.count(), 2);
}

#[test]
fn rfc_9110_section_8_6_an_uncached_head_keeps_its_content_length() {
    let origin = Origin::always("200 OK\n\nbody");
    let larder = Larder::with_site(&[&origin], "cache = false");
    let mut client = larder.client();
    assert_eq!(client.ask("HEAD /").field("content-length"), Some("4"));
    assert_eq!(client.ask("GET /").text(), "body");
}

#[test]
fn the_name_and_the_traditional_field_can_be_chosen() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nbody");
    let larder = Larder::with(&origin, "name = 'pantry'\nx_cache = true");
    for word in ["MISS", "HIT"] {
        let response = larder.get("/");
        assert_eq!((response.field("x-cache"), response.field("via")), (Some(word), Some("1.1 pantry")));
        assert!(response.field("cache-status").expect("a cache status").starts_with("pantry; "));
    }
}

#[test]
fn numbers_count_what_happened() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nbody");
    let larder = Larder::before(&origin);
    for _ in 0..3 {
        larder.get("/");
    }
    Client::to(larder.address()).ask("POST /other");
    let counted = ["requests", "hits", "misses", "objects"].map(|name| larder.stat(name));
    assert_eq!(counted, [4, 2, 1, 1]);
}
