//! A client that sends arbitrary bytes, and reads responses as strictly as RFC 9112 permits.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::{Line, PATIENCE, connect_from, first, limited, message, parts, says};

/// A connection to the proxy.
pub struct Client {
    pub stream: TcpStream,
    input: Vec<u8>,
}

/// A complete response.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub fields: Vec<Line>,
    pub body: Vec<u8>,
    pub trailers: Vec<Line>,
}

impl Client {
    pub fn to(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).expect("the proxy accepts"))
    }

    /// Connects from the address `source` of this machine.
    pub fn from(source: Ipv4Addr, address: SocketAddr) -> Self {
        Self::over(connect_from(source, address).expect("the proxy accepts"))
    }

    /// Connects to a Unix socket. The stream has the type of TCP streams, since both are read and written by the same
    /// system calls.
    pub fn at(path: &Path) -> Self {
        let stream = UnixStream::connect(path).expect("the proxy accepts");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        stream.set_write_timeout(Some(PATIENCE)).expect("a limit");
        Self { stream: TcpStream::from(OwnedFd::from(stream)), input: Vec::new() }
    }

    fn over(stream: TcpStream) -> Self {
        Self { stream: limited(stream, PATIENCE).expect("limits"), input: Vec::new() }
    }

    /// Sends a short request and reads its final response.
    pub fn ask(&mut self, request: &str) -> Response {
        self.send(request);
        self.receive(request.split(' ').next().unwrap_or_default())
    }

    /// Sends a short request on a new connection, to a proxy that may be killed meanwhile. Returns the response if it
    /// is complete.
    pub fn try_ask(address: SocketAddr, request: &str) -> Option<Response> {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.write_all(&long(&format!("{request}\nConnection: close"))).ok()?;
        let mut input = Vec::new();
        stream.read_to_end(&mut input).ok()?;
        let end = input.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let mut client = Self { stream, input };
        let mut response = client.head();
        response.body = client.input;
        let length = response.field("content-length").map_or(Some(0), |length| length.parse().ok())?;
        (end > 4 && (response.body.len() == length || response.status == 204)).then_some(response)
    }

    /// Returns the next `length` bytes of content, or fewer if the proxy aborts.
    pub fn rest_of(&mut self, length: usize) -> Vec<u8> {
        while self.input.len() < length && matches!(self.more(), Some(1..)) {}
        std::mem::take(&mut self.input)
    }

    /// Sends a short request.
    pub fn send(&mut self, request: &str) {
        self.raw(&long(request));
    }

    /// Sends bytes unchanged.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the proxy reads");
    }

    /// Shuts down the sending side. The proxy may have closed the connection already.
    pub fn finish(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Returns the response to a request with `method`. It must not be interim.
    pub fn receive(&mut self, method: &str) -> Response {
        let mut response = self.head();
        assert!(response.status >= 200, "an interim response: {response:?}");
        let bodiless = method == "HEAD" || matches!(response.status, 204 | 304);
        let tunnel = method == "CONNECT" && response.status == 200;
        if !bodiless && !tunnel {
            (response.body, response.trailers) = self.content(&response);
        }
        response
    }

    /// Returns the next head, whether interim or final.
    pub fn head(&mut self) -> Response {
        let head = self.until(b"\r\n\r\n");
        let mut lines = head.strip_suffix("\r\n\r\n").expect("an end").split("\r\n");
        let status = lines.next().expect("a status line");
        let code = status.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).expect(status);
        let status = code.parse().expect("a number");
        Response { status, fields: lines.map(line).collect(), body: Vec::new(), trailers: Vec::new() }
    }

    /// Returns the content and the trailers of a response whose head has been read.
    pub fn content(&mut self, head: &Response) -> (Vec<u8>, Vec<Line>) {
        match (head.field("content-length"), head.field("transfer-encoding")) {
            (Some(length), None) => (self.exactly(length.parse().expect("a number")), Vec::new()),
            (None, Some("chunked")) => self.chunks(),
            (None, None) => (self.rest().expect("an orderly end"), Vec::new()),
            both => panic!("ambiguous framing: {both:?}"),
        }
    }

    /// Returns the next chunk of a content; `None` is the last one, which trailers follow.
    pub fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = self.until(b"\r\n");
        let size = usize::from_str_radix(size.trim_end(), 16).expect("a chunk size");
        let chunk = (size > 0).then(|| self.exactly(size))?;
        assert_eq!(self.exactly(2), b"\r\n");
        Some(chunk)
    }

    fn chunks(&mut self) -> (Vec<u8>, Vec<Line>) {
        let mut content = Vec::new();
        while let Some(chunk) = self.chunk() {
            content.extend(chunk);
        }
        let mut trailers = Vec::new();
        loop {
            let trailer = self.until(b"\r\n");
            match trailer.trim_end() {
                "" => return (content, trailers),
                trailer => trailers.push(line(trailer)),
            }
        }
    }

    /// Returns all bytes until the proxy closes the connection; `None` if it was reset.
    pub fn rest(&mut self) -> Option<Vec<u8>> {
        while self.more()? > 0 {}
        Some(std::mem::take(&mut self.input))
    }

    /// Whether the proxy closes the connection without further bytes.
    pub fn is_closed(&mut self) -> bool {
        self.input.is_empty() && matches!(self.more(), None | Some(0))
    }

    /// Returns exactly `count` bytes.
    pub fn exactly(&mut self, count: usize) -> Vec<u8> {
        while self.input.len() < count {
            assert!(matches!(self.more(), Some(1..)), "closed after {} of {count}", self.input.len());
        }
        self.input.drain(..count).collect()
    }

    fn until(&mut self, end: &[u8]) -> String {
        loop {
            if let Some(at) = self.input.windows(end.len()).position(|window| window == end) {
                let bytes = self.input.drain(..at + end.len()).collect();
                return String::from_utf8(bytes).expect("text");
            }
            let read = self.more();
            assert!(matches!(read, Some(1..)), "closed in {:?}", String::from_utf8_lossy(&self.input));
        }
    }

    fn more(&mut self) -> Option<usize> {
        let mut bytes = [0; 16 << 10];
        match self.stream.read(&mut bytes) {
            Ok(read) => {
                self.input.extend_from_slice(&bytes[..read]);
                Some(read)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the proxy says nothing; so far: {:?}", String::from_utf8_lossy(&self.input))
            }
            Err(_) => None,
        }
    }
}

