//! One request and its answer on a connection to an origin.
//!
//! All of it happens in the task that wants the answer, so that one wake-up serves a request: the
//! request's content is sent while the answer is waited for, and while its content is read.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};

use super::Outgoing;
use super::connect::bare;
use super::idle::Idle;
use super::resolve::Resolver;
use super::sending::Sending;
use crate::base::networks::host_of;
use crate::http::chunked::{Chunked, ChunkedStep};
use crate::http::response::{self, Framing, Head, Malformed};
use crate::net::deadline::Deadline;
use crate::net::input::{Input, Looking};
use crate::net::stream::{State, Stream};

/// Content still to come from which on a larger buffer pays, and how large it is.
const MUCH: u64 = 64 << 10;
const LARGE: usize = 256 << 10;

/// A connection to an origin, between requests or in the middle of one.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    input: Input,
    deadline: Deadline,
    /// What is left to send of the request's content.
    sending: Sending,
    looking: Looking,
    /// Nothing that was said forbids another request.
    keep_alive: bool,
    https: bool,
    authority: Box<str>,
    /// The address that it leads to, if that was found by a name.
    found: Option<IpAddr>,
}

/// A request under way on a connection of its own.
#[derive(Debug)]
pub(super) struct Exchange {
    connection: Box<Connection>,
    /// Where the connection waits afterwards.
    idle: Arc<Idle>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the connection was closed before the answer was complete")]
    Closed,
    #[error("{}", .0.0)]
    Malformed(Malformed),
    #[error("nothing came in time")]
    TimedOut,
    #[error("the client stopped in the middle of its request")]
    ClientGone,
    /// The stream failed, or its connection did.
    #[error("{0}")]
    Stream(h2::Error),
    /// The origin has not looked at the request (RFC 9113 section 8.7).
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
            sending: Sending::default(),
            looking: Looking::default(),
            keep_alive: false,
            https,
            authority: authority.into(),
        }
    }

    /// Whom it leads to: whether by TLS, and the authority.
    pub(super) fn target(&self) -> (bool, &str) {
        (self.https, &self.authority)
    }

    /// Whether it leads to an address that is none of its name's any more.
    pub(super) fn has_left(&self, resolver: &Resolver) -> bool {
        self.found.is_some_and(|ip| resolver.has_left(bare(host_of(&self.authority)), ip))
    }

    /// What it does while it waits for a request.
    pub(super) fn state(&mut self) -> State {
        self.stream.state()
    }

    /// What is left of it for another protocol: the stream, and bytes that came early.
    fn into_parts(self) -> (Stream, Vec<u8>) {
        (self.stream, self.input.unread().to_vec())
    }

    /// Sends bytes whole; `sent` counts them.
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

    /// Reads more, at least a byte: `Closed` at the end.
    fn poll_more(&mut self, cx: &mut Context<'_>, room: usize) -> Poll<Result<(), Failure>> {
        let buffer = self.input.make_room();
        if room > buffer.capacity() - buffer.len() {
            buffer.reserve(room);
        }
        match self.stream.poll_read(cx, buffer)? {
            Poll::Ready(0) => Poll::Ready(Err(Failure::Closed)),
            Poll::Ready(_) => Poll::Ready(Ok(())),
            Poll::Pending => {
                self.input.rest();
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
                self.looking = Looking::default();
                return Poll::Ready(Ok(head));
            }
            self.poll_sending(cx)?;
            ready!(self.poll_more(cx, 0))?;
        }
    }

    /// Some origins send empty lines before an answer.
    fn skip_empty_lines(&mut self) {
        let is_end = |byte: &&u8| matches!(byte, b'\r' | b'\n');
        let count = self.input.unread().iter().take_while(is_end).count();
        self.input.consume(count);
    }

    /// Sends on as far as that goes. Waiting for this does not hold up the answer.
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

    /// Sends a request's head, and then its content while it waits for the answer's head.
    ///
    /// `content` is taken only when the head has left; `sent` counts the bytes of that.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(super) async fn ask(
        &mut self,
        request: &mut Outgoing<'_>,
        patience: Duration,
        sent: &mut usize,
    ) -> Result<Head, Failure> {
        let connection = &mut *self.connection;
        connection.deadline.set(patience);
        connection.send(request.head, sent).await?;
        connection.deadline.restart();
        connection.sending = Sending::new(std::mem::take(request.content));
        loop {
            let head = poll_fn(|cx| connection.poll_head(cx, request.method)).await?;
            if head.status.is_informational() && head.status != StatusCode::SWITCHING_PROTOCOLS {
                (request.on_interim)(head);
                continue;
            }
            connection.keep_alive = head.keep_alive;
            return Ok(head);
        }
    }

    /// Reads the next piece of the answer's content, as `delimited` says. The piece is in
    /// [`Exchange::piece`] until `consumed` is called.
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

    /// The next piece, if it is in the buffer.
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

    /// How many bytes are in the buffer.
    pub(super) fn there(&self) -> usize {
        self.connection.input.unread().len()
    }

    /// The first `len` bytes of what is in the buffer.
    pub(super) fn bytes(&self, len: usize) -> &[u8] {
        &self.connection.input.unread()[..len]
    }

    /// Forgets the first `len` bytes of what is in the buffer.
    pub(super) fn consume(&mut self, len: usize) {
        self.connection.input.consume(len);
    }

    /// From now on a piece may take `limit`.
    pub(super) fn within(&mut self, limit: Duration) {
        self.connection.deadline.set(limit);
    }

    /// Lets the connection wait for another request, if it can take one.
    pub(super) fn finish(mut self) {
        let connection = &mut self.connection;
        if !connection.input.is_empty() {
            self.idle.distrust(connection);
        } else if connection.keep_alive && connection.sending.is_done() {
            connection.input.rest();
            self.idle.put(self.connection);
        }
    }

    /// Leaves HTTP: the stream, and bytes that came early.
    pub(super) fn into_parts(self) -> (Stream, Vec<u8>) {
        self.connection.into_parts()
    }
}

/// What is still to come of an answer's content.
#[derive(Debug)]
pub(super) enum Content {
    /// This many bytes.
    Length(u64),
    /// Chunks.
    Chunked(Chunked),
    /// Whatever comes until the connection ends.
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

/// A piece of an answer's content.
#[derive(Debug)]
pub(super) enum Piece {
    /// This many bytes at the start of the buffer.
    Data(usize),
    /// Fields after the content.
    Trailers(HeaderMap),
    /// The end.
    End,
}
