//! One request and its response on an HTTP/1.1 connection to an origin.
//!
//! All of it runs in the task that waits for the response, so that one wake-up serves a request: the request's content
//! is sent during the wait for the response, and while its content is read.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};

use super::OriginRequest;
use super::careless::Suspects;
use super::connect::bare;
use super::idle::Idle;
use super::resolve::Resolver;
use super::sending::ContentSender;
use crate::base::networks::host_of;
use crate::http::chunked::{Chunked, ChunkedStep};
use crate::http::response::{self, Framing, Head, Interims, Malformed};
use crate::net::deadline::Deadline;
use crate::net::input::{HeadSearch, Input};
use crate::net::stream::{State, Stream, Surplus};

/// Remaining content from which on a larger buffer pays, and the size of that buffer, in bytes.
const MUCH: u64 = 64 << 10;
const LARGE: usize = 256 << 10;

/// A connection to an origin, idle or with a request in flight.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    input: Input,
    deadline: Deadline,
    /// The content of the request that is still to be sent.
    sending: ContentSender,
    looking: HeadSearch,
    /// Whether the response permits another request on the connection.
    keep_alive: bool,
    /// The requests that it has carried since the first one.
    pub(super) suspects: Suspects,
    https: bool,
    authority: Box<str>,
    /// The address of the other end, if the authority is a name and not an address.
    found: Option<IpAddr>,
}

/// A request in flight, and its connection.
#[derive(Debug)]
pub(super) struct Exchange {
    connection: Box<Connection>,
    /// The pool to which the connection returns.
    idle: Arc<Idle>,
}

/// The reason why there is no response.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the connection was closed before the answer was complete")]
    Closed,
    #[error("{}", .0.0)]
    Malformed(Malformed),
    #[error("no data came in time")]
    TimedOut,
    #[error("the client stopped in the middle of its request")]
    ClientGone,
    /// The stream or its connection failed.
    #[error("{0}")]
    Stream(h2::Error),
    /// The origin has not processed the request (RFC 9113 section 8.7).
    #[error("the origin did not process the request: {0}")]
    Unprocessed(h2::Error),
}

impl Connection {
    pub(super) fn new(stream: Stream, https: bool, authority: &str) -> Self {
        let found = if bare(host_of(authority)).parse::<IpAddr>().is_ok() { None } else { stream.peer_ip() };
        Self {
            found,
            stream,
            input: Input::default(),
            deadline: Deadline::new(Duration::ZERO),
            sending: ContentSender::default(),
            looking: HeadSearch::default(),
            keep_alive: false,
            suspects: Suspects::default(),
            https,
            authority: authority.into(),
        }
    }

    /// Returns the origin: whether over TLS, and the authority.
    pub(super) fn target(&self) -> (bool, &str) {
        (self.https, &self.authority)
    }

    /// Whether the connection's address is no longer an address of its name.
    pub(super) fn has_left(&self, resolver: &Resolver) -> bool {
        self.found.is_some_and(|ip| resolver.has_left(bare(host_of(&self.authority)), ip))
    }

    /// Whether something may have arrived on the idle connection. If not, `waker` is woken when it does.
    pub(super) fn has_stirred(&self, waker: &Waker) -> bool {
        self.stream.poll_arrival(&mut Context::from_waker(waker)).is_ready()
    }

    /// Returns the state of the idle connection.
    pub(super) fn state(&mut self) -> State {
        self.stream.state()
    }

    /// Returns the stream for another protocol, and the unread bytes.
    fn into_parts(self) -> (Stream, Vec<u8>) {
        (self.stream, self.input.unread().to_vec())
    }

