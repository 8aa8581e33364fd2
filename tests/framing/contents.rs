//! RFC 9112 sections 6 and 7: the framing of content in both directions.

use std::time::Duration;

use larder_testkit::{Answer, Gate, Larder, Origin};

#[test]
fn rfc_9112_section_7_1_chunked_requests_stream_with_their_trailers() {
    let arrived = Gate::default();
    let half = arrived.clone();
    let origin = Origin::speaking(move |peer| {
        let mut seen = peer.head().expect("a request");
        peer.chunk(&mut seen).expect("a chunk");
        half.open();
        while peer.chunk(&mut seen).expect("a chunk") {}
        peer.remember(seen);
        peer.answer("200 OK");
    });
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    client.send("POST /\nTransfer-Encoding: chunked\nTrailer: Content-Digest");
    client.raw(b"3;x=y\r\none\r\n");
    arrived.pass();
    client.raw(b"3\r\ntwo\r\n0\r\nSum: 6\r\nContent-Digest: d\r\n\r\n");
    assert_eq!(client.receive("POST").status, 200);
    let seen = origin.last();
    assert_eq!((&seen.body[..], seen.field("transfer-encoding")), (&b"onetwo"[..], Some("chunked")));
    // Trailers that servers could merge into the header fields are not forwarded.
    assert_eq!(seen.trailers, [("Content-Digest".to_owned(), "d".to_owned())]);
}

#[test]
fn rfc_9112_section_6_3_a_get_may_have_chunked_content() {
    let origin = Origin::always("200 OK\n\nbody");
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    for _ in 0..2 {
        let request = "GET /\nTransfer-Encoding: chunked\n\n4\r\nwhat\r\n4\r\never\r\n0\r\n\r\n";
        assert_eq!(client.ask(request).text(), "body");
        assert_eq!((origin.last().method.as_str(), origin.last().body.as_slice()), ("GET", &b"whatever"[..]));
    }
    assert_eq!(origin.count(), 2);
}

#[test]
fn the_time_for_an_answer_counts_from_the_end_of_the_request() {
    let origin = Origin::always("200 OK\n\nall");
    let larder = Larder::with(&origin, "[timeouts]\nfirst_byte = '2s'");
    let mut client = larder.client();
    client.send("POST /\nContent-Length: 8");
    for _ in 0..8 {
        // The upload takes longer than the limit in total.
        std::thread::sleep(Duration::from_millis(300));
        client.raw(b"x");
    }
    assert_eq!(client.receive("POST").status, 200);
}

#[test]
fn rfc_9112_section_7_1_chunked_responses_stream_with_their_trailers() {
    let (gate, origin) = Origin::gated(|_, held| {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Sum\r\n\r\n3\r\none\r\n";
        Answer::raw(head).then_wait(held).then("3\r\ntwo\r\n0\r\nSum: 6\r\n\r\n")
    });
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    client.send("GET /");
    let head = client.head();
    assert_eq!(client.exactly(8), b"3\r\none\r\n");
    gate.open();
    let (rest, trailers) = client.content(&head);
    assert_eq!((&rest[..], trailers.len()), (&b"two"[..], 1));
    assert!(trailers[0].0.eq_ignore_ascii_case("sum") && trailers[0].1 == "6");
}

#[test]
fn trailers_are_announced_only_where_they_are_sent() {
    let origin = Origin::answering(|seen| {
        let lifetime = if seen.target == "/stored" { "max-age=60" } else { "no-store" };
        let head = format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Sum\r\nCache-Control: {lifetime}"
        );
        Answer::raw(format!("{head}\r\n\r\n3\r\none\r\n0\r\nSum: 3\r\n\r\n"))
    });
    let larder = Larder::before(&origin);
    for (request, announced, sent) in [
        ("GET /", Some("Sum"), 1),
        ("POST /", Some("Sum"), 1),
        ("GET /stored", None, 0),
        ("GET /stored", None, 0),
        ("HEAD /stored", None, 0),
    ] {
        let answer = larder.ask(request);
        assert_eq!((answer.field("trailer"), answer.trailers.len()), (announced, sent), "{request}");
    }
    let mut old = larder.client();
    old.raw(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    let answer = old.receive("GET");
    assert_eq!((answer.field("trailer"), answer.text()), (None, "one"));
    // A request whose content has a length, or that has no content, has no trailers.
    larder.ask("POST /\nTrailer: Sum\nContent-Length: 0");
    assert_eq!(origin.last().field("trailer"), None);
    larder.ask("GET /\nTrailer: Sum");
    assert_eq!(origin.last().field("trailer"), None);
}

#[test]
fn stored_responses_stream_while_they_are_stored() {
    let (gate, origin) = Origin::gated(|_, held| {
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\nContent-Length: 6\r\n\r\none";
        Answer::raw(head).then_wait(held).then("two")
    });
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    client.send("GET /");
    client.head();
    assert_eq!(client.exactly(3), b"one");
    gate.open();
    assert_eq!(client.exactly(3), b"two");
    larder.settle();
    assert_eq!(larder.get("/").text(), "onetwo");
}

