//! The event loop of the floor: edge-triggered epoll, one read and one write per request.
//!
//! The epoll is edge-triggered, so that a connection is registered once and never modified. A read that fills less than
//! its buffer has emptied the socket, so no second read is needed to detect that.

use anyhow::{Context, Result};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::io::{Errno, read, write};
use rustix::net::{SendFlags, SocketFlags, accept_with, send, sockopt::set_tcp_nodelay};
use std::fs::File;
use std::io::Write;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

const SMALL: usize = 1024;
const LARGE: usize = 1024 * 1024;
/// The size of the read buffer, and the longest request head that is answered, in bytes.
const HEAD_LIMIT: usize = 4096;
const LISTENER: u64 = u64::MAX;

/// The bytes of both answers, created once: the complete small answer, and the large one as a head and a memory-backed
/// file.
struct Answers {
    small: Vec<u8>,
    large_head: Vec<u8>,
    large_body: File,
}

impl Answers {
    fn new() -> Result<Self> {
        let mut small = head(SMALL);
        small.resize(small.len() + SMALL, b'x');
        let memory = memfd_create("floor-1m", MemfdFlags::CLOEXEC).context("cannot make a file in memory")?;
        let mut large_body = File::from(memory);
        large_body.write_all(&vec![b'x'; LARGE])?;
        Ok(Self { small, large_head: head(LARGE), large_body })
    }
}

fn head(length: usize) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n").into_bytes()
}

/// The unsent rest of the current answer, as the offset of its next byte.
enum UnsentAnswer {
    Nothing,
    Small(usize),
    LargeHead(usize),
    LargeBody(u64),
}

struct Connection {
    socket: OwnedFd,
    sending: UnsentAnswer,
    /// The received part of an incomplete head; empty between requests.
    partial: Vec<u8>,
}

/// A thread, as the one that accepts connections hands them to it.
pub(crate) struct Seat {
    epoll: OwnedFd,
    /// Sockets of new connections, which are in the epoll already.
    newcomers: Mutex<Vec<OwnedFd>>,
}

impl Seat {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, newcomers: Mutex::default() })
    }

    fn newcomers(&self) -> MutexGuard<'_, Vec<OwnedFd>> {
        self.newcomers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the connection continues.
#[derive(PartialEq)]
enum Next {
    Wait,
    Close,
}

/// Answers requests forever on one of several threads, the one with this number. The first one accepts connections,
/// which all get in turn. Fails if epoll or accept fails. An error of a client only closes that client's connection.
pub(crate) fn serve(listener: &TcpListener, seats: &[Seat], number: usize) -> Result<()> {
    let (answers, seat) = (Answers::new()?, &seats[number]);
    if number == 0 {
        listener.set_nonblocking(true)?;
        epoll::add(&seat.epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    }
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut turn = 0;
    let mut events = Vec::with_capacity(256);
    let mut buffer = [0; HEAD_LIMIT];
    loop {
        events.clear();
        match epoll::wait(&seat.epoll, spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("waiting for events"),
        }
        for event in &events {
            let token = event.data.u64();
            if token == LISTENER {
                accept_all(listener, seats, &mut turn)?;
                continue;
            }
            if connections.get(token as usize).is_none_or(Option::is_none) {
                take_in(seat, &mut connections);
            }
            let Some(Some(connection)) = connections.get_mut(token as usize) else { continue };
            if connection.advance(event.flags, &mut buffer, &answers) == Next::Close {
                connections[token as usize] = None;
            }
        }
    }
}

/// Accepts every waiting connection, each for the next thread. The descriptor's number is its token.
fn accept_all(listener: &TcpListener, seats: &[Seat], turn: &mut usize) -> Result<()> {
    loop {
        let socket = match accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(socket) => socket,
            Err(Errno::AGAIN) => return Ok(()),
            Err(Errno::CONNABORTED | Errno::INTR) => continue,
            Err(error) => return Err(error).context("accepting a connection"),
        };
        set_tcp_nodelay(&socket, true)?;
        let seat = &seats[*turn % seats.len()];
        *turn += 1;
        let interest = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
        // The first event may come before the socket: its thread then waits for the lock.
        let mut newcomers = seat.newcomers();
        epoll::add(&seat.epoll, &socket, EventData::new_u64(socket.as_raw_fd() as u64), interest)?;
        newcomers.push(socket);
    }
}

/// Adds the connections that were handed to this thread.
fn take_in(seat: &Seat, connections: &mut Vec<Option<Connection>>) {
    for socket in seat.newcomers().drain(..) {
        let number = socket.as_raw_fd() as usize;
        if connections.len() <= number {
            connections.resize_with(number + 1, || None);
        }
        connections[number] =
            Some(Connection { socket, sending: UnsentAnswer::Nothing, partial: Vec::new() });
    }
}

