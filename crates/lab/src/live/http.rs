//! HTTP/1.1 for load tools: requests without content, responses with a length.
//!
//! Larger libraries take more CPU time for a page than the proxy, on the same processor.

use bytes::{Buf, BytesMut};
use httparse::{EMPTY_HEADER, Header, Request, Response, Status};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// More field lines than any head here has.
const LINES: usize = 64;
/// More bytes than any head here has.
const LONGEST_HEAD: usize = 64 << 10;
/// Bytes asked of the system at once.
const PIECE: usize = 16 << 10;

/// A client's connection.
pub(super) struct Connection {
    stream: TcpStream,
    buffer: BytesMut,
}

/// What a client was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// Whether a cache says that it had it; nothing where none says anything.
    pub(super) cache: Option<bool>,
    /// How long its content was.
    pub(super) bytes: u64,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, buffer: BytesMut::with_capacity(PIECE) }
    }

    /// Asks for `url` as one asks a forward proxy, and takes the whole answer.
    ///
    /// # Errors
    /// When there is none, none with a length, or one with another status than 200.
    pub(super) async fn get(&mut self, url: &str) -> Result<Answer, String> {
        let host = url.trim_start_matches("http://").split('/').next().unwrap_or_default();
        let request = format!("GET {url} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        self.stream.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
        let answer = loop {
            if let Some((length, answer)) = answer(&self.buffer)? {
                self.buffer.advance(length);
                break answer;
            }
            more(&mut self.stream, &mut self.buffer).await?;
        };
        self.discard(answer.bytes).await?;
        Ok(answer)
    }

    async fn discard(&mut self, mut bytes: u64) -> Result<(), String> {
        loop {
            let there = usize::try_from(bytes).unwrap_or(usize::MAX).min(self.buffer.len());
            self.buffer.advance(there);
            bytes -= there as u64;
            if bytes == 0 {
                return Ok(());
            }
            more(&mut self.stream, &mut self.buffer).await?;
        }
    }
}

/// Reads what has come.
pub(super) async fn more(from: &mut (impl AsyncRead + Unpin), into: &mut BytesMut) -> Result<(), String> {
    into.reserve(PIECE);
    match from.read_buf(into).await {
        Ok(0) => Err("the connection closed before the message was whole".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// How long the head of an answer is, and what it says; nothing while it is not whole.
fn answer(bytes: &[u8]) -> Result<Option<(usize, Answer)>, String> {
    let mut lines = [EMPTY_HEADER; LINES];
    let mut response = Response::new(&mut lines);
    let Some(length) = whole(response.parse(bytes), bytes)? else { return Ok(None) };
    match response.code {
        Some(200) => {}
        code => {
            let reason = response.reason.unwrap_or_default();
            return Err(format!("{} {reason}", code.unwrap_or_default()));
        }
    }
    let bytes = field(response.headers, "content-length").and_then(|value| value.parse().ok());
    let bytes = bytes.ok_or("an answer without a length")?;
    let cache = field(response.headers, "cache-status").map(is_hit);
    Ok(Some((length, Answer { cache, bytes })))
}

/// A request, as far as an origin here looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) path: String,
    /// Its `If-None-Match`.
    pub(super) known: Option<String>,
}

/// How long the head of a request is, and what it asks for; nothing while it is not whole.
///
/// # Errors
/// When it is none.
pub(super) fn asked(bytes: &[u8]) -> Result<Option<(usize, Asked)>, String> {
    let mut lines = [EMPTY_HEADER; LINES];
    let mut request = Request::new(&mut lines);
    let Some(length) = whole(request.parse(bytes), bytes)? else { return Ok(None) };
    let path = path(request.path.unwrap_or_default()).to_owned();
    Ok(Some((length, Asked { path, known: field(request.headers, "if-none-match").map(str::to_owned) })))
}

/// The path in a request's target, which may be absolute (RFC 9112, section 3.2.2).
fn path(target: &str) -> &str {
    let Some(rest) = target.strip_prefix("http://") else { return target };
    rest.find('/').map_or("/", |begin| &rest[begin..])
}

fn whole(parsed: httparse::Result<usize>, bytes: &[u8]) -> Result<Option<usize>, String> {
    match parsed.map_err(|error| error.to_string())? {
        Status::Complete(length) => Ok(Some(length)),
        Status::Partial if bytes.len() > LONGEST_HEAD => Err("a head without an end".to_owned()),
        Status::Partial => Ok(None),
    }
}

fn field<'a>(lines: &[Header<'a>], name: &str) -> Option<&'a str> {
    let line = lines.iter().find(|line| line.name.eq_ignore_ascii_case(name))?;
    std::str::from_utf8(line.value).ok()
}

/// Whether a `Cache-Status` of one cache says that it had the answer (RFC 9211, section 2.1).
fn is_hit(value: &str) -> bool {
    value.split(';').any(|part| part.trim() == "hit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_when_its_head_is_whole() {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nCache-Status: Larder; hit; ttl=5\r\n\r\n";
        for end in 0..head.len() {
            assert_eq!(answer(&head[..end]), Ok(None), "{end}");
        }
        assert_eq!(answer(head), Ok(Some((head.len(), Answer { cache: Some(true), bytes: 7 }))));
    }

    #[test]
    fn what_is_no_page_is_an_error() {
        let long = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(LONGEST_HEAD));
        for (bytes, expected) in [
            ("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", "503 Service Unavailable"),
            ("HTTP/1.1 200 OK\r\n\r\n", "an answer without a length"),
            ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "an answer without a length"),
            ("nonsense\r\n\r\n", "invalid HTTP version"),
            (long.as_str(), "a head without an end"),
        ] {
            assert_eq!(answer(bytes.as_bytes()), Err(expected.to_owned()));
        }
    }

    #[test]
    fn a_request_says_what_is_wanted() {
        let head = b"GET /page/7 HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"7\"\r\n\r\n";
        let expected = Asked { path: "/page/7".to_owned(), known: Some("\"7\"".to_owned()) };
        assert_eq!(asked(head), Ok(Some((head.len(), expected))));
        assert_eq!(asked(&head[..30]), Ok(None));
        for (target, expected) in [("http://a:80/page/7", "/page/7"), ("http://a", "/"), ("/", "/")] {
            assert_eq!(path(target), expected);
        }
        assert!(asked(b"\0").is_err());
    }

    #[test]
    fn hits_are_what_the_cache_says() {
        for (value, expected) in [
            ("Larder; hit; ttl=300", true),
            ("Larder;hit", true),
            ("Larder; fwd=uri-miss; fwd-status=200; stored; ttl=354", false),
            ("\"hits\"; fwd=stale; detail=hit-or-miss", false),
        ] {
            assert_eq!(is_hit(value), expected, "{value}");
        }
    }
}
