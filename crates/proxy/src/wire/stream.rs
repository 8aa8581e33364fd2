//! A stream of a connection that carries many, from the view of the task that answers its request.

use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::task::yield_now;
use tokio::time::timeout;

use super::answer::WaitingClient;
use super::content::{Piece, Receive};
use crate::base::clock;
use crate::base::settings::Timeouts;
use crate::exchange::link::Interim;
use crate::exchange::reply::{Banner, Reply};
use crate::exchange::send::send_content;
use crate::exchange::sink::{SendError, Sink, cut_short};
use crate::http::head::Refusal;
use crate::net::content::ContentFile;
use crate::net::deadline::Deadline;
use crate::net::pace::Pace;

/// The bytes that a stream sends before other tasks run, while its client takes them without a pause.
const STRETCH: u64 = 1 << 20;

/// A stream as its protocol provides it: one request comes in, and its reply goes out. Clones are the same stream.
pub(crate) trait RawStream: Clone + Send + Sync {
    /// Returns the next part of the request's content.
    fn poll_content(&self, cx: &Context<'_>) -> Poll<Piece>;

    /// Lets the client send `bytes` more bytes of content.
    fn release(&self, bytes: usize);

    /// Whether the client no longer wants an answer; if not, `cx` is woken when it leaves.
    fn is_gone(&self, cx: &Context<'_>) -> bool;

    /// Whether the client has left after it had sent all content.
    fn has_left_whole(&self) -> bool;

    /// Waits until a head or trailers of about `length` bytes may be written. Errors: `BrokenPipe` if the client has
    /// left; `OutOfMemory` if clients that do not read hold too many such bytes already.
    fn room(&self, length: impl FnOnce() -> usize + Send) -> impl Future<Output = io::Result<()>> + Send;

    /// Sends an interim response, if the client reads.
    fn interim(&self, interim: &Interim);

    /// Whether the client accepts a head as large as that of `reply`.
    fn accepts(&self, reply: &Reply, banner: &Banner) -> bool;

    /// Writes the head of `reply`, with its content if that is in memory and may be sent now.
    fn head(&self, reply: &Reply, head_only: bool, banner: &Banner) -> ReplyHead;

    /// Sends some of `bytes`, and returns their number. Errors: `BrokenPipe` if the client has left.
    fn poll_send(&self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// Sends some bytes of `content` in `range`, and returns their number. Errors: `BrokenPipe` if the client has left,
    /// `UnexpectedEof` if the file has fewer bytes.
    fn poll_send_file(
        &self,
        cx: &Context<'_>,
        content: ContentFile<'_>,
        range: Range<u64>,
    ) -> Poll<io::Result<u64>>;

    /// Whether the client, not other streams, holds up what the stream sends at `now` (`clock::millis`). The whole
    /// connection is held up if it has sent nothing for `stall` milliseconds.
    fn is_held_up(&self, now: u64, stall: u64) -> bool;

    /// Ends the reply, with `trailers` if there are any that may be sent.
    fn end(&self, trailers: &HeaderMap);

    /// Ends the stream early, if it is still open.
    fn reset(&self, reason: Reset);

    /// Forgets the stream, and resets it if it is still open: the client must not take a truncated reply for complete.
    fn resign(&self);
}

/// The head of a reply that was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyHead {
    /// The bytes, with those of content.
    pub(crate) bytes: u64,
    /// Whether the reply is complete. Otherwise its content has to be sent.
    pub(crate) is_whole: bool,
}

/// The reason why a stream is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reset {
    /// It is no longer needed.
    Cancel,
    /// The other end of its tunnel failed.
    Connect,
    /// The client causes too much work or memory.
    Overload,
}

/// A stream with the time limits for its client. Dropped before its end, it is reset.
pub(crate) struct Stream<S: RawStream> {
    pub(super) raw: S,
    /// The time limit for a closed window of the client.
    deadline: Deadline,
    pace: Pace,
    /// The time limit for a closed window of the connection, in milliseconds.
    pub(super) stall: u64,
    /// Bytes of the reply that were sent.
    pub(super) sent: u64,
}

impl<S: RawStream> Stream<S> {
    pub(crate) fn new(raw: S, timeouts: &Timeouts) -> Self {
        let (deadline, pace) = (Deadline::new(timeouts.stall), Pace::new(timeouts.min_rate, timeouts.stall));
        Self { raw, deadline, pace, stall: timeouts.stall.as_millis() as u64, sent: 0 }
    }

    /// Sets other time limits for what follows.
    pub(super) fn limit(&mut self, timeouts: &Timeouts) {
        self.deadline.set(timeouts.stall);
        self.pace = Pace::new(timeouts.min_rate, timeouts.stall);
        self.stall = timeouts.stall.as_millis() as u64;
    }

