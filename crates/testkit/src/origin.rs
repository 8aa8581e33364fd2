//! Origins that follow a script, and record their requests.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rustix::net::{self, AddressFamily, SocketType};

use crate::{
    Gate, Line, PATIENCE, eventually, fields, first, head, listen, locked, message, parts, says, serve,
};

/// An origin server on a free port.
pub struct Origin {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    seen: Mutex<Vec<Seen>>,
    connections: Mutex<Vec<TcpStream>>,
    dead: AtomicBool,
    /// The socket bound to the port of a dead origin, so that no other program gets this port.
    grave: Mutex<Option<OwnedFd>>,
}

/// A request as the origin received it.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The number of the request, counted from 0.
    pub number: usize,
    pub method: String,
    pub target: String,
    pub fields: Vec<Line>,
    pub body: Vec<u8>,
    pub trailers: Vec<Line>,
}

impl Seen {
    /// Reads a request with its content; `None` at the end of the connection.
    pub fn read(reader: &mut impl BufRead) -> Option<Self> {
        let mut seen = Self::head(reader)?;
        match (seen.field("content-length"), seen.field("transfer-encoding")) {
            (Some(length), _) => seen.body = exactly(reader, length.parse().expect("a length"))?,
            (None, Some(_)) => while seen.chunk(reader)? {},
            (None, None) => {}
        }
        Some(seen)
    }

    fn head(reader: &mut impl BufRead) -> Option<Self> {
        let mut seen = Self::default();
        let first =
            head(reader, |name, value| seen.fields.push((name.to_owned(), value.to_owned()))).ok()??;
        let mut words = first.split(' ').map(str::to_owned);
        (seen.method, seen.target) = (words.next()?, words.next()?);
        Some(seen)
    }

    /// Reads a chunk; false after the last one.
    fn chunk(&mut self, reader: &mut impl BufRead) -> Option<bool> {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match usize::from_str_radix(line.strip_suffix("\r\n")?, 16).expect("a chunk size") {
            0 => {
                fields(reader, |name, value| self.trailers.push((name.to_owned(), value.to_owned()))).ok()?;
                Some(false)
            }
            size => {
                self.body.extend(exactly(reader, size)?);
                Some(exactly(reader, 2)? == b"\r\n")
            }
        }
    }

    /// Returns the first value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        first(&self.fields, name)
    }

    /// Returns the requested range of `len` bytes, if it has the form `first-last` or `first-`.
    pub fn range(&self, len: usize) -> Option<Range<usize>> {
        let (first, last) = self.field("range")?.strip_prefix("bytes=")?.split_once('-')?;
        let last = last.parse().unwrap_or(len - 1).min(len - 1);
        Some(first.parse().ok()?..last + 1)
    }
}

/// The steps of an answer.
#[derive(Default)]
pub struct Answer(Vec<Step>);

enum Step {
    Send(Vec<u8>),
    Wait(Gate),
    Close,
}

impl Answer {
    /// An answer of these bytes, unchanged.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self(vec![Step::Send(bytes.into())])
    }

    /// A short response whose content need not be text.
    pub fn with_body(head: &str, body: &[u8]) -> Self {
        let text = [head.as_bytes(), b"\n\n", body].concat();
        Self::raw(long(&text, "GET"))
    }

    /// The answer of a server of files to a request for `content` with the entity-tag `tag`, or for a part of it, with the
    /// further `fields`.
    pub fn file(seen: &Seen, tag: &str, fields: &str, content: &[u8]) -> Self {
        let (fields, len) = (format!("ETag: {tag}\nAccept-Ranges: bytes\n{fields}"), content.len());
        if seen.field("if-none-match") == Some(tag) {
            return Self::with_body(&format!("304 Not Modified\n{fields}"), b"");
        }
        match seen.range(len).filter(|_| seen.field("if-range").is_none_or(|wanted| wanted == tag)) {
            Some(range) if range.start >= len => {
                Self::with_body(&format!("416 Range Not Satisfiable\nContent-Range: bytes */{len}"), b"")
            }
            Some(range) => {
                let place = format!("Content-Range: bytes {}-{}/{len}", range.start, range.end - 1);
                Self::with_body(&format!("206 Partial Content\n{fields}\n{place}"), &content[range])
            }
            None => Self::with_body(&format!("200 OK\n{fields}"), content),
        }
    }

    /// Adds a step that waits at `gate`.
    pub fn then_wait(mut self, gate: &Gate) -> Self {
        self.0.push(Step::Wait(gate.clone()));
        self
    }

    /// Adds a step that sends bytes.
    pub fn then(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.0.push(Step::Send(bytes.into()));
        self
    }

    /// Adds a step that closes the connection.
    pub fn then_close(mut self) -> Self {
        self.0.push(Step::Close);
        self
    }
}

