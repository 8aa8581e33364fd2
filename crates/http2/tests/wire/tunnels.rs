//! Streams that are tunnels (RFC 9113 section 8.5, RFC 8441).

use larder_http2::{Code, Event, Limits};

use crate::client::*;

const PROTOCOL_ERROR: u32 = 1;

fn connect(client: &mut Client, stream: u32) -> Vec<Heard> {
    let head = block(&[(":method", "CONNECT"), (":authority", "a.example:443")]);
    client.send(HEADERS, END_HEADERS, stream, &head)
}

#[test]
fn each_direction_of_a_tunnel_ends_on_its_own() {
    for client_first in [true, false] {
        let mut client = Client::new();
        assert!(matches!(connect(&mut client, 1)[..], [Heard::Head { end: false, .. }]));
        client.begin(1);
        client.frames();
        if client_first {
            assert_eq!(client.send(DATA, END_STREAM, 1, b"abc"), [Heard::Data(1, b"abc".to_vec(), true)]);
            assert_eq!(client.data(1, b"xyz"), 3);
        } else {
            assert_eq!(client.data(1, b"xyz"), 3);
            assert_eq!(client.send(DATA, 0, 1, b"ab"), [Heard::Data(1, b"ab".to_vec(), false)]);
            assert_eq!(client.connection.open_streams(), 1);
            assert_eq!(client.send(DATA, END_STREAM, 1, b"c"), [Heard::Data(1, b"c".to_vec(), true)]);
        }
        assert_eq!(client.frames(), [Frame(DATA, END_STREAM, 1, b"xyz".to_vec())]);
        // The stream stays open until its content has been read.
        client.connection.release(&mut client.out, 1, 2);
        assert_eq!(client.connection.open_streams(), 1);
        client.connection.release(&mut client.out, 1, 1);
        assert_eq!(client.connection.open_streams(), 0);
        assert_eq!(client.frames(), [], "no RST_STREAM");
        assert_eq!(client.connection.validate(), Ok(()));
    }
}

#[test]
fn content_of_an_ended_tunnel_returns_to_the_connection_window() {
    let mut client = Client::new();
    let piece = [0; 16_000];
    for stream in (1..200).step_by(2) {
        connect(&mut client, stream);
        client.begin(stream);
        assert_eq!(client.data(stream, b""), 0);
        assert_eq!(client.send(DATA, END_STREAM, stream, &piece).len(), 1);
        assert_eq!(client.connection.validate(), Ok(()));
    }
    // The unread content is bounded by the limit of open streams.
    assert_eq!(client.connection.open_streams(), 100);
    connect(&mut client, 201);
    assert_eq!(client.frames().last(), Some(&reset(201, Code::REFUSED_STREAM.0)));
    for stream in (1..200).step_by(2) {
        match stream % 4 {
            1 => client.connection.release(&mut client.out, stream, piece.len()),
            _ => client.connection.reset(&mut client.out, stream, Code::INTERNAL_ERROR),
        }
        assert_eq!(client.connection.validate(), Ok(()));
    }
    assert_eq!(client.connection.open_streams(), 0);
    assert!(client.frames().iter().all(|frame| frame.0 == WINDOW_UPDATE), "both directions had ended");
}

#[test]
fn a_tunnel_whose_client_sends_nothing_ends_with_its_other_direction() {
    let mut client = Client::new();
    let head = block(&[(":method", "CONNECT"), (":authority", "a.example:443")]);
    assert!(matches!(
        client.send(HEADERS, END_HEADERS | END_STREAM, 1, &head)[..],
        [Heard::Head { end: true, .. }]
    ));
    assert_eq!(client.answer(1, b"xyz"), 3);
    assert_eq!(client.frames().last(), Some(&Frame(DATA, END_STREAM, 1, b"xyz".to_vec())));
    assert_eq!(client.connection.open_streams(), 0);
}

