//! RFC 9112: ambiguous messages are refused; the proxy neither guesses their meaning nor forwards them.

use larder_testkit::{Larder, Origin};

/// Sends each message, and expects its status, a closed connection and no request at the origin.
fn refused(table: &[(&str, u16)]) {
    let origin = Origin::always("200 OK");
    let larder = Larder::before(&origin);
    for (message, status) in table {
        let mut client = larder.client();
        client.raw(message.as_bytes());
        let response = client.receive("GET");
        assert_eq!((response.status, response.field("connection")), (*status, Some("close")), "{message:?}");
        assert!(response.text().starts_with(&format!("{status}: ")), "{message:?}: {response:?}");
        assert!(client.is_closed(), "{message:?}");
    }
    assert_eq!((origin.connections(), origin.count()), (0, 0));
}

/// Returns a POST with these field lines and a content that matches either length.
fn post(lines: &str) -> String {
    format!(
        "POST / HTTP/1.1\r\nHost: site.test\r\n{lines}\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n"
    )
}

#[test]
fn rfc_9112_section_6_contents_of_doubtful_length() {
    for (lines, status) in [
        ("Content-Length: 3\r\nTransfer-Encoding: chunked", 400),
        ("Transfer-Encoding: chunked\r\nContent-Length: 3", 400),
        ("Content-Length: 3\r\nContent-Length: 4", 400),
        ("Content-Length: 3, 4", 400),
        ("Content-Length: +3", 400),
        ("Content-Length: -3", 400),
        ("Content-Length: 0x3", 400),
        ("Content-Length: 3 3", 400),
        ("Content-Length:", 400),
        ("Content-Length: 18446744073709551616", 400),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", 400),
        ("Transfer-Encoding: gzip, chunked", 501),
        ("Transfer-Encoding: chunked, gzip", 501),
        ("Transfer-Encoding: xchunked", 501),
        ("Transfer-Encoding: \"chunked\"", 501),
    ] {
        refused(&[(&post(lines), status)]);
    }
    refused(&[("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400)]);
}

#[test]
fn rfc_9112_section_5_malformed_field_lines() {
    for line in [
        "Content-Length : 3",
        "A : b",
        "A: b\r\n c",
        "A: b\r\n\tc",
        "A: b\rc",
        "A: b\0c",
        "A: b\x7fc",
        "A\tb: c",
        "no colon",
        ": no name",
        "\u{e9}: c",
        "A(b): c",
    ] {
        refused(&[(&format!("GET / HTTP/1.1\r\nHost: site.test\r\n{line}\r\n\r\n"), 400)]);
    }
    refused(&[("GET / HTTP/1.1\r\n Host: site.test\r\n\r\n", 400)]);
}

#[test]
fn rfc_9112_section_3_malformed_request_lines() {
    let host = "Host: site.test\r\n\r\n";
    for (line, status) in [
        ("GET  / HTTP/1.1", 400),
        ("GET / HTTP/1.1 x", 400),
        ("GET /a#b HTTP/1.1", 400),
        ("GET /\u{e9} HTTP/1.1", 400),
        ("GET /\x01 HTTP/1.1", 400),
        ("GET a HTTP/1.1", 400),
        ("GET * HTTP/1.1", 400),
        ("GET http:// HTTP/1.1", 400),
        ("GET http://me@site.test/ HTTP/1.1", 400),
        ("GET ftp://site.test/ HTTP/1.1", 400),
        ("G@T / HTTP/1.1", 400),
        (" GET / HTTP/1.1", 400),
        ("GET /", 400),
        ("GET /a b HTTP/1.1", 400),
        ("GET / http/1.1", 400),
        ("GET / HTTP/2.0", 505),
        ("GET / HTTP/1.22", 505),
    ] {
        refused(&[(&format!("{line}\r\n{host}"), status)]);
    }
}

#[test]
fn rfc_9112_section_3_2_a_request_has_one_host() {
    for lines in [
        "",
        "Host: a\r\nHost: a\r\n",
        "Host: a b\r\n",
        "Host: a/b\r\n",
        "Host: me@a\r\n",
        "Host: a:x\r\n",
        "Host: [::1\r\n",
    ] {
        refused(&[(&format!("GET / HTTP/1.1\r\n{lines}\r\n"), 400)]);
    }
}

#[test]
fn requests_that_mean_nothing_here() {
    refused(&[
        ("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n", 405),
        ("POST / HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\nContent-Length: 1\r\n\r\nx", 417),
    ]);
    let larder = Larder::start("[[site]]\nhosts = ['a.test']\norigin = 'http://127.0.0.1:1'");
    assert_eq!(larder.ask("GET /\nHost: b.test").status, 421);
}

#[test]
fn rfc_9112_section_7_1_malformed_chunks_never_make_a_whole_request() {
    let origin = Origin::always("200 OK");
    let larder = Larder::before(&origin);
    for chunks in [
        "g\r\n",
        "\r\n",
        "-1\r\n",
        "0x3\r\nabc\r\n0\r\n\r\n",
        "3 3\r\nabc\r\n0\r\n\r\n",
        "3\nabc\r\n0\r\n\r\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "3\r\nabc0\r\n\r\n",
        "3;\rx\r\nabc\r\n0\r\n\r\n",
        "fffffffffffffffff\r\n",
        "3\r\nabc\r\n0\r\nA : b\r\n\r\n",
        "3\r\nabc\r\n0\r\nA: b\r\n c\r\n\r\n",
    ] {
        let mut client = larder.client();
        client.raw(
            format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}").as_bytes(),
        );
        assert_eq!(client.receive("POST").status, 400, "{chunks:?}");
        assert!(client.is_closed(), "{chunks:?}");
    }
    assert_eq!(origin.count(), 0);
}

#[test]
fn rfc_9112_section_8_truncated_content_gets_400_and_is_not_forwarded() {
    let origin = Origin::always("200 OK");
    let larder = Larder::before(&origin);
    for sent in ["Content-Length: 9\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"] {
        let mut client = larder.client();
        client.raw(format!("POST / HTTP/1.1\r\nHost: a\r\n{sent}").as_bytes());
        client.finish();
        assert_eq!(client.receive("POST").status, 400, "{sent:?}");
        assert!(client.is_closed(), "{sent:?}");
    }
    assert_eq!(origin.count(), 0);
}

#[test]
fn rfc_9112_section_2_2_empty_lines_before_a_request_are_ignored() {
    let origin = Origin::always("200 OK\n\nbody");
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    client.raw(b"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.receive("GET").text(), "body");
}