impl Origin {
    /// Starts an origin that gives every request the same short answer.
    pub fn always(answer: &'static str) -> Self {
        Self::answering(move |seen| Answer::raw(long(answer.as_bytes(), &seen.method)))
    }

    /// Starts an origin that gives its n-th request the n-th short answer, and later requests an error.
    pub fn in_order(answers: impl Into<Vec<&'static str>>) -> Self {
        let answers = answers.into();
        Self::answering(move |seen| {
            let answer = answers.get(seen.number).copied().unwrap_or("500 Not Scripted");
            Answer::raw(long(answer.as_bytes(), &seen.method))
        })
    }

    /// Starts an origin whose short answer to each request is computed by `script`, regardless of the order of the
    /// requests.
    pub fn by(script: impl Fn(&Seen) -> String + Send + Sync + 'static) -> Self {
        Self::answering(move |seen| Answer::raw(long(script(seen).as_bytes(), &seen.method)))
    }

    /// Starts an origin whose answer to each request is computed by `script`, as steps.
    pub fn answering(script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        Self::speaking(move |peer| {
            while let Some(seen) = peer.request() {
                for step in script(&seen).0 {
                    match step {
                        Step::Send(bytes) => peer.send(&bytes),
                        Step::Wait(gate) => gate.pass(),
                        Step::Close => return,
                    }
                }
            }
        })
    }

    /// Starts an origin whose answers wait for a gate where `script` says so. Returns the gate, too.
    pub fn gated(script: impl Fn(&Seen, &Gate) -> Answer + Send + Sync + 'static) -> (Gate, Self) {
        let gate = Gate::default();
        let held = gate.clone();
        (gate, Self::answering(move |seen| script(seen, &held)))
    }

    /// Starts an origin that runs `script` on each connection.
    pub fn speaking(script: impl Fn(&mut Peer) + Send + Sync + 'static) -> Self {
        let (listener, address) = listen();
        let shared = Arc::new(Shared::default());
        let (accepting, script) = (Arc::clone(&shared), Arc::new(script));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if accepting.dead.load(Ordering::Acquire) {
                    return;
                }
                locked(&accepting.connections).push(stream.try_clone().expect("a descriptor"));
                let mut peer = Peer::new(stream, Arc::clone(&accepting));
                let script = Arc::clone(&script);
                std::thread::spawn(move || {
                    script(&mut peer);
                    let _ = peer.stream.get_ref().shutdown(Shutdown::Both);
                });
            }
        });
        Self { address, shared }
    }

    /// Returns `http://address`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the number of requests that arrived.
    pub fn count(&self) -> usize {
        locked(&self.shared.seen).len()
    }

    /// Returns the number of requests for `target`.
    pub fn count_of(&self, target: &str) -> usize {
        locked(&self.shared.seen).iter().filter(|seen| seen.target == target).count()
    }

    /// Returns the number of connections that were made.
    pub fn connections(&self) -> usize {
        locked(&self.shared.connections).len()
    }

    /// Waits until at least `count` requests have arrived.
    pub fn wait_for(&self, count: usize) {
        eventually(&format!("{count} requests at the origin"), || (self.count() >= count).then_some(()));
    }

    /// Returns the latest request.
    pub fn last(&self) -> Seen {
        locked(&self.shared.seen).last().cloned().expect("a request")
    }

    /// Closes all connections. New connections are refused from now on.
    pub fn die(&self) {
        self.shared.dead.store(true, Ordering::Release);
        for connection in locked(&self.shared.connections).drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
        eventually("a dead origin", || {
            // This connection wakes the listener's thread, which then checks whether it has to end.
            drop(TcpStream::connect(self.address));
            let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
            net::sockopt::set_socket_reuseaddr(&socket, true).expect("an option");
            net::bind(&socket, &self.address).ok()?;
            *locked(&self.shared.grave) = Some(socket);
            Some(())
        });
    }
}

