//! Receives a request's content from the client's connection.

use std::io;
use std::time::Duration;

use http::HeaderMap;

use crate::http::chunked::{Chunked, ChunkedStep};
use crate::http::head::{Framing, Refusal};
use crate::net::io::ReadHalf;
use crate::wire::content::{Piece, Receive};

/// The content of a request, and what arrives after it.
pub(super) struct Receiver<'c> {
    pub(super) reading: &'c mut ReadHalf,
    rest: Rest,
}

/// The content that has yet to be received.
enum Rest {
    /// This number of bytes.
    Length(u64),
    Chunked(Chunked),
}

impl<'c> Receiver<'c> {
    pub(super) fn new(reading: &'c mut ReadHalf, framing: Framing) -> Self {
        let rest = match framing {
            Framing::Length(length) => Rest::Length(length),
            Framing::Chunked => Rest::Chunked(Chunked::default()),
        };
        Self { reading, rest }
    }

    /// Takes the next part of the content out of the input, if it has arrived.
    fn take(&mut self) -> Result<Option<Piece>, Refusal> {
        let input = &mut self.reading.input;
        let len = match &mut self.rest {
            Rest::Length(0) => return Ok(Some(Piece::End(HeaderMap::new()))),
            Rest::Length(_) if input.is_empty() => return Ok(None),
            Rest::Length(left) => {
                let len = input.unread().len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= len as u64;
                len
            }
            Rest::Chunked(chunked) => match chunked.step(input.unread())? {
                ChunkedStep::More { skip } => {
                    input.consume(skip);
                    return Ok(None);
                }
                ChunkedStep::Data { skip, len } => {
                    input.consume(skip);
                    len
                }
                ChunkedStep::End { skip, trailers } => {
                    input.consume(skip);
                    return Ok(Some(Piece::End(trailers)));
                }
            },
        };
        Ok(Some(Piece::Data(input.take(len))))
    }
}

impl Receive for Receiver<'_> {
    const MAY_PAUSE: bool = false;

    async fn next(&mut self, limit: Duration) -> Result<Option<Piece>, Refusal> {
        self.reading.within(limit);
        loop {
            if let Some(piece) = self.take()? {
                return Ok(Some(piece));
            }
            match self.reading.more().await {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(None),
                Ok(0) | Err(_) => return Ok(Some(Piece::Gone)),
            }
        }
    }
}
