//! Streams that leave HTTP: `CONNECT` to a forward proxy, and WebSocket by extended `CONNECT`.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use larder_testkit::http2::*;
use larder_testkit::{Answer, Gate, Larder, Origin, Peer};
use serde_json::json;

const NO_ERROR: u32 = 0;
const CANCEL: u32 = 8;
const CONNECT_ERROR: u32 = 10;

/// Returns the received bytes in capitals until the connection ends.
fn echo(peer: &mut Peer) {
    while let Some(byte) = peer.exactly(1) {
        peer.send(&byte.to_ascii_uppercase());
    }
}

/// Starts a forward proxy that lets clients reach `origin`.
fn forward(origin: &Origin, tables: &str) -> Larder {
    let port = origin.address.port();
    Larder::start(&format!("[forward]\nallow_private = true\nconnect_ports = [{port}]\n{tables}"))
}

fn connect(client: &mut Client, stream: u32, authority: &str) {
    client.send(HEADERS, END_HEADERS, stream, &section(&[(":method", "CONNECT"), (":authority", authority)]));
}

/// Reads until `count` bytes have arrived through a tunnel, and returns them.
fn carried(client: &mut Client, stream: u32, count: usize) -> Vec<u8> {
    let has =
        |client: &Client| client.responses.get(&stream).is_some_and(|response| response.body.len() >= count);
    assert!(client.until(has), "the connection ended: {:?}", client.farewell);
    client.responses[&stream].body.clone()
}

#[test]
fn rfc9113_section_8_5_a_tunnel_carries_bytes_both_ways() {
    let origin = Origin::speaking(echo);
    let larder = forward(&origin, "");
    let mut client = Client::with(larder.forward, &[]);
    connect(&mut client, 1, &origin.address.to_string());
    // Bytes that immediately follow the head belong to the tunnel.
    client.send(DATA, 0, 1, b"early");
    assert_eq!(carried(&mut client, 1, 5), b"EARLY");
    let head = &client.responses[&1];
    assert_eq!((head.status, head.field("content-length")), (200, None));
    // The tunnel transports more than the size of any window, in both directions.
    for _ in 0..100 {
        client.send(DATA, 0, 1, &[b'x'; 8_000]);
        let came = client.responses[&1].body.len();
        carried(&mut client, 1, came + 8_000);
    }
    // Other streams are served at the same time.
    connect(&mut client, 3, &origin.address.to_string());
    client.send(DATA, END_STREAM, 3, b"other");
    let other = client.response(3);
    assert_eq!((&other.body[..], other.whole, other.reset), (&b"OTHER"[..], true, None));
    client.send(DATA, END_STREAM, 1, b"end");
    let all = client.response(1);
    assert!(all.whole && all.reset.is_none() && all.body.ends_with(b"XXEND") && all.body.len() == 800_008);
    larder.wait_for("requests", 2);
    assert_eq!(larder.stats()["http_versions"], json!({"1.0": 0, "1.1": 0, "2": 2}));
    assert!(larder.stat("bytes_served") > 800_000, "what the tunnel carried counts");
}

#[test]
fn each_direction_ends_on_its_own() {
    let origin = Origin::speaking(|peer| {
        peer.send(b"bye");
        let _ = peer.stream.get_ref().shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        let _ = peer.stream.read_to_end(&mut rest);
        assert_eq!(rest.len(), 100_000);
        peer.remember(Default::default());
    });
    let larder = forward(&origin, "");
    let mut client = Client::with(larder.forward, &[]);
    connect(&mut client, 1, &origin.address.to_string());
    let ended = client.response(1);
    assert_eq!((&ended.body[..], ended.whole, ended.reset), (&b"bye"[..], true, None));
    for _ in 0..10 {
        client.send(DATA, 0, 1, &[b'x'; 10_000]);
    }
    client.send(DATA, END_STREAM, 1, &[]);
    origin.wait_for(1);
    larder.wait_for("requests", 1);
    assert!(client.responses.get(&1).is_none_or(|response| response.reset.is_none()));
}

/// Returns the frames of a `CONNECT` with complete content.
fn whole(origin: &Origin, content: &[u8]) -> Vec<u8> {
    let head = section(&[(":method", "CONNECT"), (":authority", &origin.address.to_string())]);
    let mut bytes = frame(HEADERS, END_HEADERS, 1, &head);
    content.chunks(10_000).for_each(|piece| bytes.extend(frame(DATA, 0, 1, piece)));
    bytes.extend(frame(DATA, END_STREAM, 1, &[]));
    bytes
}