impl Response {
    /// Returns the only value of a field; `None` if it is missing.
    pub fn field(&self, name: &str) -> Option<&str> {
        let count = self.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).count();
        assert!(count <= 1, "{count} lines of {name}: {self:?}");
        first(&self.fields, name)
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    pub fn age(&self) -> Option<u32> {
        self.field("age").map(|age| age.parse().expect("seconds"))
    }

    /// Returns `Cache-Status` without the proxy's name and the `ttl` parameter.
    pub fn cache(&self) -> String {
        let members = self.field("cache-status").expect("a cache status").split("; ");
        members.skip(1).filter(|member| !member.starts_with("ttl=")).collect::<Vec<_>>().join("; ")
    }

    pub fn is_hit(&self) -> bool {
        self.cache() == "hit"
    }
}

fn line(text: &str) -> Line {
    assert!(!text.contains(['\r', '\n']), "{text:?}");
    let (name, value) = text.split_once(": ").unwrap_or_else(|| panic!("no field line: {text:?}"));
    (name.to_owned(), value.to_owned())
}

/// Converts a short request to the bytes on the wire.
fn long(request: &str) -> Vec<u8> {
    let (lines, content) = parts(request.as_bytes());
    let (first, lines) = lines.split_first().expect("a request line");
    let first = if first.contains(" HTTP/") { (*first).to_owned() } else { format!("{first} HTTP/1.1") };
    let mut added = Vec::new();
    if !says(lines, "host") && !first.ends_with("/1.0") {
        added.push("Host: site.test".to_owned());
    }
    if !content.is_empty() && !says(lines, "content-length") && !says(lines, "transfer-encoding") {
        added.push(format!("Content-Length: {}", content.len()));
    }
    [message(&first, lines, &added).as_bytes(), content].concat()
}
