//! Rules apply to every request, regardless of the way in which it arrives.

use larder_testkit::http2::{self, END_HEADERS, HEADERS, section};
use larder_testkit::{Client, Larder, Origin, site};

/// Returns a proxy for a site of which a part is stored, and closed to all but one network.
fn closed(origin: &Origin) -> Larder {
    let rule =
        "purge_from = '127.0.0.0/8'\n[[site.rule]]\nmatch = { path = '/closed/*' }\nallow = ['10.0.0.0/8']\n";
    let larder = Larder::start(&format!("trust = '127.0.0.1'\n{}", site(&[origin], rule)));
    for is_hit in [false, true] {
        let answer = larder.ask("GET /closed/a\nX-Forwarded-For: 10.0.0.1");
        assert_eq!((answer.status, answer.is_hit()), (200, is_hit));
    }
    larder
}

#[test]
fn a_closed_path_refuses_every_kind_of_request() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\nETag: \"1\"\n\nx");
    let larder = closed(&origin);
    let authority = larder.address();
    for request in [
        "GET /closed/a",
        "HEAD /closed/a",
        "GET /closed/a HTTP/1.0\nHost: site.test",
        "GET http://site.test/closed/a\nHost: other.test",
        "GET /closed/a\nIf-None-Match: \"1\"",
        "GET /closed/a\nRange: bytes=0-0",
        "GET /closed/a\nCache-Control: only-if-cached",
        "GET /closed/a\nConnection: Upgrade\nUpgrade: websocket",
        "POST /closed/a\nContent-Length: 0",
        "PURGE /closed/a",
        "TRACE /closed/a",
    ] {
        let answer = larder.ask(request);
        assert_eq!(answer.status, 403, "{request}");
        assert_eq!(answer.field("cache-status"), Some("Larder; detail=access-denied"), "{request}");
    }
    let mut both = Client::to(authority);
    both.raw(b"GET /open HTTP/1.1\r\nHost: a\r\n\r\nGET /closed/a HTTP/1.1\r\nHost: site.test\r\n\r\n");
    assert_eq!([both.receive("GET").status, both.receive("GET").status], [200, 403], "on one connection");
    assert!(larder.ask("GET /closed/a\nX-Forwarded-For: 10.0.0.1").is_hit(), "it is still stored");
    assert_eq!(origin.count(), 2);
}

#[test]
fn a_closed_path_refuses_requests_over_http2() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    let larder = closed(&origin);
    let mut client = http2::Client::new(&larder);
    client.authority = "site.test".to_owned();
    for (stream, method, path) in [
        (1, "GET", "/closed/a"),
        (3, "HEAD", "/closed/a"),
        (5, "POST", "/closed/b"),
        (7, "GET", "//closed/a"),
    ] {
        client.ask(stream, method, path, &[]);
        assert_eq!(client.response(stream).status, 403, "{method} {path}");
    }
    let head = section(&[
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":authority", "site.test"),
        (":path", "/closed/a"),
        ("sec-websocket-version", "13"),
    ]);
    client.send(HEADERS, END_HEADERS, 9, &head);
    assert_eq!(client.response(9).status, 403);
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_rule_may_be_for_a_scheme() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=100\n\nx");
    let rule = "[[site.rule]]\nmatch = { scheme = 'http' }\nredirect = 'https://{host}{uri}'\n";
    let larder = Larder::start(&format!("trust = '127.0.0.1'\n{}", site(&[&origin], rule)));
    for (scheme, status) in [("http", 302), ("https", 200)] {
        assert_eq!(larder.ask(&format!("GET /\nX-Forwarded-Proto: {scheme}")).status, status, "{scheme}");
    }
}