#[test]
fn whole_content_of_a_client_that_leaves_arrives() {
    let origin = Origin::speaking(|peer| {
        // The client has already disconnected when the proxy receives these bytes.
        peer.send(&[b'h'; 1_000]);
        let mut rest = Vec::new();
        if peer.stream.read_to_end(&mut rest).is_ok() {
            assert_eq!(rest.len(), 60_000);
            peer.remember(Default::default());
        }
    });
    let larder = forward(&origin, "");
    let mut client = Client::with(larder.forward, &[]);
    client.raw(&whole(&origin, &[b'x'; 60_000]));
    client.leave();
    origin.wait_for(1);
    larder.wait_for("requests", 1);
    larder.wait_for("connections", 0);
    // The content of a stream that was reset does not arrive as complete.
    let mut client = Client::with(larder.forward, &[]);
    connect(&mut client, 1, &origin.address.to_string());
    assert_eq!(carried(&mut client, 1, 1_000).len(), 1_000);
    client.leave();
    larder.wait_for("connections", 0);
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_posted_page_of_a_client_that_leaves_arrives() {
    let posted = Origin::always("200 OK\n\nhello");
    let larder = Larder::before(&posted);
    let mut client = Client::new(&larder);
    let head = client.head("POST", "/", &[]);
    let mut bytes = frame(HEADERS, END_HEADERS, 1, &head);
    [&[b'x'; 10_000][..]; 6].iter().for_each(|piece| bytes.extend(frame(DATA, 0, 1, piece)));
    bytes.extend(frame(DATA, END_STREAM, 1, &[]));
    client.raw(&bytes);
    client.leave();
    posted.wait_for(1);
    assert_eq!(posted.last().body.len(), 60_000);
}

#[test]
fn a_half_closed_tunnel_ends_with_its_other_direction() {
    let origin = Origin::speaking(|peer| {
        let mut rest = Vec::new();
        peer.stream.read_to_end(&mut rest).expect("an end");
        peer.send(b"bye");
    });
    let larder = forward(&origin, "");
    let mut client = Client::with(larder.forward, &[]);
    let head = section(&[(":method", "CONNECT"), (":authority", &origin.address.to_string())]);
    client.send(HEADERS, END_HEADERS | END_STREAM, 1, &head);
    let all = client.response(1);
    assert_eq!((all.status, &all.body[..], all.whole, all.reset), (200, &b"bye"[..], true, None));
    larder.wait_for("connections", 1);
    larder.wait_for("requests", 1);
}

#[test]
fn a_client_that_resets_its_stream_resets_the_origins_connection() {
    let origin = Origin::speaking(move |peer| {
        peer.exactly(1);
        peer.send(b"x");
        let failed = peer.stream.read(&mut [0]).expect_err("a reset");
        assert_eq!(failed.kind(), ErrorKind::ConnectionReset);
        peer.remember(Default::default());
    });
    let larder = forward(&origin, "");
    let mut client = Client::with(larder.forward, &[]);
    connect(&mut client, 1, &origin.address.to_string());
    client.send(DATA, 0, 1, b"b");
    carried(&mut client, 1, 1);
    client.send(RST_STREAM, 0, 1, &CANCEL.to_be_bytes());
    origin.wait_for(1);
    larder.wait_for("requests", 1);
}

#[test]
fn an_origin_that_resets_its_connection_resets_the_clients_stream() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let gate = Gate::default();
    let waits = gate.clone();
    let origin = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a connection");
        while stream.peek(&mut [0; 3]).is_ok_and(|count| count < 3) {}
        waits.pass();
        // The unread bytes make the kernel reset the connection.
    });
    let larder =
        Larder::start(&format!("[forward]\nallow_private = true\nconnect_ports = [{}]\n", address.port()));
    let mut client = Client::with(larder.forward, &[]);
    connect(&mut client, 1, &address.to_string());
    client.send(DATA, 0, 1, b"abc");
    assert!(client.until(|client| client.responses.contains_key(&1)));
    gate.open();
    assert_eq!(client.response(1).reset, Some(CONNECT_ERROR));
    origin.join().expect("it ends");
    larder.wait_for("requests", 1);
}

#[test]
fn tunnels_that_are_refused_or_fail_are_ordinary_responses() {
    let origin = Origin::speaking(echo);
    let larder = forward(&origin, "");
    let mut client = Client::with(larder.forward, &[]);
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address")
    };
    for (stream, authority, status) in
        [(1, "a.example:25".to_owned(), 403), (3, "a.example".to_owned(), 400), (5, closed.to_string(), 403)]
    {
        connect(&mut client, stream, &authority);
        let response = client.response(stream);
        assert_eq!((response.status, response.whole), (status, true), "{authority}");
    }
    // A site does not accept tunnels.
    let larder = Larder::before(&origin);
    let mut client = Client::new(&larder);
    connect(&mut client, 1, "a.example:443");
    let refused = client.response(1);
    assert_eq!((refused.status, refused.field("allow").is_some()), (405, true));
}

