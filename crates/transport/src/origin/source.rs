//! The source of a response's content: an HTTP/1.1 connection, or an HTTP/2 stream.

use std::task::{Context, Poll};
use std::time::Duration;

use super::exchange::{Content, Exchange, Piece};
use super::failure::Failure;
use super::http2;
use crate::http::response::Framing;
use crate::net::stream::Stream;

/// A request whose response has begun to arrive.
#[derive(Debug)]
pub(super) enum Source {
    /// On a connection of HTTP/1.1.
    Http1(Exchange, Content),
    /// On a stream of HTTP/2.
    Http2(Box<http2::Exchange>),
}

impl Source {
    /// Creates a source whose content has the given `framing`.
    pub(super) fn http1(exchange: Exchange, framing: Framing) -> Self {
        Self::Http1(exchange, Content::new(framing))
    }

    /// Sets the time limit of each following piece.
    pub(super) fn within(&mut self, limit: Duration) {
        match self {
            Self::Http1(exchange, _) => exchange.within(limit),
            Self::Http2(exchange) => exchange.within(limit),
        }
    }

    /// Reads the next piece, which is in [`bytes`](Self::bytes) until `consume` is called.
    pub(super) fn poll_content(&mut self, cx: &mut Context<'_>) -> Poll<Result<Piece, Failure>> {
        match self {
            Self::Http1(exchange, content) => exchange.poll_content(cx, content),
            Self::Http2(exchange) => exchange.poll_content(cx),
        }
    }

    /// Returns the next piece, if it has arrived already.
    pub(super) fn next_piece(&mut self) -> Result<Option<Piece>, Failure> {
        match self {
            Self::Http1(exchange, content) => exchange.next_piece(content),
            Self::Http2(exchange) => exchange.next_piece(),
        }
    }

    /// Returns the first `len` bytes of the piece.
    pub(super) fn bytes(&self, len: usize) -> &[u8] {
        match self {
            Self::Http1(exchange, _) => exchange.bytes(len),
            Self::Http2(exchange) => exchange.bytes(len),
        }
    }

    /// Removes the first `len` bytes of the piece.
    pub(super) fn consume(&mut self, len: usize) {
        match self {
            Self::Http1(exchange, _) => exchange.consume(len),
            Self::Http2(exchange) => exchange.consume(len),
        }
    }

    /// Whether the last returned piece is the last one of the content.
    pub(super) fn is_last(&self) -> bool {
        match self {
            Self::Http1(_, content) => matches!(content, Content::Length(0)),
            Self::Http2(exchange) => exchange.is_last(),
        }
    }

    /// Whether all remaining content is known to be in a buffer.
    pub(super) fn is_here(&self) -> bool {
        match self {
            Self::Http1(exchange, Content::Length(left)) => *left <= exchange.there() as u64,
            Self::Http1(..) => false,
            Self::Http2(exchange) => exchange.is_last(),
        }
    }

    /// Returns the connection to the pool, if it can carry another request.
    pub(super) fn finish(self) {
        if let Self::Http1(exchange, _) = self {
            exchange.finish();
        }
    }

    /// Returns the stream for another protocol, and the unread bytes. `None` for HTTP/2, which does not switch
    /// protocols.
    pub(super) fn into_parts(self) -> Option<(Stream, Vec<u8>)> {
        match self {
            Self::Http1(exchange, _) => Some(exchange.into_parts()),
            Self::Http2(_) => None,
        }
    }
}
