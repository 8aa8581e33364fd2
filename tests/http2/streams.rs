//! Concurrent streams: content in both directions, trailers, interim responses, windows, and the end of the process.

use std::net::TcpStream;

use larder_testkit::http2::*;
use larder_testkit::{Answer, Larder, Origin};
use rustix::process::Signal;

const STORED: &str = "200 OK\nCache-Control: max-age=60\n\nhello";

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

#[test]
fn a_request_that_waits_holds_up_no_other() {
    let (gate, origin) = Origin::gated(|seen, held| {
        let answer = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 5\r\n\r\nhello";
        match seen.target.as_str() {
            "/slow" => Answer::default().then_wait(held).then(answer),
            _ => Answer::raw(answer),
        }
    });
    let larder = Larder::before(&origin);
    let mut client = Client::new(&larder);
    client.ask(1, "GET", "/slow", &[]);
    origin.wait_for(1);
    for stream in [3, 5, 7] {
        assert_eq!(client.get(stream, "/").body, b"hello");
    }
    gate.open();
    assert_eq!(client.response(1).body, b"hello");
    assert_eq!(origin.count(), 2);
}

#[test]
fn content_reaches_the_origin_whether_its_length_is_known_or_not() {
    let origin = Origin::always("200 OK\n\nthanks");
    let larder = Larder::before(&origin);
    let mut client = Client::new(&larder);
    let content = pattern(120_000);
    let pieces: Vec<_> = content.chunks(16_384).collect();
    for (stream, fields) in [(1, &[("content-length", "120000")][..]), (3, &[])] {
        client.post(stream, "/", fields, &pieces[..4]);
        assert_eq!(
            client.response(stream).reset.is_some(),
            stream == 1,
            "content that ends early is malformed"
        );
    }
    for (stream, fields) in [(5, &[("content-length", "120000")][..]), (7, &[])] {
        let head = client.head("POST", "/", fields);
        client.send(HEADERS, END_HEADERS, stream, &head);
        for piece in &pieces {
            client.send(DATA, 0, stream, piece);
        }
        client.send(DATA, END_STREAM, stream, &[]);
        assert_eq!(client.response(stream).body, b"thanks");
        assert_eq!(origin.last().body, content);
    }
}

#[test]
fn trailers_travel_both_ways() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let origin = Origin::answering(move |_| Answer::raw(format!("{head}2\r\nhi\r\n0\r\nX-Sum: 7\r\n\r\n")));
    let larder = Larder::before(&origin);
    let mut client = Client::new(&larder);
    let head = client.head("POST", "/", &[("te", "trailers")]);
    client.send(HEADERS, END_HEADERS, 1, &head);
    client.send(DATA, 0, 1, b"abc");
    client.send(HEADERS, END_HEADERS | END_STREAM, 1, &section(&[("repr-digest", "x")]));
    let response = client.response(1);
    assert_eq!((response.status, &response.body[..]), (200, &b"hi"[..]));
    assert_eq!(response.trailers, [("x-sum".to_owned(), "7".to_owned())]);
    assert_eq!(origin.last().body, b"abc");
    assert!(
        origin
            .last()
            .trailers
            .iter()
            .any(|(name, value)| name.eq_ignore_ascii_case("repr-digest") && value == "x")
    );
}

#[test]
fn interim_responses_are_passed_on() {
    let hints =
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let origin = Origin::answering(move |_| Answer::raw(hints));
    let larder = Larder::before(&origin);
    let mut client = Client::new(&larder);
    assert_eq!(client.get(1, "/").interim, [103]);
    let head = client.head("POST", "/", &[("expect", "100-continue"), ("content-length", "3")]);
    client.send(HEADERS, END_HEADERS, 3, &head);
    assert!(
        client
            .until(|client| client.responses.get(&3).is_some_and(|response| response.interim.contains(&100)))
    );
    client.send(DATA, END_STREAM, 3, b"abc");
    assert_eq!(client.response(3).status, 200);
    assert_eq!(origin.last().body, b"abc");
}

#[test]
fn rfc_9110_section_10_1_1_the_origin_answers_an_expectation() {
    let origin = Origin::speaking(|peer| {
        while let Some(mut seen) = peer.head() {
            if seen.target == "/refuse" {
                return peer.answer("401 Unauthorized\nConnection: close\n\nno");
            }
            peer.send(b"HTTP/1.1 100 Continue\r\n\r\n");
            seen.body = peer.exactly(3).expect("content");
            peer.remember(seen);
            peer.answer("200 OK");
        }
    });
    let larder = Larder::before(&origin);
    let mut client = Client::new(&larder);
    let fields = [("expect", "100-continue"), ("content-length", "3")];
    let head = client.head("POST", "/", &fields);
    client.send(HEADERS, END_HEADERS, 1, &head);
    client.until(|client| client.responses.get(&1).is_some_and(|response| response.interim == [100]));
    client.send(DATA, END_STREAM, 1, b"abc");
    assert_eq!((client.response(1).status, origin.last().field("expect")), (200, Some("100-continue")));
    let head = client.head("POST", "/refuse", &fields);
    client.send(HEADERS, END_HEADERS, 3, &head);
    let response = client.response(3);
    assert_eq!((response.status, &response.interim[..]), (401, &[][..]));
    let head = client.head("POST", "/", &[("expect", "100-continue"), ("expect", "other")]);
    client.send(HEADERS, END_HEADERS, 5, &head);
    assert_eq!(client.response(5).status, 417);
}

