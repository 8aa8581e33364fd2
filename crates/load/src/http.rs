//! A client of HTTP/1.1 over one connection, for load tools: any method, fields and content; any framing of answers.
//!
//! The usual libraries take more CPU time for a page than the proxy, on the same processor.

use std::io::Write as _;
use std::net::SocketAddr;

use bytes::{Buf, Bytes, BytesMut};
use httparse::{EMPTY_HEADER, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::head::{LINES, field, whole};
use crate::reply::Reply;
use crate::requests::SentRequest;

/// The number of bytes in one read.
const PIECE: usize = 16 << 10;
/// The kept bytes of an error's content.
const SHOWN: usize = 200;
/// The maximum length of a line between chunks, in bytes.
const LONGEST_LINE: usize = 8 << 10;
/// The type of content without a field for it; all bodies of generated workloads have this type.
pub(super) const JSON: &str = "application/json";

/// A client's connection.
pub(super) struct Connection {
    stream: TcpStream,
    /// The host for URLs that are only a path.
    host: String,
    out: Vec<u8>,
    buffer: BytesMut,
}

/// The reason why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// The reason, in one line.
    pub why: String,
    /// Whether the connection had ended before any byte arrived: the server may have closed it while it was idle.
    pub is_closed: bool,
}

impl From<String> for Fault {
    fn from(why: String) -> Self {
        Self { why, is_closed: false }
    }
}

impl From<&str> for Fault {
    fn from(why: &str) -> Self {
        why.to_owned().into()
    }
}

/// The way in which the end of content is marked (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Bytes(u64),
    Chunked,
    /// The end of the connection.
    Open,
}

/// The head of an answer.
#[derive(Debug)]
struct Head {
    reply: Reply,
    length: Length,
    /// Whether another request may follow.
    is_kept: bool,
}

/// Content during its arrival: its first `keep` bytes are stored.
pub(super) struct Content {
    keep: usize,
    kept: BytesMut,
    bytes: u64,
}

impl Content {
    pub(super) fn keeping(keep: usize) -> Self {
        Self { keep, kept: BytesMut::new(), bytes: 0 }
    }

    pub(super) fn add(&mut self, piece: &[u8]) {
        let kept = piece.len().min(self.keep - self.kept.len());
        self.kept.extend_from_slice(&piece[..kept]);
        self.bytes += piece.len() as u64;
    }

    /// Returns the length of all content, and the stored bytes.
    pub(super) fn end(self) -> (u64, Bytes) {
        (self.bytes, self.kept.freeze())
    }
}

/// Returns the number of bytes to store of an answer's content.
pub(super) fn kept_bytes(status: u16, wants: bool) -> usize {
    match status {
        _ if wants => usize::MAX,
        400.. => SHOWN,
        _ => 0,
    }
}

impl Connection {
    pub(super) fn new(stream: TcpStream, to: SocketAddr) -> Self {
        Self { stream, host: to.to_string(), out: Vec::new(), buffer: BytesMut::with_capacity(PIECE) }
    }

    /// Sends a request and reads the complete answer. Returns it, and whether the connection can be reused. Fails if
    /// there is no answer, or only a part of it.
    pub(super) async fn ask(&mut self, sent: SentRequest<'_>, wants: bool) -> Result<(Reply, bool), Fault> {
        self.out.clear();
        write_request(&mut self.out, sent, &self.host);
        let closed = |error: std::io::Error| Fault { why: error.to_string(), is_closed: true };
        self.stream.write_all(&self.out).await.map_err(closed)?;
        let Head { mut reply, length, is_kept } = self.head(sent.method == "HEAD").await?;
        let mut content = Content::keeping(kept_bytes(reply.status, wants));
        match length {
            Length::Bytes(bytes) => self.exactly(bytes, &mut content).await?,
            Length::Chunked => self.chunks(&mut content).await?,
            Length::Open => while self.take(u64::MAX, &mut content).await?.is_some() {},
        }
        (reply.bytes, reply.content) = content.end();
        Ok((reply, is_kept))
    }

    /// Returns the head of the final answer; interim answers are skipped.
    async fn head(&mut self, is_head: bool) -> Result<Head, Fault> {
        loop {
            while let Some((length, head)) = head(&self.buffer, is_head)? {
                self.buffer.advance(length);
                if head.reply.status >= 200 {
                    return Ok(head);
                }
            }
            let is_silent = self.buffer.is_empty();
            let cut =
                || Fault { why: "the connection closed before the answer".to_owned(), is_closed: is_silent };
            match self.read().await {
                Ok(0) => return Err(cut()),
                Ok(_) => {}
                Err(error) => return Err(Fault { why: error.to_string(), is_closed: is_silent }),
            }
        }
    }

