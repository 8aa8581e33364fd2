//! The line protocol: a URL and a newline, answered by the page. It is for clients that are a few lines in any
//! language.
//!
//! A request is one line, which ends with LF, CR LF, or the end of the client's bytes. It is a URL, or [`STATISTICS`] or [`RESET`]: no URL and no host
//! begins with an asterisk. Requests on one connection are answered in sequence.
//!
//! **Framed** (the usual form): the answer is a sequence of pieces, each of which begins with a line.
//! - `+N` is followed by N bytes of the page, 1 to 1,024.
//! - `.` ends the page.
//! - `!STATUS WHY` also ends the answer, at any point: there is no page, or the page is incomplete. STATUS is the HTTP
//!   status with the same meaning, WHY the reason.
//!
//! **Bare**: the answer is the bytes of the page, and then the server closes the connection. After a failure, it resets
//! the connection instead (TCP's RST): reading ends with an error, before the page or in the middle of it.
//!
//! Statistics are sent as a page with lines of the form `name value`.

use std::fmt::Write as _;

use bytes::{Buf, Bytes, BytesMut};

use crate::statistics::Slot;
use crate::{
    Answer, Call, CallRequest, ClientProtocol, Envelope, Failure, Limits, Malformed, Rejection, ReplyEncoder,
    ServerProtocol,
};
use crate::{Statistics, cut_short, one_line, shown, url};

/// The maximum number of page bytes in one chunk.
pub const CHUNK: usize = 1024;
/// The line that requests statistics.
pub const STATISTICS: &str = "*STATISTICS";
/// The line that resets statistics.
pub const RESET: &str = "*RESET";

/// The head of a full chunk, the most frequent one.
const FULL: &[u8] = b"+1024\n";
const END: &[u8] = b".\n";

/// The way in which an answer marks its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Form {
    /// By pieces with a head for each.
    #[default]
    Framed,
    /// By closing the connection.
    Bare,
}

pub(crate) fn chunk_head(length: usize) -> Bytes {
    if length == CHUNK { Bytes::from_static(FULL) } else { format!("+{length}\n").into() }
}

/// Takes a line of at most `limit` bytes from the front of `buffer`, without its line end. Returns `None` until it is
/// complete.
fn take_line(buffer: &mut BytesMut, limit: usize) -> Result<Option<Bytes>, Malformed> {
    let visible = buffer.len().min(limit.saturating_add(1));
    match buffer[..visible].iter().position(|byte| *byte == b'\n') {
        Some(end) => {
            let mut line = buffer.split_to(end + 1).freeze();
            line.truncate(line.strip_suffix(b"\r\n").map_or(end, <[u8]>::len));
            Ok(Some(line))
        }
        None if buffer.len() > limit => Err(Malformed(format!("a line of more than {limit} bytes"))),
        None => Ok(None),
    }
}

/// Reads the requests of one connection.
#[derive(Debug)]
pub struct Server {
    form: Form,
    limits: Limits,
}

impl Server {
    /// Returns the server's side of a new connection.
    #[must_use]
    pub fn new(form: Form, limits: Limits) -> Self {
        Self { form, limits }
    }

    fn reject(&self, status: u16, why: Malformed, close: bool) -> Rejection {
        let close = close || Reply { form: self.form }.closes();
        Rejection { reply: self.refuse(status, &why.0), close, why }
    }

    fn refuse(&self, status: u16, why: &str) -> Bytes {
        Reply { form: self.form }.failure(&Failure { what: String::new(), why: why.to_owned(), status })
    }
}

impl ServerProtocol for Server {
    type Reply = Reply;

    fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<CallRequest<Reply>>, Rejection> {
        let line = match take_line(buffer, self.limits.message) {
            Ok(Some(line)) => line,
            Ok(None) => return Ok(None),
            Err(why) => return Err(self.reject(414, why, true)),
        };
        let call = read_request(&line).map_err(|why| self.reject(400, why, false))?;
        Ok(Some(CallRequest { call, reply: Reply { form: self.form } }))
    }

    fn end(&mut self, buffer: &mut BytesMut) -> Result<Option<CallRequest<Reply>>, Rejection> {
        if buffer.is_empty() {
            return Ok(None);
        }
        buffer.extend_from_slice(b"\n");
        self.decode(buffer)
    }