    /// Sends `reply`. Fails if the client has left or does not read, or the content ended early.
    pub(super) async fn reply(
        &mut self,
        reply: &mut Reply,
        head_only: bool,
        banner: &Banner,
    ) -> Result<(), SendError> {
        let length = || {
            let mut lines = Vec::new();
            reply.write_all_fields(&mut lines, banner);
            lines.len()
        };
        // A client that does not read gets no further heads, as it gets no further content. Until then, the reply keeps
        // its permit.
        self.room(length).await?;
        let written = self.raw.head(reply, head_only, banner);
        self.sent += written.bytes;
        if written.is_whole { Ok(()) } else { self.content(reply).await }
    }

    /// Waits until a head or trailers of about `length` bytes may be written. If too many of them wait, resets the
    /// stream.
    async fn room(&self, length: impl FnOnce() -> usize + Send) -> Result<(), SendError> {
        let room = self.raw.room(length).await;
        if room.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::OutOfMemory) {
            self.raw.reset(Reset::Overload);
        }
        Ok(room?)
    }

    /// Sends the content of a reply whose head was sent.
    pub(super) async fn content(&mut self, reply: &mut Reply) -> Result<(), SendError> {
        let raw = self.raw.clone();
        // If the client leaves, the wait for a slow origin ends.
        let gone = poll_fn(|cx| if raw.is_gone(cx) { Poll::Ready(()) } else { Poll::Pending });
        tokio::select! {
            biased;
            sent = send_content(self, reply) => sent,
            () = gone => Err(SendError::Client(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Calls `send` until it has sent some content, and returns the number of bytes.
    async fn some(
        &mut self,
        send: impl Fn(&S, &Context<'_>) -> Poll<io::Result<u64>> + Send,
    ) -> Result<u64, SendError> {
        self.deadline.restart();
        let sent = poll_fn(|cx| match send(&self.raw, cx) {
            Poll::Pending => self.poll_late(cx).map(Err),
            sent => sent,
        });
        let sent = sent.await.map_err(cut_short)?;
        self.sent += sent;
        match self.pace.took(sent, clock::millis) {
            true => Ok(sent),
            false => Err(SendError::Client(io::ErrorKind::TimedOut.into())),
        }
    }

    /// Ready when the client has not let the stream send anything for too long.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let now = clock::millis();
        // If other streams use up the connection's window, the client is not at fault.
        let is_held_up = self.raw.is_held_up(now, self.stall);
        if is_held_up {
            self.pace.wait(now);
        }
        if !is_held_up && self.deadline.poll(cx).is_ready() {
            self.deadline.restart();
        }
        self.deadline.poll(cx).map(|()| io::ErrorKind::TimedOut.into())
    }
}

impl<S: RawStream> Sink for Stream<S> {
    /// Returns a small limit: each of many streams may hold this much while their client does not read.
    fn stretch(&self) -> u64 {
        64 << 10
    }

    async fn bytes(&mut self, mut bytes: &[u8]) -> Result<(), SendError> {
        while !bytes.is_empty() {
            let sent = self.some(|raw, cx| raw.poll_send(cx, bytes).map_ok(|sent| sent as u64)).await?;
            bytes = &bytes[sent as usize..];
        }
        Ok(())
    }

    async fn file(&mut self, content: ContentFile<'_>, range: Range<u64>) -> Result<(), SendError> {
        let Range { start: mut at, end } = range;
        let mut rest = at + STRETCH;
        while at < end {
            if at >= rest {
                // Meanwhile, new requests are read, and other connections are served.
                yield_now().await;
                rest = at + STRETCH;
            }
            at += self.some(|raw, cx| raw.poll_send_file(cx, content, at..end)).await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), SendError> {
        // The task of the connection sends it.
        Ok(())
    }

    async fn end(&mut self, trailers: &HeaderMap) -> Result<(), SendError> {
        if !trailers.is_empty() {
            let length = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len();
            self.room(|| trailers.iter().map(length).sum()).await?;
        }
        self.raw.end(trailers);
        Ok(())
    }
}

impl<S: RawStream> WaitingClient for Stream<S> {
    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.raw.is_gone(cx) { Poll::Ready(()) } else { Poll::Pending }
    }

    async fn interim(&mut self, interim: &Interim) {
        self.raw.interim(interim);
    }
}

impl<S: RawStream> Receive for S {
    const MAY_PAUSE: bool = true;

    async fn next(&mut self, limit: Duration) -> Result<Option<Piece>, Refusal> {
        Ok(timeout(limit, poll_fn(|cx| self.poll_content(cx))).await.ok())
    }

    fn release(&mut self, bytes: usize) {
        RawStream::release(self, bytes);
    }
}

impl<S: RawStream> Drop for Stream<S> {
    fn drop(&mut self) {
        self.raw.resign();
    }
}