#[test]
fn a_tunnel_that_falls_silent_is_closed() {
    let origin = Origin::speaking(echo);
    let larder = forward(&origin, "[timeouts]\ntunnel = '300ms'\n");
    let mut client = Client::with(larder.forward, &[]);
    connect(&mut client, 1, &origin.address.to_string());
    client.send(DATA, 0, 1, b"a");
    carried(&mut client, 1, 1);
    assert_eq!(client.response(1).reset, Some(CANCEL));
}

#[test]
fn tunnels_that_stall_do_not_stall_other_streams() {
    let stalled = Gate::default();
    let waits = stalled.clone();
    let tunnels = Origin::speaking(move |_| waits.pass());
    let origin =
        Origin::answering(|seen| Answer::with_body("200 OK", seen.body.len().to_string().as_bytes()));
    let larder = forward(&tunnels, &format!("ports = [{}]\n", origin.address.port()));
    let mut client = Client::with(larder.forward, &[]);
    client.authority = origin.address.to_string();
    // The sockets buffer some MiB; then the window of the stream closes.
    for stream in [1, 3, 5, 7] {
        connect(&mut client, stream, &tunnels.address.to_string());
        client.fill(stream);
    }
    client.upload(9, &[b'x'; 300_000]);
    assert_eq!(client.response(9).body, b"300000");
    stalled.open();
}

#[test]
fn tunnels_count_as_connections() {
    let (origin, chats) = (Origin::speaking(echo), chat());
    let port = origin.address.port();
    let larder = Larder::start(&format!(
        "[limits]\nconnections = 3\n[forward]\nallow_private = true\nconnect_ports = [{port}]\n\
         [[site]]\norigin = '{}'\n",
        chats.url()
    ));
    let mut client = Client::with(larder.forward, &[]);
    connect(&mut client, 1, &origin.address.to_string());
    client.send(DATA, 0, 1, b"a");
    assert_eq!(carried(&mut client, 1, 1), b"A");
    let mut other = Client::new(&larder);
    // Two connections and a tunnel use up the limit: a further tunnel or WebSocket is refused.
    larder.wait_for("connections", 3);
    connect(&mut client, 3, &origin.address.to_string());
    let refused = client.response(3);
    assert_eq!((refused.status, refused.whole), (503, true));
    websocket(&mut other, 1, "websocket", "/chat");
    assert_eq!(other.response(1).status, 503);
    assert_eq!(chats.count(), 0);
    // Requests without a tunnel are answered.
    assert_eq!(other.get(3, "/unaware").body, b"a page");
    client.send(DATA, END_STREAM, 1, &[]);
    assert!(client.response(1).whole);
    larder.wait_for("connections", 2);
    websocket(&mut other, 5, "websocket", "/chat");
    assert_eq!(carried(&mut other, 5, 2), b"hi");
    larder.wait_for("connections", 3);
}

#[test]
fn a_tunnel_waits_for_the_windows_of_client_and_proxy() {
    let origin = Origin::speaking(|peer| {
        peer.send(&[b'x'; 300_000]);
        let mut rest = [0; 1];
        let _ = peer.stream.read(&mut rest);
    });
    let larder = forward(&origin, "");
    let mut client = Client::with(larder.forward, &[(4, 1_000)]);
    client.reads = false;
    connect(&mut client, 1, &origin.address.to_string());
    assert_eq!(carried(&mut client, 1, 1_000).len(), 1_000);
    // No more content arrives before a response on another stream.
    connect(&mut client, 3, "a.example:1");
    assert_eq!(client.response(3).status, 403);
    assert_eq!(client.responses[&1].body.len(), 1_000);
    client.reads = true;
    client.send(WINDOW_UPDATE, 0, 1, &100_000_u32.to_be_bytes());
    client.send(WINDOW_UPDATE, 0, 0, &100_000_u32.to_be_bytes());
    assert_eq!(carried(&mut client, 1, 300_000).len(), 300_000);
}

