//! Tunnels and streams of the old process: they go on after an upgrade, until the limit `timeouts.drain`.

use std::time::{Duration, Instant};

use larder_testkit::{Answer, Client, Gate, Larder, Origin, site};

/// `timeouts.drain`: longer than a busy machine takes to use each tunnel once.
const DRAIN: Duration = Duration::from_secs(6);

const WEBSOCKET: &[u8] =
    b"GET /tunnel HTTP/1.1\r\nHost: site.test\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

#[test]
fn tunnels_and_streams_go_on_until_the_limit_of_the_drain() {
    let (gate, origin) = Origin::gated(|seen, held| match &*seen.target {
        "/tunnel" => Answer::raw(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\
             Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
        ),
        "/stream" => {
            let head = "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n";
            Answer::raw(head).then_wait(held).then("4\r\nrest\r\n").then_wait(&Gate::default())
        }
        _ => Answer::with_body("200 OK\nCache-Control: no-store", seen.target.as_bytes()),
    });
    let open = format!("[forward]\nallow_private = true\nconnect_ports = [{}]\n", origin.address.port());
    let drain = format!("[timeouts]\ndrain = '{}s'\n", DRAIN.as_secs());
    let mut larder = Larder::start(&format!("{open}{drain}{}", site(&[&origin], "")));
    let [mut websocket, mut stream] = [(); 2].map(|()| larder.client());
    websocket.raw(WEBSOCKET);
    assert_eq!(websocket.head().status, 101);
    let mut connect = Client::to(larder.forward);
    assert_eq!(connect.ask(&format!("CONNECT {0}\nHost: {0}", origin.address)).status, 200);
    stream.send("GET /stream");
    assert_eq!(stream.head().status, 200);
    assert_eq!(stream.chunk().as_deref(), Some(&b"half"[..]));

    let (begun, old) = (Instant::now(), larder.id());
    let said = larder.upgrade(&[]).unwrap();
    assert!(said.contains(&format!("process {old} drains: ")), "{said}");
    for (number, tunnel) in [&mut websocket, &mut connect].into_iter().enumerate() {
        tunnel.raw(format!("GET /through/{number} HTTP/1.1\r\nHost: site.test\r\n\r\n").as_bytes());
        assert_eq!(tunnel.receive("GET").text(), format!("/through/{number}"), "through the old process");
    }
    gate.open();
    assert_eq!(stream.chunk().as_deref(), Some(&b"rest"[..]));

    for mut client in [websocket, connect, stream] {
        assert!(client.is_closed());
        assert!(begun.elapsed() >= DRAIN, "closed after {:?}", begun.elapsed());
    }
    larder.wait_for_predecessor();
    assert_eq!(larder.get("/after").text(), "/after");
    larder.upgrade(&[]).unwrap();
}
