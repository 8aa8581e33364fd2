//! Origins that speak HTTP/2: one connection for many requests, content and trailers in both directions, and origins
//! that violate the protocol.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use larder_testkit::http2::*;
use larder_testkit::{Gate, Larder, Origin, eventually};

use super::server::{self, Heard, before};

const OK: (&str, &str) = (":status", "200");
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;
/// `SETTINGS_MAX_CONCURRENT_STREAMS`.
const MOST_STREAMS: u16 = 3;

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

/// Answers each request with the request's content and trailers, and a POST with an interim response first.
fn echo(server: &mut server::Server<'_>) {
    while let Some((stream, seen)) = server.request() {
        if seen.method == "POST" {
            server.send(HEADERS, END_HEADERS, stream, &section(&[(":status", "103"), ("link", "</a>")]));
        }
        let trailers: Vec<_> =
            seen.trailers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        server.answer(stream, &[OK, ("x-a", "1"), ("x-a", "2")], &seen.body, &trailers);
    }
}

#[test]
fn content_trailers_and_interim_responses_pass_both_ways() {
    let (larder, origin) = before(echo);
    let mut client = Client::new(&larder);
    let content = pattern(100_000);
    for (stream, fields) in [(1, &[("content-length", "50000")][..]), (3, &[])] {
        let head = client.head("POST", "/a?b", fields);
        client.send(HEADERS, END_HEADERS, stream, &head);
        for piece in content[..50_000].chunks(16_384) {
            client.send(DATA, 0, stream, piece);
        }
        client.send(HEADERS, END_HEADERS | END_STREAM, stream, &section(&[("x-sum", "7")]));
        let response = client.response(stream);
        assert_eq!((response.status, response.interim.as_slice()), (200, &[103][..]));
        assert!(response.body == content[..50_000], "{} bytes", response.body.len());
        let fields: Vec<_> = response.fields.iter().filter(|(name, _)| name == "x-a").collect();
        assert_eq!(fields.len(), 2);
        let seen = origin.last();
        assert_eq!((seen.method.as_str(), seen.target.as_str()), ("POST", "/a?b"));
        assert_eq!(seen.field(":authority"), Some("a.example"));
        assert_eq!(seen.field("te"), Some("trailers"));
        if stream == 3 {
            // With a Content-Length, the content is complete before the trailers arrive.
            assert_eq!(response.trailers, [("x-sum".to_owned(), "7".to_owned())]);
        }
    }
    let response = larder.ask("PUT /b\nTransfer-Encoding: chunked\n\n2\r\nhi\r\n0\r\nX-Sum: 8\r\n\r\n");
    assert_eq!((response.status, response.text()), (200, "hi"));
    assert!(origin.last().trailers.contains(&("x-sum".to_owned(), "8".to_owned())));
    let whole: Vec<_> = content.chunks(30_000).collect();
    let mut client = Client::new(&larder);
    client.upload(1, &whole.concat());
    assert!(client.response(1).body == content);
    assert!(origin.connections() <= 2, "one for each worker");
}

#[test]
fn responses_of_http2_origins_are_stored_and_validated() {
    let (larder, origin) = before(|server| {
        while let Some((stream, seen)) = server.request() {
            let known = [("etag", "\"1\""), ("cache-control", "max-age=60")];
            match seen.target.as_str() {
                "/stale" if seen.field("if-none-match").is_some() => {
                    server.answer(stream, &[&[(":status", "304")], &known[..1]].concat(), b"", &[]);
                }
                "/stale" => {
                    let fields = [OK, known[0], ("cache-control", "max-age=60"), ("age", "60")];
                    server.answer(stream, &fields, b"stale", &[]);
                }
                _ => server.answer(stream, &[&[OK], &known[..]].concat(), &pattern(200_000), &[]),
            }
        }
    });
    for hit in [false, true] {
        let response = larder.get("/large");
        assert!(response.body == pattern(200_000));
        assert_eq!(response.is_hit(), hit);
    }
    assert_eq!(larder.get("/stale").text(), "stale");
    assert_eq!(larder.get("/stale").text(), "stale");
    assert_eq!((origin.count_of("/large"), origin.count_of("/stale")), (1, 2));
}

