//! Codecs for the RPC protocols by which programs request pages.
//!
//! [`thrift`], [`onc`] and [`mod@line`] each turn bytes into a [`Call`] and a result into bytes ([`ServerProtocol`],
//! [`ReplyEncoder`]: the server's side), and a [`Call`] into bytes and bytes into an [`Answer`] ([`ClientProtocol`]: the client's
//! side). There is no socket, clock or task here: the caller reads into a `BytesMut`, asks whether a message is complete, and
//! writes the returned bytes. Page contents are never copied.
//!
//! Input is bounded by [`Limits`]: every length is checked before memory is allocated.

use bytes::{Bytes, BytesMut};

mod cursor;
pub mod line;
pub mod onc;
mod statistics;
pub mod thrift;

pub use statistics::{Slot, Statistics};

/// A client's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// A check that the server responds; the answer has no content.
    Ping,
    /// The page at `url`. The text is UTF-8 without control characters, and is not validated further.
    Fetch {
        /// The URL as the client wrote it.
        url: String,
    },
    /// The server's counters.
    Statistics,
    /// Reset of the counters.
    Reset,
}

/// The reason why there is no page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failure {
    /// The requested URL.
    pub what: String,
    /// The reason, one line.
    pub why: String,
    /// The HTTP status with the same meaning, or 0 if there is none.
    pub status: u16,
}

/// A server's answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The complete page.
    Page(Bytes),
    /// The server's counters.
    Statistics(Box<Statistics>),
    /// Success of a call that has no result.
    Done,
    /// There is no page, for this reason.
    Failure(Failure),
}

/// An error for bytes that are no message of the protocol, with a reason of one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub String);

/// Limits on the memory for one connection.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of a request, and of a reply without its page.
    pub message: usize,
    /// Bytes of a page, for its receiver.
    pub page: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { message: 64 << 10, page: 1 << 30 }
    }
}

impl Limits {
    /// Returns the limit of a complete reply, in bytes.
    fn reply(&self) -> usize {
        self.page.saturating_add(self.message)
    }
}

/// A call with the encoder for its reply.
#[derive(Debug)]
pub struct CallRequest<R> {
    /// The client's request.
    pub call: Call,
    /// Encodes the answer to this call.
    pub reply: R,
}

/// A rejected request, with the protocol's own error ready to send.
#[derive(Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The bytes to send; empty if the protocol has no message for the error.
    pub reply: Bytes,
    /// Whether the connection has to close, because later bytes cannot be understood.
    pub close: bool,
    /// The reason, for the log.
    pub why: Malformed,
}

/// The server's side of a connection.
pub trait ServerProtocol {
    /// Encodes the reply to one call.
    type Reply: ReplyEncoder;

    /// Takes the next call from the front of `buffer`. Returns `None` if it needs more bytes first. `buffer` never has
    /// to hold more than [`Limits::message`] bytes, and the few that frame them, to complete a call.
    ///
    /// # Errors
    /// An unknown request, or bytes that are no message.
    fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<CallRequest<Self::Reply>>, Rejection>;

    /// Returns the message that the rest of a call did not arrive in time; empty if a reply needs to know its call.
    fn late(&self) -> Bytes {
        Bytes::new()
    }

    /// Takes the call in `buffer` that the end of the client's bytes completes, if the protocol has such calls.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    fn end(&mut self, _buffer: &mut BytesMut) -> Result<Option<CallRequest<Self::Reply>>, Rejection> {
        Ok(None)
    }

    /// Whether only a reset of the connection distinguishes a failure from a page.
    fn fails_by_reset(&self) -> bool {
        false
    }
}

/// Encodes the reply to one call.
pub trait ReplyEncoder {
    /// Returns the bytes around a page of `length` bytes. Returns `None` if the page is too long for the protocol.
    fn page(&self, length: usize) -> Option<Envelope>;

    /// Returns the message that there is no page. Once a page has begun, only the line protocol can send this
    /// ([`Envelope::chunks`]): with other protocols, the connection has to close.
    fn failure(&self, failure: &Failure) -> Bytes;

    /// Returns the reply to [`Call::Statistics`].
    fn statistics(&self, statistics: &Statistics) -> Bytes;

    /// Returns the reply to [`Call::Ping`] and [`Call::Reset`].
    fn done(&self) -> Bytes;

