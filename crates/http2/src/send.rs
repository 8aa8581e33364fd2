//! The frames that the server sends to the client.

use crate::connection::{Connection, ShutdownStage};
use crate::error::Code;
use crate::frame::{self, DATA_PAYLOAD, HEADER, flag, kind};
use crate::hpack::encoder;
use crate::limits::LINGER;
use crate::streams::Stream;

/// The payload of the `PING` of a drain.
pub(crate) const DRAIN: &[u8; 8] = b"drain...";
/// The payload of other `PING` frames.
const ALIVE: &[u8; 8] = b"alive...";
/// The thousandths of a control frame that a byte of content earns: two frames for 250 bytes.
const PAID_BY_A_BYTE: u64 = 8;
/// The thousandths that a frame of content earns that is short because no more content is ready: two frames.
const PAID_BY_A_FRAME: u64 = 2_000;

impl Connection {
    /// Appends the head of the response on `stream`: `:status`, then the fields that `write` appends with
    /// [`hpack::encoder`](crate::hpack::encoder). `end`: whether the response has no content. Returns false if the
    /// stream is closed.
    pub fn head(
        &mut self,
        out: &mut Vec<u8>,
        stream: u32,
        status: u16,
        end: bool,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        let Some(open) = self.streams.get_mut(stream).filter(|open| !open.answered) else { return false };
        open.answered = true;
        // If the server refuses the tunnel, the response is an ordinary one.
        open.tunnel &= matches!(status, 200..300) && !end;
        self.section(out, stream, end, |out| {
            encoder::status(out, status);
            write(out);
        });
        if end {
            self.finish(out, stream);
        }
        true
    }

    /// Appends an interim response (1xx).
    pub fn interim(&mut self, out: &mut Vec<u8>, stream: u32, status: u16, write: impl FnOnce(&mut Vec<u8>)) {
        if self.streams.get(stream).is_some_and(|open| !open.answered) {
            self.section(out, stream, false, |out| {
                encoder::status(out, status);
                write(out);
            });
        }
    }

    /// Appends the trailers of the response on `stream`, and ends it.
    pub fn trailers(&mut self, out: &mut Vec<u8>, stream: u32, write: impl FnOnce(&mut Vec<u8>)) {
        if self.streams.get(stream).is_some_and(|open| open.answered) {
            self.section(out, stream, true, write);
            self.finish(out, stream);
        }
    }

    fn section(&mut self, out: &mut Vec<u8>, stream: u32, end: bool, write: impl FnOnce(&mut Vec<u8>)) {
        let shrinks = std::mem::take(&mut self.shrinks);
        frame::headers(out, stream, end, |out| {
            if shrinks {
                encoder::no_table(out);
            }
            write(out);
        });
    }

    /// Appends as much of `bytes` as the windows allow, and returns the number of bytes. `end`: whether they are the
    /// end of the content. The caller has to offer the remaining bytes again when [`next_to_send`](Self::next_to_send)
    /// returns the stream. If the stream is closed, all bytes count as taken.
    pub fn data(&mut self, out: &mut Vec<u8>, stream: u32, bytes: &[u8], end: bool) -> usize {
        let Some(open) = self.streams.get_mut(stream).filter(|open| open.answered && !open.ended) else {
            return bytes.len();
        };
        let mut taken = 0;
        loop {
            let left = &bytes[taken..];
            let room = open.window.min(self.window).clamp(0, DATA_PAYLOAD as i64) as usize;
            let length = left.len().min(room);
            let ends = end && length == left.len();
            if length == 0 && !ends {
                break;
            }
            let flags = if ends { flag::END_STREAM } else { 0 };
            frame::write(out, kind::DATA, flags, stream, &left[..length]);
            open.send(length);
            self.window -= length as i64;
            taken += length;
            let by_frame = if length < left.len() || length == 0 { 0 } else { PAID_BY_A_FRAME };
            self.budgets.control.earn(by_frame.max(length as u64 * PAID_BY_A_BYTE));
            if ends {
                self.finish(out, stream);
                return taken;
            }
        }
        open.wants = taken < bytes.len();
        taken
    }

    /// Returns the header of a `DATA` frame with `length` bytes of content of `stream`. The caller sends the content
    /// after it: at most [`DATA_PAYLOAD`] and the [`room`](Self::room). This is for content that should not be copied.
    #[inline]
    pub fn data_header(&mut self, stream: u32, length: usize) -> [u8; HEADER] {
        if let Some(open) = self.streams.get_mut(stream) {
            open.send(length);
            self.window -= length as i64;
            self.budgets.control.earn(length as u64 * PAID_BY_A_BYTE);
        }
        frame::header_of(length, kind::DATA, 0, stream)
    }

    /// Returns the bytes that the client accepts on `stream` now; 0 if the stream is closed.
    #[inline]
    pub fn room(&self, stream: u32) -> usize {
        let open = self.streams.get(stream);
        open.map_or(0, |open| open.window.min(self.window).max(0) as usize)
    }

    /// Whether the window of `stream` itself is closed, independent of the connection's window.
    #[inline]
    pub fn is_closed(&self, stream: u32) -> bool {
        self.streams.get(stream).is_none_or(|open| open.window <= 0)
    }

    /// Whether the content of `stream` alternates with that of other streams, frame by frame: it is incremental (RFC
    /// 9218 section 4.2), or a tunnel.
    #[inline]
    pub fn takes_turns(&self, stream: u32) -> bool {
        self.streams.get(stream).is_some_and(Stream::takes_turns)
    }

