//! One request and its answer on a stream.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{Reason, RecvStream};
use http::{Request, Response};

use super::connection::Stream;
use super::sending::Sending;
use crate::http::response::{self, Framing, Head, Malformed};
use crate::net::deadline::Deadline;
use crate::origin::Outgoing;
use crate::origin::exchange::{Failure, Piece};

/// A request under way on a stream of its own.
#[derive(Debug)]
pub(in crate::origin) struct Exchange {
    content: RecvStream,
    waiting: Waiting,
    /// What has come and was not consumed.
    piece: Bytes,
    /// How much is to come, if the origin has said that.
    left: Option<u64>,
    /// Nothing more comes.
    is_over: bool,
    /// The window of the stream is not opened further for a reader that has left.
    _stream: Stream,
}

/// What is waited with.
#[derive(Debug)]
struct Waiting {
    deadline: Deadline,
    /// `None` for a request without content.
    sending: Option<Sending>,
}

impl Exchange {
    /// Sends a request on `stream` and waits for the head of its answer. Content that the origin has not processed is put back, if
    /// it was not too much.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(super) async fn ask(
        mut stream: Stream,
        request: &mut Outgoing<'_>,
        message: Request<()>,
        patience: Duration,
    ) -> Result<(Head, Self), Failure> {
        let deadline = Deadline::new(patience);
        let is_bodiless = request.content.is_empty();
        let (mut answer, sender) = stream.send(message, is_bodiless).map_err(Failure::Unprocessed)?;
        let sending = (!is_bodiless).then(|| Sending::start(sender, std::mem::take(request.content)));
        let mut waiting = Waiting { deadline, sending };
        let answered = loop {
            match poll_fn(|cx| poll_head(cx, &mut answer, &mut waiting)).await {
                Ok(Answered::Interim(interim)) => {
                    let (parts, ()) = interim.into_parts();
                    let head = response::of_stream(request.method, parts.status, &parts.headers, false);
                    (request.on_interim)(head.map_err(Failure::Malformed)?);
                }
                Ok(Answered::Final(answer)) => break answer,
                Err(failure) => {
                    match (&failure, waiting.sending.take()) {
                        (Failure::TimedOut, _) => stream.distrust(),
                        (Failure::Unprocessed(_), Some(sending)) => *request.content = sending.take_back(),
                        _ => {}
                    }
                    return Err(failure);
                }
            }
        };
        waiting.sending.iter().for_each(Sending::forget);
        let (parts, content) = answered.into_parts();
        let end = content.is_end_stream();
        let head = response::of_stream(request.method, parts.status, &parts.headers, end);
        let head = head.map_err(Failure::Malformed)?;
        let left = match head.framing {
            Framing::Length(length) => Some(length),
            Framing::Chunked | Framing::Close => None,
        };
        Ok((head, Self { content, waiting, piece: Bytes::new(), left, is_over: false, _stream: stream }))
    }

    /// Reads the next piece of the answer's content. It is in [`Exchange::bytes`] until `consume` is called.
    pub(in crate::origin) fn poll_content(&mut self, cx: &mut Context<'_>) -> Poll<Result<Piece, Failure>> {
        match self.poll_piece(cx) {
            Poll::Pending => self.waiting.poll_overdue(cx),
            piece => piece,
        }
    }

    /// The next piece, if it has come.
    pub(in crate::origin) fn next_piece(&mut self) -> Result<Option<Piece>, Failure> {
        match self.poll_piece(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(piece) => piece.map(Some),
            Poll::Pending => Ok(None),
        }
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Piece, Failure>> {
        while !self.is_over {
            match ready!(self.content.poll_data(cx)) {
                Some(Ok(data)) if data.is_empty() => {}
                Some(Ok(data)) => {
                    let length = data.len();
                    if let Some(left) = &mut self.left {
                        let more = "more content than its content-length says";
                        let Some(rest) = left.checked_sub(length as u64) else {
                            return Poll::Ready(Err(Failure::Malformed(Malformed(more))));
                        };
                        *left = rest;
                    }
                    self.piece = data;
                    return Poll::Ready(Ok(Piece::Data(length)));
                }
                Some(Err(error)) => return Poll::Ready(Err(failed(error))),
                None if self.left.is_some_and(|left| left > 0) => {
                    return Poll::Ready(Err(Failure::Closed));
                }
                None => {
                    let trailers = ready!(self.content.poll_trailers(cx)).map_err(failed)?;
                    self.is_over = true;
                    return Poll::Ready(Ok(match trailers.filter(|trailers| !trailers.is_empty()) {
                        Some(trailers) => Piece::Trailers(trailers),
                        None => Piece::End,
                    }));
                }
            }
        }
        Poll::Ready(Ok(Piece::End))
    }

    /// The first `len` bytes of the piece.
    pub(in crate::origin) fn bytes(&self, len: usize) -> &[u8] {
        &self.piece[..len]
    }

    /// Lets the origin send as much more.
    pub(in crate::origin) fn consume(&mut self, len: usize) {
        if len > 0 {
            drop(self.piece.split_to(len));
            // A stream that has ended needs no window.
            let _ = self.content.flow_control().release_capacity(len);
        }
    }

    /// From now on a piece may take `limit`.
    pub(in crate::origin) fn within(&mut self, limit: Duration) {
        self.waiting.deadline.set(limit);
    }

    /// Whether the origin has said that it sends no more content, but for trailers.
    pub(in crate::origin) fn is_last(&self) -> bool {
        self.left == Some(0)
    }
}

impl Waiting {
    /// Waits; content of the request that leaves restarts the time.
    fn poll_overdue<T>(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, Failure>> {
        while self.deadline.poll(cx).is_ready() {
            if !self.sending.as_ref().is_some_and(Sending::has_moved) {
                return Poll::Ready(Err(Failure::TimedOut));
            }
            self.deadline.restart();
        }
        Poll::Pending
    }
}

enum Answered {
    Interim(Response<()>),
    Final(Response<RecvStream>),
}

fn poll_head(
    cx: &mut Context<'_>,
    answer: &mut ResponseFuture,
    waiting: &mut Waiting,
) -> Poll<Result<Answered, Failure>> {
    match answer.poll_informational(cx) {
        Poll::Pending => return waiting.poll_overdue(cx),
        Poll::Ready(Some(interim)) => return Poll::Ready(interim.map(Answered::Interim).map_err(failed)),
        Poll::Ready(None) => {}
    }
    match Pin::new(answer).poll(cx) {
        Poll::Pending => waiting.poll_overdue(cx),
        Poll::Ready(answer) => Poll::Ready(answer.map(Answered::Final).map_err(failed)),
    }
}

/// What an error of the library means.
pub(super) fn failed(error: h2::Error) -> Failure {
    let says = |reason| error.is_remote() && error.reason() == Some(reason);
    let is_unprocessed = error.is_reset() && says(Reason::REFUSED_STREAM)
        // The library says so of streams beyond the last one that the origin names, and of none that it may have processed.
        || error.is_go_away() && says(Reason::NO_ERROR);
    if is_unprocessed {
        return Failure::Unprocessed(error);
    }
    match error.is_io() {
        true => error.into_io().map_or(Failure::Closed, Failure::Io),
        false => Failure::Stream(error),
    }
}
