//! A client that sends arbitrary frames, and reads the frames of the proxy.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use larder_http2::hpack::{Bounds, Decoder, List, encoder};
use larder_http2::{Fields, PREFACE};

use crate::{Larder, Line, PATIENCE, limited};

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// A frame from the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// The received parts of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// Statuses of interim responses.
    pub interim: Vec<u16>,
    pub fields: Vec<Line>,
    pub body: Vec<u8>,
    pub trailers: Vec<Line>,
    /// Whether the response is complete.
    pub whole: bool,
    /// The code with which the proxy reset the stream.
    pub reset: Option<u32>,
}

/// A connection to the proxy.
pub struct Client {
    stream: TcpStream,
    input: Vec<u8>,
    decoder: Decoder,
    /// Whether the client extends the windows for all content that it receives.
    pub reads: bool,
    pub responses: BTreeMap<u32, Response>,
    /// The code of the last GOAWAY.
    pub farewell: Option<u32>,
    pub authority: String,
    /// The number of bytes that may still be sent on each stream, less the initial window of a stream. Number 0 is the
    /// window of the connection.
    windows: BTreeMap<u32, i64>,
    first_window: i64,
    /// The number of received PING acknowledgments.
    pongs: usize,
}

impl Response {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Client {
    /// A connection to the site.
    pub fn new(larder: &Larder) -> Self {
        Self::with(larder.address(), &[])
    }

    /// A connection on which the client sends these settings.
    pub fn with(address: SocketAddr, settings: &[(u16, u32)]) -> Self {
        Self::over(TcpStream::connect(address).expect("the proxy accepts"), settings)
    }

    /// A client on a connection that has carried nothing so far.
    pub fn over(stream: TcpStream, settings: &[(u16, u32)]) -> Self {
        let mut client = Self {
            stream: limited(stream, PATIENCE).expect("limits"),
            input: Vec::new(),
            decoder: Decoder::new(0),
            reads: true,
            responses: BTreeMap::new(),
            farewell: None,
            authority: "a.example".to_owned(),
            windows: BTreeMap::new(),
            first_window: 65_535,
            pongs: 0,
        };
        client.raw(PREFACE);
        let pairs =
            settings.iter().map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat());
        client.send(SETTINGS, 0, 0, &pairs.collect::<Vec<_>>().concat());
        client
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the proxy reads");
    }