    /// Sends all of `bytes`; `sent` counts the sent ones.
    async fn send(&mut self, bytes: &[u8], sent: &mut usize) -> Result<(), Failure> {
        poll_fn(|cx| {
            while *sent < bytes.len() {
                match self.stream.poll_write(cx, &bytes[*sent..])? {
                    Poll::Ready(0) => return Poll::Ready(Err(Failure::Closed)),
                    Poll::Ready(count) => *sent += count,
                    Poll::Pending => return self.poll_overdue(cx),
                }
            }
            self.stream.poll_flush(cx).map_err(Failure::from)
        })
        .await
    }

    /// Reads at least one byte; [`Failure::Closed`] at the end of the stream.
    fn poll_more(&mut self, cx: &mut Context<'_>, room: usize) -> Poll<Result<(), Failure>> {
        let buffer = self.input.make_room();
        if room > buffer.capacity() - buffer.len() {
            buffer.reserve(room);
        }
        match self.stream.poll_read(cx, buffer)? {
            Poll::Ready(0) => Poll::Ready(Err(Failure::Closed)),
            Poll::Ready(_) => Poll::Ready(Ok(())),
            Poll::Pending => {
                self.input.release_buffers();
                self.poll_overdue(cx)
            }
        }
    }

    fn poll_head(&mut self, cx: &mut Context<'_>, method: &Method) -> Poll<Result<Head, Failure>> {
        loop {
            self.skip_empty_lines();
            let unread = self.input.unread();
            if self.looking.is_worth_it(unread, response::LONGEST)
                && let Some((head, used)) = response::parse(unread, method).map_err(Failure::Malformed)?
            {
                self.input.consume(used);
                self.looking = HeadSearch::default();
                return Poll::Ready(Ok(head));
            }
            self.poll_sending(cx)?;
            ready!(self.poll_more(cx, 0))?;
        }
    }

    /// Skips empty lines before a response, which some origins send.
    fn skip_empty_lines(&mut self) {
        let is_end = |byte: &&u8| matches!(byte, b'\r' | b'\n');
        let count = self.input.unread().iter().take_while(is_end).count();
        self.input.consume(count);
    }

    /// Sends as much of the request's content as possible without waiting. The response may arrive meanwhile.
    fn poll_sending(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        self.sending.poll(cx, &mut self.stream, &mut self.deadline)
    }

    fn poll_overdue<T>(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, Failure>> {
        self.deadline.poll(cx).map(|()| Err(Failure::TimedOut))
    }
}

impl Exchange {
    pub(super) fn new(connection: Box<Connection>, idle: Arc<Idle>) -> Self {
        Self { connection, idle }
    }

    /// Sends the `head` of a request, and then its content while it waits for the response's head.
    ///
    /// `content` is taken only once the head is sent; `sent` counts the sent bytes of the head.
    ///
    /// # Errors
    /// The reason why there is no response.
    pub(super) async fn ask(
        &mut self,
        head: &[u8],
        request: &mut OriginRequest<'_>,
        patience: Duration,
        sent: &mut usize,
    ) -> Result<Head, Failure> {
        let connection = &mut *self.connection;
        connection.deadline.set(patience);
        connection.send(head, sent).await?;
        connection.deadline.restart();
        connection.sending = ContentSender::new(std::mem::take(request.content));
        let mut interims = Interims::default();
        loop {
            let head = poll_fn(|cx| connection.poll_head(cx, request.method)).await?;
            if head.status.is_informational() && head.status != StatusCode::SWITCHING_PROTOCOLS {
                interims.count(&head).map_err(Failure::Malformed)?;
                request.interim(head);
                continue;
            }
            connection.keep_alive = head.keep_alive;
            return Ok(head);
        }
    }

    /// Reads the next piece of the response's content, as delimited by `content`. The piece is at the start of the
    /// buffer ([`Exchange::bytes`]) until `consume` is called.
    pub(super) fn poll_content(
        &mut self,
        cx: &mut Context<'_>,
        content: &mut Content,
    ) -> Poll<Result<Piece, Failure>> {
        loop {
            if let Some(piece) = self.next_piece(content)? {
                return Poll::Ready(Ok(piece));
            }
            self.connection.poll_sending(cx)?;
            match ready!(self.connection.poll_more(cx, content.room())) {
                Err(Failure::Closed) if matches!(content, Content::Close) => {
                    *content = Content::Length(0);
                    return Poll::Ready(Ok(Piece::End));
                }
                more => more?,
            }
        }
    }