    async fn read(&mut self) -> std::io::Result<usize> {
        self.buffer.reserve(PIECE);
        self.stream.read_buf(&mut self.buffer).await
    }

    /// Waits for content and takes at most `most` bytes of it. Returns their number, or `None` at the end of the
    /// connection.
    async fn take(&mut self, most: u64, content: &mut Content) -> Result<Option<u64>, Fault> {
        if self.buffer.is_empty() && self.read().await.map_err(|error| error.to_string())? == 0 {
            return Ok(None);
        }
        let taken = usize::try_from(most).unwrap_or(usize::MAX).min(self.buffer.len());
        content.add(&self.buffer[..taken]);
        self.buffer.advance(taken);
        Ok(Some(taken as u64))
    }

    async fn exactly(&mut self, mut left: u64, content: &mut Content) -> Result<(), Fault> {
        while left > 0 {
            let cut = "the connection closed before the answer was whole";
            left -= self.take(left, content).await?.ok_or(cut)?;
        }
        Ok(())
    }

    /// Reads all chunks and the trailers (RFC 9112, section 7.1).
    async fn chunks(&mut self, content: &mut Content) -> Result<(), Fault> {
        loop {
            let line = self.line().await?;
            let size = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
            let size = std::str::from_utf8(size).ok().and_then(|size| u64::from_str_radix(size, 16).ok());
            let size = size.ok_or("a chunk without a size")?;
            if size == 0 {
                while !self.line().await?.is_empty() {}
                return Ok(());
            }
            self.exactly(size, content).await?;
            if !self.line().await?.is_empty() {
                return Err("a chunk without its end".into());
            }
        }
    }

    /// Returns the next line, without its line end.
    async fn line(&mut self) -> Result<Bytes, Fault> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1).freeze();
                return Ok(line.slice_ref(line.trim_ascii_end()));
            }
            if self.buffer.len() > LONGEST_LINE {
                return Err("a line without an end between chunks".into());
            }
            if self.read().await.map_err(|error| error.to_string())? == 0 {
                return Err("the connection closed before the answer was whole".into());
            }
        }
    }
}

/// Writes a request. A URL is written as to a forward proxy (RFC 9112, section 3.2.2), a path as to a server, which is
/// `host`.
fn write_request(out: &mut Vec<u8>, sent: SentRequest<'_>, host: &str) {
    let SentRequest { method, url, fields, body } = sent;
    let has = |name: &str| fields.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
    // Writing to a vector cannot fail.
    let _ = write!(out, "{method} {url} HTTP/1.1\r\n");
    if !has("host") {
        let authority = url.split_once("://").and_then(|(_, rest)| rest.split(['/', '?']).next());
        let _ = write!(out, "Host: {}\r\n", authority.unwrap_or(host));
    }
    for (name, value) in fields {
        let _ = write!(out, "{name}: {value}\r\n");
    }
    if !body.is_empty() && !has("content-type") {
        let _ = write!(out, "Content-Type: {JSON}\r\n");
    }
    if !body.is_empty() || matches!(method, "POST" | "PUT" | "PATCH") {
        let _ = write!(out, "Content-Length: {}\r\n", body.len());
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body.as_bytes());
}