    /// Whether the client reads a page only up to its first NUL byte, so that a page with one must not be sent.
    fn ends_at_nul(&self) -> bool {
        false
    }

    /// Whether the connection closes after this reply to mark its end.
    fn closes(&self) -> bool {
        false
    }
}

/// The bytes around a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The bytes before the page.
    pub head: Bytes,
    /// Whether the page is divided into chunks, each with a head. If not, its bytes are sent unchanged, by the most
    /// direct way.
    pub chunks: bool,
    /// The bytes after the page.
    pub tail: Bytes,
}

impl Envelope {
    /// Appends to `out` the bytes to send for the next part of the page. No page bytes are copied.
    pub fn part(&self, mut part: Bytes, out: &mut Vec<Bytes>) {
        if !self.chunks {
            out.extend(Some(part).filter(|part| !part.is_empty()));
            return;
        }
        while !part.is_empty() {
            let chunk = part.split_to(part.len().min(line::CHUNK));
            out.extend([line::chunk_head(chunk.len()), chunk]);
        }
    }

    /// Returns the bytes to send for a complete page.
    #[must_use]
    pub fn around(self, page: Bytes) -> Vec<Bytes> {
        let mut out = vec![self.head.clone()];
        self.part(page, &mut out);
        out.push(self.tail);
        out.retain(|piece| !piece.is_empty());
        out
    }
}

/// The client's side of a connection, with one call in flight at a time.
pub trait ClientProtocol {
    /// Returns the bytes of the request for `call`.
    ///
    /// # Errors
    /// A call that the protocol lacks or cannot carry.
    fn encode(&mut self, call: &Call) -> Result<Bytes, Malformed>;

    /// Takes the answer from the front of `buffer`, together with bytes from earlier calls. Returns `None` if it needs
    /// more bytes.
    ///
    /// # Errors
    /// Bytes that are no answer, or an answer over the [`Limits`].
    fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Answer>, Malformed>;

    /// Returns the answer after the server closed the connection and [`decode`](Self::decode) received all bytes.
    ///
    /// # Errors
    /// A truncated answer, in every protocol that marks the end of an answer by other means.
    fn close(&mut self) -> Result<Answer, Malformed> {
        Err(cut_short())
    }
}

fn cut_short() -> Malformed {
    Malformed("the connection closed before the answer was whole".to_owned())
}

/// Returns the rejection of bytes that do not suffice for a reply.
fn gibberish(why: Malformed) -> Rejection {
    Rejection { reply: Bytes::new(), close: true, why }
}

/// Reads a URL from a client. It is checked only to be UTF-8 text on one line; callers validate it further.
fn url(bytes: &[u8]) -> Result<String, Malformed> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| Malformed(format!("the url is not utf-8 at byte {}", error.valid_up_to())))?;
    match text.char_indices().find(|(_, letter)| letter.is_control()) {
        Some((at, letter)) => Err(Malformed(format!(
            "the url has the control character {:#04x} at byte {at}",
            u32::from(letter)
        ))),
        None => Ok(text.to_owned()),
    }
}

/// Returns `text` without control characters, which could end a line or move a cursor.
fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// Returns the start of foreign bytes in a form for error messages.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(64)]);
    one_line(&text)
}

#[cfg(test)]
mod tests {
    use super::{one_line, shown, url};

    #[test]
    fn a_url_is_text_on_one_line() {
        for (bytes, expected) in [
            (&b"http://a/"[..], Ok("http://a/")),
            ("http://\u{e4}/".as_bytes(), Ok("http://\u{e4}/")),
            (b"a b", Ok("a b")),
            (b"", Ok("")),
            (b"http://a/\xff", Err("the url is not utf-8 at byte 9")),
            (b"a\0b", Err("the url has the control character 0x00 at byte 1")),
            (b"a\x7f", Err("the url has the control character 0x7f at byte 1")),
            ("a\u{85}".as_bytes(), Err("the url has the control character 0x85 at byte 1")),
        ] {
            let got = url(bytes).map_err(|error| error.to_string());
            assert_eq!(got.as_deref().map_err(String::as_str), expected, "{bytes:?}");
        }
    }

    #[test]
    fn foreign_bytes_are_shown_on_one_short_line() {
        assert_eq!(one_line("a\nb\u{1b}c"), "a b c");
        assert_eq!(shown(b"get\0data\xff"), "get data\u{fffd}");
        assert_eq!(shown(&[b'x'; 100]).len(), 64);
    }
}
