//! Where the content of an answer comes from: a connection of its own, or a stream of one.

use std::task::{Context, Poll};
use std::time::Duration;

use super::exchange::{Content, Exchange, Failure, Piece};
use super::http2;
use crate::http::response::Framing;
use crate::net::stream::Stream;

/// A request whose answer has begun to arrive.
#[derive(Debug)]
pub(super) enum Source {
    /// On a connection of HTTP/1.1.
    Http1(Exchange, Content),
    /// On a stream of HTTP/2.
    Http2(Box<http2::Exchange>),
}

impl Source {
    /// Content that is delimited as `framing` says.
    pub(super) fn http1(exchange: Exchange, framing: Framing) -> Self {
        Self::Http1(exchange, Content::new(framing))
    }

    /// From now on a piece may take `limit`.
    pub(super) fn within(&mut self, limit: Duration) {
        match self {
            Self::Http1(exchange, _) => exchange.within(limit),
            Self::Http2(exchange) => exchange.within(limit),
        }
    }

    /// The next piece, which is in [`bytes`](Self::bytes) until `consume` is called.
    pub(super) fn poll_content(&mut self, cx: &mut Context<'_>) -> Poll<Result<Piece, Failure>> {
        match self {
            Self::Http1(exchange, content) => exchange.poll_content(cx, content),
            Self::Http2(exchange) => exchange.poll_content(cx),
        }
    }

    /// The next piece, if it is there already.
    pub(super) fn next_piece(&mut self) -> Result<Option<Piece>, Failure> {
        match self {
            Self::Http1(exchange, content) => exchange.next_piece(content),
            Self::Http2(exchange) => exchange.next_piece(),
        }
    }

    /// The first `len` bytes of the piece.
    pub(super) fn bytes(&self, len: usize) -> &[u8] {
        match self {
            Self::Http1(exchange, _) => exchange.bytes(len),
            Self::Http2(exchange) => exchange.bytes(len),
        }
    }

    /// Forgets the first `len` bytes of the piece.
    pub(super) fn consume(&mut self, len: usize) {
        match self {
            Self::Http1(exchange, _) => exchange.consume(len),
            Self::Http2(exchange) => exchange.consume(len),
        }
    }

    /// Whether the piece that was handed out is the last.
    pub(super) fn is_last(&self) -> bool {
        match self {
            Self::Http1(_, content) => matches!(content, Content::Length(0)),
            Self::Http2(exchange) => exchange.is_last(),
        }
    }

    /// Whether all that is still to come is known to be in a buffer.
    pub(super) fn is_here(&self) -> bool {
        match self {
            Self::Http1(exchange, Content::Length(left)) => *left <= exchange.there() as u64,
            Self::Http1(..) => false,
            Self::Http2(exchange) => exchange.is_last(),
        }
    }

    /// Lets the connection take another request, if it can.
    pub(super) fn finish(self) {
        if let Self::Http1(exchange, _) = self {
            exchange.finish();
        }
    }

    /// Leaves HTTP: the stream, and bytes that came early. `None` for HTTP/2, where nothing can do so.
    pub(super) fn into_parts(self) -> Option<(Stream, Vec<u8>)> {
        match self {
            Self::Http1(exchange, _) => Some(exchange.into_parts()),
            Self::Http2(_) => None,
        }
    }
}