/// Returns short responses that are stored for `/a..`, validated for `/v..`, and errors for `/f..`.
pub fn mixed(seen: &Seen) -> String {
    match (seen.target.as_bytes()[1], seen.field("if-none-match")) {
        (b'v', Some(_)) => "304 Not Modified\nETag: \"1\"\nCache-Control: max-age=0".to_owned(),
        (b'v', None) => "200 OK\nETag: \"1\"\nCache-Control: max-age=0\n\nvalidated".to_owned(),
        (b'f', _) => "500 Internal Server Error\n\nfailed".to_owned(),
        _ => "200 OK\nCache-Control: max-age=60\n\nstored".to_owned(),
    }
}

/// Answers the requests of each connection to `listener` until the program ends, and records none of them.
pub fn answer<E>(
    listener: TcpListener,
    answer: impl Fn(&Seen, &mut TcpStream) -> Result<(), E> + Clone + Send + 'static,
) {
    serve(listener, move |stream| {
        let _ = stream.set_nodelay(true);
        let mut reader = BufReader::new(stream);
        while let Some(seen) = Seen::read(&mut reader) {
            if answer(&seen, reader.get_mut()).is_err() {
                return;
            }
        }
    });
}

/// The connection to the proxy, as seen by an origin.
pub struct Peer {
    pub stream: BufReader<TcpStream>,
    shared: Arc<Shared>,
}

impl Peer {
    fn new(stream: TcpStream, shared: Arc<Shared>) -> Self {
        stream.set_read_timeout(Some(3 * PATIENCE)).expect("a limit");
        stream.set_nodelay(true).expect("no delay");
        Self { stream: BufReader::new(stream), shared }
    }

    /// Reads and records a request with its content; `None` at the end of the connection.
    pub fn request(&mut self) -> Option<Seen> {
        let seen = Seen::read(&mut self.stream)?;
        self.remember(seen)
    }

    /// Reads a request's head. The request does not count until [`Peer::remember`] records it.
    pub fn head(&mut self) -> Option<Seen> {
        Seen::head(&mut self.stream)
    }

    /// Records and counts a request.
    pub fn remember(&self, seen: Seen) -> Option<Seen> {
        let mut all = locked(&self.shared.seen);
        let number = all.len();
        all.push(Seen { number, ..seen });
        all.last().cloned()
    }

    /// Reads a chunk into a request; false after the last one.
    pub fn chunk(&mut self, seen: &mut Seen) -> Option<bool> {
        seen.chunk(&mut self.stream)
    }

    pub fn exactly(&mut self, count: usize) -> Option<Vec<u8>> {
        exactly(&mut self.stream, count)
    }

    /// Sends bytes unchanged. It is no error here if the proxy has closed the connection.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.get_mut().write_all(bytes);
    }

    /// Sends a short response.
    pub fn answer(&mut self, text: &str) {
        self.send(&long(text.as_bytes(), "GET"));
    }
}

fn exactly(reader: &mut impl BufRead, count: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; count];
    reader.read_exact(&mut bytes).ok().map(|()| bytes)
}

/// Converts a short response to `method` to the bytes on the wire.
fn long(text: &[u8], method: &str) -> Vec<u8> {
    let (lines, content) = parts(text);
    let (first, lines) = lines.split_first().expect("a status line");
    let bodiless = first.starts_with('1') || first.starts_with("204") || first.starts_with("304");
    let mut added = Vec::new();
    if !bodiless && !says(lines, "content-length") && !says(lines, "transfer-encoding") {
        added.push(format!("Content-Length: {}", content.len()));
    }
    let head = message(&format!("HTTP/1.1 {first}"), lines, &added);
    let content = if method == "HEAD" { b"" } else { content };
    [head.as_bytes(), content].concat()
}