#[test]
fn large_contents_arrive_byte_for_byte() {
    let body: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let origin = Origin::answering(|seen| Answer::with_body("200 OK", &seen.body));
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    for _ in 0..2 {
        client.raw(format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes());
        client.raw(&body);
        assert!(client.receive("PUT").body == body);
    }
    assert_eq!(origin.last().field("content-length"), Some("3000000"));
}

/// An origin that answers the expectation of 100 as the target says, and then the content.
fn decides() -> Origin {
    Origin::speaking(|peer| {
        while let Some(mut seen) = peer.head() {
            match seen.target.as_str() {
                "/refuse" => {
                    peer.remember(seen);
                    return peer.answer("401 Unauthorized\nConnection: close\n\nno");
                }
                "/continue" => peer.send(b"HTTP/1.1 100 Continue\r\nX-Of: origin\r\n\r\n"),
                _ => {}
            }
            seen.body = peer.exactly(3).expect("content");
            peer.remember(seen);
            peer.answer("200 OK\n\nthanks");
        }
    })
}

#[test]
fn rfc_9110_section_10_1_1_the_origin_answers_an_expectation() {
    let origin = decides();
    let larder = Larder::before(&origin);
    // In place of an origin that does not answer, the proxy does.
    for (target, of) in [("/continue", Some("origin")), ("/silent", None)] {
        let mut client = larder.client();
        client.send(&format!("POST {target}\nExpect: 100-Continue\nContent-Length: 3"));
        let interim = client.head();
        assert_eq!((interim.status, interim.field("x-of")), (100, of), "{target}");
        client.raw(b"abc");
        assert_eq!(client.receive("POST").text(), "thanks", "{target}");
        assert_eq!(
            (origin.last().field("expect"), &origin.last().body[..]),
            (Some("100-continue"), &b"abc"[..])
        );
    }
    let mut client = larder.client();
    client.send("POST /refuse\nExpect: 100-continue\nContent-Length: 3");
    assert_eq!(client.receive("POST").status, 401);
    assert!(client.is_closed());
}

#[test]
fn rfc_9110_section_10_1_1_early_content_is_forwarded_at_once() {
    let origin = decides();
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    for _ in 0..2 {
        client.send("POST /silent\nExpect: 100-continue\nContent-Length: 3\n\nabc");
        // `receive` accepts no interim response.
        assert_eq!(client.receive("POST").text(), "thanks");
    }
}

#[test]
fn rfc_9110_section_10_1_1_oversized_expected_content_gets_413() {
    let origin = Origin::always("200 OK");
    let larder = Larder::with(&origin, "[limits]\nbody = '1KiB'");
    let mut client = larder.client();
    client.send("POST /\nExpect: 100-continue\nContent-Length: 2000");
    assert_eq!(client.receive("POST").status, 413);
    let mut client = larder.client();
    client.send("POST /\nExpect: 100-continue\nTransfer-Encoding: chunked");
    assert_eq!(client.head().status, 100);
    client.raw(format!("800\r\n{}\r\n", "a".repeat(2048)).as_bytes());
    assert_eq!(client.receive("POST").status, 413);
}

#[test]
fn rfc_9112_section_7_1_sizes_of_chunks_may_have_leading_zeros() {
    let chunked = "00000000000000000003\r\nabc\r\n000000000000000000\r\n\r\n";
    let origin = Origin::answering(move |_| {
        Answer::raw(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}"))
    });
    let larder = Larder::before(&origin);
    let response = larder.ask(&format!("POST /\nTransfer-Encoding: chunked\n\n{chunked}"));
    assert_eq!((response.text(), &origin.last().body[..]), ("abc", &b"abc"[..]));
}

#[test]
fn rfc_9112_section_9_5_a_response_may_precede_the_request_content() {
    let origin = Origin::speaking(|peer| {
        let seen = peer.head().expect("a request");
        peer.remember(seen);
        peer.answer("403 Forbidden\nConnection: close\n\nno");
    });
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    client.send("POST /\nContent-Length: 100000000");
    client.raw(b"some");
    let response = client.receive("POST");
    assert_eq!((response.status, response.text()), (403, "no"));
    assert!(client.is_closed());
}

#[test]
fn rfc_9110_section_9_3_2_answers_to_head_have_no_content() {
    let origin = Origin::always("200 OK\nETag: \"1\"\n\nbody");
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    for _ in 0..2 {
        let response = client.ask("HEAD /");
        assert_eq!((response.field("content-length"), response.field("etag")), (Some("4"), Some("\"1\"")));
    }
    assert_eq!(client.ask("GET /").text(), "body");
}

#[test]
fn rfc_9112_section_6_3_contentless_answers_keep_the_connection_in_step() {
    let origin = Origin::by(|seen| format!("{} Status", &seen.target[1..]));
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    for status in [204, 304, 200, 404, 204] {
        assert_eq!(client.ask(&format!("GET /{status}\nIf-None-Match: \"1\"")).status, status);
    }
}

#[test]
fn rfc_9112_section_6_3_closing_the_connection_ends_the_response() {
    let origin = Origin::answering(|_| {
        Answer::raw("HTTP/1.1 200 OK\r\nCache-Control: max-age=100\r\n\r\nuntil the end").then_close()
    });
    let larder = Larder::before(&origin);
    for hit in [false, true] {
        let response = larder.get("/");
        assert_eq!((response.text(), response.is_hit()), ("until the end", hit));
    }
}
