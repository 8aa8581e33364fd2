//! Time limits of clients by path.

use larder_testkit::{Origin, http2};

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
    let larder = larder_testkit::Larder::start(&format!("{site}{rule}"));
    let begun = std::time::Instant::now();
    assert_eq!(larder.get("/fast/page").status, 504);
    assert!(begun.elapsed() < std::time::Duration::from_secs(5), "{:?}", begun.elapsed());
}
