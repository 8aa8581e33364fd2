//! The same requests have the same responses over both versions.

use std::fs;

use larder_testkit::http2::{Client, END_HEADERS, HEADERS, section};
use larder_testkit::{Answer, Larder, Line, Origin, Seen, eventually};
use serde_json::json;

use crate::server::before;

/// Responses of many different kinds.
fn origin() -> Origin {
    Origin::answering(|seen: &Seen| {
        let date = "Date: Thu, 01 Jan 2026 00:00:00 GMT";
        let sent = |answer: Vec<u8>| {
            let head = answer.windows(4).position(|end| end == b"\r\n\r\n").map_or(answer.len(), |at| at + 4);
            Answer::raw(&answer[..if seen.method == "HEAD" { head } else { answer.len() }])
        };
        let plain = |text: String| sent(text.replace('\n', "\r\n").into_bytes());
        let kept = format!(
            "{date}\nCache-Control: max-age=999999999\nETag: \"1\"\nContent-Type: text/plain\nX-Own: v"
        );
        let length = seen.body.len();
        match seen.target.as_str() {
            "/long" => {
                let head =
                    format!("HTTP/1.1 200 OK\n{kept}\nContent-Length: 300000\n\n").replace('\n', "\r\n");
                sent([head.into_bytes(), vec![b'x'; 300_000]].concat())
            }
            "/chunked" => plain(format!(
                "HTTP/1.1 200 OK\n{date}\nCache-Control: no-store\nTransfer-Encoding: chunked\n\n3\nabc\n2\nde\n0\nRepr-Digest: x\n\n"
            )),
            "/gone" => plain(format!("HTTP/1.1 404 Not Found\n{date}\nContent-Length: 4\n\ngone")),
            "/empty" => plain(format!("HTTP/1.1 204 No Content\n{date}\n\n")),
            "/vary" => {
                let language = seen.field("accept-language").unwrap_or("none").to_owned();
                plain(format!(
                    "HTTP/1.1 200 OK\n{kept}\nVary: Accept-Language\nContent-Length: {}\n\n{language}",
                    language.len()
                ))
            }
            "/echo" => plain(format!("HTTP/1.1 200 OK\n{date}\nX-Length: {length}\nContent-Length: 2\n\nok")),
            "/cookies" => {
                let cookie = seen.field("cookie").unwrap_or("none").to_owned();
                plain(format!(
                    "HTTP/1.1 200 OK\n{date}\nSet-Cookie: a=1\nSet-Cookie: b=2\nContent-Length: {}\n\n{cookie}",
                    cookie.len()
                ))
            }
            _ => plain(format!("HTTP/1.1 200 OK\n{kept}\nContent-Length: 5\n\nhello")),
        }
    })
}

/// Returns the fields that are equal in both versions, in lower case, without parts that depend on time or chance.
fn comparable(fields: &[Line]) -> Vec<Line> {
    let of_version = ["connection", "transfer-encoding", "keep-alive", "age"];
    let fields = fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
    let kept = fields.filter(|(name, _)| !of_version.contains(&name.as_str()));
    let mut kept: Vec<_> = kept
        .map(|(name, value)| {
            let parts =
                value.split("; ").filter(|part| !part.starts_with("ttl=") && !part.starts_with("boundary="));
            let mut value = parts.collect::<Vec<_>>().join("; ");
            if name == "via" {
                // The number behind the URL differs between processes, and the version is that of the client's request.
                value.truncate(value.find(" (").unwrap_or(value.len()));
                value = value.replace("2.0 Larder", "1.1 Larder");
            }
            if name == "date" {
                value.clear();
            }
            (name, value)
        })
        .collect();
    kept.sort();
    kept
}

/// The method, path, fields and content of a request.
type Case = (&'static str, &'static str, &'static [(&'static str, &'static str)], &'static str);