    fn late(&self) -> Bytes {
        self.refuse(408, "the rest of the line did not come in time")
    }

    fn fails_by_reset(&self) -> bool {
        self.form == Form::Bare
    }
}

fn read_request(line: &[u8]) -> Result<Call, Malformed> {
    match line {
        _ if line == STATISTICS.as_bytes() => Ok(Call::Statistics),
        _ if line == RESET.as_bytes() => Ok(Call::Reset),
        [b'*', ..] => {
            Err(Malformed(format!("unknown command {:?}; known: {STATISTICS}, {RESET}", shown(line))))
        }
        _ => url(line).map(|url| Call::Fetch { url }),
    }
}

/// Encodes the answer to one request.
#[derive(Debug)]
pub struct Reply {
    form: Form,
}

impl ReplyEncoder for Reply {
    /// Returns the same envelope for every length.
    fn page(&self, _: usize) -> Option<Envelope> {
        let (chunks, tail) = match self.form {
            Form::Framed => (true, END),
            Form::Bare => (false, &[][..]),
        };
        Some(Envelope { head: Bytes::new(), chunks, tail: Bytes::from_static(tail) })
    }

    fn failure(&self, failure: &Failure) -> Bytes {
        match self.form {
            Form::Framed => format!("!{} {}\n", failure.status, one_line(&failure.why)).into(),
            Form::Bare => Bytes::new(),
        }
    }

    fn statistics(&self, statistics: &Statistics) -> Bytes {
        let text = write_statistics(statistics);
        match self.form {
            // The statistics usually fit in one chunk, but the length of a policy's name is unknown here.
            Form::Framed => {
                let mut pieces = Vec::new();
                for chunk in text.as_bytes().chunks(CHUNK) {
                    pieces.extend([&chunk_head(chunk.len()), chunk].concat());
                }
                pieces.extend(END);
                pieces.into()
            }
            Form::Bare => text.into(),
        }
    }

    fn done(&self) -> Bytes {
        match self.form {
            Form::Framed => Bytes::from_static(END),
            Form::Bare => Bytes::new(),
        }
    }

    fn closes(&self) -> bool {
        self.form == Form::Bare
    }
}

fn write_statistics(statistics: &Statistics) -> String {
    let mut statistics = statistics.clone();
    let mut text = String::new();
    for (name, slot) in statistics.slots() {
        let value = match slot {
            Slot::Count(count) => count.to_string(),
            Slot::Real(real) => real.to_string(),
            Slot::Word(word) => one_line(word),
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name} {value}");
    }
    text
}

/// Reads lines of `name value`; unknown names come from a newer server and are ignored.
fn read_statistics(text: &[u8]) -> Result<Statistics, Malformed> {
    let mut statistics = Statistics::default();
    for line in String::from_utf8_lossy(text).lines() {
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        let wrong =
            |_| Malformed(format!("{} is {:?}, no number", shown(name.as_bytes()), shown(value.as_bytes())));
        let mut slots = statistics.slots();
        match slots.iter_mut().find(|(known, _)| *known == name) {
            Some((_, Slot::Count(count))) => **count = value.parse().map_err(|_| wrong(()))?,
            Some((_, Slot::Real(real))) => **real = value.parse().map_err(|_| wrong(()))?,
            Some((_, Slot::Word(word))) => **word = value.to_owned(),
            None => {}
        }
    }
    Ok(statistics)
}

/// The client's side of one connection.
#[derive(Debug)]
pub struct Client {
    form: Form,
    limits: Limits,
    page: BytesMut,
    pending: Option<Call>,
}

/// The next piece of an answer.
enum Piece {
    /// A chunk with this number of page bytes.
    Chunk(usize),
    End,
    Failure(Failure),
}

impl Client {
    /// Returns the client's side of a new connection.
    #[must_use]
    pub fn new(form: Form, limits: Limits) -> Self {
        Self { form, limits, page: BytesMut::new(), pending: None }
    }