#[test]
fn unread_tunnels_leave_the_window_of_the_connection_open() {
    let limits = Limits { stream_window: 65_535, connection_window: 100_000, ..Limits::default() };
    let mut client = Client::with(limits);
    let piece = [0; 16_000];
    for stream in (1..20).step_by(2) {
        connect(&mut client, stream);
        client.begin(stream);
        for _ in 0..4 {
            assert_eq!(client.send(DATA, 0, stream, &piece).len(), 1);
        }
        // The window of the stream itself is closed.
        assert!(client.frames().iter().all(|frame| frame.0 != WINDOW_UPDATE || frame.2 == 0));
    }
    client.send(HEADERS, END_HEADERS, 21, &post(&[]));
    assert_eq!(client.send(DATA, END_STREAM, 21, &piece).len(), 1);
    client.connection.release(&mut client.out, 1, 64_000);
    assert_eq!(client.frames().first(), Some(&window(1, 64_000)));
    assert_eq!(client.connection.validate(), Ok(()));
    // A reset or a refusal of the tunnel does not change that.
    client.connection.reset(&mut client.out, 3, Code::CANCEL);
    assert_eq!(client.connection.validate(), Ok(()));
    connect(&mut client, 23);
    assert_eq!(client.send(DATA, 0, 23, &piece).len(), 1);
    assert!(client.connection.head(&mut client.out, 23, 403, true, |_| {}));
    assert_eq!(client.connection.validate(), Ok(()));
}

#[test]
fn a_client_may_answer_each_of_many_small_frames_with_two_windows() {
    let mut client = Client::new();
    connect(&mut client, 1);
    client.begin(1);
    let count = 30_000;
    for _ in 0..count {
        assert_eq!(client.connection.data(&mut client.out, 1, b"x", false), 1);
    }
    for _ in 0..count {
        for stream in [0, 1] {
            assert!(client.send(WINDOW_UPDATE, 0, stream, &1_u32.to_be_bytes()).is_empty());
        }
    }
}

#[test]
fn a_connect_that_is_refused_is_an_ordinary_response() {
    let mut client = Client::new();
    connect(&mut client, 1);
    assert!(client.connection.head(&mut client.out, 1, 403, false, |_| {}));
    client.frames();
    assert_eq!(client.data(1, b"no"), 2);
    assert_eq!(client.send(DATA, END_STREAM, 1, b"ignored"), []);
    assert_eq!(client.connection.open_streams(), 0);
}

#[test]
fn a_tunnel_carries_content_and_nothing_else() {
    let mut client = Client::new();
    connect(&mut client, 1);
    client.begin(1);
    let heard = client.send(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[("x", "y")]));
    assert_eq!(heard, [Heard::Reset(1, PROTOCOL_ERROR)]);
}

#[test]
fn an_extended_connect_names_its_protocol() {
    let (mut connection, mut out) =
        (larder_http2::Connection::new(Limits::default(), &mut Vec::new()), Vec::new());
    let mut scratch = larder_http2::Scratch::default();
    let head = block(&[
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":path", "/chat"),
        (":authority", "a.example"),
    ]);
    let wire =
        [larder_http2::PREFACE.to_vec(), frame(SETTINGS, 0, 0, &[]), frame(HEADERS, END_HEADERS, 1, &head)];
    let (wire, mut at) = (wire.concat(), 0);
    let head = loop {
        match connection.next(&wire[at..], &mut scratch, &mut out, 0).expect("well-formed") {
            (_, Event::Head { head, .. }) => break (head.method, head.protocol, head.path, head.authority),
            (used, _) => at += used,
        }
    };
    assert_eq!(head, ("CONNECT", Some("websocket"), "/chat", "a.example"));
}

#[test]
fn malformed_ones_are_reset() {
    let all = [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https"), (":path", "/")];
    let authority = (":authority", "a.example:443");
    let mut client = Client::new();
    for (place, fields) in [
        vec![(":method", "GET"), (":protocol", "websocket"), (":scheme", "https"), (":path", "/"), authority],
        all.to_vec(),
        vec![all[0], all[1], all[2], authority],
        vec![all[0], all[1], authority],
        vec![all[0], all[2], all[3], authority],
        vec![all[0], authority, ("content-length", "5")],
        vec![all[0], all[1], all[1], all[2], all[3], authority],
    ]
    .iter()
    .enumerate()
    {
        let stream = 2 * place as u32 + 1;
        client.send(HEADERS, END_HEADERS, stream, &block(fields));
        let reset = Frame(RST_STREAM, 0, stream, PROTOCOL_ERROR.to_be_bytes().to_vec());
        assert_eq!(client.frames(), [reset], "{fields:?}");
    }
}
