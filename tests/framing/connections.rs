//! RFC 9112 section 9: connections that persist, end, or change their protocol.

use larder_testkit::{Answer, Larder, Origin, site};

fn by_target() -> Origin {
    Origin::by(|seen| format!("200 OK\nCache-Control: max-age=100\n\n{}", seen.target))
}

#[test]
fn rfc_9112_section_9_3_2_pipelined_requests_are_answered_in_order() {
    let origin = by_target();
    let larder = Larder::before(&origin);
    larder.get("/hit");
    let mut client = larder.client();
    let targets = ["/hit", "/miss", "/hit", "/other", "/hit"];
    let all: String =
        targets.map(|target| format!("GET {target} HTTP/1.1\r\nHost: site.test\r\n\r\n")).concat();
    client.raw(all.as_bytes());
    for target in targets {
        let response = client.receive("GET");
        assert_eq!((response.text(), response.is_hit()), (target, target == "/hit"));
    }
    client.finish();
    assert!(client.is_closed());
}

#[test]
fn rfc_9112_section_9_3_2_pipelined_content_is_no_request() {
    let origin =
        Origin::by(|seen| format!("200 OK\n\n{} {}", seen.method, String::from_utf8_lossy(&seen.body)));
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    client.raw(
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nGETPUT / HTTP/1.1\r\nHost: a\r\n\
          Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    let texts = ["POST", "PUT", "GET"].map(|method| client.receive(method).text().to_owned());
    assert_eq!(texts, ["POST GET", "PUT abc", "GET "]);
}

#[test]
fn rfc_9112_section_9_3_http_1_0_connections_close_by_default() {
    let origin = by_target();
    let larder = Larder::before(&origin);
    for target in ["/a", "/a"] {
        let mut client = larder.client();
        let response = client.ask(&format!("GET {target} HTTP/1.0\nHost: site.test"));
        assert_eq!((response.text(), response.field("connection")), ("/a", Some("close")));
        assert!(client.is_closed());
    }
    let mut client = larder.client();
    for target in ["/a", "/b", "/a"] {
        let response = client.ask(&format!("GET {target} HTTP/1.0\nHost: site.test\nConnection: keep-alive"));
        assert_eq!((response.text(), response.field("connection")), (target, Some("keep-alive")));
    }
}

#[test]
fn rfc_9110_section_6_2_later_minor_versions_mean_http_1_1() {
    let head = "HTTP/1.9 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    let origin = Origin::answering(move |_| Answer::raw(head));
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    for version in ["HTTP/1.2", "HTTP/1.9"] {
        client.raw(format!("GET / {version}\r\nHost: a\r\n\r\n").repeat(2).as_bytes());
        assert_eq!([client.receive("GET"), client.receive("GET")].map(|reply| reply.status), [200; 2]);
    }
    assert_eq!((origin.count(), origin.connections()), (4, 1));
}

#[test]
fn rfc_9112_section_6_3_http_1_0_clients_get_no_chunks() {
    let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n";
    let origin = Origin::answering(move |_| Answer::raw(chunks));
    let larder = Larder::before(&origin);
    for keep in ["", "\nConnection: keep-alive"] {
        let mut client = larder.client();
        let response = client.ask(&format!("GET / HTTP/1.0{keep}"));
        assert_eq!((response.text(), response.field("transfer-encoding")), ("abcdef", None));
        assert!(client.is_closed());
    }
}

#[test]
fn rfc_9112_section_9_6_a_client_that_says_close_is_closed() {
    let origin = by_target();
    let larder = Larder::before(&origin);
    for _ in 0..2 {
        let mut client = larder.client();
        let response = client.ask("GET /a\nConnection: x, Close");
        assert_eq!((response.text(), response.field("connection")), ("/a", Some("close")));
        assert!(client.is_closed());
    }
}

#[test]
fn rfc_9110_section_15_2_interim_responses_are_forwarded() {
    let origin = Origin::answering(|_| {
        Answer::raw(
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n\
             HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        )
    });
    let larder = Larder::before(&origin);
    for method in ["GET", "POST"] {
        let mut client = larder.client();
        client.send(&format!("{method} /"));
        let early = client.head();
        assert_eq!((early.status, early.field("link")), (103, Some("</a>")));
        assert_eq!(client.head().status, 102);
        assert_eq!(client.receive(method).text(), "ok");
    }
    // HTTP/1.0 has no interim responses.
    assert_eq!(larder.client().ask("GET / HTTP/1.0").text(), "ok");
}

#[test]
fn rfc_9110_section_7_8_an_accepted_upgrade_is_a_pipe() {
    let origin = Origin::speaking(|peer| {
        let seen = peer.head().expect("a request");
        peer.answer(
            "101 Switching Protocols\nConnection: upgrade\nUpgrade: websocket\nAccept: x\n\
             Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
        );
        peer.remember(seen);
        while let Some(byte) = peer.exactly(1) {
            peer.send(&byte.to_ascii_uppercase());
        }
    });
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    // Bytes that are sent before the response arrives also belong to the new protocol.
    client.raw(
        b"GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
          Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\nearly",
    );
    let switched = client.head();
    assert_eq!((switched.status, switched.field("upgrade")), (101, Some("websocket")));
    assert_eq!((switched.field("connection"), switched.field("accept")), (Some("upgrade"), Some("x")));
    assert_eq!(client.exactly(5), b"EARLY");
    client.raw(b"late");
    assert_eq!(client.exactly(4), b"LATE");
    origin.wait_for(1);
    let seen = origin.last();
    assert_eq!((seen.field("upgrade"), seen.field("connection")), (Some("websocket"), Some("upgrade")));
    client.finish();
    assert!(client.is_closed());
}

#[test]
fn rfc_9110_section_7_8_a_declined_upgrade_is_an_ordinary_answer() {
    let origin = by_target();
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    for _ in 0..2 {
        assert_eq!(client.ask("GET /a\nConnection: Upgrade\nUpgrade: websocket").text(), "/a");
    }
    // Without `Connection: Upgrade`, the field is not an upgrade request, and is not forwarded.
    client.ask("GET /b\nUpgrade: websocket");
    assert_eq!(origin.last().field("upgrade"), None);
}

#[test]
fn rfc_9110_section_7_8_only_websocket_is_offered_to_the_origin() {
    let origin = Origin::always("200 OK\n\nbody");
    let larder = Larder::before(&origin);
    let offers = [
        ("h2c", None),
        ("TLS/1.2", None),
        ("websocket", Some("websocket")),
        ("h2c, WebSocket", Some("WebSocket")),
    ];
    for (protocol, offered) in offers {
        let wish = format!("Connection: Upgrade, HTTP2-Settings\nUpgrade: {protocol}\nHTTP2-Settings: x");
        assert_eq!(larder.ask(&format!("GET /\n{wish}")).text(), "body", "{protocol}");
        let seen = origin.last();
        assert_eq!((seen.field("upgrade"), seen.field("http2-settings")), (offered, None), "{protocol}");
    }
    assert_eq!(origin.count(), 4);
    // RFC 6455 section 4.1: the handshake is a GET.
    for method in ["POST", "HEAD", "OPTIONS", "PUT", "get"] {
        larder.ask(&format!("{method} /\nConnection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Key: a"));
        assert_eq!(origin.last().field("upgrade"), None, "{method}");
    }
}

#[test]
fn an_unrequested_upgrade_is_the_origins_error() {
    let origin = Origin::always("101 Switching Protocols\nConnection: upgrade\nUpgrade: x");
    let larder = Larder::before(&origin);
    for method in ["GET", "POST"] {
        assert_eq!(larder.ask(&format!("{method} /")).status, 502, "{method}");
    }
}

#[test]
fn a_client_that_leaves_before_the_answer_is_forgotten() {
    let (gate, origin) = Origin::gated(|_, held| {
        Answer::default().then_wait(held).then("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    });
    let larder = Larder::before(&origin);
    let mut client = larder.client();
    client.send("POST /");
    origin.wait_for(1);
    drop(client);
    gate.open();
    larder.wait_for("connections", 0);
    larder.wait_for("in_flight", 0);
}

#[test]
fn a_client_that_leaves_a_silent_stream_is_forgotten() {
    let kinds = ["text/plain", "text/event-stream\r\nCache-Control: no-store"];
    let requests = [("GET /", ""), ("POST /\nContent-Length: 2", "ok")];
    for (kind, (request, content)) in kinds.iter().zip(requests) {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n");
        let (_gate, origin) =
            Origin::gated(move |_, held| Answer::raw(format!("{head}2\r\nok\r\n")).then_wait(held));
        let larder = Larder::before(&origin);
        let mut client = larder.client();
        client.send(request);
        client.raw(content.as_bytes());
        client.head();
        assert_eq!(client.chunk(), Some(b"ok".to_vec()));
        drop(client);
        larder.wait_for("connections", 0);
        larder.wait_for("in_flight", 0);
    }
}

#[test]
fn a_client_that_only_ends_its_requests_gets_the_whole_stream() {
    let large = "x".repeat(20 << 20);
    let origin = Origin::speaking(move |peer| {
        while let Some(seen) = peer.request() {
            if seen.target == "/large" {
                peer.answer(&format!("200 OK\nCache-Control: no-store\n\n{large}"));
                continue;
            }
            peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            // Together longer than a client that has left is waited for.
            for _ in 0..8 {
                std::thread::sleep(std::time::Duration::from_secs(1));
                peer.send(b"2\r\nok\r\n");
            }
            peer.send(b"0\r\n\r\n");
        }
    });
    let larder = Larder::before(&origin);
    let [mut slow, mut client] = [larder.client(), larder.client()];
    slow.send("GET /large");
    slow.finish();
    client.send("GET /");
    client.finish();
    assert_eq!(client.receive("GET").body, b"ok".repeat(8));
    // All this time, this one has read nothing.
    assert_eq!(slow.receive("GET").body.len(), 20 << 20);
}

#[test]
fn connections_are_spread_evenly_over_all_workers() {
    let origin = by_target();
    // In place of the words `serve --threads 2`.
    let command = ["sh", "-c", "shift 3; exec \"$0\" serve --threads 16 \"$@\""];
    let larder = Larder::start_behind(&command, &site(&[&origin], ""));
    let mut clients: Vec<_> = (0..64).map(|_| larder.client()).collect();
    for client in &mut clients {
        assert_eq!(client.ask("GET /hit HTTP/1.1\nHost: site.test").text(), "/hit");
    }
    let metrics = larder.ask_admin("GET /metrics");
    let open = metrics.text().lines().filter(|line| line.starts_with("larder_worker_connections{"));
    let open: Vec<u32> = open.filter_map(|line| line.rsplit_once(' ')?.1.parse().ok()).collect();
    // The share of each is 4. The kernel alone gives some worker 8 or more.
    assert!(open.len() == 16 && open.iter().sum::<u32>() >= 64, "{open:?}");
    assert!(open.iter().all(|open| *open <= 6), "{open:?}");
}