#[test]
fn a_response_without_content_ends_with_its_head() {
    let (larder, _origin) = before(|server| {
        while let Some((stream, _)) = server.request() {
            server.answer(
                stream,
                &[OK, ("grpc-status", "5"), ("content-type", "application/grpc")],
                b"",
                &[],
            );
        }
    });
    let mut client = Client::new(&larder);
    client.post(1, "/a.B/C", &[("te", "trailers"), ("content-type", "application/grpc")], &[b"\0\0\0\0\0"]);
    assert!(client.until(|client| client.responses.contains_key(&1)));
    let response = &client.responses[&1];
    assert!(response.whole, "clients of gRPC take the head for trailers only if nothing follows it");
    assert_eq!(
        (response.field("grpc-status"), response.field("content-type")),
        (Some("5"), Some("application/grpc"))
    );
    assert_eq!(larder.ask("POST /\n\nabc").status, 200);
}

#[test]
fn both_directions_continue_until_each_ends() {
    let gate = Gate::default();
    let waits = gate.clone();
    // The origin sends first, then repeats the received content.
    let (larder, _origin) = before(move |server| {
        let Some(Heard::Head { stream, end: false, .. }) = server.hear() else { panic!("no request") };
        server.send(HEADERS, END_HEADERS, stream, &section(&[OK]));
        server.send(DATA, 0, stream, b"hello");
        while let Some(heard) = server.hear() {
            match heard {
                Heard::Data { data, end, .. } => {
                    server.send(DATA, 0, stream, &data);
                    if end {
                        break;
                    }
                }
                heard => panic!("{heard:?}"),
            }
        }
        waits.pass();
        server.send(HEADERS, END_HEADERS | END_STREAM, stream, &section(&[("grpc-status", "0")]));
        server.hear();
    });
    let mut client = Client::new(&larder);
    let head = client.head("POST", "/", &[]);
    client.send(HEADERS, END_HEADERS, 1, &head);
    let body = |client: &Client| client.responses.get(&1).map_or(0, |response| response.body.len());
    assert!(client.until(|client| body(client) == 5), "the origin speaks first");
    for said in 1..=20 {
        client.send(DATA, 0, 1, b"again");
        assert!(client.until(|client| body(client) == 5 + 5 * said));
    }
    client.send(DATA, END_STREAM, 1, b"end");
    assert!(client.until(|client| body(client) == 108));
    gate.open();
    assert_eq!(client.response(1).trailers, [("grpc-status".to_owned(), "0".to_owned())]);
}

#[test]
fn requests_share_connections_as_far_as_the_origin_allows() {
    let all = Arc::new(AtomicUsize::new(0));
    let origin = server::origin_with(&[(MOST_STREAMS, 2)], move |server| {
        let mut held = Vec::new();
        while let Some((stream, seen)) = server.request() {
            held.push(stream);
            if held.len() < 2 {
                continue;
            }
            // A connection that had already answered would accept a third request.
            all.fetch_add(2, Ordering::SeqCst);
            eventually("four requests", || (all.load(Ordering::SeqCst) == 4).then_some(()));
            held.drain(..).for_each(|stream| server.answer(stream, &[OK], seen.target.as_bytes(), &[]));
        }
    });
    let larder = Larder::start(&server::site(&[&origin], "cache = false"));
    let mut client = Client::new(&larder);
    // They come before the origin has told that it allows two on a connection.
    let streams = [1, 3, 5, 7];
    streams.iter().for_each(|stream| client.ask(*stream, "GET", "/held", &[]));
    streams.iter().for_each(|stream| assert_eq!(client.response(*stream).body, b"/held"));
    assert_eq!(origin.connections(), 2);
}

