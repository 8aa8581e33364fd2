//! One request and its response on an HTTP/2 stream.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{Reason, RecvStream};
use http::{Request, Response};

use super::connection::Stream;
use super::sending::StreamSender;
use crate::http::response::{self, Framing, Head, Interims, Malformed};
use crate::net::deadline::Deadline;
use crate::origin::OriginRequest;
use crate::origin::exchange::Piece;
use crate::origin::failure::Failure;

/// A request in flight on a stream.
#[derive(Debug)]
pub(in crate::origin) struct Exchange {
    content: RecvStream,
    waiting: ResponseWait,
    /// Bytes that have arrived and are not consumed.
    piece: Bytes,
    /// Remaining bytes, if the origin has sent the length.
    left: Option<u64>,
    /// Whether the content has ended.
    is_over: bool,
    /// The connection's slot, occupied until this is dropped. The window of an abandoned stream is not extended.
    _stream: Stream,
}

/// State of the wait for the origin.
#[derive(Debug)]
struct ResponseWait {
    deadline: Deadline,
    /// `None` for a request without content.
    sending: Option<StreamSender>,
}

impl Exchange {
    /// Sends a request on `stream` and waits for the head of its response. Content that the origin has not processed is
    /// put back into the request, if it was not too long.
    pub(in crate::origin) async fn ask(
        mut stream: Stream,
        request: &mut OriginRequest<'_>,
        message: Request<()>,
        patience: Duration,
    ) -> Result<(Head, Self), Failure> {
        if request.is_alone {
            stream.distrust();
        }
        let deadline = Deadline::new(patience);
        let is_bodiless = request.content.is_empty();
        let (mut answer, sender) = stream.send(message, is_bodiless).map_err(Failure::Unprocessed)?;
        let sending = (!is_bodiless).then(|| StreamSender::start(sender, std::mem::take(request.content)));
        let mut waiting = ResponseWait { deadline, sending };
        let mut interims = Interims::default();
        let answered = loop {
            match poll_fn(|cx| poll_head(cx, &mut answer, &mut waiting)).await {
                Ok(HeadEvent::Interim(interim)) => {
                    let (parts, ()) = interim.into_parts();
                    let head = response::of_stream(request.method, parts.status, &parts.headers, false);
                    let head = head.map_err(Failure::Malformed)?;
                    interims.count(&head).map_err(Failure::Malformed)?;
                    request.interim(head);
                }
                Ok(HeadEvent::Final(answer)) => break answer,
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
        waiting.sending.iter().for_each(StreamSender::forget);
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

    /// Reads the next piece of the response's content. It is in [`Exchange::bytes`] until `consume` is called.
    pub(in crate::origin) fn poll_content(&mut self, cx: &mut Context<'_>) -> Poll<Result<Piece, Failure>> {
        match self.poll_piece(cx) {
            Poll::Pending => self.waiting.poll_overdue(cx),
            piece => piece,
        }
    }

    /// Returns the next piece, if it has arrived.
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

    /// Returns the first `len` bytes of the piece.
    pub(in crate::origin) fn bytes(&self, len: usize) -> &[u8] {
        &self.piece[..len]
    }

    /// Removes the first `len` bytes of the piece, and lets the origin send as many more.
    pub(in crate::origin) fn consume(&mut self, len: usize) {
        if len > 0 {
            drop(self.piece.split_to(len));
            // A stream that has ended needs no window.
            let _ = self.content.flow_control().release_capacity(len);
        }
    }

    /// Sets the time limit of each following piece.
    pub(in crate::origin) fn within(&mut self, limit: Duration) {
        self.waiting.deadline.set(limit);
    }

    /// Whether the origin has announced that no content follows, except trailers.
    pub(in crate::origin) fn is_last(&self) -> bool {
        self.left == Some(0)
    }
}

impl ResponseWait {
    /// Waits until the deadline; sent content of the request restarts it.
    fn poll_overdue<T>(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, Failure>> {
        while self.deadline.poll(cx).is_ready() {
            if !self.sending.as_ref().is_some_and(StreamSender::has_moved) {
                return Poll::Ready(Err(Failure::TimedOut));
            }
            self.deadline.restart();
        }
        Poll::Pending
    }
}

enum HeadEvent {
    Interim(Response<()>),
    Final(Response<RecvStream>),
}

fn poll_head(
    cx: &mut Context<'_>,
    answer: &mut ResponseFuture,
    waiting: &mut ResponseWait,
) -> Poll<Result<HeadEvent, Failure>> {
    match answer.poll_informational(cx) {
        Poll::Pending => return waiting.poll_overdue(cx),
        Poll::Ready(Some(interim)) => return Poll::Ready(interim.map(HeadEvent::Interim).map_err(failed)),
        Poll::Ready(None) => {}
    }
    match Pin::new(answer).poll(cx) {
        Poll::Pending => waiting.poll_overdue(cx),
        Poll::Ready(answer) => Poll::Ready(answer.map(HeadEvent::Final).map_err(failed)),
    }
}

/// Converts an error of the h2 library.
pub(super) fn failed(error: h2::Error) -> Failure {
    // GOAWAY gives this error, whatever its code, to streams above its last stream id only, never to one that the origin may
    // have processed (RFC 9113 section 6.8).
    let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    let is_unprocessed = error.is_remote() && (error.is_go_away() || is_refused);
    if is_unprocessed {
        return Failure::Unprocessed(error);
    }
    match error.is_io() {
        true => error.into_io().map_or(Failure::Closed, Failure::Io),
        false => Failure::Stream(error),
    }
}
