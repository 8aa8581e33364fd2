//! What is sent to the client.

use crate::connection::{Connection, Leaving};
use crate::error::Code;
use crate::frame::{self, DATA_PAYLOAD, HEADER, flag, kind};
use crate::hpack::encoder;
use crate::streams::Stream;

/// What the `PING` of a drain carries.
pub(crate) const DRAIN: &[u8; 8] = b"drain...";
/// What another `PING` carries.
const ALIVE: &[u8; 8] = b"alive...";
/// Thousandths of a control frame that a byte of content pays for: two frames for 250 bytes.
const PAID_BY_A_BYTE: u64 = 8;
/// The same for a frame of content that is short because no more is ready: two frames.
const PAID_BY_A_FRAME: u64 = 2_000;

impl Connection {
    /// Appends the head of the response on `stream`: `:status`, then the fields that `write` appends with
    /// [`hpack::encoder`](crate::hpack::encoder). `end`: it has no content. False if the stream is gone.
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
        // A request that is not granted has an ordinary response.
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

    /// Appends as much of `bytes` as the windows allow: how much. `end`: nothing follows them. What is left has to be offered
    /// again when [`next_to_send`](Self::next_to_send) names the stream. All of it is taken if the stream is gone.
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

    /// The header of a `DATA` frame with `length` bytes of content of `stream`, which the caller sends behind it: no more than
    /// [`DATA_PAYLOAD`] and the [`room`](Self::room). For content that should not be copied.
    pub fn data_header(&mut self, stream: u32, length: usize) -> [u8; HEADER] {
        if let Some(open) = self.streams.get_mut(stream) {
            open.send(length);
            self.window -= length as i64;
            self.budgets.control.earn(length as u64 * PAID_BY_A_BYTE);
        }
        frame::header_of(length, kind::DATA, 0, stream)
    }

    /// Bytes that the client takes on `stream` now; 0 if the stream is gone.
    pub fn room(&self, stream: u32) -> usize {
        let open = self.streams.get(stream);
        open.map_or(0, |open| open.window.min(self.window).max(0) as usize)
    }

    /// Whether the window of `stream` itself is closed, whatever that of the connection is.
    pub fn is_closed(&self, stream: u32) -> bool {
        self.streams.get(stream).is_none_or(|open| open.window <= 0)
    }

    /// Whether the content of `stream` takes turns with that of other streams, frame by frame: it is incremental (RFC 9218 section
    /// 4.2), or a tunnel.
    pub fn takes_turns(&self, stream: u32) -> bool {
        self.streams.get(stream).is_some_and(Stream::takes_turns)
    }

    /// Says whether there is content to send on `stream`.
    pub fn want(&mut self, stream: u32, wants: bool) {
        if let Some(open) = self.streams.get_mut(stream) {
            open.wants = wants;
        }
    }

    /// Whether content waits for its turn, or for a window, on any stream.
    pub fn is_any_waiting(&self) -> bool {
        self.streams.is_any_waiting()
    }

    /// The stream whose content is to be sent next, and how much its windows allow. `None`: all wait, or have nothing.
    pub fn next_to_send(&mut self) -> Option<(u32, usize)> {
        if self.window <= 0 {
            return None;
        }
        let window = self.window;
        self.streams.take_turn().map(|stream| (stream.id, stream.window.min(window) as usize))
    }

    /// Ends `stream` early. Its client must not take the response for whole.
    pub fn reset(&mut self, out: &mut Vec<u8>, stream: u32, code: Code) {
        let Some(open) = self.streams.get(stream) else { return };
        let has_ended = open.ended && !open.receives;
        if !has_ended {
            frame::reset(out, stream, code);
        }
        self.end(stream, !has_ended);
        self.announce(out);
    }

    /// Says that `bytes` of content of `stream` have been read: as many more may come.
    pub fn release(&mut self, out: &mut Vec<u8>, stream: u32, bytes: usize) {
        let Some(open) = self.streams.get_mut(stream) else { return };
        let bytes = (bytes as i64).min(open.held);
        open.held -= bytes;
        open.released += bytes;
        if !open.uncounted {
            self.released += bytes;
        }
        if open.receives && open.released >= self.limits.stream_window() / 2 {
            frame::window_update(out, stream, open.released as u32);
            open.allowed += std::mem::take(&mut open.released);
        }
        if open.is_over() {
            self.end(stream, false);
        }
        self.announce(out);
    }

    /// Tells the client how much more the connection may carry, once that is worth a frame, or the client needs it.
    pub(crate) fn announce(&mut self, out: &mut Vec<u8>) {
        let is_needed = self.released > 0 && self.released >= self.allowed;
        if is_needed || self.released >= self.limits.connection_window() / 2 {
            frame::window_update(out, 0, self.released as u32);
            self.allowed += std::mem::take(&mut self.released);
        }
    }

    /// Ends a stream whose response is complete. A request that has not ended is not wanted any more
    /// (RFC 9113 section 8.1); but what a client still sends, or has sent, through a tunnel is.
    fn finish(&mut self, out: &mut Vec<u8>, stream: u32) {
        let Some(open) = self.streams.get_mut(stream) else { return };
        (open.ended, open.wants) = (true, false);
        if open.tunnel && !open.is_over() {
            return;
        }
        let receives = open.receives;
        if receives {
            frame::reset(out, stream, Code::NO_ERROR);
        }
        self.end(stream, receives);
        self.announce(out);
    }

    /// Forgets a stream. Content that has not been read counts as read.
    pub(crate) fn end(&mut self, stream: u32, by_us: bool) {
        if let Some(stream) = self.streams.end(stream, by_us) {
            self.released += stream.counted();
        }
    }

    /// Asks the client to leave. Requests that it has sent before it knows are answered
    /// (RFC 9113 section 6.8); [`is_done`](Self::is_done) says when that is done.
    pub fn drain(&mut self, out: &mut Vec<u8>) {
        if self.leaving == Leaving::No {
            self.leaving = Leaving::Announced;
            frame::go_away(out, i32::MAX as u32, Code::NO_ERROR);
            frame::write(out, kind::PING, 0, 0, DRAIN);
        }
    }

    /// Refuses new streams from here on.
    pub fn go_away(&mut self, out: &mut Vec<u8>, code: Code) {
        self.leaving = Leaving::Closing;
        frame::go_away(out, self.streams.last, code);
    }

    /// Asks the client for a sign of life.
    pub fn ping(&mut self, out: &mut Vec<u8>) {
        self.pinged = true;
        frame::write(out, kind::PING, 0, 0, ALIVE);
    }

    /// Whether the client has not answered the last [`ping`](Self::ping).
    pub fn is_pinged(&self) -> bool {
        self.pinged
    }
}
