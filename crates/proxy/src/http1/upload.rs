//! Carries a request's content from the client's connection to its reader.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body::Frame;
use tokio::time::timeout;

use crate::base::clock;
use crate::base::settings::{Limits, Timeouts};
use crate::exchange::link::{self, Link};
use crate::exchange::reply::Reply;
use crate::exchange::sink::SendError;
use crate::http::body::{ClientGone, Frames, Upload};
use crate::http::chunked::{Chunked, ChunkedStep};
use crate::http::head::{Framing, Refusal};
use crate::net::io::Reading;

/// Content that has yet to arrive from a client.
pub(crate) struct Source<'c> {
    reading: &'c mut Reading,
    frames: Frames,
    framing: Framing,
    link: Link,
    limits: &'c Limits,
    timeouts: &'c Timeouts,
    received: u64,
    started: u64,
}

/// Returns the two ends of a request's content, or `reading` itself if there is no content.
pub(crate) fn split<'c>(
    reading: &'c mut Reading,
    framing: Framing,
    link: &Link,
    limits: &'c Limits,
    timeouts: &'c Timeouts,
) -> (Result<Source<'c>, &'c mut Reading>, Upload) {
    let length = match framing {
        Framing::Length(0) => return (Err(reading), Upload::Empty),
        Framing::Length(length) => Some(length),
        Framing::Chunked => None,
    };
    let (frames, upload) = Upload::channel(length);
    let (link, started) = (link.clone(), clock::millis());
    let source = Source { reading, frames, framing, link, limits, timeouts, received: 0, started };
    (Ok(source), upload)
}

/// Refuses content whose announced length exceeds the limit.
pub(crate) fn check(framing: Framing, limits: &Limits) -> Result<(), Refusal> {
    match framing {
        Framing::Length(length) if length > limits.body_bytes => Err(TOO_LARGE),
        _ => Ok(()),
    }
}

const TOO_LARGE: Refusal =
    Refusal { status: StatusCode::PAYLOAD_TOO_LARGE, reason: "request content too large" };
const TOO_SLOW: Refusal = Refusal { status: StatusCode::REQUEST_TIMEOUT, reason: "request content too slow" };
const STOPPED: Refusal = Refusal::bad("request content ended early");

impl Source<'_> {
    /// Carries all content to its reader. Content without a reader is left unread.
    ///
    /// # Errors
    /// The refusal of content that is malformed, too large or too slow; the reader is notified that the client has
    /// left.
    pub(crate) async fn pump(mut self) -> Result<Pumped, Refusal> {
        let result = match self.framing {
            Framing::Length(length) => self.counted(length).await,
            Framing::Chunked => self.chunked().await,
        };
        if result.is_err() {
            let _ = self.frames.send(Err(ClientGone)).await;
        }
        result
    }

    async fn counted(&mut self, length: u64) -> Result<Pumped, Refusal> {
        while self.received < length {
            if self.reading.input.is_empty() {
                self.read().await?;
            }
            let left = usize::try_from(length - self.received).unwrap_or(usize::MAX);
            let take = self.reading.input.unread().len().min(left);
            let data = self.take(take);
            if self.send(Frame::data(data)).await.is_err() {
                return Ok(Pumped::Unwanted);
            }
        }
        Ok(Pumped::Whole)
    }

    async fn chunked(&mut self) -> Result<Pumped, Refusal> {
        let mut chunked = Chunked::default();
        loop {
            let frame = match chunked.step(self.reading.input.unread())? {
                ChunkedStep::More { skip } => {
                    self.reading.input.consume(skip);
                    self.read().await?;
                    continue;
                }
                ChunkedStep::Data { skip, len } => {
                    self.reading.input.consume(skip);
                    Frame::data(self.take(len))
                }
                ChunkedStep::End { skip, trailers } => {
                    self.reading.input.consume(skip);
                    let _ = self.send(Frame::trailers(trailers)).await;
                    return Ok(Pumped::Whole);
                }
            };
            if self.received > self.limits.body_bytes {
                return Err(TOO_LARGE);
            }
            if self.send(frame).await.is_err() {
                return Ok(Pumped::Unwanted);
            }
        }
    }

    fn take(&mut self, len: usize) -> Bytes {
        self.received += len as u64;
        self.link.expects(false);
        self.reading.input.take(len)
    }

    async fn send(&mut self, frame: Frame<Bytes>) -> Result<(), ()> {
        self.frames.send(Ok(frame)).await.map_err(drop)
    }

    async fn read(&mut self) -> Result<(), Refusal> {
        if self.link.is_expecting() {
            // The time of the origin's answer is not the client's.
            self.reading.within(self.timeouts.stall + link::PATIENCE);
            let received = timeout(link::PATIENCE, self.reading.more()).await;
            self.started = clock::millis();
            match received {
                Ok(received) => return self.check_read(received),
                Err(_) => self.link.proceed().await,
            }
        }
        self.reading.within(self.timeouts.stall);
        let received = self.reading.more().await;
        self.check_read(received)
    }

    fn check_read(&self, received: std::io::Result<usize>) -> Result<(), Refusal> {
        match received {
            Ok(0) => Err(STOPPED),
            Ok(_) => self.check_rate(),
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => Err(TOO_SLOW),
            Err(_) => Err(STOPPED),
        }
    }

    /// A slow client occupies a connection to an origin: after a grace period, the mean rate must reach the minimum.
    fn check_rate(&self) -> Result<(), Refusal> {
        let elapsed = Duration::from_millis(clock::millis() - self.started);
        let due = elapsed.as_secs().saturating_mul(self.timeouts.min_rate);
        if elapsed > self.timeouts.stall && self.received < due { Err(TOO_SLOW) } else { Ok(()) }
    }
}

/// The result of carrying content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pumped {
    /// All of it was read from the client.
    Whole,
    /// The reader dropped its end; the rest is unread.
    Unwanted,
}

/// Answers a request while its content is carried.
///
/// If the answer was sent before all content arrived, the connection cannot be reused: the remaining content could not
/// be distinguished from a next request.
///
/// # Errors
/// The refusal of content that is not acceptable.
pub(super) async fn talk(
    mut answer: Pin<&mut impl Future<Output = (Box<Reply>, Result<(), SendError>)>>,
    source: Option<Source<'_>>,
) -> Result<(Box<Reply>, Result<(), SendError>, Pumped), Refusal> {
    let mut pumped = Pumped::Whole;
    if let Some(source) = source {
        let mut pump = Box::pin(source.pump());
        tokio::select! {
            biased;
            (reply, sent) = &mut answer => return Ok((reply, sent, Pumped::Unwanted)),
            result = &mut pump => pumped = result?,
        }
    }
    let (reply, sent) = answer.await;
    Ok((reply, sent, pumped))
}