#[test]
fn rfc_9113_section_8_1_1_surplus_content_never_reaches_an_origin() {
    let origin = Origin::always("200 OK");
    let larder = Larder::before(&origin);
    for (length, content) in [("0", &b"a"[..]), ("3", b"abcd")] {
        for method in ["GET", "POST"] {
            let mut client = Client::new(&larder);
            let head = client.head(method, "/", &[("content-length", length)]);
            client.send(HEADERS, END_HEADERS, 1, &head);
            // What fits comes first, and looks whole.
            let (fits, rest) = content.split_at(content.len() - 1);
            client.send(DATA, 0, 1, fits);
            client.send(DATA, END_STREAM, 1, rest);
            assert!(client.response(1).reset.is_some(), "{method} {length}");
        }
    }
    let mut client = Client::new(&larder);
    let head = client.head("POST", "/", &[("content-length", "0")]);
    client.send(HEADERS, END_HEADERS, 1, &head);
    client.send(DATA, END_STREAM, 1, b"");
    assert_eq!((client.response(1).status, origin.count()), (200, 1));
}

#[test]
fn rfc_3986_section_3_2_3_an_empty_port_is_no_port() {
    let origin = Origin::always("200 OK");
    let larder = Larder::before(&origin);
    let mut client = Client::new(&larder);
    for (stream, authority, fields) in [
        (1, "a.example:", &[][..]),
        (3, "a.example:", &[("host", "a.example")]),
        (5, "a.example", &[("host", "a.example:")]),
    ] {
        client.authority = authority.to_owned();
        client.ask(stream, "GET", "/", fields);
        assert_eq!(client.response(stream).status, 200, "{authority} {fields:?}");
        assert_eq!(origin.last().field("host"), Some("a.example"));
    }
}

#[test]
fn large_content_passes_small_windows_whole() {
    let content = pattern(3_000_000);
    let body = content.clone();
    let origin = Origin::answering(move |seen| {
        let kept = if seen.target == "/stored" { "max-age=60" } else { "no-store" };
        let head =
            format!("HTTP/1.1 200 OK\r\nCache-Control: {kept}\r\nContent-Length: {}\r\n\r\n", body.len());
        Answer::raw([head.as_bytes(), &body].concat())
    });
    let larder = Larder::before(&origin);
    let mut client = Client::with(larder.address(), &[(4, 20_000)]);
    for (stream, path) in [(1, "/stored"), (3, "/stored"), (5, "/passed")] {
        let response = client.get(stream, path);
        assert!(response.whole && response.body == content, "{path}: {} bytes", response.body.len());
        larder.settle();
    }
    // Several concurrent streams share the connection's window.
    for stream in [7, 9, 11] {
        client.ask(stream, "GET", "/stored", &[]);
    }
    for stream in [11, 9, 7] {
        assert!(client.response(stream).body == content);
    }
    assert_eq!(origin.count(), 2);
}

