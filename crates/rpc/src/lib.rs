//! Codecs for the RPC protocols by which programs request pages.
//!
//! [`thrift`], [`onc`] and [`mod@line`] each turn bytes into a [`Call`] and a result into bytes ([`Answering`],
//! [`Replying`]: the server's side), and a [`Call`] into bytes and bytes into an [`Answer`] ([`Calling`]: the client's
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

pub use statistics::Statistics;

/// What a client wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// An answer without content: the server is there.
    Ping,
    /// The page at `url`. Its text is UTF-8 without control characters, and nothing more is known of it.
    Fetch {
        /// As the client wrote it.
        url: String,
    },
    /// What the server counted.
    Statistics,
    /// Reset of the counters.
    Reset,
}

/// Why there is no page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failure {
    /// What was asked for: the URL.
    pub what: String,
    /// The reason, one line.
    pub why: String,
    /// The HTTP status that says the same, or 0 if there is none.
    pub status: u16,
}

/// What a server answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The page, whole.
    Page(Bytes),
    /// What the server counted.
    Statistics(Box<Statistics>),
    /// To a call that has no result.
    Done,
    /// There is no page, and why.
    Failure(Failure),
}

/// Bytes that are no message of the protocol, and why: one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub String);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}

/// How much one connection may make us hold.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of a request, and of everything in a reply that is not the page.
    pub message: usize,
    /// Bytes of a page, for the receiver.
    pub page: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { message: 64 << 10, page: 1 << 30 }
    }
}

impl Limits {
    /// Bytes of a whole reply.
    fn reply(&self) -> usize {
        self.page.saturating_add(self.message)
    }
}

/// A call, and what its reply is made with.
#[derive(Debug)]
pub struct Asked<R> {
    /// What the client wants.
    pub call: Call,
    /// Encodes the answer to this call.
    pub reply: R,
}

/// A request that gets no further: the protocol's own error, ready to send.
#[derive(Debug, PartialEq, Eq)]
pub struct Rejected {
    /// What to send; empty if the protocol has no words for it.
    pub reply: Bytes,
    /// That nothing after it can be understood, so that the connection has to close.
    pub close: bool,
    /// For the log.
    pub why: Malformed,
}

/// The server's side of a connection.
pub trait Answering {
    /// Encodes the reply to one call.
    type Reply: Replying;

    /// Takes the next call off the front of `buffer`; `None` if it needs more bytes first. `buffer` never has
    /// to hold more than [`Limits::message`] bytes, and the few that frame them, for a call to come out.
    ///
    /// # Errors
    /// A message that asks for nothing we have, or is none.
    fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Asked<Self::Reply>>, Rejected>;

    /// Says that the rest of a call did not come in time; empty where a reply needs to know its call.
    fn late(&self) -> Bytes {
        Bytes::new()
    }

    /// Whether nothing but a reset of the connection tells a failure from a page.
    fn fails_by_reset(&self) -> bool {
        false
    }
}

/// Encodes the reply to one call.
pub trait Replying {
    /// What goes around a page of `length` bytes; `None` if the protocol cannot carry so long a page.
    fn page(&self, length: usize) -> Option<Envelope>;

    /// Says that there is no page. Once a page has begun, only the line protocol can say so
    /// ([`Envelope::chunks`]): any other connection has to close.
    fn failure(&self, failure: &Failure) -> Bytes;

    /// Answers [`Call::Statistics`].
    fn statistics(&self, statistics: &Statistics) -> Bytes;

    /// Answers [`Call::Ping`] and [`Call::Reset`].
    fn done(&self) -> Bytes;

    /// That the connection closes after this reply, since nothing else tells its end.
    fn closes(&self) -> bool {
        false
    }
}

/// What goes around a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// Before the page.
    pub head: Bytes,
    /// Whether the page is cut into chunks, each with a head of its own. If not, its bytes go out as they
    /// are, by whatever way is the shortest.
    pub chunks: bool,
    /// After the page.
    pub tail: Bytes,
}

impl Envelope {
    /// Appends to `out` what to send for the next bytes of the page. Nothing is copied.
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

    /// All that is to be sent for a page that is there as a whole.
    #[must_use]
    pub fn around(self, page: Bytes) -> Vec<Bytes> {
        let mut out = vec![self.head.clone()];
        self.part(page, &mut out);
        out.push(self.tail);
        out.retain(|piece| !piece.is_empty());
        out
    }
}

/// The client's side of a connection, with one call under way at a time.
pub trait Calling {
    /// The bytes that ask for `call`.
    ///
    /// # Errors
    /// A call that the protocol does not have, or cannot carry.
    fn encode(&mut self, call: &Call) -> Result<Bytes, Malformed>;

    /// Takes the answer off the front of `buffer`, and of what it took before; `None` if it needs more bytes.
    ///
    /// # Errors
    /// Bytes that are no answer, or one over the [`Limits`].
    fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Answer>, Malformed>;

    /// The answer, after the server closed the connection and [`decode`](Self::decode) had all bytes.
    ///
    /// # Errors
    /// In every protocol that tells the end of an answer otherwise, an answer cut short.
    fn close(&mut self) -> Result<Answer, Malformed> {
        Err(cut_short())
    }
}

fn cut_short() -> Malformed {
    Malformed("the connection closed before the answer was whole".to_owned())
}

/// Bytes without enough information for an answer.
fn gibberish(why: Malformed) -> Rejected {
    Rejected { reply: Bytes::new(), close: true, why }
}

/// A URL as a client sent it. Whether it is one is for others to say; here it has to be text on one line.
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

/// `text` with nothing in it that could end a line or move a cursor.
fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// The beginning of foreign bytes, as an error may show it.
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