const CASES: &[Case] = &[
    ("GET", "/", &[], ""),
    ("GET", "/?a=b&c", &[], ""),
    ("HEAD", "/", &[], ""),
    ("GET", "/", &[("if-none-match", "\"1\"")], ""),
    ("GET", "/", &[("range", "bytes=1-3")], ""),
    ("GET", "/", &[("range", "bytes=0-0,2-2")], ""),
    ("GET", "/", &[("range", "bytes=9-")], ""),
    ("GET", "/long", &[], ""),
    ("HEAD", "/long", &[], ""),
    ("GET", "/long", &[("range", "bytes=100000-250000")], ""),
    ("GET", "/chunked", &[], ""),
    ("GET", "/gone", &[], ""),
    ("GET", "/empty", &[], ""),
    ("GET", "/vary", &[("accept-language", "de")], ""),
    ("GET", "/vary", &[("accept-language", "fr")], ""),
    ("GET", "/", &[("cache-control", "no-cache")], ""),
    ("GET", "/missing", &[("cache-control", "only-if-cached")], ""),
    ("GET", "/cookies", &[("cookie", "x=1")], ""),
    ("POST", "/echo", &[("content-length", "5")], "hello"),
    ("PUT", "/echo", &[("content-length", "0")], ""),
    ("OPTIONS", "/echo", &[("max-forwards", "0")], ""),
    ("TRACE", "/echo", &[("max-forwards", "0")], ""),
    ("BREW", "/echo", &[], ""),
    ("GET", "/", &[("expect", "nonsense")], ""),
    ("GET", "/", &[("if-none-match", "\"2\"")], ""),
    ("GET", "/", &[("if-match", "\"2\"")], ""),
    ("GET", "/", &[("if-modified-since", "Thu, 01 Jan 2026 00:00:00 GMT")], ""),
    ("GET", "/", &[("range", "bytes=1-3"), ("if-range", "\"2\"")], ""),
    ("GET", "/", &[("cache-control", "no-store")], ""),
    ("GET", "/", &[("cache-control", "max-age=0")], ""),
    ("GET", "/", &[("pragma", "no-cache")], ""),
    ("GET", "/private", &[("authorization", "Basic eDp5")], ""),
    ("GET", "/private", &[("cookie", "a=1"), ("accept-encoding", "gzip, br")], ""),
    ("HEAD", "/chunked", &[], ""),
    ("HEAD", "/missing", &[], ""),
    ("DELETE", "/vary", &[], ""),
    ("GET", "/vary", &[("accept-language", "de")], ""),
    ("PATCH", "/echo", &[("content-length", "3"), ("content-type", "text/plain")], "abc"),
    ("GET", "/%7Ea/../b?x=%41", &[], ""),
    ("GET", "//double//slash", &[], ""),
    ("OPTIONS", "/echo", &[("origin", "http://b.example")], ""),
    ("GET", "/x", &[("x-empty", ""), ("x-twice", "1"), ("x-twice", "2"), ("via", "1.0 before")], ""),
    ("GET", "/x", &[("max-forwards", "x"), ("te", "trailers")], ""),
];

/// Returns the parts of a request at the origin that are equal in both versions.
fn comparable_request(seen: &Seen) -> (String, String, Vec<Line>, Vec<u8>) {
    (seen.method.clone(), seen.target.clone(), comparable(&seen.fields), seen.body.clone())
}

#[test]
fn both_versions_have_the_same_decisions_fields_and_content() {
    let origins = [origin(), origin()];
    let larders = origins.each_ref().map(Larder::before);
    // The first round stores the responses.
    for round in 0..2 {
        for (method, path, fields, content) in CASES {
            let lines: String = fields.iter().map(|(name, value)| format!("\r\n{name}: {value}")).collect();
            let mut first = larders[0].client();
            first.raw(
                format!("{method} {path} HTTP/1.1\r\nHost: a.example{lines}\r\n\r\n{content}").as_bytes(),
            );
            let expected = first.receive(method);
            let mut client = Client::new(&larders[1]);
            let head = client.head(method, path, fields);
            client.send(1, 4 | u8::from(content.is_empty()), 1, &head);
            if !content.is_empty() {
                client.send(0, 1, 1, content.as_bytes());
            }
            let response = client.response(1);
            larders.iter().for_each(Larder::settle);
            let what = format!("{method} {path} {fields:?}, round {round}");
            assert!(response.whole, "{what}");
            assert_eq!(response.status, expected.status, "{what}");
            assert_eq!(comparable(&response.fields), comparable(&expected.fields), "{what}");
            assert_eq!(comparable(&response.trailers), comparable(&expected.trailers), "{what}");
            match fields.contains(&("range", "bytes=0-0,2-2")) {
                // The boundary between the parts is random.
                true => assert_eq!(response.body.len(), expected.body.len(), "{what}"),
                false => assert!(response.body == expected.body, "{what}"),
            }
            let [asked, expected] = [1, 0].map(|at| origins[at].count());
            assert_eq!(asked, expected, "{what}");
            if asked > 0 {
                let [asked, expected] = [1, 0].map(|at| comparable_request(&origins[at].last()));
                assert_eq!(asked, expected, "{what}");
            }
        }
    }
    let [reasons, expected] = [1, 0].map(|at| larders[at].stats()["reasons"].clone());
    assert_eq!(reasons, expected);
}

