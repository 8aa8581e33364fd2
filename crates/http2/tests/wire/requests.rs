//! Valid and invalid requests; responses, interim responses and trailers.

use larder_http2::{Code, LINGER, Limits};

use crate::client::*;

const PROTOCOL_ERROR: u32 = 1;

#[test]
fn a_request_is_answered_on_its_stream() {
    let mut client = Client::new();
    let head = Heard::Head {
        stream: 1,
        line: "GET http|a.example|/x?y".to_owned(),
        fields: Vec::new(),
        length: Some(0),
        end: true,
    };
    assert_eq!(client.get(1, "/x?y"), [head]);
    assert!(client.connection.head(&mut client.out, 1, 200, false, with("Content-Length", "5".to_owned())));
    assert_eq!(client.data(1, b"hello"), 5);
    assert_eq!(client.connection.open_streams(), 0);
    let frames = client.frames();
    assert_eq!(frames.len(), 2);
    let Frame(HEADERS, END_HEADERS, 1, block) = &frames[0] else { panic!("{frames:?}") };
    let expected = [(":status", "200"), ("content-length", "5")];
    assert_eq!(fields(block), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(frames[1], Frame(DATA, END_STREAM, 1, b"hello".to_vec()));
}

#[test]
fn content_and_trailers_come_in_order() {
    let mut client = Client::new();
    let head = client.send(HEADERS, END_HEADERS, 3, &post(&[("content-length", "5"), ("te", "trailers")]));
    assert!(matches!(&head[..], [Heard::Head { length: Some(5), end: false, .. }]), "{head:?}");
    assert_eq!(client.send(DATA, 0, 3, b"hel"), [Heard::Data(3, b"hel".to_vec(), false)]);
    assert_eq!(client.send(DATA, PADDED, 3, b"\x03lo..."), [Heard::Data(3, b"lo".to_vec(), false)]);
    let trailers = client.send(HEADERS, END_HEADERS | END_STREAM, 3, &block(&[("x-sum", "1")]));
    assert_eq!(trailers, [Heard::Trailers(3, vec![("x-sum".to_owned(), "1".to_owned())])]);
    client.connection.head(&mut client.out, 3, 200, false, |_| {});
    assert_eq!(client.connection.data(&mut client.out, 3, b"hi", false), 2);
    client.connection.trailers(&mut client.out, 3, with("x-sum", "2".to_owned()));
    let frames = client.frames();
    assert_eq!(frames[1], Frame(DATA, 0, 3, b"hi".to_vec()));
    assert_eq!((frames[2].0, frames[2].1), (HEADERS, END_HEADERS | END_STREAM));
    assert_eq!(client.connection.open_streams(), 0);
}

#[test]
fn interim_responses_precede_the_response() {
    let mut client = Client::new();
    client.get(1, "/");
    client.connection.interim(&mut client.out, 1, 103, with("link", "</a>".to_owned()));
    assert!(client.connection.head(&mut client.out, 1, 204, true, |_| {}));
    // No second head and no interim response may follow.
    assert!(!client.connection.head(&mut client.out, 1, 200, true, |_| {}));
    client.connection.interim(&mut client.out, 1, 103, |_| {});
    let frames = client.frames();
    let statuses: Vec<_> = frames.iter().map(|frame| (frame.1, fields(&frame.3)[0].1.clone())).collect();
    assert_eq!(statuses, [(END_HEADERS, "103".to_owned()), (END_HEADERS | END_STREAM, "204".to_owned())]);
}

#[test]
fn a_response_before_the_end_of_the_request_ends_it() {
    let mut client = Client::new();
    client.send(HEADERS, END_HEADERS, 1, &post(&[]));
    client.connection.head(&mut client.out, 1, 413, true, |_| {});
    client.connection.linger(&mut client.out, 0);
    assert_eq!(client.frames().len(), 1);
    client.connection.linger(&mut client.out, LINGER);
    assert_eq!(client.frames(), [reset(1, 0)]);
    // Frames that were in flight are ignored.
    assert_eq!(client.send(DATA, 0, 1, &[0; 9_000]), []);
    assert_eq!(client.send(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[("x-sum", "1")])), []);
    assert_eq!(client.frames(), []);
}