    pub fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        if kind == DATA {
            for stream in [0, stream] {
                *self.windows.entry(stream).or_default() -= payload.len() as i64;
            }
        }
        self.raw(&frame(kind, flags, stream, payload));
    }

    pub fn try_raw(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Sends a frame to a proxy that may close the connection meanwhile; false if that failed.
    pub fn try_send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        self.stream.write_all(&frame(kind, flags, stream, payload)).is_ok()
    }

    /// Sends a request and another frame after it in one write, so that the proxy reads both before it responds; false
    /// if the write failed.
    pub fn try_send_at_once(&mut self, stream: u32, head: &[u8], (kind, payload): (u8, &[u8])) -> bool {
        let request = frame(HEADERS, END_HEADERS | END_STREAM, stream, head);
        self.stream.write_all(&[request, frame(kind, 0, stream, payload)].concat()).is_ok()
    }

    /// Encodes the head of a request.
    pub fn head(&self, method: &str, path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
        let pseudo =
            [(":method", method), (":scheme", "http"), (":authority", &self.authority), (":path", path)];
        section(&[&pseudo, fields].concat())
    }

    /// Sends a request without content.
    pub fn ask(&mut self, stream: u32, method: &str, path: &str, fields: &[(&str, &str)]) {
        let head = self.head(method, path, fields);
        self.send(HEADERS, END_HEADERS | END_STREAM, stream, &head);
    }

    /// Sends a request with content in these pieces, and END_STREAM in a separate frame.
    pub fn post(&mut self, stream: u32, path: &str, fields: &[(&str, &str)], pieces: &[&[u8]]) {
        let head = self.head("POST", path, fields);
        self.send(HEADERS, END_HEADERS, stream, &head);
        for piece in pieces {
            self.send(DATA, 0, stream, piece);
        }
        self.send(DATA, END_STREAM, stream, &[]);
    }

    /// Returns the number of bytes that the windows allow on `stream`.
    pub fn room(&self, stream: u32) -> usize {
        let used = |stream| self.windows.get(&stream).copied().unwrap_or(0);
        (65_535 + used(0)).min(self.first_window + used(stream)).max(0) as usize
    }

    /// Sends on `stream` until a window is exhausted, and remains so while the proxy answers 20 PING frames.
    pub fn fill(&mut self, stream: u32) {
        let mut quiet = 0;
        while quiet < 20 {
            match self.room(stream).min(16_384) {
                0 => {
                    quiet += 1;
                    self.ping();
                }
                length => {
                    quiet = 0;
                    self.send(DATA, 0, stream, &vec![b'x'; length]);
                }
            }
        }
    }

    /// Sends a PING frame and waits for its answer: the proxy has read all frames before it.
    pub fn ping(&mut self) {
        let pongs = self.pongs;
        self.send(PING, 0, 0, &[7; 8]);
        assert!(self.until(|client| client.pongs > pongs));
    }

    /// Sends a POST with this content, as fast as the windows allow.
    pub fn upload(&mut self, stream: u32, mut content: &[u8]) {
        let head = self.head("POST", "/", &[]);
        self.send(HEADERS, END_HEADERS, stream, &head);
        while !content.is_empty() {
            let (piece, rest) = content.split_at(self.room(stream).min(16_384).min(content.len()));
            match piece.is_empty() {
                true => assert!(self.step(), "the connection ended"),
                false => self.send(DATA, 0, stream, piece),
            }
            content = rest;
        }
        self.send(DATA, END_STREAM, stream, &[]);
    }

    /// Sends `GET path` and returns the response.
    pub fn get(&mut self, stream: u32, path: &str) -> Response {
        self.ask(stream, "GET", path, &[]);
        self.response(stream)
    }

    /// Returns the complete response on a stream, or the part that arrived before a reset.
    pub fn response(&mut self, stream: u32) -> Response {
        while !self.responses.get(&stream).is_some_and(|response| response.whole || response.reset.is_some())
        {
            let came = self.responses.get(&stream).map_or(0, |response| response.body.len());
            assert!(self.step(), "closed after {came} bytes of the response: {:?}", self.farewell);
        }
        self.responses.remove(&stream).expect("a response")
    }

    /// Sends no more bytes, like a client that closes its connection.
    pub fn leave(&self) {
        self.stream.shutdown(Shutdown::Write).expect("a connection");
    }

    /// Reads frames until `is_there` returns true; false at the end of the connection.
    pub fn until(&mut self, is_there: impl Fn(&Self) -> bool) -> bool {
        while !is_there(self) {
            if !self.step() {
                return false;
            }
        }
        true
    }

    /// Reads one frame and reacts to it; false at the end of the connection.
    pub fn step(&mut self) -> bool {
        let Some(Frame { kind, flags, stream, payload }) = self.frame() else { return false };
        let code = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().expect("4 bytes"));
        match kind {
            SETTINGS if flags & ACK == 0 => {
                let first = payload.chunks_exact(6).find(|setting| setting[..2] == [0, 4]);
                if let Some(&[_, _, a, b, c, d]) = first {
                    self.first_window = i64::from(u32::from_be_bytes([a, b, c, d]));
                }
                self.try_send(SETTINGS, ACK, 0, &[]);
            }
            PING if flags & ACK != 0 => self.pongs += 1,
            WINDOW_UPDATE => *self.windows.entry(stream).or_default() += i64::from(code(0)),
            PING if flags & ACK == 0 => drop(self.try_send(PING, ACK, 0, &payload)),
            GOAWAY => self.farewell = Some(code(4)),
            RST_STREAM => {
                let response = self.responses.entry(stream).or_default();
                // With RST_STREAM after a complete response, the proxy only stops the rest of the request.
                if !response.whole {
                    response.reset = Some(code(0));
                }
            }
            HEADERS => {
                let (mut block, mut is_whole) = (payload, flags & END_HEADERS != 0);
                while !is_whole {
                    let Some(Frame { kind: CONTINUATION, flags, payload, .. }) = self.frame() else {
                        return false;
                    };
                    block.extend(payload);
                    is_whole = flags & END_HEADERS != 0;
                }
                let mut list = List::default();
                self.decoder
                    .decode(&block, &mut list, &Bounds { bytes: 1 << 20, fields: 500 })
                    .expect("a section");
                self.responses.entry(stream).or_default().section(list.fields(), flags & END_STREAM != 0);
            }
            DATA => {
                let response = self.responses.entry(stream).or_default();
                response.body.extend_from_slice(&payload);
                response.whole |= flags & END_STREAM != 0;
                if self.reads && !payload.is_empty() {
                    let more = (payload.len() as u32).to_be_bytes();
                    self.try_send(WINDOW_UPDATE, 0, 0, &more);
                    self.try_send(WINDOW_UPDATE, 0, stream, &more);
                }
            }
            _ => {}
        }
        true
    }

    fn frame(&mut self) -> Option<Frame> {
        let header = self.exactly(9)?;
        let [a, b, c, kind, flags, ref stream @ ..] = header[..] else { return None };
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        let stream = u32::from_be_bytes(stream.try_into().expect("4 bytes"));
        let payload = self.exactly(length)?;
        Some(Frame { kind, flags, stream, payload })
    }

    fn exactly(&mut self, count: usize) -> Option<Vec<u8>> {
        let mut bytes = [0; 64 << 10];
        while self.input.len() < count {
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(read) => self.input.extend_from_slice(&bytes[..read]),
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                    return None;
                }
                Err(error) => panic!("the proxy says nothing: {error}; {:?}", self.responses.keys()),
            }
        }
        Some(self.input.drain(..count).collect())
    }
}

impl Response {
    fn section(&mut self, fields: Fields<'_>, end: bool) {
        let mut lines: Vec<Line> = fields
            .iter()
            .map(|(name, value)| (name.to_owned(), String::from_utf8_lossy(value).into_owned()))
            .collect();
        self.whole = end;
        if self.status >= 200 {
            self.trailers = lines;
            return;
        }
        let (name, status) = lines.remove(0);
        assert_eq!(name, ":status");
        let status = status.parse().expect("a number");
        match status {
            100..200 => self.interim.push(status),
            _ => (self.status, self.fields) = (status, lines),
        }
    }
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    [&[a, b, c, kind, flags], &stream.to_be_bytes()[..], payload].concat()
}

/// Encodes a field section.
pub fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = Vec::new();
    for (name, value) in fields {
        encoder::field(&mut section, name.as_bytes(), value.as_bytes());
    }
    section
}
