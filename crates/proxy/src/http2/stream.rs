//! A stream from the view of the task that answers its request.

use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderMap, HeaderName, HeaderValue};
use larder_http2::Code;
use tokio::task::yield_now;

use super::section::Section;
use super::session::{Piece, Session, State};
use crate::base::clock;
use crate::base::settings::Timeouts;
use crate::exchange::link::Interim;
use crate::exchange::reply::{Banner, Reply};
use crate::exchange::send::send_content;
use crate::exchange::sink::{SendError, Sink, cut_short};
use crate::http::chunked::may_trail;
use crate::http::fields::FieldWriter;
use crate::net::content::ContentFile;
use crate::net::deadline::Deadline;
use crate::net::pace::Pace;

/// The bytes that a stream sends before other tasks run, while its client takes them without a pause.
const STRETCH: u64 = 1 << 20;

/// A stream. If it is dropped before its end, it is reset: the client must not take a truncated reply for complete.
pub(super) struct Stream {
    session: Arc<Session>,
    id: u32,
    /// The time limit for a closed window of the client.
    deadline: Deadline,
    pace: Pace,
    /// The time limit for a closed window of the connection, in milliseconds.
    stall: u64,
    /// Bytes of the reply that were sent.
    pub(super) sent: u64,
}

impl Stream {
    /// Returns the stream with this number, which is registered in the session as having a task.
    pub(super) fn new(session: &Arc<Session>, id: u32, timeouts: &Timeouts) -> Self {
        let (deadline, pace) = (Deadline::new(timeouts.stall), Pace::new(timeouts.min_rate, timeouts.stall));
        let stall = timeouts.stall.as_millis() as u64;
        Self { session: Arc::clone(session), id, deadline, pace, stall, sent: 0 }
    }

    pub(super) fn session(&self) -> (Arc<Session>, u32) {
        (Arc::clone(&self.session), self.id)
    }

    /// Returns the next piece of the request's content. After the piece has been read, [`release`](Self::release) lets
    /// the client send more.
    pub(super) fn poll_content(&self, cx: &Context<'_>) -> Poll<Piece> {
        self.session.state().poll_content(cx, self.id)
    }

    pub(super) fn release(&self, bytes: usize) {
        self.session.state().release(self.id, bytes);
    }

    /// Sends some of `bytes`, without a time limit, and returns their number.
    pub(super) fn poll_send_some(&self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.session.state().poll_send(cx, self.id, bytes)
    }

    /// Ends the stream with `trailers`.
    pub(super) fn finish(&self, trailers: &HeaderMap) {
        self.session.state().end(self.id, trailers, may_trail);
    }

    /// Ends the stream early, if it is still open.
    pub(super) fn reset(&self, code: Code) {
        self.session.state().reset(self.id, code);
    }

    /// Whether the client has left; if not, `cx` is woken when it leaves.
    pub(super) fn is_gone(&self, cx: &Context<'_>) -> bool {
        self.session.state().is_gone(cx, self.id)
    }

    /// Whether the client has left after it had sent all content, and some of that was read at `read_at`, in
    /// `clock::millis`, within the last `timeouts.stall`.
    pub(super) fn has_left_whole(&self, read_at: u64) -> bool {
        self.session.state().has_left_whole(self.id) && clock::millis().saturating_sub(read_at) <= self.stall
    }

    /// Sends an interim response.
    pub(super) fn interim(&self, interim: &Interim) {
        let status = interim.status.as_u16();
        self.session.state().interim(self.id, status, |block| Section(block).forward(&interim.fields));
    }

    /// Sends `reply`.
    ///
    /// # Errors
    /// If the client has left or does not read, or the content ended early.
    pub(super) async fn reply(
        &mut self,
        reply: &mut Reply,
        head_only: bool,
        banner: &Banner,
    ) -> Result<(), SendError> {
        // A client that does not read gets no further heads, as it gets no further content. Until then, the reply keeps
        // its permit.
        self.room(|| State::length(reply, banner)).await?;
        let is_whole = {
            let mut state = self.session.state();
            let before = state.writing.written();
            let is_whole = state.reply(self.id, reply, head_only, banner);
            self.sent += state.writing.written() - before;
            is_whole
        };
        match is_whole {
            true => Ok(()),
            false => self.content(reply).await,
        }
    }

    /// Waits until a head or trailers of `length` bytes may be written. If too many of them wait, resets the stream.
    async fn room(&self, length: impl FnOnce() -> usize) -> Result<(), SendError> {
        let room = self.session.room(self.id, length).await;
        if room.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::OutOfMemory) {
            self.reset(Code::ENHANCE_YOUR_CALM);
        }
        Ok(room?)
    }

    /// Sends the content of a reply whose head was sent.
    ///
    /// # Errors
    /// As [`reply`](Self::reply).
    pub(super) async fn content(&mut self, reply: &mut Reply) -> Result<(), SendError> {
        let (session, id) = self.session();
        // If the client leaves, the wait for a slow origin ends.
        let gone = poll_fn(|cx| match session.state().is_gone(cx, id) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        });
        tokio::select! {
            biased;
            sent = send_content(self, reply) => sent,
            () = gone => Err(SendError::Client(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Records that `sent` more bytes were sent to the client.
    ///
    /// # Errors
    /// If the client reads too slowly.
    fn took(&mut self, sent: u64) -> Result<(), SendError> {
        self.sent += sent;
        match self.pace.took(sent, clock::millis) {
            true => Ok(()),
            false => Err(SendError::Client(io::ErrorKind::TimedOut.into())),
        }
    }

    /// Calls `send` to send some content, and returns the number of bytes.
    fn poll_frames<T>(
        &mut self,
        cx: &mut Context<'_>,
        send: impl FnOnce(&mut State, &Context<'_>, u32) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let mut state = self.session.state();
        if let Poll::Ready(sent) = send(&mut state, cx, self.id) {
            return Poll::Ready(sent);
        }
        // If other streams use up the connection's window, the client is not at fault.
        let now = clock::millis();
        let is_stalled = state.wire.room(self.id) == 0 && now.saturating_sub(state.sent_at) >= self.stall;
        let is_closed = state.wire.is_closed(self.id) || is_stalled;
        drop(state);
        if is_closed {
            self.pace.wait(now);
        }
        match self.deadline.poll(cx) {
            Poll::Ready(()) if is_closed => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            // Other streams have priority. The client is not at fault.
            Poll::Ready(()) => {
                self.deadline.restart();
                self.deadline.poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Sink for Stream {
    /// Returns a small limit: each of many streams may hold this much while their client does not read.
    fn stretch(&self) -> u64 {
        64 << 10
    }

    async fn bytes(&mut self, mut bytes: &[u8]) -> Result<(), SendError> {
        while !bytes.is_empty() {
            self.deadline.restart();
            let sent = poll_fn(|cx| self.poll_frames(cx, |state, cx, id| state.poll_send(cx, id, bytes)));
            let sent = sent.await?;
            self.took(sent as u64)?;
            bytes = &bytes[sent..];
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
            self.deadline.restart();
            let sent = poll_fn(|cx| {
                self.poll_frames(cx, |state, cx, id| state.poll_send_file(cx, id, content, at..end))
            });
            let sent = sent.await.map_err(cut_short)?;
            self.took(sent)?;
            at += sent;
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
        self.finish(trailers);
        Ok(())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.session.state().resign(self.id);
    }
}
