//! One connection of a client.

use crate::error::{Code, Failure};
use crate::frame::{
    self, FIRST_WINDOW, HEADER, Header, LARGEST_WINDOW, MOST_PAYLOAD, PREFACE, kind, setting,
};
use crate::head::Head;
use crate::hpack::{Decoder, Fields, List};
use crate::limits::{Budgets, Limits};
use crate::streams::{Stream, Streams};

/// Memory for decoding. One is enough for all connections of a thread.
#[derive(Debug, Default)]
pub struct Scratch {
    /// A field section of several frames.
    pub(crate) block: Vec<u8>,
    pub(crate) list: List,
}

/// What a frame means to the connection's owner.
#[derive(Clone, Copy, Debug)]
pub enum Event<'e> {
    /// No frame is whole; nothing was consumed.
    More,
    /// Nothing is to be done.
    Nothing,
    /// A request.
    Head {
        /// Its stream.
        stream: u32,
        /// Its head.
        head: Head<'e>,
        /// It has no content.
        end: bool,
    },
    /// A request whose head is too large. It deserves a 431.
    TooLarge {
        /// Its stream.
        stream: u32,
    },
    /// Content. Once it has been read, [`Connection::release`] lets the client send more.
    Data {
        /// Its stream.
        stream: u32,
        /// The content.
        data: &'e [u8],
        /// Nothing follows.
        end: bool,
    },
    /// The end of content, with trailers.
    Trailers {
        /// Its stream.
        stream: u32,
        /// The trailers.
        fields: Fields<'e>,
    },
    /// The stream is gone: its client has no use for it any more, or has broken a rule.
    Reset {
        /// The stream.
        stream: u32,
        /// Why.
        code: Code,
    },
    /// Streams that wait may have windows now.
    Windows,
}

/// How far a connection is on its way to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    No,
    /// The client was told; what it has sent before it knew is still answered.
    Announced,
    /// New streams are refused.
    Closing,
}

/// A connection of a client, as far as it is not sockets and content.
#[derive(Debug)]
pub struct Connection {
    pub(crate) limits: Limits,
    pub(crate) budgets: Budgets,
    pub(crate) decoder: Decoder,
    pub(crate) streams: Streams,
    /// Bytes that may be sent.
    pub(crate) window: i64,
    /// Bytes that the client may send.
    pub(crate) allowed: i64,
    /// Bytes that have been read since the client was last told.
    pub(crate) released: i64,
    /// The client's `SETTINGS_INITIAL_WINDOW_SIZE`.
    pub(crate) first_window: i64,
    /// The client has made the table of our encoder smaller, and expects to hear that we know.
    pub(crate) shrinks: bool,
    /// The client's preface has come.
    greeted: bool,
    /// The client's first `SETTINGS` has come.
    pub(crate) settled: bool,
    pub(crate) leaving: Leaving,
    /// A `PING` was sent and not answered.
    pub(crate) pinged: bool,
    failed: Option<Failure>,
}

/// A frame of a connection, and what came with it.
pub(crate) struct Frame<'e> {
    pub(crate) header: Header,
    pub(crate) payload: &'e [u8],
}

impl Connection {
    /// For a client that has sent nothing yet. Appends the server's preface to `out`.
    pub fn new(limits: Limits, out: &mut Vec<u8>) -> Self {
        frame::settings(
            out,
            &[
                (setting::HEADER_TABLE_SIZE, limits.table),
                (setting::MAX_CONCURRENT_STREAMS, limits.streams as u32),
                (setting::INITIAL_WINDOW_SIZE, limits.stream_window() as u32),
                (setting::MAX_HEADER_LIST_SIZE, limits.head.bytes as u32),
                (setting::ENABLE_CONNECT_PROTOCOL, 1),
                (setting::NO_RFC7540_PRIORITIES, 1),
            ],
        );
        let more = limits.connection_window() - FIRST_WINDOW;
        if more > 0 {
            frame::window_update(out, 0, more as u32);
        }
        Self {
            limits,
            budgets: Budgets::default(),
            decoder: Decoder::new(limits.table as usize),
            streams: Streams::new(),
            window: FIRST_WINDOW,
            allowed: limits.connection_window(),
            released: 0,
            first_window: FIRST_WINDOW,
            shrinks: false,
            greeted: false,
            settled: false,
            leaving: Leaving::No,
            pinged: false,
            failed: None,
        }
    }

