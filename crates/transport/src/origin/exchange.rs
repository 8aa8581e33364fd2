//! One request and its response on an HTTP/1.1 connection to an origin.
//!
//! All of it runs in the task that waits for the response, so that one wake-up serves a request: the request's content
//! is sent during the wait for the response, and while its content is read.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{HeaderMap, StatusCode};

use super::OriginRequest;
use super::connection::Connection;
use super::failure::Failure;
use super::idle::Idle;
use super::sending::ContentSender;
use crate::http::chunked::{Chunked, ChunkedStep};
use crate::http::response::{Framing, Head, Interims, Malformed};
use crate::net::stream::{Stream, Surplus};

/// Remaining content from which on a larger buffer pays, and the size of that buffer, in bytes.
const MUCH: u64 = 64 << 10;
const LARGE: usize = 256 << 10;

/// A request in flight, and its connection.
#[derive(Debug)]
pub(super) struct Exchange {
    connection: Box<Connection>,
    /// The pool to which the connection returns.
    idle: Arc<Idle>,
}

impl Exchange {
    pub(super) fn new(connection: Box<Connection>, idle: Arc<Idle>) -> Self {
        Self { connection, idle }
    }

    /// Sends the `head` of a request, and then its content while it waits for the response's head.
    ///
    /// `content` is taken only once the head is sent; `sent` counts the sent bytes of the head.
    pub(super) async fn ask(
        &mut self,
        head: &[u8],
        request: &mut OriginRequest<'_>,
        patience: Duration,
        sent: &mut usize,
    ) -> Result<Head, Failure> {
        let connection = &mut *self.connection;
        connection.deadline.set(patience);
        poll_fn(|cx| connection.poll_send(cx, head, sent)).await?;
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
            connection.answered(&head);
            connection.keep_alive &= !request.is_alone;
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
