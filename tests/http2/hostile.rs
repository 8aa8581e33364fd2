//! Clients that violate the protocol, or that cause work and do not read the responses.

use std::net::TcpListener;

use larder_testkit::http2::*;
use larder_testkit::{Answer, Larder, Origin, PATIENCE, within};

use super::limits::with_large_pages;

const STORED: &str = "200 OK\nCache-Control: max-age=60\n\nhello";
const PROTOCOL_ERROR: u32 = 1;
const ENHANCE_YOUR_CALM: u32 = 11;

#[test]
fn malformed_requests_reach_no_origin() {
    let origin = Origin::always(STORED);
    let larder = Larder::before(&origin);
    let mut client = Client::new(&larder);
    let mut stream = 1;
    for (what, fields) in [
        ("another host", vec![("host", "b.example")]),
        ("a field of connections", vec![("connection", "close")]),
        ("a coding", vec![("transfer-encoding", "chunked")]),
        ("te", vec![("te", "gzip")]),
        ("a length without content", vec![("content-length", "5")]),
    ] {
        let mut head = client.head("GET", "/", &[]);
        for (name, value) in fields {
            // These bytes are encoded by hand, because the encoder omits fields that HTTP/2 does not allow.
            head.extend(
                [&[0, name.len() as u8][..], name.as_bytes(), &[value.len() as u8], value.as_bytes()]
                    .concat(),
            );
        }
        client.send(HEADERS, END_HEADERS | END_STREAM, stream, &head);
        assert_eq!(client.response(stream).reset, Some(PROTOCOL_ERROR), "{what}");
        stream += 2;
    }
    assert_eq!(origin.count(), 0);
    for (authority, path, status) in
        [("a b", "/", None), ("a,b", "/", Some(400)), ("a.example", "/a#b", Some(400))]
    {
        client.authority = authority.to_owned();
        let response = client.get(stream, path);
        assert_eq!(response.status, status.unwrap_or(0), "{authority} {path}");
        stream += 2;
    }
    assert_eq!(origin.count(), 0);
}

#[test]
fn limits_of_heads_and_content_have_their_own_statuses() {
    let origin = Origin::always(STORED);
    let limits = "[limits]\nhead = '1KiB'\nfields = 10\nuri = '100B'\nbody = '1KiB'\n";
    let larder = Larder::with(&origin, limits);
    let mut client = Client::new(&larder);
    let long = "a".repeat(1_100);
    client.ask(1, "GET", "/", &[("x", &long)]);
    assert_eq!(client.response(1).status, 431);
    client.ask(3, "GET", "/", &[("x", "y"); 10]);
    assert_eq!(client.response(3).status, 431);
    assert_eq!(client.get(5, &format!("/{}", "a".repeat(100))).status, 414);
    client.post(7, "/", &[("content-length", "2000")], &[&[0; 2_000]]);
    assert_eq!(client.response(7).status, 413);
    client.post(9, "/", &[], &[&[0; 2_000]]);
    assert_eq!(client.response(9).status, 413);
    assert_eq!(client.get(11, "/").status, 200);
    assert_eq!(origin.count(), 1);
    // As in HTTP/1.1, `:authority` is one field, and so are all crumbs of a cookie.
    for (stream, fields) in [(13, &[("x", "y"); 9][..]), (15, &[("cookie", "a=b"); 12])] {
        client.ask(stream, "GET", "/", fields);
        assert_eq!(client.response(stream).status, 200, "{fields:?}");
    }
}

/// Repeats `attack` until the proxy ends the connection, and asserts that other clients are served.
fn ends(attack: impl Fn(&mut Client, u32) -> bool) {
    let (gate, origin) = Origin::gated(|seen, held| match seen.target.as_str() {
        "/slow" => Answer::default().then_wait(held),
        _ => Answer::raw("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 5\r\n\r\nhello"),
    });
    let larder = Larder::before(&origin);
    let mut client = Client::new(&larder);
    let _ = (0..20_000).all(|number| attack(&mut client, 2 * number + 1));
    client.until(|client| client.farewell.is_some());
    assert_eq!(client.farewell, Some(ENHANCE_YOUR_CALM));
    assert_eq!(Client::new(&larder).get(1, "/").body, b"hello");
    gate.open();
}

#[test]
fn rapid_reset() {
    ends(|client, stream| {
        let head = client.head("GET", "/slow", &[]);
        client.try_send_at_once(stream, &head, (RST_STREAM, &8_u32.to_be_bytes()))
    });
}

#[test]
fn resets_that_the_client_provokes() {
    ends(|client, stream| {
        let head = client.head("GET", "/slow", &[]);
        client.try_send_at_once(stream, &head, (WINDOW_UPDATE, &[0; 4]))
    });
}

#[test]
fn frames_that_carry_nothing() {
    ends(|client, _| client.try_send(PING, 0, 0, &[0; 8]));
    ends(|client, _| client.try_send(SETTINGS, 0, 0, &[]));
}

