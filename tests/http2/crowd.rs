//! Five hundred connections that read no content, and as many that read it, with a hundred streams each.

use larder_testkit::http2::*;
use larder_testkit::{Answer, Larder, Origin, raise_open_files};

const CONNECTIONS: usize = 500;
const STREAMS: u32 = 100;
/// The limit of memory for a stream whose response waits for a window, with its share of the connection
/// (docs/limits.md).
const HELD: usize = 4 << 10;

#[test]
fn stalled_http2_connections_take_little_memory_and_do_not_delay_others() {
    raise_open_files();
    let content = vec![b'x'; 100_000];
    let origin = Origin::answering(move |seen| {
        let length = if seen.target == "/large" { content.len() } else { 100 };
        Answer::with_body("200 OK\nCache-Control: max-age=60", &content[..length])
    });
    let larder = Larder::before(&origin);
    for path in ["/large", "/small"] {
        larder.ask(&format!("GET {path}\nHost: a.example"));
    }
    let before = larder.resident();
    let streams = || (0..STREAMS).map(|number| 2 * number + 1);
    let ask = |client: &mut Client, path: &str| {
        let head = client.head("GET", path, &[("cookie", &"x".repeat(500))]);
        let frames = streams().map(|stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &head));
        client.raw(&frames.collect::<Vec<_>>().concat());
    };
    // The streams of half of the connections wait for their own window, the others for the connection's window.
    let stalled: Vec<_> = (0..CONNECTIONS)
        .map(|number| {
            let window = if number % 2 == 0 { 0 } else { 1 << 30 };
            let mut client = Client::with(larder.address(), &[(4, window)]);
            client.reads = false;
            ask(&mut client, "/large");
            assert!(
                client.until(|client| client.responses.len() == STREAMS as usize),
                "heads come, content waits"
            );
            client
        })
        .collect();
    let held = larder.resident().saturating_sub(before);
    let most = (CONNECTIONS * STREAMS as usize * HELD) as u64;
    assert!(
        held < most,
        "{} streams that stall hold {held} bytes, {most} at most",
        stalled.len() as u32 * STREAMS
    );
    for _ in 0..CONNECTIONS {
        let mut client = Client::new(&larder);
        ask(&mut client, "/small");
        assert!(streams().all(|stream| client.response(stream).body.len() == 100));
    }
    assert_eq!(origin.count(), 2);
}
