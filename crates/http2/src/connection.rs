//! A client's connection.

use crate::error::{Code, Failure};
use crate::frame::{
    self, FIRST_WINDOW, HEADER, Header, LARGEST_WINDOW, MOST_PAYLOAD, PREFACE, kind, setting,
};
use crate::head::Head;
use crate::hpack::{Decoder, Fields, List};
use crate::limits::{Budgets, Limits};
use crate::streams::{Stream, Streams};

/// Buffers for decoding. One is enough for all connections of a thread.
#[derive(Debug, Default)]
pub struct Scratch {
    /// The buffer for a field section of several frames.
    pub(crate) block: Vec<u8>,
    pub(crate) list: List,
}

/// The meaning of a frame for the connection's owner.
#[derive(Clone, Copy, Debug)]
pub enum Event<'e> {
    /// The input contains no complete frame; no bytes were consumed.
    More,
    /// No action is necessary.
    Nothing,
    /// A request.
    Head {
        /// The stream.
        stream: u32,
        /// The head of the request.
        head: Head<'e>,
        /// Whether the request has no content.
        end: bool,
    },
    /// A request whose head is too large. The owner should respond with 431.
    TooLarge {
        /// The stream.
        stream: u32,
    },
    /// Content. After reading it, the owner calls [`Connection::release`], so that the client may send more.
    Data {
        /// The stream.
        stream: u32,
        /// The content.
        data: &'e [u8],
        /// Whether this is the end of the content.
        end: bool,
    },
    /// The end of the content, with trailers.
    Trailers {
        /// The stream.
        stream: u32,
        /// The trailers.
        fields: Fields<'e>,
    },
    /// The stream is closed: the client has cancelled it, or has broken a rule.
    Reset {
        /// The stream.
        stream: u32,
        /// The reason.
        code: Code,
    },
    /// The windows of waiting streams may be open now.
    Windows,
}

/// The stage of a graceful shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShutdownStage {
    No,
    /// The client was asked to leave; requests that it sends before it receives this are still answered.
    Announced,
    /// New streams are refused.
    Closing,
}

/// A client's connection, without its socket and content.
#[derive(Debug)]
pub struct Connection {
    pub(crate) limits: Limits,
    pub(crate) budgets: Budgets,
    pub(crate) decoder: Decoder,
    pub(crate) streams: Streams,
    /// Bytes that the server may send.
    pub(crate) window: i64,
    /// Bytes that the client may send.
    pub(crate) allowed: i64,
    /// Bytes that were read since the last window update to the client.
    pub(crate) released: i64,
    /// The client's `SETTINGS_INITIAL_WINDOW_SIZE`.
    pub(crate) first_window: i64,
    /// The client's `SETTINGS_MAX_HEADER_LIST_SIZE`.
    pub(crate) longest_list: usize,
    /// Whether streams may [linger](Self::linger).
    pub(crate) lingers: bool,
    /// Whether the client has reduced the table of the server's encoder, which still has to acknowledge this.
    pub(crate) shrinks: bool,
    /// Whether the client's preface has arrived.
    greeted: bool,
    /// Whether the client's first `SETTINGS` frame has arrived.
    pub(crate) settled: bool,
    pub(crate) leaving: ShutdownStage,
    /// Whether a `PING` was sent and not answered.
    pub(crate) pinged: bool,
    failed: Option<Failure>,
}

/// The meaning of a frame. Fails if the connection has to end.
pub(crate) type FrameResult<'e> = Result<Event<'e>, Failure>;

/// The output, and the time, for the handling of a frame.
pub(crate) struct Answers<'o> {
    /// The bytes for the client.
    pub(crate) out: &'o mut Vec<u8>,
    /// The time, in milliseconds.
    pub(crate) now: u64,
}

/// A frame of a connection with its payload.
pub(crate) struct Frame<'e> {
    pub(crate) header: Header,
    pub(crate) payload: &'e [u8],
}

impl Connection {
    /// Returns a connection whose client has sent no bytes yet. Appends the server's preface to `out`.
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
            longest_list: usize::MAX,
            lingers: false,
            shrinks: false,
            greeted: false,
            settled: false,
            leaving: ShutdownStage::No,
            pinged: false,
            failed: None,
        }
    }

    /// Whether `input`, the first bytes from a client, begins a connection; `None` if there are too few bytes.
    pub fn is_preface(input: &[u8]) -> Option<bool> {
        let length = input.len().min(PREFACE.len());
        match input[..length] == PREFACE[..length] {
            true if length < PREFACE.len() => None,
            begins => Some(begins),
        }
    }

    /// Reads the first frame of `input`. Returns the number of consumed bytes, and the meaning of the frame. Automatic
    /// answers are appended to `out`. `now` is in milliseconds, from any clock that does not go back.
    ///
    /// # Errors
    /// If the connection has to end. The reason is already in `out`; no further frames may follow.
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
        let result = self.step(input, scratch, &mut Answers { out: &mut *out, now });
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
        to: &mut Answers<'_>,
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
            return self.headers(header, input, scratch, to);
        }
        let used = HEADER + header.length;
        let Some(payload) = input.get(HEADER..used) else { return Ok((0, Event::More)) };
        let event = self.frame(Frame { header, payload }, to)?;
        Ok((used, event))
    }

    fn frame<'e>(&mut self, frame: Frame<'e>, to: &mut Answers<'_>) -> FrameResult<'e> {
        if frame.header.kind == kind::DATA {
            return self.content(frame, to);
        }
        if !self.budgets.control.spend(to.now) {
            return Err(Failure::flood("too many control frames"));
        }
        match frame.header.kind {
            kind::PRIORITY => self.priority(&frame, to),
            kind::RST_STREAM => self.reset_by_client(&frame, to.now),
            kind::SETTINGS => self.settings(&frame, to),
            kind::PING => self.pinged(&frame, to.out),
            kind::GOAWAY if frame.header.stream != 0 => Err(Failure::protocol("GOAWAY on a stream")),
            kind::WINDOW_UPDATE => self.window_update(&frame, to),
            kind::PRIORITY_UPDATE => self.priority_update(&frame),
            kind::CONTINUATION => Err(Failure::protocol("CONTINUATION without HEADERS")),
            kind::PUSH_PROMISE => Err(Failure::protocol("PUSH_PROMISE from a client")),
            // Unknown frame types belong to extensions and are ignored (RFC 9113 section 5.5).
            _ => Ok(Event::Nothing),
        }
    }

    /// Returns the number of open streams.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// Returns the bytes of content that have arrived and have not been [released](Self::release).
    pub fn unread(&self) -> usize {
        let counted = self.limits.connection_window() - self.allowed - self.released;
        usize::try_from(counted + self.streams.uncounted()).unwrap_or_default()
    }

    /// Returns the size of the largest list of fields that the client accepts (RFC 9113 section 6.5.2).
    #[inline]
    pub fn longest_list(&self) -> usize {
        self.longest_list
    }

    /// Returns the bytes that the connection has allocated.
    pub fn allocated(&self) -> usize {
        self.decoder.allocated() + self.streams.allocated()
    }

    /// Whether the connection is finished: a graceful shutdown was announced, and all requests are answered.
    pub fn is_done(&self) -> bool {
        self.leaving == ShutdownStage::Closing && self.streams.len() == 0
    }

    /// Checks the invariants.
    ///
    /// # Errors
    /// The broken invariant.
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
