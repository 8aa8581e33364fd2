//! Origins that follow a script, and remember what they were asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::net::{self, AddressFamily, SocketType};

use super::{Gate, Line, PATIENCE, eventually, first, message, parts, says};

/// A server on a port of its own.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    seen: Mutex<Vec<Seen>>,
    connections: Mutex<Vec<TcpStream>>,
    dead: AtomicBool,
    /// Has the port of an origin that is dead, so that no other program gets it.
    grave: Mutex<Option<OwnedFd>>,
}

/// A request as it arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Counted from 0.
    pub(crate) number: usize,
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) fields: Vec<Line>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<Line>,
}

impl Seen {
    /// The first value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        first(&self.fields, name)
    }
}

/// What to answer, step by step.
#[derive(Default)]
pub(crate) struct Answer(Vec<Step>);

enum Step {
    Send(Vec<u8>),
    Wait(Gate),
    Close,
}

impl Answer {
    /// Bytes as they are.
    pub(crate) fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self(vec![Step::Send(bytes.into())])
    }

    /// A short response with content that need not be text.
    pub(crate) fn with_body(head: &str, body: &[u8]) -> Self {
        let text = [head.as_bytes(), b"\n\n", body].concat();
        Self::raw(long(&text, "GET"))
    }

    /// Then waits at `gate`.
    pub(crate) fn then_wait(mut self, gate: &Gate) -> Self {
        self.0.push(Step::Wait(gate.clone()));
        self
    }

    /// Then sends more.
    pub(crate) fn then(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.0.push(Step::Send(bytes.into()));
        self
    }

    /// Then closes the connection.
    pub(crate) fn then_close(mut self) -> Self {
        self.0.push(Step::Close);
        self
    }
}

impl Origin {
    /// Gives every request the same short answer.
    pub(crate) fn always(answer: &'static str) -> Self {
        Self::answering(move |seen| Answer::raw(long(answer.as_bytes(), &seen.method)))
    }

    /// Gives the first request the first short answer, and so on; fails whatever comes after.
    pub(crate) fn in_order(answers: impl Into<Vec<&'static str>>) -> Self {
        let answers = answers.into();
        Self::answering(move |seen| {
            let answer = answers.get(seen.number).copied().unwrap_or("500 Not Scripted");
            Answer::raw(long(answer.as_bytes(), &seen.method))
        })
    }

    /// Answers as `script` says, in whatever order requests come.
    pub(crate) fn by(script: impl Fn(&Seen) -> String + Send + Sync + 'static) -> Self {
        Self::answering(move |seen| Answer::raw(long(script(seen).as_bytes(), &seen.method)))
    }

    /// Answers as `script` says, step by step.
    pub(crate) fn answering(script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
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

    /// Does on each connection what `script` says.
    pub(crate) fn speaking(script: impl Fn(&mut Peer) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
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

    /// `http://address`
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many requests arrived.
    pub(crate) fn count(&self) -> usize {
        locked(&self.shared.seen).len()
    }

    /// How many of them were for `target`.
    pub(crate) fn count_of(&self, target: &str) -> usize {
        locked(&self.shared.seen).iter().filter(|seen| seen.target == target).count()
    }

    /// How many connections were made.
    pub(crate) fn connections(&self) -> usize {
        locked(&self.shared.connections).len()
    }

    /// Waits until so many requests have arrived.
    pub(crate) fn wait_for(&self, count: usize) {
        eventually(&format!("{count} requests at the origin"), || (self.count() >= count).then_some(()));
    }

    /// The latest request.
    pub(crate) fn last(&self) -> Seen {
        locked(&self.shared.seen).last().cloned().expect("a request")
    }

    /// Closes everything; who connects from now on is refused.
    pub(crate) fn die(&self) {
        self.shared.dead.store(true, Ordering::Release);
        for connection in locked(&self.shared.connections).drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
        eventually("a dead origin", || {
            // The connection has the listener look whether it is to end.
            drop(TcpStream::connect(self.address));
            let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
            net::sockopt::set_socket_reuseaddr(&socket, true).expect("an option");
            net::bind(&socket, &self.address).ok()?;
            *locked(&self.shared.grave) = Some(socket);
            Some(())
        });
    }
}

/// The proxy, as an origin meets it.
pub(crate) struct Peer {
    pub(crate) stream: BufReader<TcpStream>,
    shared: Arc<Shared>,
}

impl Peer {
    fn new(stream: TcpStream, shared: Arc<Shared>) -> Self {
        stream.set_read_timeout(Some(3 * PATIENCE)).expect("a limit");
        stream.set_nodelay(true).expect("no delay");
        Self { stream: BufReader::new(stream), shared }
    }

    /// A request with its content; `None` at the end of the connection.
    pub(crate) fn request(&mut self) -> Option<Seen> {
        let mut seen = self.head()?;
        match (seen.field("content-length"), seen.field("transfer-encoding")) {
            (Some(length), _) => seen.body = self.exactly(length.parse().expect("a length"))?,
            (None, Some(_)) => while self.chunk(&mut seen)? {},
            (None, None) => {}
        }
        self.remember(seen)
    }

    /// A request's head; it does not count before it is remembered.
    pub(crate) fn head(&mut self) -> Option<Seen> {
        let first = self.line()?;
        let mut words = first.split(' ');
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let fields = self.lines()?;
        Some(Seen { method, target, fields, ..Seen::default() })
    }

    /// Counts a request.
    pub(crate) fn remember(&self, seen: Seen) -> Option<Seen> {
        let mut all = locked(&self.shared.seen);
        let number = all.len();
        all.push(Seen { number, ..seen });
        all.last().cloned()
    }

    /// Reads a chunk into a request; false after the last.
    pub(crate) fn chunk(&mut self, seen: &mut Seen) -> Option<bool> {
        match usize::from_str_radix(&self.line()?, 16).expect("a chunk size") {
            0 => {
                seen.trailers = self.lines()?;
                Some(false)
            }
            size => {
                seen.body.extend(self.exactly(size)?);
                self.line().map(|end| end.is_empty())
            }
        }
    }

    pub(crate) fn exactly(&mut self, count: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).ok().map(|()| bytes)
    }

    /// Sends bytes as they are. A proxy that has left is no matter here.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.get_mut().write_all(bytes);
    }

    /// Sends a short response.
    pub(crate) fn answer(&mut self, text: &str) {
        self.send(&long(text.as_bytes(), "GET"));
    }

    fn lines(&mut self) -> Option<Vec<Line>> {
        let mut lines = Vec::new();
        loop {
            let line = self.line()?;
            match line.split_once(": ") {
                Some((name, value)) => lines.push((name.to_owned(), value.to_owned())),
                None if line.is_empty() => return Some(lines),
                None => lines.push((line.trim_end_matches(':').to_owned(), String::new())),
            }
        }
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line).ok()?;
        line.strip_suffix("\r\n").map(str::to_owned)
    }
}

/// A short response as it goes over the wire, in answer to `method`.
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

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
