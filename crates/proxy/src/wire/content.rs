//! Carries a request's content from its client to its reader.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body::Frame;

use crate::base::clock;
use crate::base::settings::Timeouts;
use crate::exchange::link::{self, Link};
use crate::http::body::{ClientGone, Frames, Upload};
use crate::http::head::{Framing, Refusal};

const TOO_LARGE: Refusal = Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "request content too large");
const TOO_SLOW: Refusal = Refusal::new(StatusCode::REQUEST_TIMEOUT, "request content too slow");
const STOPPED: Refusal = Refusal::bad("request content ended early");

/// Receives the content of one request.
pub(crate) trait Receive: Send {
    /// Whether the client may pause in its content as long as in a tunnel, if its origin answers meanwhile.
    const MAY_PAUSE: bool;

    /// Waits for the next part of the content, at most for `limit`; `None` if it has not arrived by then. Errors: the
    /// refusal of malformed content.
    fn next(&mut self, limit: Duration) -> impl Future<Output = Result<Option<Piece>, Refusal>> + Send;

    /// Lets the client send `bytes` more bytes: so many have reached their reader.
    fn release(&mut self, _bytes: usize) {}
}

/// A part of a request's content.
pub(crate) enum Piece {
    Data(Bytes),
    /// The end, with the trailers.
    End(HeaderMap),
    /// The client has left before the end.
    Gone,
}

/// Content that has yet to arrive from a client.
pub(crate) struct Source<'c, R> {
    receiver: R,
    frames: Frames,
    /// The length that the client has announced.
    length: Option<u64>,
    link: Link,
    /// The most bytes of the content.
    most: u64,
    timeouts: &'c Timeouts,
    received: u64,
    started: u64,
}

/// The result of carrying content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentResult {
    /// All of it was read from the client.
    Whole,
    /// The reader dropped its end; the rest is unread.
    Unwanted,
}

/// Returns the two ends of a request's content of at most `most` bytes, or `receiver` itself if there is no content.
/// Errors: the refusal of content whose announced length is too large.
pub(crate) fn split<'c, R>(
    receiver: R,
    framing: Framing,
    link: &Link,
    most: u64,
    timeouts: &'c Timeouts,
) -> Result<(Result<Source<'c, R>, R>, Upload), Refusal> {
    let length = match framing {
        Framing::Length(0) => return Ok((Err(receiver), Upload::Empty)),
        Framing::Length(length) if length > most => return Err(TOO_LARGE),
        Framing::Length(length) => Some(length),
        Framing::Chunked => None,
    };
    let (frames, upload) = Upload::channel(length);
    let (link, started) = (link.clone(), clock::millis());
    Ok((Ok(Source { receiver, frames, length, link, most, timeouts, received: 0, started }), upload))
}

/// Waits for the end of a message whose client has announced no content. Errors: the refusal of content.
pub(crate) async fn none(receiver: &mut impl Receive, timeouts: &Timeouts) -> Result<(), Refusal> {
    match receiver.next(timeouts.stall).await? {
        Some(Piece::End(_)) => Ok(()),
        Some(Piece::Data(_) | Piece::Gone) => Err(STOPPED),
        None => Err(TOO_SLOW),
    }
}

/// Answers a request while its content is carried. Content that has not arrived when the answer was sent is unwanted.
/// `received` gets the receiver of content that has all arrived before that. Errors: the refusal of content that is not
/// acceptable.
pub(crate) async fn talk<T, R: Receive>(
    mut answer: Pin<&mut impl Future<Output = T>>,
    source: Option<Source<'_, R>>,
    received: impl FnOnce(R),
) -> Result<(T, ContentResult), Refusal> {
    let mut pumped = ContentResult::Whole;
    if let Some(source) = source {
        let mut pump = Box::pin(source.pump());
        let receiver;
        tokio::select! {
            biased;
            answered = &mut answer => return Ok((answered, ContentResult::Unwanted)),
            result = &mut pump => (pumped, receiver) = result?,
        }
        if pumped == ContentResult::Whole {
            received(receiver);
        }
    }
    Ok((answer.await, pumped))
}