    /// Takes the next piece from the front of `buffer`, once it is complete.
    fn piece(&self, buffer: &mut BytesMut) -> Result<Option<Piece>, Malformed> {
        // A chunk's head stays in the buffer until its bytes have arrived, too.
        let first = buffer.first().copied().unwrap_or(b'+');
        let longest = if first == b'!' { self.limits.message } else { FULL.len() };
        let Some(end) = buffer.iter().take(longest).position(|byte| *byte == b'\n') else {
            let wrong = buffer.len() >= longest || !matches!(first, b'+' | b'.' | b'!');
            return if wrong { Err(no_piece(buffer)) } else { Ok(None) };
        };
        let piece = read_piece(&buffer[..end]).ok_or_else(|| no_piece(&buffer[..end]))?;
        let follows = if let Piece::Chunk(length) = piece { length } else { 0 };
        if buffer.len() - end - 1 < follows {
            return Ok(None);
        }
        buffer.advance(end + 1);
        Ok(Some(piece))
    }

    /// Moves `length` bytes of the page out of `buffer`.
    fn keep(&mut self, buffer: &mut BytesMut, length: usize) -> Result<(), Malformed> {
        if length > self.limits.page - self.page.len() {
            return Err(Malformed(format!("a page over the limit of {} bytes", self.limits.page)));
        }
        self.page.unsplit(buffer.split_to(length));
        Ok(())
    }

    /// Interprets the page as the answer to `call`.
    fn answer(&mut self, call: &Call) -> Result<Answer, Malformed> {
        let page = self.page.split().freeze();
        match call {
            Call::Fetch { .. } => Ok(Answer::Page(page)),
            Call::Statistics => read_statistics(&page).map(|read| Answer::Statistics(Box::new(read))),
            Call::Ping | Call::Reset => Ok(Answer::Done),
        }
    }
}

fn no_piece(bytes: &[u8]) -> Malformed {
    Malformed(format!("{:?} where a chunk, the page's end or an error should be", shown(bytes)))
}

fn read_piece(line: &[u8]) -> Option<Piece> {
    let text = std::str::from_utf8(line).ok()?;
    match text.split_at_checked(1)? {
        (".", "") => Some(Piece::End),
        ("+", length) if !length.starts_with('+') => {
            let length = length.parse().ok().filter(|length| (1..=CHUNK).contains(length))?;
            Some(Piece::Chunk(length))
        }
        ("!", rest) => {
            let (status, why) = rest.split_once(' ')?;
            let status = status.parse().ok()?;
            Some(Piece::Failure(Failure { what: String::new(), why: one_line(why), status }))
        }
        _ => None,
    }
}

impl ClientProtocol for Client {
    fn encode(&mut self, call: &Call) -> Result<Bytes, Malformed> {
        let line = match call {
            Call::Fetch { url: asked } => match read_request(asked.as_bytes())? {
                Call::Fetch { url } => url,
                _ => return Err(Malformed(format!("{asked:?} is a command, not a URL"))),
            },
            Call::Statistics => STATISTICS.to_owned(),
            Call::Reset => RESET.to_owned(),
            Call::Ping => {
                return Err(Malformed("the line protocol has no null request".to_owned()));
            }
        };
        self.page.clear();
        self.pending = Some(call.clone());
        Ok((line + "\n").into())
    }

    fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Answer>, Malformed> {
        let Some(call) = self.pending.clone() else {
            return if buffer.is_empty() {
                Ok(None)
            } else {
                Err(Malformed("an answer to no request".to_owned()))
            };
        };
        if self.form == Form::Bare {
            self.keep(buffer, buffer.len())?;
            return Ok(None);
        }
        while let Some(piece) = self.piece(buffer)? {
            let answer = match piece {
                Piece::Chunk(length) => {
                    self.keep(buffer, length)?;
                    continue;
                }
                Piece::End => self.answer(&call)?,
                Piece::Failure(mut failure) => {
                    self.page.clear();
                    if let Call::Fetch { url } = call {
                        failure.what = url;
                    }
                    Answer::Failure(failure)
                }
            };
            self.pending = None;
            return Ok(Some(answer));
        }
        Ok(None)
    }

    fn close(&mut self) -> Result<Answer, Malformed> {
        match (self.form, self.pending.take()) {
            (Form::Bare, Some(call)) => self.answer(&call),
            _ => Err(cut_short()),
        }
    }
}