impl Connection {
    fn advance(&mut self, ready: EventFlags, buffer: &mut [u8], answers: &Answers) -> Next {
        if self.is_sending() {
            if self.send(answers).is_err() || (self.is_sending() && ready.contains(EventFlags::ERR)) {
                return Next::Close;
            }
            if self.is_sending() {
                return Next::Wait;
            }
        }
        if ready.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            return self.receive(buffer, answers);
        }
        Next::Wait
    }

    fn is_sending(&self) -> bool {
        !matches!(self.sending, UnsentAnswer::Nothing)
    }

    /// Reads until the socket is empty, and starts an answer after each complete head.
    fn receive(&mut self, buffer: &mut [u8], answers: &Answers) -> Next {
        loop {
            let count = match read(&self.socket, &mut *buffer) {
                Ok(0) => return Next::Close,
                Ok(count) => count,
                Err(Errno::AGAIN) => return Next::Wait,
                Err(Errno::INTR) => continue,
                Err(_) => return Next::Close,
            };
            if self.head_ended(&buffer[..count]) && self.send(answers).is_err() {
                return Next::Close;
            }
            if self.partial.len() > HEAD_LIMIT {
                return Next::Close;
            }
            if count < buffer.len() || self.is_sending() {
                return Next::Wait;
            }
        }
    }

    /// Adds bytes to the head. Returns true, and selects the answer to send, if they end with the blank line.
    fn head_ended(&mut self, bytes: &[u8]) -> bool {
        let whole = self.partial.is_empty() && bytes.ends_with(b"\r\n\r\n");
        if !whole {
            self.partial.extend_from_slice(bytes);
            if !self.partial.ends_with(b"\r\n\r\n") {
                return false;
            }
        }
        let head = if whole { bytes } else { &self.partial };
        let large = head.starts_with(b"GET /1m");
        self.partial.clear();
        self.sending = if large { UnsentAnswer::LargeHead(0) } else { UnsentAnswer::Small(0) };
        true
    }

    /// Sends until the socket accepts no more bytes; `sending` is then the unsent rest.
    fn send(&mut self, answers: &Answers) -> Result<(), Errno> {
        loop {
            let sent = match self.sending {
                UnsentAnswer::Nothing => return Ok(()),
                UnsentAnswer::Small(from) => write(&self.socket, &answers.small[from..]),
                UnsentAnswer::LargeHead(from) => {
                    send(&self.socket, &answers.large_head[from..], SendFlags::MORE | SendFlags::NOSIGNAL)
                }
                UnsentAnswer::LargeBody(mut from) => {
                    let left = LARGE - from as usize;
                    sendfile(&self.socket, &answers.large_body, Some(&mut from), left)
                }
            };
            match sent {
                Ok(count) => self.sending = self.after(count, answers),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn after(&self, count: usize, answers: &Answers) -> UnsentAnswer {
        match self.sending {
            UnsentAnswer::Small(from) if from + count < answers.small.len() => {
                UnsentAnswer::Small(from + count)
            }
            UnsentAnswer::LargeHead(from) if from + count < answers.large_head.len() => {
                UnsentAnswer::LargeHead(from + count)
            }
            UnsentAnswer::LargeHead(_) => UnsentAnswer::LargeBody(0),
            UnsentAnswer::LargeBody(from) if (from as usize + count) < LARGE => {
                UnsentAnswer::LargeBody(from + count as u64)
            }
            _ => UnsentAnswer::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Seat, serve};
    use std::io::{ErrorKind, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;
    use std::time::Duration;

    fn client() -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || serve(&listener, &[Seat::new().unwrap()], 0));
        TcpStream::connect(address).unwrap()
    }

    /// Reads one answer: its head as text, and its body.
    fn answer(client: &mut TcpStream, length: usize) -> (String, Vec<u8>) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            client.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let mut body = vec![0; length];
        client.read_exact(&mut body).unwrap();
        (String::from_utf8(head).unwrap(), body)
    }

    #[test]
    fn answers_every_request_of_a_kept_connection() {
        let mut client = client();
        for (path, length) in [("/1k", 1024), ("/1m", 1024 * 1024), ("/other", 1024)] {
            client.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
            let (head, body) = answer(&mut client, length);
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {head}");
            assert!(head.contains(&format!("Content-Length: {length}\r\n")), "{path}: {head}");
            assert!(body.iter().all(|&byte| byte == b'x'), "{path}: wrong bytes");
        }
    }

    #[test]
    fn waits_for_the_end_of_a_head_that_comes_in_pieces() {
        let mut client = client();
        client.set_nodelay(true).unwrap();
        for piece in ["GE", "T /1m HTTP/1.1\r\nHo", "st: a\r\n\r", "\n"] {
            client.write_all(piece.as_bytes()).unwrap();
            thread::yield_now();
        }
        let (head, _) = answer(&mut client, 1024 * 1024);
        assert!(head.contains("Content-Length: 1048576\r\n"));
    }

    #[test]
    fn a_slow_reader_of_a_large_body_gets_all_of_it() {
        let mut client = client();
        client.write_all(b"GET /1m HTTP/1.1\r\n\r\n").unwrap();
        let (_, first) = answer(&mut client, 1000);
        let mut rest = vec![0; 1024 * 1024 - first.len()];
        for chunk in rest.chunks_mut(7001) {
            client.read_exact(chunk).unwrap();
        }
        client.write_all(b"GET /1k HTTP/1.1\r\n\r\n").unwrap();
        answer(&mut client, 1024);
    }

    #[test]
    fn a_head_that_never_ends_is_cut_off() {
        let mut client = client();
        client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let _ = client.write_all(&[b'a'; 64 * 1024]);
        match client.read(&mut [0; 16]) {
            Ok(count) => assert_eq!(count, 0, "an answer to no request"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }
}