    /// Returns the next piece, if it is in the buffer.
    pub(super) fn next_piece(&mut self, content: &mut Content) -> Result<Option<Piece>, Failure> {
        let there = self.there();
        let input = &mut self.connection.input;
        match content {
            Content::Length(0) => Ok(Some(Piece::End)),
            Content::Length(_) | Content::Close if there == 0 => Ok(None),
            Content::Length(left) => {
                let take = usize::try_from(*left).unwrap_or(usize::MAX).min(there);
                *left -= take as u64;
                Ok(Some(Piece::Data(take)))
            }
            Content::Close => Ok(Some(Piece::Data(there))),
            Content::Chunked(chunked) => {
                let step = chunked.step(input.unread());
                match step.map_err(|refusal| Failure::Malformed(Malformed(refusal.reason)))? {
                    ChunkedStep::More { skip } => {
                        input.consume(skip);
                        Ok(None)
                    }
                    ChunkedStep::Data { skip, len } => {
                        input.consume(skip);
                        Ok(Some(Piece::Data(len)))
                    }
                    ChunkedStep::End { skip, trailers } => {
                        input.consume(skip);
                        Ok(Some(if trailers.is_empty() { Piece::End } else { Piece::Trailers(trailers) }))
                    }
                }
            }
        }
    }

    /// Returns the number of bytes in the buffer.
    pub(super) fn there(&self) -> usize {
        self.connection.input.unread().len()
    }

    /// Returns the first `len` bytes of the buffer.
    pub(super) fn bytes(&self, len: usize) -> &[u8] {
        &self.connection.input.unread()[..len]
    }

    /// Removes the first `len` bytes of the buffer.
    pub(super) fn consume(&mut self, len: usize) {
        self.connection.input.consume(len);
    }

    /// Sets the time limit of each following piece.
    pub(super) fn within(&mut self, limit: Duration) {
        self.connection.deadline.set(limit);
    }

    /// Closes the connection, and removes what was stored from it.
    pub(super) fn withdraw(self) {
        self.idle.withdraw(&self.connection);
    }

    /// Returns the connection to the pool, if it can carry another request.
    pub(super) fn finish(mut self) {
        let connection = &mut self.connection;
        if !connection.input.is_empty() {
            let surplus = Surplus::of(connection.input.unread());
            self.idle.distrust(connection, surplus);
        } else if connection.keep_alive && connection.sending.is_done() {
            connection.input.release_buffers();
            self.idle.put(self.connection);
        }
    }

    /// Returns the stream for another protocol, and the unread bytes.
    pub(super) fn into_parts(self) -> (Stream, Vec<u8>) {
        self.connection.into_parts()
    }
}

/// The remaining content of a response.
#[derive(Debug)]
pub(super) enum Content {
    /// This number of bytes.
    Length(u64),
    /// Chunks.
    Chunked(Chunked),
    /// All bytes until the connection ends.
    Close,
}

impl Content {
    pub(super) fn new(framing: Framing) -> Self {
        match framing {
            Framing::Length(length) => Self::Length(length),
            Framing::Chunked => Self::Chunked(Chunked::of_an_answer()),
            Framing::Close => Self::Close,
        }
    }

    fn room(&self) -> usize {
        match self {
            Self::Length(left) if *left > MUCH => LARGE.min(usize::try_from(*left).unwrap_or(LARGE)),
            _ => 0,
        }
    }
}

/// A piece of a response's content.
#[derive(Debug)]
pub(super) enum Piece {
    /// This number of bytes at the start of the buffer.
    Data(usize),
    /// Trailers.
    Trailers(HeaderMap),
    /// The end of the content.
    End,
}