    /// Records whether there is content to send on `stream`.
    #[inline]
    pub fn want(&mut self, stream: u32, wants: bool) {
        if let Some(open) = self.streams.get_mut(stream) {
            open.wants = wants;
        }
    }

    /// Whether content on any stream waits for its turn or for a window.
    #[inline]
    pub fn is_any_waiting(&self) -> bool {
        self.streams.is_any_waiting()
    }

    /// Returns the stream that sends next, and the number of bytes that its windows allow. Returns `None` if all
    /// streams wait or have no content.
    pub fn next_to_send(&mut self) -> Option<(u32, usize)> {
        if self.window <= 0 {
            return None;
        }
        let window = self.window;
        self.streams.take_turn().map(|stream| (stream.id, stream.window.min(window) as usize))
    }

    /// Ends `stream` early, so that the client does not accept the response as complete. Has no effect on a stream whose
    /// response is complete.
    pub fn reset(&mut self, out: &mut Vec<u8>, stream: u32, code: Code) {
        let Some(open) = self.streams.get(stream).filter(|open| !open.lingers()) else { return };
        let has_ended = open.ended && !open.receives;
        if !has_ended {
            frame::reset(out, stream, code);
        }
        self.end(stream, !has_ended);
        self.announce(out);
    }

    /// Records that `bytes` of content of `stream` have been read, so that the client may send as many more.
    pub fn release(&mut self, out: &mut Vec<u8>, stream: u32, bytes: usize) {
        let Some(open) = self.streams.get_mut(stream) else { return };
        let bytes = (bytes as i64).min(open.held);
        open.held -= bytes;
        open.released += bytes;
        if !open.uncounted {
            self.released += bytes;
        }
        if open.receives && !open.lingers() && open.released >= self.limits.stream_window() / 2 {
            frame::window_update(out, stream, open.released as u32);
            open.allowed += std::mem::take(&mut open.released);
        }
        if open.is_over() {
            self.end(stream, false);
        }
        self.announce(out);
    }

    /// Sends the client a window update for the connection, if the update is large enough to be worth a frame, or if
    /// the client needs it.
    pub(crate) fn announce(&mut self, out: &mut Vec<u8>) {
        let is_needed = self.released > 0 && self.released >= self.allowed;
        if is_needed || self.released >= self.limits.connection_window() / 2 {
            frame::window_update(out, 0, self.released as u32);
            self.allowed += std::mem::take(&mut self.released);
        }
    }

    /// Ends a stream whose response is complete. The client's content in a tunnel is still accepted; that of another
    /// request is read for a while and ignored, see [`linger`](Self::linger).
    fn finish(&mut self, out: &mut Vec<u8>, stream: u32) {
        let Some(open) = self.streams.get_mut(stream) else { return };
        (open.ended, open.wants) = (true, false);
        if open.lingers() {
            self.released += open.counted();
            open.released += std::mem::take(&mut open.held);
            self.lingers = true;
        } else if open.is_over() || !open.tunnel {
            self.end(stream, false);
        }
        self.announce(out);
    }

    /// Cancels incomplete requests (RFC 9113 section 8.1) whose responses have been complete for [`LINGER`]. Until then,
    /// their clients may send what their windows allow: many abort on a reset before they have read the response. `now`
    /// is in milliseconds, from the clock of [`next`](Self::next). The caller calls this regularly while
    /// [`is_lingering`](Self::is_lingering).
    pub fn linger(&mut self, out: &mut Vec<u8>, now: u64) {
        if !self.lingers {
            return;
        }
        let mut late = None;
        for stream in self.streams.iter_mut().filter(|stream| stream.lingers()) {
            let until = *stream.lingers_until.get_or_insert(now + LINGER);
            late = late.or((until <= now).then_some(stream.id));
        }
        if let Some(id) = late {
            frame::reset(out, id, Code::NO_ERROR);
            self.end(id, true);
            self.announce(out);
            return self.linger(out, now);
        }
        self.lingers = self.streams.iter().any(Stream::lingers);
    }

    /// Whether clients may still send content of requests whose responses are complete.
    pub fn is_lingering(&self) -> bool {
        self.lingers
    }

    /// Removes a stream. Its unread content counts as read.
    pub(crate) fn end(&mut self, stream: u32, by_us: bool) {
        self.released += self.streams.end(stream, by_us).unwrap_or(0);
    }

    /// Starts a graceful shutdown. Requests that the client sends before it receives this are answered (RFC 9113
    /// section 6.8); [`is_done`](Self::is_done) returns whether that is complete.
    pub fn drain(&mut self, out: &mut Vec<u8>) {
        if self.leaving == ShutdownStage::No {
            self.leaving = ShutdownStage::Announced;
            frame::go_away(out, i32::MAX as u32, Code::NO_ERROR);
            frame::write(out, kind::PING, 0, 0, DRAIN);
        }
    }

    /// Refuses new streams from now on.
    pub fn go_away(&mut self, out: &mut Vec<u8>, code: Code) {
        self.leaving = ShutdownStage::Closing;
        frame::go_away(out, self.streams.last, code);
    }

    /// Sends the client a `PING` to check that it is alive.
    pub fn ping(&mut self, out: &mut Vec<u8>) {
        self.pinged = true;
        frame::write(out, kind::PING, 0, 0, ALIVE);
    }

    /// Whether the client has not answered the last [`ping`](Self::ping).
    pub fn is_pinged(&self) -> bool {
        self.pinged
    }
}
