//! Invalid frames: their lengths, streams and positions (RFC 9113 sections 5 and 6).

use larder_http2::{Limits, PREFACE};

use crate::client::*;

const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const STREAM_CLOSED: u32 = 5;
const FRAME_SIZE_ERROR: u32 = 6;
const COMPRESSION_ERROR: u32 = 9;

/// A case: its description, the frame, and the code of the connection error.
type Case = (&'static str, Frame, u32);

fn assert_fails(prepare: impl Fn(&mut Client), cases: Vec<Case>) {
    for (what, Frame(kind, flags, stream, payload), code) in cases {
        let mut client = Client::new();
        prepare(&mut client);
        client.frames();
        let heard = client.send(kind, flags, stream, &payload);
        assert!(matches!(heard[..], [Heard::Failed(failed, _)] if failed == code), "{what}: {heard:?}");
        let last = client.frames().pop().expect("a GOAWAY");
        assert_eq!((last.0, &last.3[4..]), (GOAWAY, &code.to_be_bytes()[..]), "{what}");
        // No further frames follow.
        assert!(matches!(client.get(101, "/")[..], [Heard::Failed(..)]));
        assert_eq!(client.frames(), [], "{what}");
    }
}

#[test]
fn frames_that_end_a_connection() {
    let four = |number: u32| number.to_be_bytes().to_vec();
    let cases = vec![
        ("content without a stream", Frame(DATA, 0, 0, vec![0]), PROTOCOL_ERROR),
        ("content of an idle stream", Frame(DATA, 0, 9, vec![0]), PROTOCOL_ERROR),
        ("content of a server's stream", Frame(DATA, 0, 2, vec![0]), PROTOCOL_ERROR),
        ("a request without a stream", Frame(HEADERS, END_HEADERS, 0, get("/")), PROTOCOL_ERROR),
        ("a request on a server's stream", Frame(HEADERS, END_HEADERS, 2, get("/")), PROTOCOL_ERROR),
        ("a section that cannot be decoded", Frame(HEADERS, END_HEADERS, 3, vec![0x80]), COMPRESSION_ERROR),
        ("more padding than payload", Frame(HEADERS, END_HEADERS | PADDED, 3, vec![9, 0]), PROTOCOL_ERROR),
        ("padding without a length", Frame(HEADERS, END_HEADERS | PADDED, 3, vec![]), FRAME_SIZE_ERROR),
        ("a priority that is too short", Frame(HEADERS, END_HEADERS | 0x20, 3, vec![0; 4]), FRAME_SIZE_ERROR),
        ("PRIORITY without a stream", Frame(PRIORITY, 0, 0, vec![0; 5]), PROTOCOL_ERROR),
        ("RST_STREAM without a stream", Frame(RST_STREAM, 0, 0, four(8)), PROTOCOL_ERROR),
        ("RST_STREAM of an idle stream", Frame(RST_STREAM, 0, 9, four(8)), PROTOCOL_ERROR),
        ("RST_STREAM of 5 bytes", Frame(RST_STREAM, 0, 1, vec![0; 5]), FRAME_SIZE_ERROR),
        ("SETTINGS on a stream", Frame(SETTINGS, 0, 1, vec![]), PROTOCOL_ERROR),
        ("SETTINGS of 5 bytes", Frame(SETTINGS, 0, 0, vec![0; 5]), FRAME_SIZE_ERROR),
        ("an acknowledgement that is not empty", Frame(SETTINGS, ACK, 0, vec![0; 6]), FRAME_SIZE_ERROR),
        ("push that is neither on nor off", Frame(SETTINGS, 0, 0, setting(2, 2)), PROTOCOL_ERROR),
        ("a first window that is too large", Frame(SETTINGS, 0, 0, setting(4, 1 << 31)), FLOW_CONTROL_ERROR),
        ("frames that are too small", Frame(SETTINGS, 0, 0, setting(5, 16_383)), PROTOCOL_ERROR),
        ("frames that are too large", Frame(SETTINGS, 0, 0, setting(5, 1 << 24)), PROTOCOL_ERROR),
        ("a push of a client", Frame(PUSH_PROMISE, END_HEADERS, 1, vec![0; 9]), PROTOCOL_ERROR),
        ("PING on a stream", Frame(PING, 0, 1, vec![0; 8]), PROTOCOL_ERROR),
        ("PING of 7 bytes", Frame(PING, 0, 0, vec![0; 7]), FRAME_SIZE_ERROR),
        ("GOAWAY on a stream", Frame(GOAWAY, 0, 1, vec![0; 8]), PROTOCOL_ERROR),
        ("WINDOW_UPDATE of 0", Frame(WINDOW_UPDATE, 0, 0, four(0)), PROTOCOL_ERROR),
        ("WINDOW_UPDATE of 3 bytes", Frame(WINDOW_UPDATE, 0, 1, vec![0; 3]), FRAME_SIZE_ERROR),
        ("WINDOW_UPDATE of an idle stream", Frame(WINDOW_UPDATE, 0, 9, four(1)), PROTOCOL_ERROR),
        ("a window that overflows", Frame(WINDOW_UPDATE, 0, 0, four(i32::MAX as u32)), FLOW_CONTROL_ERROR),
        ("CONTINUATION without HEADERS", Frame(CONTINUATION, END_HEADERS, 1, vec![]), PROTOCOL_ERROR),
        ("PRIORITY_UPDATE on a stream", Frame(PRIORITY_UPDATE, 0, 1, vec![0; 4]), PROTOCOL_ERROR),
        ("PRIORITY_UPDATE of 3 bytes", Frame(PRIORITY_UPDATE, 0, 0, vec![0; 3]), FRAME_SIZE_ERROR),
        ("PRIORITY_UPDATE of no stream", Frame(PRIORITY_UPDATE, 0, 0, vec![0; 4]), PROTOCOL_ERROR),
        ("an unacceptable length", Frame(0xff, 0, 0, vec![0; 16_385]), FRAME_SIZE_ERROR),
    ];
    assert_fails(|client| drop(client.get(1, "/")), cases);
}

#[test]
fn numbers_of_streams_increase_and_closed_ones_stay_closed() {
    let prepare = |client: &mut Client| {
        client.get(5, "/");
        client.answer(5, b"x");
    };
    let cases = vec![
        ("a lower number", Frame(HEADERS, END_HEADERS | END_STREAM, 3, get("/")), PROTOCOL_ERROR),
        (
            "a request on a closed stream",
            Frame(HEADERS, END_HEADERS | END_STREAM, 5, get("/")),
            STREAM_CLOSED,
        ),
    ];
    assert_fails(prepare, cases);
    // Frames that may have been in flight do not end the connection.
    let mut client = Client::new();
    prepare(&mut client);
    client.frames();
    assert_eq!(client.send(RST_STREAM, 0, 5, &[0; 4]), []);
    assert_eq!(client.send(WINDOW_UPDATE, 0, 5, &1_u32.to_be_bytes()), []);
    assert_eq!(client.send(PRIORITY, 0, 5, &[0; 5]), []);
    assert_eq!(client.frames(), []);
    assert_eq!(client.send(DATA, 0, 5, b"x"), []);
    assert_eq!(client.frames(), [reset(5, STREAM_CLOSED)]);
}

#[test]
fn frames_that_end_a_stream() {
    for (what, Frame(kind, flags, stream, payload), code) in [
        ("WINDOW_UPDATE of 0", Frame(WINDOW_UPDATE, 0, 1, vec![0; 4]), PROTOCOL_ERROR),
        (
            "a window that overflows",
            Frame(WINDOW_UPDATE, 0, 1, vec![0x7f, 255, 255, 255]),
            FLOW_CONTROL_ERROR,
        ),
        ("PRIORITY of 4 bytes", Frame(PRIORITY, 0, 1, vec![0; 4]), FRAME_SIZE_ERROR),
        ("a stream that depends on itself", Frame(PRIORITY, 0, 1, vec![0, 0, 0, 1, 0]), PROTOCOL_ERROR),
        ("content behind the end", Frame(DATA, 0, 1, vec![0]), STREAM_CLOSED),
        (
            "trailers behind the end",
            Frame(HEADERS, END_HEADERS | END_STREAM, 1, block(&[("x", "1")])),
            STREAM_CLOSED,
        ),
    ] {
        let mut client = Client::new();
        client.get(1, "/");
        assert_eq!(client.send(kind, flags, stream, &payload), [Heard::Reset(1, code)], "{what}");
        assert_eq!(client.frames(), [reset(1, code)], "{what}");
        assert_eq!(client.get(3, "/").len(), 1, "{what}");
    }
}

#[test]
fn a_field_section_is_not_interrupted() {
    let head = get("/");
    for (what, second) in [
        ("content", frame(DATA, 0, 1, b"x")),
        ("an unknown frame", frame(0xee, 0, 1, b"x")),
        ("another stream's section", frame(CONTINUATION, END_HEADERS, 3, &head[9..])),
        ("another request", frame(HEADERS, END_HEADERS, 1, &head)),
    ] {
        let mut client = Client::new();
        let wire = [frame(HEADERS, END_STREAM, 1, &head[..9]), second].concat();
        let heard = client.send_bytes(&wire);
        assert!(matches!(heard[..], [Heard::Failed(PROTOCOL_ERROR, _)]), "{what}: {heard:?}");
    }
    let mut client = Client::new();
    let parts = head.chunks(7).enumerate().map(|(number, part)| {
        let last = if (number + 1) * 7 >= head.len() { END_HEADERS } else { 0 };
        if number == 0 { frame(HEADERS, END_STREAM, 1, part) } else { frame(CONTINUATION, last, 1, part) }
    });
    assert_eq!(client.send_bytes(&parts.collect::<Vec<_>>().concat()).len(), 1);
}

#[test]
fn the_first_bytes_are_the_preface_and_settings() {
    let mut client = Client::silent(Limits::default());
    assert_eq!(client.take(&PREFACE[..23]), (Vec::new(), 23));
    assert_eq!(client.take(PREFACE), (Vec::new(), 0));
    let heard = client.send(PING, 0, 0, &[0; 8]);
    assert!(matches!(heard[..], [Heard::Failed(PROTOCOL_ERROR, _)]), "{heard:?}");
    for first in [&b"GET / HTTP/1.1\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nXX"] {
        let mut client = Client::silent(Limits::default());
        let (heard, _) = client.take(first);
        assert!(matches!(heard[..], [Heard::Failed(PROTOCOL_ERROR, _)]), "{heard:?}");
    }
}

#[test]
fn the_server_says_its_limits_first() {
    let mut client = Client::silent(Limits::default());
    let frames = client.frames();
    let settings: Vec<_> = frames[0]
        .3
        .chunks(6)
        .map(|pair| (pair[1], u32::from_be_bytes(pair[2..].try_into().unwrap())))
        .collect();
    assert_eq!(frames[0].0, SETTINGS);
    assert_eq!(settings, [(1, 4_096), (3, 100), (4, 128 << 10), (6, 32 << 10), (8, 1), (9, 1)]);
    assert_eq!(frames[1], window(0, (512 << 10) - 65_535));
    client.take(PREFACE);
    client.send(SETTINGS, 0, 0, &[setting(2, 0), setting(0x99, 7)].concat());
    assert_eq!(client.frames(), [Frame(SETTINGS, ACK, 0, Vec::new())]);
}

#[test]
fn unknown_frames_and_flags_are_ignored() {
    let mut client = Client::new();
    assert_eq!(client.send(0xee, 0xff, 77, b"whatever"), []);
    assert_eq!(client.send(GOAWAY, 0, 0, &[0; 8]), []);
    assert_eq!(client.send(SETTINGS, ACK, 0, &[]), []);
    assert_eq!(client.frames(), []);
    assert_eq!(client.send(HEADERS, END_HEADERS | END_STREAM | 0x80, 1 | 1 << 31, &get("/")).len(), 1);
}
