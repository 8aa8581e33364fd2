//! Time limits of clients and origins by path.

use std::time::Duration;

use larder_testkit::{Answer, Client, Gate, Larder, Origin, http2};

use crate::with_rules;

const RULE: &str = "[[site.rule]]\nmatch = { path = '/short*' }\nstall = '200ms'\ntunnel = '200ms'";

/// The handshake of RFC 6455 section 1.3.
const ASKED: &[u8] =
    b"GET /short/chat HTTP/1.1\r\nHost: site.test\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
const AGREED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// An origin that accepts WebSocket and says nothing after the handshake.
fn silent() -> Origin {
    Origin::speaking(|peer| {
        while let Some(seen) = peer.request() {
            match seen.field("upgrade") {
                Some(_) => peer.send(AGREED),
                None => peer.answer("200 OK\n\nread"),
            }
        }
    })
}

#[test]
fn an_upload_that_stalls_is_refused_after_the_time_of_its_path() {
    let origin = silent();
    let larder = with_rules(&origin, RULE);
    let mut client = larder.client();
    client.raw(b"POST /short HTTP/1.1\r\nHost: site.test\r\nContent-Length: 9\r\n\r\nhalf");
    assert_eq!(client.receive("POST").status, 408);
    let mut other = http2::Client::new(&larder);
    let head = other.head("POST", "/short", &[("content-length", "9")]);
    other.send(http2::HEADERS, http2::END_HEADERS, 1, &head);
    assert_eq!(other.response(1).status, 408);
}

#[test]
fn a_tunnel_without_traffic_ends_after_the_time_of_its_path() {
    let origin = silent();
    let larder = with_rules(&origin, RULE);
    let mut client = larder.client();
    client.raw(ASKED);
    assert_eq!(client.head().status, 101);
    assert!(client.is_closed());
}

#[test]
fn connecting_to_an_origin_takes_at_most_the_time_of_its_rule() {
    // The kernel completes connections, and nobody answers the handshake of TLS.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let site = format!("[[site]]\norigin = 'https://{}'\n", silent.local_addr().expect("an address"));
    let rule = "[[site.rule]]\nmatch = { path = '/fast/*' }\nconnect = '100ms'\nretries = 0\n";
    // Without the rule, the client would give up first.
    let larder = Larder::start(&format!("{site}{rule}[timeouts]\nconnect = '1h'\n"));
    assert_eq!(larder.get("/fast/page").status, 504);
}

/// An origin that begins an answer of this type, and sends the rest once the gate is open.
fn pausing(kind: &'static str, gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::answering(move |_| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: 6\r\n\r\n");
        Answer::raw(head + "one").then_wait(&gate).then("two")
    })
}

/// Returns a client that has the head of the answer.
fn reading(larder: &Larder, path: &str) -> Client {
    let mut client = larder.client();
    client.send(&format!("GET {path}"));
    assert_eq!(client.head().status, 200);
    client
}

/// Whether the content of an answer ends incomplete.
fn is_cut(larder: &Larder, path: &str) -> bool {
    reading(larder, path).rest().is_none_or(|content| content == b"one")
}

#[test]
fn an_origin_may_pause_for_the_time_of_its_rule() {
    let gate = Gate::default();
    let origin = pausing("text/plain", &gate);
    let rules =
        "[[site.rule]]\norigin_idle = '100ms'\n[[site.rule]]\nmatch.path = '/feed'\norigin_idle = '1m'\n";
    let larder = with_rules(&origin, rules);
    let mut feed = reading(&larder, "/feed");
    assert!(is_cut(&larder, "/short"));
    gate.open();
    assert_eq!(feed.exactly(6), b"onetwo");
}

#[test]
fn events_may_be_rarer_than_other_content_unless_a_rule_forbids_it() {
    let (gate, still) = (Gate::default(), Gate::default());
    let (origin, other) = (pausing("text/event-stream; charset=utf-8", &gate), pausing("text/plain", &still));
    let plain = format!("[[site.rule]]\nmatch.path = '/plain'\norigin = '{}'\n", other.url());
    let ruled = "[[site.rule]]\nmatch.path = '/ruled'\norigin_idle = '100ms'\n";
    let larder = with_rules(&origin, &format!("{plain}{ruled}[timeouts]\norigin_idle = '100ms'\n"));
    let mut events = reading(&larder, "/events");
    assert!(is_cut(&larder, "/plain") && is_cut(&larder, "/ruled"));
    [gate, still].iter().for_each(Gate::open);
    assert_eq!(events.exactly(6), b"onetwo");
}

#[test]
fn content_has_to_come_at_the_rate_of_its_path() {
    let origin = Origin::always("200 OK\n\nread");
    let rule = "[[site.rule]]\nmatch = { path = '/fast' }\nmin_rate = 1000\n";
    let larder = with_rules(&origin, &format!("{rule}[timeouts]\nstall = '500ms'\nmin_rate = 0\n"));
    let mut client = http2::Client::new(&larder);
    for (stream, path) in [(1, "/fast"), (3, "/any")] {
        let head = client.head("POST", path, &[]);
        client.send(http2::HEADERS, http2::END_HEADERS, stream, &head);
    }
    // Both get a byte at a time, until the first is refused.
    let begun = std::time::Instant::now();
    while !client.responses.contains_key(&1) {
        assert!(begun.elapsed() < Duration::from_secs(20), "it goes on for ever");
        [1, 3].into_iter().for_each(|stream| _ = client.try_send(http2::DATA, 0, stream, b"x"));
        client.send(http2::PING, 0, 0, &[7; 8]);
        assert!(client.step());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(client.response(1).status, 408);
    client.send(http2::DATA, http2::END_STREAM, 3, b"x");
    assert_eq!(client.response(3).status, 200);
}