    /// Whether `input`, what a client has sent first, begins a connection; `None` if that is not decided yet.
    pub fn is_preface(input: &[u8]) -> Option<bool> {
        let length = input.len().min(PREFACE.len());
        match input[..length] == PREFACE[..length] {
            true if length < PREFACE.len() => None,
            begins => Some(begins),
        }
    }

    /// Reads the first frame of `input`: how many bytes it took, and what it means. Answers that need no thought are appended
    /// to `out`. `now` is in milliseconds, of any clock that does not go back.
    ///
    /// # Errors
    /// When the connection has to end. Why is already in `out`; nothing else may follow.
    pub fn next<'e>(
        &mut self,
        input: &'e [u8],
        scratch: &'e mut Scratch,
        out: &mut Vec<u8>,
        now: u64,
    ) -> Result<(usize, Event<'e>), Failure> {
        if let Some(failure) = self.failed {
            return Err(failure);
        }
        let result = self.step(input, scratch, out, now);
        if let Err(failure) = result {
            frame::go_away(out, self.streams.last, failure.code);
            self.failed = Some(failure);
        }
        result
    }

    fn step<'e>(
        &mut self,
        input: &'e [u8],
        scratch: &'e mut Scratch,
        out: &mut Vec<u8>,
        now: u64,
    ) -> Result<(usize, Event<'e>), Failure> {
        if !self.greeted {
            return match Self::is_preface(input) {
                None => Ok((0, Event::More)),
                Some(greeted) => {
                    self.greeted = greeted;
                    let failure = Failure::protocol("the client's preface is not that of HTTP/2");
                    greeted.then_some((PREFACE.len(), Event::Nothing)).ok_or(failure)
                }
            };
        }
        let Some(header) = Header::read(input) else { return Ok((0, Event::More)) };
        if header.length > MOST_PAYLOAD {
            return Err(Failure::frame_size("a frame is longer than was allowed"));
        }
        if !self.settled && header.kind != kind::SETTINGS {
            return Err(Failure::protocol("the first frame is not SETTINGS"));
        }
        if header.kind == kind::HEADERS {
            return self.headers(header, input, scratch, out, now);
        }
        let used = HEADER + header.length;
        let Some(payload) = input.get(HEADER..used) else { return Ok((0, Event::More)) };
        let event = self.frame(Frame { header, payload }, out, now)?;
        Ok((used, event))
    }

    fn frame<'e>(&mut self, frame: Frame<'e>, out: &mut Vec<u8>, now: u64) -> Result<Event<'e>, Failure> {
        if frame.header.kind == kind::DATA {
            return self.content(frame, out, now);
        }
        if !self.budgets.control.spend(now) {
            return Err(Failure::flood("too many frames that carry nothing"));
        }
        match frame.header.kind {
            kind::PRIORITY => self.priority(&frame, out, now),
            kind::RST_STREAM => self.reset_by_client(&frame, now),
            kind::SETTINGS => self.settings(&frame, out, now),
            kind::PING => self.pinged(&frame, out),
            kind::GOAWAY if frame.header.stream != 0 => Err(Failure::protocol("GOAWAY on a stream")),
            kind::WINDOW_UPDATE => self.window_update(&frame, out, now),
            kind::PRIORITY_UPDATE => self.priority_update(&frame),
            kind::CONTINUATION => Err(Failure::protocol("CONTINUATION without HEADERS")),
            kind::PUSH_PROMISE => Err(Failure::protocol("PUSH_PROMISE from a client")),
            // Whatever else there may be is for others (RFC 9113 section 5.5).
            _ => Ok(Event::Nothing),
        }
    }

    /// The streams that are open.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// Bytes that it has allocated.
    pub fn allocated(&self) -> usize {
        self.decoder.allocated() + self.streams.allocated()
    }

    /// Whether nothing is left to be done: the client was told to leave, and all it has asked is answered.
    pub fn is_done(&self) -> bool {
        self.leaving == Leaving::Closing && self.streams.len() == 0
    }

    /// Checks what always holds.
    ///
    /// # Errors
    /// What does not.
    pub fn validate(&self) -> Result<(), &'static str> {
        if self.failed.is_some() {
            return Ok(());
        }
        self.decoder.validate()?;
        self.streams.validate(self.limits.stream_window())?;
        if self.streams.len() > self.limits.streams {
            return Err("more streams than are allowed");
        }
        let held: i64 = self.streams.iter().map(Stream::counted).sum();
        if self.allowed + held + self.released != self.limits.connection_window() || self.allowed < 0 {
            return Err("the connection's window does not add up");
        }
        if self.window > LARGEST_WINDOW || self.window < 0 {
            return Err("the connection's window is out of range");
        }
        Ok(())
    }
}