/// A client whose windows allow all content at once.
fn with_open_windows(larder: &Larder) -> Client {
    let mut client = Client::with(larder.address(), &[(4, 1 << 30)]);
    client.send(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
    client
}

#[test]
fn large_content_is_whole_although_its_client_pauses() {
    // More than the buffers of the sockets contain.
    let content = pattern(40_000_000);
    let body = content.clone();
    let origin = Origin::answering(move |_| Answer::with_body("200 OK\nCache-Control: max-age=60", &body));
    let larder = Larder::before(&origin);
    larder.client().ask("GET /\nHost: a.example");
    larder.settle();
    let (mut late, mut other) = (with_open_windows(&larder), with_open_windows(&larder));
    late.ask(1, "GET", "/", &[]);
    late.ask(3, "GET", "/", &[("range", "bytes=7-70006")]);
    assert!(other.get(1, "/").body == content);
    assert!(late.response(3).body == content[7..70_007]);
    assert!(!late.responses[&1].whole, "the long response does not delay the short one");
    assert!(late.response(1).body == content);
    assert_eq!(origin.count(), 1);
}

#[test]
fn the_most_urgent_response_comes_first() {
    let content = pattern(200_000);
    let origin = Origin::answering(move |_| Answer::with_body("200 OK\nCache-Control: max-age=60", &content));
    let larder = Larder::before(&origin);
    larder.client().ask("GET /\nHost: a.example");
    larder.settle();
    let mut client = Client::with(larder.address(), &[(4, 1 << 20)]);
    client.reads = false;
    // All three responses wait for the window of the connection.
    for (stream, priority) in [(1, "u=5"), (3, "u=4"), (5, "u=0")] {
        client.ask(stream, "GET", "/", &[("priority", priority)]);
    }
    assert!(client.until(|client| client.responses.len() == 3));
    assert!(client.until(
        |client| client.responses.values().map(|response| response.body.len()).sum::<usize>() == 65_535
    ));
    client.send(WINDOW_UPDATE, 0, 0, &300_000_u32.to_be_bytes());
    assert!(client.until(|client| client.responses[&5].whole));
    let left = [1, 3].map(|stream| client.responses[&stream].whole);
    assert_eq!(left, [false, false], "the most urgent one is whole first");
}

#[test]
fn an_origin_that_breaks_off_resets_the_stream_alone() {
    let origin = Origin::answering(|seen| match seen.target.as_str() {
        "/cut" => Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc").then_close(),
        _ => Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    });
    let larder = Larder::before(&origin);
    let mut client = Client::new(&larder);
    let cut = client.get(1, "/cut");
    assert!(cut.reset.is_some() && !cut.whole, "{cut:?}");
    assert_eq!(client.get(3, "/").body, b"ok");
}

#[test]
fn a_client_that_resets_a_stream_is_not_waited_for() {
    let (gate, origin) = Origin::gated(|seen, held| match seen.target.as_str() {
        "/slow" => {
            Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n").then_wait(held).then("123456789")
        }
        _ => Answer::raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    });
    let larder = Larder::before(&origin);
    let mut client = Client::new(&larder);
    client.post(1, "/slow", &[], &[b"x"]);
    assert!(client.until(|client| client.responses.get(&1).is_some_and(|response| response.status == 200)));
    client.send(RST_STREAM, 0, 1, &8_u32.to_be_bytes());
    assert_eq!(client.get(3, "/").body, b"ok");
    larder.wait_for("in_flight", 0);
    gate.open();
}

#[test]
fn a_drain_answers_what_was_asked_and_then_ends() {
    let (gate, origin) = Origin::gated(|_, held| {
        Answer::default().then_wait(held).then("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    });
    let mut larder = Larder::before(&origin);
    let (mut client, mut idle) = (Client::new(&larder), Client::new(&larder));
    client.ask(1, "GET", "/", &[]);
    origin.wait_for(1);
    assert!(idle.step());
    larder.signal(Signal::TERM);
    assert!(client.until(|client| client.farewell.is_some()));
    gate.open();
    assert_eq!(client.response(1).body, b"ok");
    assert_eq!((client.farewell, client.until(|_| false)), (Some(0), false));
    assert!(!idle.until(|_| false) && idle.farewell == Some(0));
    assert!(larder.ended().success());
}

#[test]
fn a_new_client_may_ask_when_the_process_ends() {
    let origin = Origin::always(STORED);
    let mut larder = Larder::before(&origin);
    let mut used = larder.client();
    used.ask("GET /");
    // Both workers have some of them.
    let streams = [(); 6].map(|()| TcpStream::connect(larder.address()).expect("it listens"));
    larder.wait_for("connections", 7);
    larder.signal(Signal::TERM);
    // From here on the process ends.
    assert!(used.is_closed());
    let mut clients = streams.map(|stream| Client::over(stream, &[]));
    clients.iter_mut().for_each(|client| client.ask(1, "GET", "/", &[]));
    for mut client in clients {
        assert_eq!(client.response(1).status, 200);
        assert!(!client.until(|_| false) && client.farewell == Some(0));
    }
    assert!(larder.ended().success());
}

#[test]
fn http2_is_refused_with_a_streams_limit_of_zero() {
    let origin = Origin::always(STORED);
    let larder = Larder::with(&origin, "[limits]\nstreams = 0");
    let mut client = larder.client();
    client.raw(larder_http2::PREFACE);
    assert_eq!(client.receive("PRI").status, 505);
    let larder = Larder::with(&origin, "[limits]\nstreams = 2");
    let mut client = Client::new(&larder);
    assert_eq!(client.get(1, "/").status, 200);
}

#[test]
fn a_preface_may_come_byte_by_byte() {
    let origin = Origin::always(STORED);
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    for byte in larder_http2::PREFACE {
        client.raw(&[*byte]);
    }
    client.raw(&frame(SETTINGS, 0, 0, &[]));
    // The proxy answers with its settings.
    assert_eq!(client.exactly(9)[3], SETTINGS);
}

/// As gRPC has them: each of these clients sends a message, and waits.
#[test]
fn unfinished_requests_with_content_leave_the_window_to_others() {
    let origin = Origin::always("200 OK\nCache-Control: no-store\n\nhello");
    let larder = Larder::before(&origin);
    let mut client = Client::new(&larder);
    for stream in (1..160).step_by(2) {
        let head = client.head("POST", "/", &[]);
        client.send(HEADERS, END_HEADERS, stream, &head);
        assert!(client.until(|client| client.room(stream) >= 16_000), "no room for {stream}");
        client.send(DATA, 0, stream, &[b'x'; 16_000]);
    }
    client.upload(161, &[b'x'; 600_000]);
    assert_eq!(client.response(161).status, 200);
}
