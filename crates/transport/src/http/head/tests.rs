use http::{HeaderName, HeaderValue};
use proptest::prelude::*;

use super::*;

fn refused(head: &str) -> Refusal {
    let mut lines = room();
    match parse(head.as_bytes(), &mut lines, &Limits::default()) {
        Err(refusal) => refusal,
        Ok(parsed) => panic!("{head:?} was taken for {parsed:?}"),
    }
}

#[test]
fn a_head_is_read_into_its_parts() {
    let mut lines = room();
    let bytes = b"PUT /a?b HTTP/1.1\r\nHost: x:1\r\nContent-Length: 3\r\nConnection: close, te\r\n\r\nabc";
    let Ok(ParseResult::Whole(head, used)) = parse(bytes, &mut lines, &Limits::default()) else {
        panic!("refused")
    };
    assert_eq!((head.method, used), (Method::PUT, bytes.len() - 3));
    assert_eq!(head.target, Target::Origin { host: "x:1", path: "/a?b" });
    assert_eq!((head.framing, head.keep_alive), (Framing::Length(3), false));
}

#[test]
fn an_empty_port_is_no_port() {
    for (line, host, expected) in [
        ("GET /a", "x.example:", "x.example"),
        ("GET /a", "[::1]:", "[::1]"),
        ("GET http://x.example:/a", "y", "x.example"),
        ("GET http://x.example:?a", "y", "x.example"),
        ("OPTIONS *", "x.example:", "x.example"),
    ] {
        let (mut lines, head) = (room(), format!("{line} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let Ok(ParseResult::Whole(head, _)) = parse(head.as_bytes(), &mut lines, &Limits::default()) else {
            panic!("{line} is refused")
        };
        let (Target::Origin { host: found, .. }
        | Target::Absolute { authority: found, .. }
        | Target::Asterisk { host: found }
        | Target::Authority(found)) = head.target;
        assert_eq!(found, expected, "{line}");
    }
    for line in ["CONNECT a:", "GET http://a:8:/", "GET http://a::/", "GET http://[::1]:8:/"] {
        let refusal = refused(&format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(refusal.status, StatusCode::BAD_REQUEST, "{line}");
    }
}

#[test]
fn a_later_minor_version_is_lowered() {
    for (line, expected) in [
        ("GET / HTTP/1.2\r\nA: HTTP/1.3\r\n", "GET / HTTP/1.1\r\nA: HTTP/1.3\r\n"),
        ("GET / HTTP/1.9", "GET / HTTP/1.1"),
        ("GET / HTTP/1.1\r\n", ""),
        ("GET / HTTP/2.0\r\n", ""),
        ("GET / HTTP/1.22\r\n", ""),
        ("HTTP/1.", ""),
    ] {
        let mut head = line.as_bytes().to_vec();
        let found = lower_version(&mut head).then(|| String::from_utf8(head).unwrap());
        assert_eq!(found.unwrap_or_default(), expected, "{line}");
    }
}

#[test]
fn only_the_expectation_of_100_is_known() {
    for (value, expected) in [
        ("100-Continue", Ok(true)),
        ("100-continue, 100-continue", Ok(true)),
        ("", Ok(false)),
        ("200-ok", Err(417)),
        ("100-continue, x", Err(417)),
        ("100-continue;q=1", Err(417)),
    ] {
        let found = expects_continue(value.as_bytes()).map_err(|refusal| refusal.status.as_u16());
        assert_eq!(found, expected, "{value}");
    }
}

#[test]
fn doubtful_framing_is_refused() {
    let cases = [
        ("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "content-length beside transfer-encoding"),
        ("Content-Length: 3\r\nContent-Length: 4\r\n", "more than one content-length"),
        ("Content-Length: 3, 3\r\n", "malformed content-length"),
        ("Content-Length: +3\r\n", "malformed content-length"),
        ("Content-Length: 99999999999999999999\r\n", "malformed content-length"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "more than one transfer-encoding"),
        ("Content-Length : 3\r\n", "malformed header field name"),
        ("A: b\r\n c\r\n", "malformed header field name"),
        ("A: b\rc\r\n", "malformed header field value"),
        ("A: b\0c\r\n", "malformed header field value"),
        ("Host: y\r\n", "more than one host"),
        ("A: b\nC: d\r\n", "malformed line end"),
    ];
    for (fields, reason) in cases {
        let refusal = refused(&format!("POST / HTTP/1.1\r\nHost: x\r\n{fields}\r\n"));
        assert_eq!(refusal, Refusal::bad(reason), "{fields:?}");
    }
    for framing in ["Content-Length: 3", "Transfer-Encoding: chunked"] {
        let refusal = refused(&format!("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n{framing}\r\n\r\n"));
        assert_eq!(refusal, Refusal::bad("CONNECT with content"), "{framing}");
    }
    let gzip = refused("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n");
    assert_eq!(gzip.status, StatusCode::NOT_IMPLEMENTED);
}

#[test]
fn bad_targets_and_hosts_are_refused() {
    for target in ["a", "*", "http://", "ftp://a/", "http://u@h/", "/a#b", "/<", "/`", "/?\"", "/\u{e9}"] {
        refused(&format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n"));
    }
    for host in ["a b", "a,b", "u@h", "%68", "h:99999", "h:+80", ":", "h::", "[::1", "h/", "h..:80", ".."] {
        assert_eq!(
            refused(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")),
            Refusal::bad("malformed host"),
            "{host}"
        );
    }
    assert_eq!(refused("GET / HTTP/1.1\r\n\r\n"), Refusal::bad("no host"));
    assert_eq!(refused("CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n").status, StatusCode::BAD_REQUEST);
}

#[test]
fn limits_have_their_own_statuses() {
    let long = "a".repeat(9_000);
    assert_eq!(refused(&format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n")).status.as_u16(), 414);
    assert_eq!(refused(&format!("GET /{long}")).status.as_u16(), 414);
    let many = "A: b\r\n".repeat(101);
    assert_eq!(refused(&format!("GET / HTTP/1.1\r\nHost: x\r\n{many}\r\n")).status.as_u16(), 431);
    let large = format!("GET / HTTP/1.1\r\nHost: x\r\nA: {}\r\n", "a".repeat(40_000));
    assert_eq!(refused(&large).status.as_u16(), 431);
    assert_eq!(refused("GET / HTTP/2.0\r\nHost: x\r\n\r\n").status.as_u16(), 505);
}

const TARGETS: [&str; 8] = [
    "/",
    "/a?b",
    "*",
    "a.test:443",
    "http://a.test",
    "HTTPS://a.test:/b",
    "ftp://a/",
    "http://a.test/longer",
];
const FIELDS: [(&str, &str); 15] = [
    ("host", "a.test"),
    ("host", "a.test:"),
    ("host", "a b"),
    ("connection", "close, upgrade"),
    ("connection", "keep-alive"),
    ("upgrade", "websocket"),
    ("content-length", "3"),
    ("content-length", "+3"),
    ("transfer-encoding", "chunked"),
    ("transfer-encoding", "gzip"),
    ("expect", "100-continue"),
    ("expect", "x"),
    ("sec-purpose", "prefetch"),
    ("accept", ""),
    ("x-long", "0123456789012345678901234567890123456789"),
];

proptest! {
    #[test]
    fn a_composed_head_is_read_as_its_text(
        method in prop::sample::select(vec![Method::GET, Method::CONNECT, Method::OPTIONS, Method::POST]),
        target in prop::sample::select(TARGETS.to_vec()),
        fields in prop::sample::subsequence(FIELDS.to_vec(), 0..6),
    ) {
        let field = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let map: HeaderMap = fields.iter().map(field).collect();
        let mut text = format!("{method} {target} HTTP/1.1\r\n");
        map.iter().for_each(|(name, value)| text += &format!("{name}: {}\r\n", value.to_str().unwrap()));
        text += "\r\n";
        let limits = Limits { head_fields: 4, head_bytes: 120, target_bytes: 17, ..Limits::default() };
        let (mut room, lines) = (room(), lines(&map));
        let composed = RequestHead::compose(&method, target, &lines, &limits);
        let parsed = match parse(text.as_bytes(), &mut room, &limits) {
            Ok(ParseResult::Whole(head, _)) => Ok(head),
            Ok(ParseResult::Partial) => panic!("{text:?} is incomplete"),
            Err(refusal) => Err(refusal),
        };
        prop_assert_eq!(format!("{composed:?}"), format!("{parsed:?}"), "{}", text);
    }

    #[test]
    fn bare_line_feeds_and_folded_lines_are_found(usual in "(a{1,9}\r\n){0,9}", other in "[\r\n \ta]{0,60}") {
        for lines in [format!("{usual}{other}{usual}"), usual] {
            let feeds = LineFeeds::of(lines.as_bytes());
            let has_bare = lines.matches('\n').count() > lines.matches("\r\n").count();
            let has_fold = lines.contains("\n ") || lines.contains("\n\t");
            prop_assert_eq!((feeds.has_bare, feeds.has_fold), (has_bare, has_fold));
            prop_assert_eq!(has_bare_line_feed(lines.as_bytes()), has_bare);
        }
    }
}