#[test]
fn a_client_that_opens_no_window_is_given_up() {
    let content = vec![b'x'; 200_000];
    let origin = Origin::answering(move |_| Answer::with_body("200 OK\nCache-Control: max-age=60", &content));
    let larder = Larder::with(&origin, "[timeouts]\nstall = '300ms'");
    larder.client().ask("GET /\nHost: a.example");
    larder.settle();
    let mut client = Client::with(larder.address(), &[(4, 0)]);
    let cookie = "x".repeat(4_000);
    for stream in (1..100).step_by(2) {
        client.ask(stream, "GET", "/", &[("cookie", &cookie)]);
    }
    // Other clients are served meanwhile.
    assert_eq!(Client::new(&larder).get(1, "/").body.len(), 200_000);
    for stream in (1..100).step_by(2) {
        let response = client.response(stream);
        assert!(response.reset.is_some() && response.status == 200, "{stream}: {response:?}");
    }
    // The connection remains usable.
    client.send(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]);
    assert_eq!(client.get(101, "/").body.len(), 200_000);
}

#[test]
fn a_client_that_does_not_finish_is_given_up() {
    let origin = Origin::always(STORED);
    let timeouts = "[timeouts]\nhead = '300ms'\nidle = '300ms'\nstall = '300ms'\n";
    let larder = Larder::with(&origin, timeouts);
    // An idle connection, an incomplete frame, and an incomplete preface.
    let mut idle = Client::new(&larder);
    assert!(!idle.until(|_| false));
    assert_eq!(idle.farewell, Some(0));
    let mut half = Client::new(&larder);
    half.raw(&frame(PING, 0, 0, &[0; 8])[..12]);
    assert!(!half.until(|_| false));
    let mut preface = larder.client();
    preface.raw(b"PRI * HTTP/2.0\r\n\r\n");
    assert!(preface.rest().is_none_or(|rest| !rest.is_empty()));
    // A stalled content is refused on its stream.
    let mut client = Client::new(&larder);
    let head = client.head("POST", "/", &[]);
    client.send(HEADERS, END_HEADERS, 1, &head);
    client.send(DATA, 0, 1, b"abc");
    assert_eq!(client.response(1).status, 408);
    larder.wait_for("in_flight", 0);
}

#[test]
fn many_streams_that_stall_take_little_memory() {
    let (_origin, larder) = with_large_pages();
    larder.client().ask("GET /\nHost: a.example");
    larder.settle();
    let before = larder.resident();
    let cookie = "x".repeat(8_000);
    let mut clients: Vec<_> = (0..20).map(|_| Client::with(larder.address(), &[(4, 0)])).collect();
    for client in &mut clients {
        for stream in (1..200).step_by(2) {
            client.ask(stream, "GET", "/", &[("cookie", &cookie)]);
        }
        // The heads arrive, and the content waits for a window.
        assert!(client.until(|client| client.responses.len() == 100));
    }
    let grown = larder.resident().saturating_sub(before);
    assert!(grown < 48 << 20, "{} streams hold {grown} bytes", 20 * 100);
    assert_eq!(Client::new(&larder).get(1, "/").body.len(), 100_000);
}

#[test]
fn unread_heads_and_trailers_of_many_streams_take_little_memory() {
    const CONNECTIONS: u32 = 20;
    const STREAMS: u32 = 100;
    let origin = Origin::answering(|seen| {
        let long = |length| format!("X-Long: {}\r\n\r\n", "x".repeat(length));
        let begin = "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\n";
        match seen.method.as_str() {
            "HEAD" => Answer::raw(begin.to_owned() + &long(60_000)),
            _ => Answer::raw(
                format!("{begin}Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n") + &long(15_000),
            ),
        }
    });
    let larder = Larder::with(&origin, "[limits]\nqueue = 16384");
    let before = larder.resident();
    let mut clients: Vec<_> = (0..CONNECTIONS)
        .map(|number| {
            let mut client = Client::new(&larder);
            let ask = |stream: u32| {
                let method = if stream.is_multiple_of(5) { "GET" } else { "HEAD" };
                let head = client.head(method, &format!("/{number}/{stream}"), &[]);
                frame(HEADERS, END_HEADERS | END_STREAM, stream, &head)
            };
            let frames: Vec<_> = (0..STREAMS).map(|number| ask(2 * number + 1)).collect();
            client.raw(&frames.concat());
            client
        })
        .collect();
    let all = (CONNECTIONS * STREAMS) as usize;
    // The heads are some 100 MB: several seconds of CPU time in a debug build.
    within(3 * PATIENCE, "answers of the origin", || {
        (origin.count() == all && larder.stat("in_flight") < 200).then_some(())
    });
    let grown = larder.resident().saturating_sub(before);
    assert!(grown < 64 << 20, "{all} answers hold {grown} bytes");
    // A client that reads at last gets its answers.
    let client = &mut clients[0];
    let is_over =
        |client: &Client| client.responses.values().filter(|one| one.whole || one.reset.is_some()).count();
    assert!(client.until(|client| is_over(client) == STREAMS as usize));
    assert!(client.responses.values().any(|one| one.whole));
    for (stream, cut) in client.responses.iter().filter(|(_, one)| !one.whole) {
        assert_eq!(cut.reset, Some(ENHANCE_YOUR_CALM), "{stream} {} {:?}", cut.status, cut.body);
    }
}

