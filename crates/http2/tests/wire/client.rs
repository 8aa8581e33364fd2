//! A client that writes arbitrary frames, and reads those of the server.

use larder_http2::hpack::{Bounds, Decoder, List, encoder};
use larder_http2::{Connection, Event, Failure, Limits, PREFACE, Scratch};

/// A frame: type, flags, stream, payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame(pub(crate) u8, pub(crate) u8, pub(crate) u32, pub(crate) Vec<u8>);

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const PRIORITY_UPDATE: u8 = 16;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;

/// An owned copy of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Head { stream: u32, line: String, fields: Vec<(String, String)>, length: Option<u64>, end: bool },
    TooLarge(u32),
    Data(u32, Vec<u8>, bool),
    Trailers(u32, Vec<(String, String)>),
    Reset(u32, u32),
    Windows,
    Failed(u32, &'static str),
}

/// Both ends of a connection.
pub(crate) struct Client {
    pub(crate) connection: Connection,
    scratch: Scratch,
    /// Frames that the server has written and the test has not read yet.
    pub(crate) out: Vec<u8>,
    /// The time in milliseconds.
    pub(crate) now: u64,
}

impl Client {
    /// Returns a connection on which both sides have sent their settings.
    pub(crate) fn new() -> Self {
        Self::with(Limits::default())
    }

    pub(crate) fn with(limits: Limits) -> Self {
        let mut client = Self::silent(limits);
        assert_eq!(client.send_bytes(PREFACE), []);
        assert_eq!(client.send(SETTINGS, 0, 0, &[]), []);
        client.frames();
        client
    }

    /// Returns a connection on which the client has sent no bytes.
    pub(crate) fn silent(limits: Limits) -> Self {
        let mut out = Vec::new();
        let connection = Connection::new(limits, &mut out);
        Self { connection, scratch: Scratch::default(), out, now: 0 }
    }

    pub(crate) fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<Heard> {
        self.send_bytes(&frame(kind, flags, stream, payload))
    }

    /// Sends a request without content for a path.
    pub(crate) fn get(&mut self, stream: u32, path: &str) -> Vec<Heard> {
        self.send(HEADERS, END_HEADERS | END_STREAM, stream, &get(path))
    }

    /// Sends complete frames.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> Vec<Heard> {
        let (events, rest) = self.take(bytes);
        assert!(rest == 0 || matches!(events.last(), Some(Heard::Failed(..))), "{rest} bytes are no frame");
        events
    }

    /// Passes `bytes` to the server. Returns its events, and the number of remaining bytes.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> (Vec<Heard>, usize) {
        let mut events = Vec::new();
        loop {
            match self.connection.next(bytes, &mut self.scratch, &mut self.out, self.now) {
                Ok((0, Event::More)) => break,
                Ok((used, event)) => {
                    bytes = &bytes[used..];
                    events.extend(heard(event));
                }
                Err(Failure { code, reason }) => {
                    events.push(Heard::Failed(code.0, reason));
                    break;
                }
            }
            assert_eq!(self.connection.validate(), Ok(()));
        }
        (events, bytes.len())
    }

    /// Returns the first event from `bytes`, and the number of remaining bytes.
    pub(crate) fn one(&mut self, bytes: &[u8]) -> (Option<Heard>, usize) {
        let event = match self.connection.next(bytes, &mut self.scratch, &mut self.out, self.now) {
            Ok((used, event)) => (heard(event), bytes.len() - used),
            Err(Failure { code, reason }) => (Some(Heard::Failed(code.0, reason)), bytes.len()),
        };
        assert_eq!(self.connection.validate(), Ok(()));
        event
    }

    /// Returns the frames that the server has written since the last call.
    pub(crate) fn frames(&mut self) -> Vec<Frame> {
        let out = std::mem::take(&mut self.out);
        let (mut rest, mut frames) = (&out[..], Vec::new());
        while let [a, b, c, kind, flags, d, e, f, g, behind @ ..] = rest {
            let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            let (payload, behind) = behind.split_at(length);
            frames.push(Frame(*kind, *flags, u32::from_be_bytes([*d, *e, *f, *g]), payload.to_vec()));
            rest = behind;
        }
        assert_eq!(rest, [], "the server's frames are whole");
        frames
    }

    /// Sends the two frames that allow the server to send `length` more bytes on `stream`.
    pub(crate) fn returned(&mut self, stream: u32, length: u32) {
        for stream in [0, stream] {
            let heard = self.send(WINDOW_UPDATE, 0, stream, &length.to_be_bytes());
            assert!(matches!(heard[..], [] | [Heard::Windows]), "{heard:?}");
        }
    }

    /// Begins a response with status 200.
    pub(crate) fn begin(&mut self, stream: u32) {
        assert!(self.connection.head(&mut self.out, stream, 200, false, |_| {}));
    }

    /// Sends status 200 and the start of `content`. Returns the number of content bytes taken.
    pub(crate) fn answer(&mut self, stream: u32, content: &[u8]) -> usize {
        self.begin(stream);
        self.data(stream, content)
    }

    pub(crate) fn data(&mut self, stream: u32, content: &[u8]) -> usize {
        let taken = self.connection.data(&mut self.out, stream, content, true);
        assert_eq!(self.connection.validate(), Ok(()));
        taken
    }
}