#[test]
fn a_request_an_http2_origin_has_not_processed_is_sent_again() {
    let known = Mutex::new(HashSet::new());
    let (larder, origin) = before(move |server| {
        while let Some((stream, seen)) = server.request() {
            let is_first = known.lock().unwrap().insert(format!("{} {}", seen.method, seen.target));
            match seen.target.as_str() {
                "/refused" if is_first => server.send(RST_STREAM, 0, stream, &REFUSED_STREAM.to_be_bytes()),
                // The origin closes the connection, with an earlier stream as the last one in GOAWAY.
                "/left" | "/failed" if is_first => {
                    let last = stream.saturating_sub(2).to_be_bytes();
                    let code = if seen.target == "/failed" { INTERNAL_ERROR } else { 0 };
                    return server.send(GOAWAY, 0, 0, &[last, code.to_be_bytes()].concat());
                }
                _ => server.answer(stream, &[OK, ("cache-control", "no-store")], &seen.body, &[]),
            }
        }
    });
    let mut client = Client::new(&larder);
    for (number, path) in [(0, "/refused"), (1, "/left"), (2, "/failed")] {
        assert_eq!(larder.get(path).status, 200);
        client.post(2 * number + 1, path, &[], &[b"some ", b"content"]);
        let response = client.response(2 * number + 1);
        assert_eq!((response.status, &response.body[..]), (200, &b"some content"[..]), "{path}");
    }
    assert_eq!(origin.count(), 12);
}

/// Appends a field that is encoded without an index.
fn literal(mut head: Vec<u8>, name: &str, value: &str) -> Vec<u8> {
    head.push(0);
    for text in [name, value] {
        head.push(text.len() as u8);
        head.extend_from_slice(text.as_bytes());
    }
    head
}

#[test]
fn an_invalid_http2_response_is_not_delivered_and_harms_no_other_request() {
    let (larder, _origin) = before(|server| {
        while let Some((stream, seen)) = server.request() {
            // These fields are encoded by hand, because an encoder could change them.
            let head = |fields: &[(&str, &str)]| {
                fields.iter().fold(section(&[OK]), |head, (name, value)| literal(head, name, value))
            };
            let head = match seen.target.as_str() {
                "/connection" => head(&[("connection", "close")]),
                "/upper" => head(&[("X-A", "1")]),
                "/lengths" => head(&[("content-length", "5"), ("content-length", "6")]),
                "/number" => head(&[("content-length", "+5")]),
                "/none" => section(&[("x-a", "1")]),
                "/less" => {
                    server.answer(stream, &[OK, ("content-length", "5")], b"abc", &[]);
                    continue;
                }
                "/more" => {
                    server.answer(stream, &[OK, ("content-length", "2")], b"abc", &[]);
                    continue;
                }
                "/interim" => {
                    let interim = section(&[(":status", "103")]);
                    (0..33).for_each(|_| server.send(HEADERS, END_HEADERS, stream, &interim));
                    head(&[])
                }
                "/switch" => {
                    server.send(HEADERS, END_HEADERS, stream, &section(&[(":status", "101")]));
                    head(&[])
                }
                "/reset" => {
                    server.send(RST_STREAM, 0, stream, &CANCEL.to_be_bytes());
                    continue;
                }
                _ => {
                    server.answer(stream, &[OK, ("cache-control", "no-store")], b"fine", &[]);
                    continue;
                }
            };
            server.send(HEADERS, END_HEADERS | END_STREAM, stream, &head);
        }
    });
    let mut client = Client::new(&larder);
    let paths = [
        "/connection",
        "/upper",
        "/lengths",
        "/number",
        "/none",
        "/less",
        "/more",
        "/interim",
        "/switch",
        "/reset",
    ];
    for (number, path) in paths.iter().enumerate() {
        client.ask(2 * number as u32 + 1, "GET", path, &[]);
        let response = client.response(2 * number as u32 + 1);
        let is_cut = response.status == 200 && response.reset.is_some();
        assert!(response.status == 502 || is_cut, "{path}: {response:?}");
        assert_eq!(larder.get("/").text(), "fine", "after {path}");
    }
}