#[test]
fn long_heads_of_requests_in_progress_take_little_memory() {
    const CONNECTIONS: usize = 30;
    let (gate, origin) = Origin::gated(|_, gate| {
        gate.pass();
        Answer::raw("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 5\r\n\r\nhello")
    });
    let larder = Larder::with(&origin, "[limits]\nqueue = 16384");
    let before = larder.resident();
    let cookie = "x".repeat(15_000);
    let mut clients: Vec<_> = (0..CONNECTIONS)
        .map(|number| {
            let mut client = Client::new(&larder);
            for stream in (1..200).step_by(2) {
                client.ask(stream, "GET", &format!("/{number}/{stream}"), &[("cookie", &cookie)]);
            }
            client
        })
        .collect();
    within(3 * PATIENCE, "all requests", || (larder.stats()["http_versions"]["2"] == 3_000).then_some(()));
    let grown = larder.resident().saturating_sub(before);
    assert!(grown < 80 << 20, "{} requests hold {grown} bytes", CONNECTIONS * 100);
    gate.open();
    for client in &mut clients {
        assert!(client.until(|client| client.responses.values().filter(|one| one.whole).count() == 100));
    }
    let all = || clients.iter().flat_map(|client| client.responses.values()).map(|one| one.status);
    let count = |status| all().filter(|own| *own == status).count();
    assert!(count(200) >= 1_000 && count(503) >= 1_000 && count(200) + count(503) == CONNECTIONS * 100);
    // The memory is free again.
    clients[0].ask(201, "GET", "/again", &[("cookie", &cookie)]);
    assert_eq!(clients[0].response(201).status, 200);
}

#[test]
fn unread_contents_of_many_requests_take_little_memory() {
    const CONNECTIONS: usize = 240;
    let (gate, origin) = Origin::gated(|_, gate| {
        gate.pass();
        Answer::with_body("200 OK\nCache-Control: no-store", b"hello")
    });
    let larder = Larder::with(&origin, "[limits]\nin_flight = 16");
    let before = larder.resident();
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let mut client = Client::new(&larder);
            let upload = |stream| {
                let head = frame(HEADERS, END_HEADERS, stream, &client.head("POST", "/", &[]));
                [head, frame(DATA, 0, stream, &[b'x'; 16_000]).repeat(8)].concat()
            };
            let frames = [1, 3, 5, 7].map(upload).concat();
            client.raw(&frames);
            client.ping();
            client
        })
        .collect();
    let grown = larder.resident().saturating_sub(before);
    assert!(grown < 100 << 20, "contents of {} requests hold {grown} bytes", CONNECTIONS * 4);
    let resets = || clients.iter().flat_map(|client| client.responses.values()).map(|one| one.reset);
    assert!(resets().count() >= 100 && resets().all(|reset| reset == Some(ENHANCE_YOUR_CALM)));
    // The memory is free again.
    drop(clients);
    gate.open();
    let mut client = Client::new(&larder);
    client.upload(1, &[b'x'; 200_000]);
    assert_eq!(client.response(1).status, 200);
}

#[test]
fn unread_contents_of_many_tunnels_take_little_memory() {
    // A parent that never opens a tunnel: what clients send waits.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let larder =
        Larder::start(&format!("[parent]\nhttp = 'http://{}'", silent.local_addr().expect("an address")));
    let before = larder.resident();
    let head = section(&[(":method", "CONNECT"), (":authority", "far.test:443")]);
    let tunnel = |stream| {
        let head = frame(HEADERS, END_HEADERS, stream, &head);
        [head, frame(DATA, 0, stream, &[b'x'; 16_000]).repeat(8)].concat()
    };
    let mut clients: Vec<_> = (0..30).map(|_| Client::with(larder.forward, &[])).collect();
    for client in &mut clients {
        (1..80).step_by(2).for_each(|stream| client.raw(&tunnel(stream)));
        client.ping();
    }
    let grown = larder.resident().saturating_sub(before);
    assert!(grown < 80 << 20, "contents of 1,200 tunnels hold {grown} bytes");
    let resets = clients.iter().flat_map(|client| client.responses.values()).map(|one| one.reset);
    let resets: Vec<_> = resets.collect();
    assert!(
        resets.len() >= 100 && resets.iter().all(|reset| *reset == Some(ENHANCE_YOUR_CALM)),
        "{resets:?}"
    );
    // The memory is free again.
    drop(clients);
    larder.wait_for("connections", 0);
    let mut client = Client::with(larder.forward, &[]);
    client.raw(&tunnel(1));
    client.ping();
    assert!(client.responses.is_empty(), "{:?}", client.responses);
}
