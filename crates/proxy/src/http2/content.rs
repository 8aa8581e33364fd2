//! Carries a request's content from its stream to its reader.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body::Frame;
use tokio::time::timeout;

use super::session::{Piece, Session};
use crate::base::clock;
use crate::base::settings::{Limits, Timeouts};
use crate::exchange::link::{self, Link};
use crate::http::body::{ClientGone, Frames, Upload};
use crate::http::head::{Framing, Refusal};

const TOO_LARGE: Refusal =
    Refusal { status: StatusCode::PAYLOAD_TOO_LARGE, reason: "request content too large" };
const TOO_SLOW: Refusal = Refusal { status: StatusCode::REQUEST_TIMEOUT, reason: "request content too slow" };
const STOPPED: Refusal = Refusal::bad("request content ended early");

/// Content that has yet to arrive on a stream.
pub(super) struct Source<'c> {
    session: Arc<Session>,
    stream: u32,
    frames: Frames,
    /// The length that the client has announced.
    length: Option<u64>,
    link: Link,
    limits: &'c Limits,
    timeouts: &'c Timeouts,
    received: u64,
    started: u64,
}

/// Returns the two ends of a stream's content, if it has any.
///
/// # Errors
/// The refusal of content whose announced length is too large.
pub(super) fn split<'c>(
    (session, stream): (Arc<Session>, u32),
    framing: Framing,
    link: &Link,
    limits: &'c Limits,
    timeouts: &'c Timeouts,
) -> Result<(Option<Source<'c>>, Upload), Refusal> {
    let length = match framing {
        Framing::Length(0) => return Ok((None, Upload::Empty)),
        Framing::Length(length) if length > limits.body_bytes => return Err(TOO_LARGE),
        Framing::Length(length) => Some(length),
        Framing::Chunked => None,
    };
    let (frames, upload) = Upload::channel(length);
    let (link, started) = (link.clone(), clock::millis());
    Ok((
        Some(Source { session, stream, frames, length, link, limits, timeouts, received: 0, started }),
        upload,
    ))
}

/// Waits for the end of a stream whose client has announced no content.
///
/// # Errors
/// The refusal of content.
pub(super) async fn none(
    (session, stream): &(Arc<Session>, u32),
    timeouts: &Timeouts,
) -> Result<(), Refusal> {
    let next = poll_fn(|cx| session.state().poll_content(cx, *stream));
    match timeout(timeouts.stall, next).await {
        Ok(Piece::End(_)) => Ok(()),
        Ok(Piece::Data(_) | Piece::Gone) => Err(STOPPED),
        Err(_) => Err(TOO_SLOW),
    }
}

impl Source<'_> {
    /// Carries all content to its reader. Content without a reader stays on the stream, and keeps the window closed.
    ///
    /// # Errors
    /// The refusal of content that is too large or too slow; its reader is notified that the client has left.
    pub(super) async fn pump(mut self) -> Result<(), Refusal> {
        let result = self.carry().await;
        if result.is_err() {
            let _ = self.frames.send(Err(ClientGone)).await;
        }
        result
    }

    async fn carry(&mut self) -> Result<(), Refusal> {
        loop {
            match self.next().await? {
                Piece::Data(data) => {
                    let length = data.len();
                    self.received += length as u64;
                    self.link.expects(false);
                    self.check()?;
                    // A request with more content than announced must not look complete to the origin.
                    let end = match self.length == Some(self.received) {
                        true => Some(self.next().await?),
                        false => None,
                    };
                    if matches!(end, Some(Piece::Data(_) | Piece::Gone)) {
                        return Err(STOPPED);
                    }
                    if self.send(Frame::data(data)).await.is_err() {
                        return Ok(());
                    }
                    self.session.state().release(self.stream, length);
                    if let Some(Piece::End(trailers)) = end {
                        let _ = self.send(Frame::trailers(trailers)).await;
                        return Ok(());
                    }
                }
                Piece::End(trailers) => {
                    let _ = self.send(Frame::trailers(trailers)).await;
                    return Ok(());
                }
                Piece::Gone => return Err(STOPPED),
            }
        }
    }

    async fn next(&self) -> Result<Piece, Refusal> {
        loop {
            let is_expecting = self.link.is_expecting();
            let limit = if is_expecting { link::PATIENCE } else { self.patience() };
            let next = poll_fn(|cx| self.session.state().poll_content(cx, self.stream));
            match timeout(limit, next).await {
                Ok(piece) => return Ok(piece),
                Err(_) if is_expecting => self.link.proceed().await,
                Err(_) if limit < self.patience() => {}
                Err(_) => return Err(TOO_SLOW),
            }
        }
    }

    /// Returns the time for which the client may pause.
    fn patience(&self) -> Duration {
        let Timeouts { stall, tunnel, .. } = self.timeouts;
        if self.link.may_pause() { *stall.max(tunnel) } else { *stall }
    }

    async fn send(&mut self, frame: Frame<Bytes>) -> Result<(), ()> {
        self.frames.send(Ok(frame)).await.map_err(drop)
    }

    /// Checks the size limit and the rate. A slow client occupies a connection to an origin: after a grace period, the
    /// mean rate must reach the minimum.
    fn check(&self) -> Result<(), Refusal> {
        if self.received > self.limits.body_bytes {
            return Err(TOO_LARGE);
        }
        let elapsed = Duration::from_millis(clock::millis() - self.started);
        let due = elapsed.as_secs().saturating_mul(self.timeouts.min_rate);
        match elapsed > self.timeouts.stall && self.received < due && !self.link.may_pause() {
            true => Err(TOO_SLOW),
            false => Ok(()),
        }
    }
}