#[test]
fn content_that_ends_early_is_not_taken_for_whole() {
    let (larder, origin) = before(|server| {
        while let Some((stream, seen)) = server.request() {
            let fields: &[_] = match seen.target.as_str() {
                "/counted" => &[OK, ("content-length", "10"), ("cache-control", "max-age=60")],
                _ => &[OK, ("cache-control", "max-age=60")],
            };
            server.send(HEADERS, END_HEADERS, stream, &section(fields));
            server.send(DATA, 0, stream, b"abc");
            match seen.target.as_str() {
                "/counted" | "/reset" => server.send(RST_STREAM, 0, stream, &2_u32.to_be_bytes()),
                // The return closes the connection.
                _ => return,
            }
        }
    });
    for path in ["/counted", "/reset", "/closed"] {
        for _ in 0..2 {
            let response = Client::new(&larder).get(1, path);
            assert!(
                !response.whole && response.reset.is_some() || response.status == 502,
                "{path}: {response:?}"
            );
            larder.settle();
        }
        assert_eq!(origin.count_of(path), 2, "{path} is not stored");
    }
}

#[test]
fn an_http_1_1_answer_from_an_http2_origin_gives_502() {
    let origin = Origin::always("200 OK\n\nhello");
    let larder = Larder::start(&server::site(&[&origin], "retries = 0"));
    assert_eq!(larder.get("/").status, 502);
    larder.wait_for_log("the answer is not HTTP/2");
}

#[test]
fn unread_http2_origin_streams_leave_room_for_others_on_the_connection() {
    let sent = Arc::new(Mutex::new(0));
    let count = Arc::clone(&sent);
    let (larder, origin) = before(move |server| {
        while let Some((stream, seen)) = server.request() {
            match seen.target.as_str() {
                "/" => server.answer(stream, &[OK], b"fine", &[]),
                _ => {
                    // The origin sends as much as the window allows: 256 KiB.
                    server.send(HEADERS, END_HEADERS, stream, &section(&[OK, ("cache-control", "no-store")]));
                    for _ in 0..16 {
                        server.send(DATA, 0, stream, &[7; 16_384]);
                        *count.lock().unwrap() += 16_384;
                    }
                }
            }
        }
    });
    // The client opens only a small window for each stream.
    let mut slow = Client::with(larder.address(), &[(4, 1_000)]);
    slow.reads = false;
    for number in 0..50 {
        slow.ask(2 * number + 1, "GET", &format!("/{number}"), &[]);
    }
    eventually("all that fits", || (*sent.lock().unwrap() == 50 * 16 * 16_384).then_some(()));
    for _ in 0..4 {
        assert_eq!(larder.get("/").text(), "fine", "others have room on the same connections");
    }
    assert!(origin.connections() <= 2);
}

#[test]
fn a_client_that_leaves_ends_the_stream_of_its_request() {
    let codes = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&codes);
    let (larder, origin) = before(move |server| {
        while let Some(what) = server.hear() {
            match what {
                Heard::Head { stream, .. } => {
                    server.peer.remember(Default::default());
                    server.send(HEADERS, END_HEADERS, stream, &section(&[OK, ("cache-control", "no-store")]));
                    server.send(DATA, 0, stream, b"begin");
                }
                Heard::Reset { code, .. } => heard.lock().unwrap().push(code),
                _ => {}
            }
        }
    });
    let mut client = Client::new(&larder);
    client.ask(1, "GET", "/", &[]);
    let head = client.head("POST", "/", &[]);
    client.send(HEADERS, END_HEADERS, 3, &head);
    origin.wait_for(2);
    for stream in [1, 3] {
        client.send(RST_STREAM, 0, stream, &CANCEL.to_be_bytes());
    }
    eventually("two resets", || (*codes.lock().unwrap() == [CANCEL; 2]).then_some(()));
}