impl<R: Receive> Source<'_, R> {
    /// Carries all content to its reader, and returns the receiver. Content without a reader is left with that. Errors:
    /// the refusal of content that is malformed, too large or too slow; its reader is notified that the client has left.
    async fn pump(mut self) -> Result<(ContentResult, R), Refusal> {
        let result = self.carry().await;
        if result.is_err() {
            let _ = self.frames.send(Err(ClientGone)).await;
        }
        Ok((result?, self.receiver))
    }

    async fn carry(&mut self) -> Result<ContentResult, Refusal> {
        loop {
            let data = match self.next().await? {
                Piece::Data(data) => data,
                Piece::End(trailers) if self.length.is_none() => {
                    let _ = self.frames.send(Ok(Frame::trailers(trailers))).await;
                    return Ok(ContentResult::Whole);
                }
                Piece::End(_) | Piece::Gone => return Err(STOPPED),
            };
            let length = data.len();
            self.received += length as u64;
            self.link.expects(false);
            self.check()?;
            // A request with more content than announced must not look complete to the origin.
            let is_whole = self.length == Some(self.received);
            let is_beyond = self.length.is_some_and(|length| length < self.received);
            if is_beyond || is_whole && !matches!(self.next().await?, Piece::End(_)) {
                return Err(STOPPED);
            }
            if self.frames.send(Ok(Frame::data(data))).await.is_err() {
                return Ok(ContentResult::Unwanted);
            }
            self.receiver.release(length);
            if is_whole {
                return Ok(ContentResult::Whole);
            }
        }
    }

    async fn next(&mut self) -> Result<Piece, Refusal> {
        loop {
            let is_expecting = self.link.is_expecting();
            let limit = if is_expecting { link::PATIENCE } else { self.patience() };
            let piece = self.receiver.next(limit).await?;
            if is_expecting {
                // The time of the origin's answer is not the client's.
                self.started = clock::millis();
            }
            match piece {
                Some(piece) => return Ok(piece),
                None if is_expecting => self.link.proceed().await,
                None if limit < self.patience() => {}
                None => return Err(TOO_SLOW),
            }
        }
    }

    fn may_pause(&self) -> bool {
        R::MAY_PAUSE && self.link.may_pause()
    }

    /// Returns the time for which the client may pause.
    fn patience(&self) -> Duration {
        let Timeouts { stall, tunnel, .. } = self.timeouts;
        if self.may_pause() { *stall.max(tunnel) } else { *stall }
    }

    /// Checks the size limit and the rate. A slow client occupies a connection to an origin: after a grace period, the
    /// mean rate must reach the minimum.
    fn check(&self) -> Result<(), Refusal> {
        if self.received > self.most {
            return Err(TOO_LARGE);
        }
        let elapsed = Duration::from_millis(clock::millis() - self.started);
        let due = elapsed.as_secs().saturating_mul(self.timeouts.min_rate);
        match elapsed > self.timeouts.stall && self.received < due && !self.may_pause() {
            true => Err(TOO_SLOW),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::future::poll_fn;

    use super::*;

    /// Content that has arrived; later parts never do.
    struct Arrived(VecDeque<Piece>);

    impl Receive for Arrived {
        const MAY_PAUSE: bool = false;

        async fn next(&mut self, _limit: Duration) -> Result<Option<Piece>, Refusal> {
            Ok(self.0.pop_front())
        }
    }

    /// Returns what a reader gets of content with this framing: the bytes, and whether they are whole.
    async fn read(framing: Framing, pieces: Vec<Piece>) -> (Vec<u8>, bool) {
        let (timeouts, link) = (Timeouts::default(), Link::new(true));
        let ends = split(Arrived(pieces.into()), framing, &link, u64::MAX, &timeouts);
        let Ok((Ok(source), mut upload)) = ends else { panic!("it has content") };
        let reader = async {
            let mut bytes = Vec::new();
            loop {
                match poll_fn(|cx| upload.poll_frame(cx)).await {
                    Some(Ok(frame)) => bytes.extend(frame.into_data().unwrap_or_default()),
                    end => return (bytes, end.is_none()),
                }
            }
        };
        let (pumped, read) = tokio::join!(source.pump(), reader);
        assert_eq!(pumped.is_ok(), read.1);
        read
    }

    #[tokio::test]
    async fn content_is_whole_only_as_long_as_announced() {
        let data = |text: &'static str| Piece::Data(Bytes::from_static(text.as_bytes()));
        let end = || Piece::End(HeaderMap::new());
        let three = Framing::Length(3);
        for (framing, pieces, is_whole) in [
            (three, vec![data("a"), data("bc"), end()], true),
            (three, vec![data("abc"), data("d"), end()], false),
            (three, vec![data("abcd"), end()], false),
            (three, vec![data("ab"), end()], false),
            (three, vec![data("abc"), Piece::Gone], false),
            (three, vec![data("ab")], false),
            (Framing::Chunked, vec![data("a"), data("bc"), end()], true),
            (Framing::Chunked, vec![data("abc"), Piece::Gone], false),
        ] {
            let (bytes, whole) = read(framing, pieces).await;
            assert!(b"abc".starts_with(&bytes), "{bytes:?}");
            assert_eq!(whole, is_whole, "{framing:?} {bytes:?}");
        }
    }
}