fn heard(event: Event<'_>) -> Option<Heard> {
    let owned = |fields: larder_http2::Fields<'_>| {
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        fields.iter().map(|(name, value)| (name.to_owned(), text(value))).collect()
    };
    match event {
        Event::More | Event::Nothing => None,
        Event::Head { stream, head, end } => {
            let line = format!("{} {}|{}|{}", head.method, head.scheme, head.authority, head.path);
            Some(Heard::Head { stream, line, fields: owned(head.fields), length: head.length, end })
        }
        Event::TooLarge { stream } => Some(Heard::TooLarge(stream)),
        Event::Data { stream, data, end } => Some(Heard::Data(stream, data.to_vec(), end)),
        Event::Trailers { stream, fields } => Some(Heard::Trailers(stream, owned(fields))),
        Event::Reset { stream, code } => Some(Heard::Reset(stream, code.0)),
        Event::Windows => Some(Heard::Windows),
    }
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    [&[a, b, c, kind, flags], &stream.to_be_bytes()[..], payload].concat()
}

/// Encodes a parameter of `SETTINGS`.
pub(crate) fn setting(name: u16, value: u32) -> Vec<u8> {
    [&name.to_be_bytes()[..], &value.to_be_bytes()].concat()
}

/// Encodes a field section.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        // Names are written verbatim: the encoder would convert them to lower case, and omit some.
        block.push(0);
        string(&mut block, name);
        string(&mut block, value);
    }
    block
}

fn string(block: &mut Vec<u8>, text: &str) {
    let length = text.len();
    match length {
        0..127 => block.push(length as u8),
        _ => {
            let more = length - 127;
            block.extend([127, more as u8 | 0x80, (more >> 7) as u8 | 0x80, (more >> 14) as u8]);
        }
    }
    block.extend_from_slice(text.as_bytes());
}

pub(crate) fn get(path: &str) -> Vec<u8> {
    block(&[(":method", "GET"), (":scheme", "http"), (":authority", "a.example"), (":path", path)])
}

pub(crate) fn post(more: &[(&str, &str)]) -> Vec<u8> {
    let head = [(":method", "POST"), (":scheme", "http"), (":authority", "a.example"), (":path", "/")];
    block(&[&head, more].concat())
}

/// Decodes the fields of a response's head or trailers.
pub(crate) fn fields(block: &[u8]) -> Vec<(String, String)> {
    let mut list = List::default();
    Decoder::new(4096)
        .decode(block, &mut list, &Bounds { bytes: 1 << 20, fields: 1_000 })
        .expect("a section");
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    list.fields().iter().map(|(name, value)| (name.to_owned(), text(value))).collect()
}

pub(crate) fn reset(stream: u32, code: u32) -> Frame {
    Frame(RST_STREAM, 0, stream, code.to_be_bytes().to_vec())
}

pub(crate) fn window(stream: u32, more: u32) -> Frame {
    Frame(WINDOW_UPDATE, 0, stream, more.to_be_bytes().to_vec())
}

pub(crate) fn go_away(last: u32, code: u32) -> Frame {
    Frame(GOAWAY, 0, 0, [last.to_be_bytes(), code.to_be_bytes()].concat())
}

/// Returns a function that writes a field of a response's head.
pub(crate) fn with(name: &'static str, value: String) -> impl FnOnce(&mut Vec<u8>) {
    move |out| encoder::field(out, name.as_bytes(), value.as_bytes())
}