#[test]
fn rfc9113_section_8_malformed_requests_are_reset() {
    let good = [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/")];
    let changed = |place: usize, with: &[(&'static str, &'static str)]| {
        let mut fields = good.to_vec();
        fields.splice(place..(place + 1).min(fields.len()), with.iter().copied());
        fields
    };
    let cases = [
        ("no :method", changed(0, &[])),
        ("no :scheme", changed(1, &[])),
        ("no :authority and no host", changed(2, &[])),
        ("no :path", changed(3, &[])),
        ("an empty :path", changed(3, &[(":path", "")])),
        ("a :path that is no path", changed(3, &[(":path", "x")])),
        ("an asterisk with GET", changed(3, &[(":path", "*")])),
        ("a space in :path", changed(3, &[(":path", "/a b")])),
        ("a repeated :path", changed(3, &[(":path", "/"), (":path", "/")])),
        ("a response's pseudo-header field", changed(4, &[(":status", "200")])),
        ("an unknown pseudo-header field", changed(4, &[(":x", "1")])),
        ("extended CONNECT, which was not offered", changed(4, &[(":protocol", "websocket")])),
        ("a pseudo-header field behind another", changed(3, &[("x", "1"), (":path", "/")])),
        ("the same behind cookies", changed(3, &[("cookie", "1"), ("cookie", "1"), (":path", "/")])),
        ("a name in capitals", changed(4, &[("Accept", "x")])),
        ("a blank in a name", changed(4, &[("a b", "x")])),
        ("a colon in a name", changed(4, &[("a:", "x")])),
        ("an empty name", changed(4, &[("", "x")])),
        ("a line end in a value", changed(4, &[("a", "x\r\nb: c")])),
        ("NUL in a value", changed(4, &[("a", "x\0")])),
        ("a blank before a value", changed(4, &[("a", " x")])),
        ("a blank behind a value", changed(4, &[("a", "x\t")])),
        ("connection", changed(4, &[("connection", "close")])),
        ("keep-alive", changed(4, &[("keep-alive", "1")])),
        ("proxy-connection", changed(4, &[("proxy-connection", "x")])),
        ("transfer-encoding", changed(4, &[("transfer-encoding", "chunked")])),
        ("upgrade", changed(4, &[("upgrade", "h2c")])),
        ("te", changed(4, &[("te", "gzip")])),
        ("another host", changed(4, &[("host", "b")])),
        ("two hosts", changed(4, &[("host", "a"), ("host", "a")])),
        ("a length without content", changed(4, &[("content-length", "1")])),
        ("two lengths", changed(4, &[("content-length", "0"), ("content-length", "0")])),
        ("a length with a sign", changed(4, &[("content-length", "+0")])),
        ("a length that overflows", changed(4, &[("content-length", "18446744073709551616")])),
        ("CONNECT with a path", vec![(":method", "CONNECT"), (":authority", "a:1"), (":path", "/")]),
        ("CONNECT without a target", vec![(":method", "CONNECT")]),
    ];
    for (what, fields) in cases {
        let mut client = Client::new();
        assert_eq!(client.send(HEADERS, END_HEADERS | END_STREAM, 1, &block(&fields)), [], "{what}");
        assert_eq!(client.frames(), [reset(1, PROTOCOL_ERROR)], "{what}");
        // The connection continues.
        assert_eq!(client.get(3, "/").len(), 1, "{what}");
    }
}

#[test]
fn an_odd_but_valid_field_section_is_a_request() {
    for (fields, expected) in [
        (vec![(":method", "GET"), (":scheme", "http"), (":path", "/"), ("host", "a")], "GET http|a|/"),
        (
            vec![(":method", "GET"), (":path", "/"), (":authority", "a"), (":scheme", "http"), ("host", "A")],
            "GET http|a|/",
        ),
        (
            vec![(":method", "OPTIONS"), (":scheme", "http"), (":authority", "a"), (":path", "*")],
            "OPTIONS http|a|*",
        ),
        (vec![(":method", "CONNECT"), (":authority", "a:443")], "CONNECT |a:443|"),
        (
            vec![(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/"), ("x", "")],
            "GET http|a|/",
        ),
    ] {
        let mut client = Client::new();
        let heard = client.send(HEADERS, END_HEADERS | END_STREAM, 1, &block(&fields));
        assert!(matches!(&heard[..], [Heard::Head { line, .. }] if line == expected), "{heard:?}");
    }
}

#[test]
fn several_cookie_lines_are_one() {
    let mut client = Client::new();
    let fields = post(&[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2"), ("cookie", "c")]);
    let heard = client.send(HEADERS, END_HEADERS | END_STREAM, 1, &fields);
    let Some(Heard::Head { fields, .. }) = heard.first() else { panic!("{heard:?}") };
    let expected = [("x", "y"), ("cookie", "a=1; b=2; c")];
    assert_eq!(*fields, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn content_has_the_announced_length() {
    for (what, length, content, is_fine) in [
        ("as announced", "3", "abc", true),
        ("in pieces", "3", "ab c", true),
        ("too short", "3", "ab", false),
        ("too long", "3", "abcd", false),
        ("too long in pieces", "3", "abc d", false),
        ("nothing", "0", "x", false),
    ] {
        let mut client = Client::new();
        client.send(HEADERS, END_HEADERS, 1, &post(&[("content-length", length)]));
        let mut last = Vec::new();
        let pieces: Vec<_> = content.split(' ').collect();
        for (number, piece) in pieces.iter().enumerate() {
            last = client.send(DATA, u8::from(number + 1 == pieces.len()), 1, piece.as_bytes());
        }
        let is_reset = last == [Heard::Reset(1, PROTOCOL_ERROR)];
        assert_eq!(!is_reset, is_fine, "{what}: {last:?}");
    }
    // Trailers end the content, too, and its length is checked.
    let mut client = Client::new();
    client.send(HEADERS, END_HEADERS, 1, &post(&[("content-length", "3")]));
    let end = client.send(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[("x", "1")]));
    assert_eq!(end, [Heard::Reset(1, PROTOCOL_ERROR)]);
}

#[test]
fn trailers_are_no_head() {
    for (what, flags, fields) in [
        ("that end nothing", END_HEADERS, vec![("x", "1")]),
        ("with a pseudo-header field", END_HEADERS | END_STREAM, vec![(":path", "/")]),
        ("with a field of connections", END_HEADERS | END_STREAM, vec![("connection", "close")]),
        ("with a name in capitals", END_HEADERS | END_STREAM, vec![("X", "1")]),
    ] {
        let mut client = Client::new();
        client.send(HEADERS, END_HEADERS, 1, &post(&[]));
        let heard = client.send(HEADERS, flags, 1, &block(&fields));
        assert_eq!(heard, [Heard::Reset(1, PROTOCOL_ERROR)], "trailers {what}");
    }
}

#[test]
fn a_head_beyond_the_limits_can_be_answered() {
    let mut client = Client::new();
    let many: Vec<_> = (0..100).map(|_| ("x", "y")).collect();
    let long = "x".repeat(33_000);
    for (stream, head) in [(1, post(&many)), (3, post(&[("x", &long)]))] {
        let halves = head.split_at(head.len().min(16_000));
        let mut wire = frame(HEADERS, END_STREAM, stream, halves.0);
        let mut parts = halves.1.chunks(16_000).peekable();
        while let Some(part) = parts.next() {
            let last = if parts.peek().is_none() { END_HEADERS } else { 0 };
            wire.extend(frame(CONTINUATION, last, stream, part));
        }
        if halves.1.is_empty() {
            wire = frame(HEADERS, END_HEADERS | END_STREAM, stream, halves.0);
        }
        assert_eq!(client.send_bytes(&wire), [Heard::TooLarge(stream)]);
        assert!(client.connection.head(&mut client.out, stream, 431, true, |_| {}));
    }
    assert_eq!(client.get(5, "/").len(), 1, "the table of both sides is still the same");
}

#[test]
fn a_long_head_is_continued() {
    let mut client = Client::new();
    client.get(1, "/");
    let long = "x".repeat(40_000);
    client.connection.head(&mut client.out, 1, 200, true, with("x", long.clone()));
    let frames = client.frames();
    let kinds: Vec<_> = frames.iter().map(|frame| (frame.0, frame.1, frame.3.len() <= 16_384)).collect();
    let expected = [(HEADERS, END_STREAM, true), (CONTINUATION, 0, true), (CONTINUATION, END_HEADERS, true)];
    assert_eq!(kinds, expected);
    let block: Vec<_> = frames.into_iter().flat_map(|frame| frame.3).collect();
    assert_eq!(fields(&block)[1].1, long);
}

#[test]
fn requests_beyond_the_limit_are_refused_and_may_be_repeated() {
    let mut client = Client::with(Limits { streams: 2, ..Limits::default() });
    assert_eq!(client.get(1, "/").len() + client.get(3, "/").len(), 2);
    assert_eq!(client.get(5, "/"), []);
    assert_eq!(client.frames(), [reset(5, 7)]);
    client.answer(1, b"");
    assert_eq!(client.get(7, "/").len(), 1);
}

#[test]
fn a_drain_loses_no_request() {
    let mut client = Client::new();
    client.get(1, "/");
    client.connection.drain(&mut client.out);
    let frames = client.frames();
    assert_eq!(frames[0], go_away(i32::MAX as u32, 0));
    assert_eq!(frames[1].0, PING);
    // The client sent this request before it received the message.
    assert_eq!(client.get(3, "/").len(), 1);
    assert_eq!(client.send(PING, ACK, 0, &frames[1].3), []);
    assert_eq!(client.frames(), [go_away(3, 0)]);
    assert_eq!(client.get(5, "/"), []);
    assert_eq!(client.frames(), [reset(5, 7)]);
    for stream in [1, 3] {
        assert!(!client.connection.is_done());
        client.answer(stream, b"x");
    }
    assert!(client.connection.is_done());
}

#[test]
fn a_ping_is_answered_and_can_be_sent() {
    let mut client = Client::new();
    assert_eq!(client.send(PING, 0, 0, b"12345678"), []);
    assert_eq!(client.frames(), [Frame(PING, ACK, 0, b"12345678".to_vec())]);
    client.connection.ping(&mut client.out);
    assert!(client.connection.is_pinged());
    let payload = client.frames()[0].3.clone();
    client.send(PING, ACK, 0, &payload);
    assert!(!client.connection.is_pinged());
    assert_eq!(client.frames(), []);
}

#[test]
fn a_reset_ends_a_stream_in_both_directions() {
    let mut client = Client::new();
    client.get(1, "/");
    assert_eq!(client.send(RST_STREAM, 0, 1, &8_u32.to_be_bytes()), [Heard::Reset(1, 8)]);
    assert!(!client.connection.head(&mut client.out, 1, 200, false, |_| {}));
    assert_eq!(client.data(1, b"abc"), 3, "content of a stream that is gone is as good as sent");
    assert_eq!(client.frames(), []);
    client.get(3, "/");
    client.answer(3, &[0; 70_000]);
    client.frames();
    client.connection.reset(&mut client.out, 3, Code::INTERNAL_ERROR);
    assert_eq!(client.frames(), [reset(3, 2)]);
}