/// Returns the length of an answer's head, and its content. Returns `None` while the head is incomplete.
fn head(bytes: &[u8], is_head: bool) -> Result<Option<(usize, Head)>, String> {
    let mut lines = [EMPTY_HEADER; LINES];
    let mut response = Response::new(&mut lines);
    let Some(length) = whole(response.parse(bytes), bytes)? else { return Ok(None) };
    let status = response.code.unwrap_or_default();
    let reason = if status < 400 { "" } else { response.reason.unwrap_or_default() };
    let says = |name: &str, word: &str| {
        let value = field(response.headers, name).unwrap_or_default();
        value.rsplit(',').any(|part| part.trim().eq_ignore_ascii_case(word))
    };
    let content_length = || match field(response.headers, "content-length") {
        None => Ok(Length::Open),
        Some(text) => text.parse().map(Length::Bytes).map_err(|_| "an answer with a wrong length"),
    };
    let framing = match status {
        _ if is_head => Length::Bytes(0),
        ..200 | 204 | 304 => Length::Bytes(0),
        _ if says("transfer-encoding", "chunked") => Length::Chunked,
        _ => content_length()?,
    };
    let closes =
        says("connection", "close") || response.version == Some(0) && !says("connection", "keep-alive");
    let said = response.headers.iter().filter(|line| line.name.eq_ignore_ascii_case("cache-status"));
    let cache = said.map(|line| String::from_utf8_lossy(line.value).into_owned()).collect();
    let reply = Reply { status, reason: reason.to_owned(), cache, ..Reply::default() };
    Ok(Some((length, Head { reply, length: framing, is_kept: !closes && framing != Length::Open })))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    const GET: SentRequest<'_> = SentRequest { method: "GET", url: "http://a:1/x?y", fields: &[], body: "" };

    /// Returns the client's result for these bytes, after which the server closes the connection.
    fn answered(sent: SentRequest<'_>, bytes: &str, wants: bool) -> Result<(Reply, bool), Fault> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let to = listener.local_addr().unwrap();
            let mut connection = Connection::new(TcpStream::connect(to).await.unwrap(), to);
            let serve = async {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.write_all(bytes.as_bytes()).await.unwrap();
                stream.shutdown().await.unwrap();
                stream
            };
            tokio::join!(connection.ask(sent, wants), serve).0
        })
    }

    #[test]
    fn requests_have_their_host_fields_and_length() {
        let fields = [("A".to_owned(), "b".to_owned())];
        let own = [("host".to_owned(), "c".to_owned()), ("Content-Type".to_owned(), "x/y".to_owned())];
        for (sent, expected) in [
            (GET, "GET http://a:1/x?y HTTP/1.1\r\nHost: a:1\r\n\r\n"),
            (
                SentRequest { method: "DELETE", url: "/x", fields: &fields, body: "" },
                "DELETE /x HTTP/1.1\r\nHost: h:2\r\nA: b\r\n\r\n",
            ),
            (
                SentRequest { method: "POST", url: "http://a", fields: &[], body: "" },
                "POST http://a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
            ),
            (
                SentRequest { method: "PUT", url: "http://a?q", fields: &[], body: "{}" },
                "PUT http://a?q HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
            ),
            (
                SentRequest { method: "PATCH", url: "/", fields: &own, body: "z" },
                "PATCH / HTTP/1.1\r\nhost: c\r\nContent-Type: x/y\r\nContent-Length: 1\r\n\r\nz",
            ),
        ] {
            let mut out = Vec::new();
            write_request(&mut out, sent, "h:2");
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn answers_of_every_framing_are_read() {
        let head = SentRequest { method: "HEAD", ..GET };
        for (sent, bytes, status, content, is_kept) in [
            (GET, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200, "abc", true),
            (GET, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc", 200, "abc", false),
            (GET, "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", false),
            (GET, "HTTP/1.1 200 OK\r\n\r\nto the end", 200, "to the end", false),
            (
                GET,
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\nB\r\n01234567890\r\n0\r\nA: b\r\n\r\n",
                200,
                "ab01234567890",
                true,
            ),
            (
                GET,
                "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
                204,
                "",
                true,
            ),
            (head, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", 200, "", true),
            (GET, "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", 304, "", true),
        ] {
            let (reply, kept) = answered(sent, bytes, true).unwrap();
            assert_eq!(
                (reply.status, &reply.content[..], kept),
                (status, content.as_bytes(), is_kept),
                "{bytes}"
            );
            assert_eq!(reply.bytes, content.len() as u64);
        }
    }

    #[test]
    fn unwanted_content_is_kept_only_for_errors() {
        let long = "x".repeat(1_000);
        for (status, kept) in [("200 OK", 0), ("404 Not Found", SHOWN)] {
            let bytes = format!("HTTP/1.1 {status}\r\nContent-Length: 1000\r\n\r\n{long}");
            let (reply, _) = answered(GET, &bytes, false).unwrap();
            assert_eq!((reply.bytes, reply.content.len()), (1_000, kept), "{status}");
        }
    }

    #[test]
    fn an_incomplete_or_malformed_answer_is_an_error() {
        let cut = "the connection closed before the answer was whole";
        let long = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(70_000));
        for (bytes, why, is_closed) in [
            ("", "the connection closed before the answer", true),
            ("HTTP/1.1 200", "the connection closed before the answer", false),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", cut, false),
            ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "an answer with a wrong length", false),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", "a chunk without a size", false),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
                "a chunk without its end",
                false,
            ),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", cut, false),
            ("nonsense\r\n\r\n", "invalid HTTP version", false),
            (&long, "a head without an end", false),
        ] {
            let fault = answered(GET, bytes, false).unwrap_err();
            assert_eq!(fault, Fault { why: why.to_owned(), is_closed }, "{}", &bytes[..bytes.len().min(60)]);
        }
    }
}