#[test]
fn another_origin_answers_for_one_that_is_gone() {
    let dead = server::origin(|_| ());
    dead.die();
    let well = server::origin(|server| {
        while let Some((stream, seen)) = server.request() {
            server.answer(stream, &[OK, ("cache-control", "no-store")], &seen.body, &[]);
        }
    });
    let larder = Larder::start(&server::site(&[&dead, &well], "max_fails = 1000"));
    for _ in 0..4 {
        assert_eq!(larder.ask("POST /\n\ncontent").text(), "content");
        assert_eq!(larder.get("/").status, 200);
    }
    // A site with origins of both versions behaves in the same way.
    let old = Origin::always("200 OK\nCache-Control: no-store\n\nold");
    let mixed = format!("[[site]]\norigin = ['http://{}', 'h2c://{}']", old.address, well.address);
    let larder = Larder::start(&mixed);
    let lengths: Vec<_> = (0..4).map(|_| larder.get("/").body.len()).collect();
    assert_eq!(lengths.iter().filter(|length| **length == 3).count(), 2, "{lengths:?}");
}

#[test]
fn rfc_9110_section_10_1_1_the_origin_answers_an_expectation() {
    let (larder, origin) = before(|server| {
        while let Some(server::Heard::Head { stream, .. }) = server.hear() {
            server.send(HEADERS, END_HEADERS, stream, &section(&[(":status", "100"), ("x-of", "origin")]));
            let Some((stream, seen)) = server.request() else { return };
            server.answer(stream, &[OK], &seen.body, &[]);
        }
    });
    let mut client = larder.client();
    client.send("POST /\nExpect: 100-continue\nContent-Length: 3");
    let interim = client.head();
    assert_eq!((interim.status, interim.field("x-of")), (100, Some("origin")));
    client.raw(b"abc");
    assert_eq!(client.receive("POST").text(), "abc");
    assert_eq!(origin.count(), 1);
}

#[test]
fn fields_of_responses_are_limited_by_their_bytes_only() {
    let (larder, _origin) = before(|server| {
        while let Some((stream, _)) = server.request() {
            let fields = [&[OK][..], &[("a", "b"); 3000]].concat();
            server.answer(stream, &fields, b"ok", &[]);
        }
    });
    assert_eq!(larder.get("/").fields.iter().filter(|(name, _)| name == "a").count(), 3000);
}

#[test]
fn health_checks_are_made_in_http_2() {
    let is_well = Gate::default();
    let well = is_well.clone();
    let origin = server::origin(move |server| {
        while let Some((stream, _)) = server.request() {
            let status = if well.is_open() { "204" } else { "503" };
            server.answer(stream, &[(":status", status)], b"", &[]);
        }
    });
    let keys = "health = '/ready'\nhealth_interval = '100ms'";
    let larder = Larder::start(&server::site(&[&origin], keys));
    larder.wait_for_log("status 503 for its health check /ready");
    is_well.open();
    larder.wait_for_log("is healthy again");
    assert_eq!(origin.last().target, "/ready");
}

/// The origin may take all requests on the connection for those of one client.
#[test]
fn no_request_follows_credentials_that_authorise_a_connection() {
    let (larder, origin) = before(echo);
    for connections in 1..=4 {
        assert_eq!(larder.ask("GET /\nAuthorization: NTLM a").status, 200);
        assert_eq!(origin.connections(), connections);
    }
}

#[test]
fn an_idle_connection_that_the_origin_has_closed_costs_no_request() {
    let (larder, origin) = before(|server| {
        if let Some((stream, _)) = server.request() {
            server.answer(stream, &[OK, ("cache-control", "no-store")], b"once", &[]);
        }
    });
    for _ in 0..3 {
        assert_eq!(larder.get("/").text(), "once");
    }
    assert_eq!((origin.count(), origin.connections()), (3, 3));
}