/// Returns the Sec-WebSocket-Accept value for this key (RFC 6455 section 4.2.2).
fn accept(key: &str) -> String {
    let mut openssl = Command::new("openssl")
        .args(["dgst", "-sha1", "-binary"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("openssl");
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    openssl.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("written");
    STANDARD.encode(openssl.wait_with_output().expect("it ends").stdout)
}

/// Starts an origin that accepts WebSockets only for `/chat`.
fn chat() -> Origin {
    Origin::speaking(|peer| {
        while let Some(seen) = peer.request() {
            match seen.target.as_str() {
                "/chat" => {
                    let accept = accept(seen.field("sec-websocket-key").unwrap_or_default());
                    let fields = "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: p\r\n";
                    let head = format!(
                        "HTTP/1.1 101 Switching Protocols\r\n{fields}Sec-WebSocket-Accept: {accept}\r\n\r\nhi"
                    );
                    peer.send(head.as_bytes());
                    return echo(peer);
                }
                "/declined" => peer.answer("403 Forbidden\n\nno"),
                "/unaware" => peer.answer("200 OK\nCache-Control: max-age=60\n\na page"),
                _ => peer.send(
                    b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
                      Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n",
                ),
            }
        }
    })
}

fn websocket(client: &mut Client, stream: u32, protocol: &str, path: &str) {
    let head = section(&[
        (":method", "CONNECT"),
        (":protocol", protocol),
        (":scheme", "http"),
        (":authority", "a.example"),
        (":path", path),
        ("sec-websocket-version", "13"),
        ("sec-websocket-protocol", "p"),
    ]);
    client.send(HEADERS, END_HEADERS, stream, &head);
}

#[test]
fn rfc8441_a_websocket_is_an_upgrade_for_the_origin() {
    let origin = chat();
    let larder = Larder::before(&origin);
    let mut client = Client::new(&larder);
    websocket(&mut client, 1, "websocket", "/chat");
    client.send(DATA, 0, 1, b"abc");
    assert_eq!(carried(&mut client, 1, 5), b"hiABC");
    let head = &client.responses[&1];
    assert_eq!((head.status, head.field("sec-websocket-protocol")), (200, Some("p")));
    assert!(
        ["upgrade", "connection", "sec-websocket-accept"].iter().all(|name| head.field(name).is_none()),
        "{head:?}"
    );
    let seen = origin.last();
    assert_eq!(
        (seen.method.as_str(), seen.field("upgrade"), seen.field("connection")),
        ("GET", Some("websocket"), Some("upgrade"))
    );
    assert_eq!(
        (seen.field("sec-websocket-version"), seen.field("sec-websocket-protocol")),
        (Some("13"), Some("p"))
    );
    client.send(DATA, END_STREAM, 1, b"d");
    let all = client.response(1);
    assert_eq!((&all.body[..], all.whole, all.reset), (&b"hiABCD"[..], true, None));
    // Each handshake has a different key.
    let first = seen.field("sec-websocket-key").expect("a key").to_owned();
    websocket(&mut client, 3, "WebSocket", "/chat");
    carried(&mut client, 3, 2);
    assert_ne!(origin.last().field("sec-websocket-key"), Some(first.as_str()));
    client.send(RST_STREAM, 0, 3, &NO_ERROR.to_be_bytes());
    larder.wait_for("requests", 2);
}

#[test]
fn a_websocket_that_the_origin_does_not_accept_is_no_tunnel() {
    let origin = chat();
    let larder = Larder::before(&origin);
    let mut client = Client::new(&larder);
    for (stream, protocol, path, status) in [
        (1, "websocket", "/declined", 403),
        (3, "websocket", "/unaware", 502),
        (5, "websocket", "/wrong", 502),
        (7, "connect-udp", "/chat", 501),
    ] {
        websocket(&mut client, stream, protocol, path);
        let response = client.response(stream);
        assert_eq!((response.status, response.whole), (status, true), "{protocol} {path}");
        let is_told = response.body == b"502: the origin answered 200 and began no tunnel\n";
        assert_eq!(is_told, path == "/unaware", "{path}");
    }
    assert_eq!(client.get(9, "/unaware").body, b"a page");
    assert_eq!(origin.count(), 4);
}

#[test]
fn a_drain_waits_for_tunnels() {
    let origin = Origin::speaking(echo);
    let larder = forward(&origin, "");
    let mut client = Client::with(larder.forward, &[]);
    connect(&mut client, 1, &origin.address.to_string());
    client.send(DATA, 0, 1, b"a");
    carried(&mut client, 1, 1);
    larder.signal(rustix::process::Signal::TERM);
    assert!(client.until(|client| client.farewell == Some(NO_ERROR)));
    client.send(DATA, 0, 1, b"b");
    assert_eq!(carried(&mut client, 1, 2), b"AB");
    client.send(DATA, END_STREAM, 1, &[]);
    assert!(client.response(1).whole);
    assert!(!client.until(|_| false), "then the connection ends");
}