#[test]
fn http1_and_http2_requests_share_stored_responses() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=60\n\nhello");
    let larder = Larder::before(&origin);
    let mut client = Client::new(&larder);
    client.authority = larder.address().to_string();
    assert_eq!(client.get(1, "/a").body, b"hello");
    larder.settle();
    let hit = larder.client().ask(&format!("GET /a\nHost: {}", larder.address()));
    assert!(hit.field("cache-status").is_some_and(|status| status.contains("hit")), "{hit:?}");
    larder.client().ask(&format!("GET /b\nHost: {}", larder.address()));
    larder.settle();
    assert!(client.get(3, "/b").field("cache-status").is_some_and(|status| status.contains("hit")));
    assert_eq!(origin.count(), 2);
}

#[test]
fn cookies_in_pieces_reach_the_origin_as_one_line() {
    let larder_origin = origin();
    let larder = Larder::before(&larder_origin);
    let mut client = Client::new(&larder);
    client.ask(1, "GET", "/cookies", &[("cookie", "a=1"), ("cookie", "b=2")]);
    assert_eq!(client.response(1).body, b"a=1; b=2");
}

#[test]
fn via_names_the_version_of_the_request() {
    let origin = Origin::always("200 OK\n\nhello");
    let larder = Larder::before(&origin);
    Client::new(&larder).get(1, "/");
    let seen = origin.last();
    assert!(seen.field("via").is_some_and(|via| via.starts_with("2.0 Larder (")), "{seen:?}");
}

#[test]
fn logs_and_figures_tell_the_versions_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("access.log");
    let origin = Origin::always("200 OK\nCache-Control: max-age=60\n\nhello");
    for (form, expected) in [
        ("json", ["\"http_version\":\"1.0\"", "\"http_version\":\"1.1\"", "\"http_version\":\"2\""]),
        ("combined", [" HTTP/1.0\"", " HTTP/1.1\"", " HTTP/2.0\""]),
    ] {
        let larder =
            Larder::with(&origin, &format!("access_log = '{form}'\naccess_log_file = '{}'\n", log.display()));
        let lines = || fs::read_to_string(&log).unwrap_or_default();
        // The first round has misses, the second has hits.
        for round in 0..2 {
            let wait = |count| eventually("a line", || (lines().lines().count() >= count).then_some(()));
            let mut old = larder.client();
            old.raw(b"GET /0 HTTP/1.0\r\nHost: a.example\r\n\r\n");
            assert_eq!(old.receive("GET").status, 200);
            wait(3 * round + 1);
            larder.client().ask("GET /1\nHost: a.example");
            wait(3 * round + 2);
            Client::new(&larder).get(1, "/2");
            wait(3 * round + 3);
        }
        for (line, expected) in lines().lines().zip(expected.iter().cycle()) {
            assert!(line.contains(expected), "{form}: {line}");
        }
        assert_eq!(larder.stats()["http_versions"], json!({"1.0": 2, "1.1": 2, "2": 2}));
        fs::remove_file(&log).expect("removed");
    }
}

#[test]
fn a_forward_proxy_speaks_it_too() {
    let origin = Origin::always("200 OK\nCache-Control: max-age=60\n\nhello");
    let larder = Larder::start("[forward]\nallow_private = true\n");
    let mut client = Client::with(larder.forward, &[]);
    client.authority = origin.address.to_string();
    assert_eq!(client.get(1, "/").body, b"hello");
    larder.settle();
    assert!(client.get(3, "/").field("cache-status").is_some_and(|status| status.contains("hit")));
}

/// RFC 9113 section 8.2.1: clients refuse fields with white space around their values.
#[test]
fn white_space_around_values_of_an_http2_origin_ends_here() {
    let (larder, _origin) = before(|server| {
        while let Some((stream, _)) = server.request() {
            let hints = section(&[(":status", "103"), ("link", " </a>; rel=preload\t")]);
            server.send(HEADERS, END_HEADERS, stream, &hints);
            server.answer(stream, &[(":status", "200"), ("x-a", "\ta ")], b"body", &[("x-sum", " 4 ")]);
        }
    });
    let mut client = Client::new(&larder);
    let response = client.get(1, "/");
    assert_eq!((response.field("x-a"), response.interim.as_slice()), (Some("a"), &[103][..]));
    assert_eq!(response.trailers, [("x-sum".to_owned(), "4".to_owned())]);
}
