//! Sends content of streams as flow-control windows and priorities allow.

use std::io;
use std::ops::Range;
use std::task::{Context, Poll, ready};

use http::HeaderMap;
use larder_http2::DATA_PAYLOAD;

use super::session::{State, keep, wake};
use crate::base::clock;
use crate::exchange::reply::{Content, Reply};
use crate::exchange::send::in_file;
use crate::exchange::sink::GATHER;
use crate::net::content::ContentFile;

/// The most frames of a file that are written before they are sent.
const BATCH: usize = 4;

/// A part of content that was written.
struct WrittenPart {
    bytes: u64,
    /// Whether more of the content is ready.
    has_more: bool,
}

impl State {
    /// Sends some of `bytes` on a stream when its windows allow it and no other stream has priority. Returns their
    /// number. Errors: `BrokenPipe` if the stream is gone.
    pub(super) fn poll_send(
        &mut self,
        cx: &Context<'_>,
        stream: u32,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let sent = self.poll_frames(cx, stream, |state| {
            state.writing.wake_for_frames();
            let room = GATHER.saturating_sub(state.writing.out.len()) / DATA_PAYLOAD;
            let most = room.min(state.frames(stream)).max(1) * DATA_PAYLOAD;
            let part = &bytes[..bytes.len().min(most)];
            let sent = state.wire.data(&mut state.writing.out, stream, part, false);
            Ok(WrittenPart { bytes: sent as u64, has_more: sent < bytes.len() })
        });
        sent.map_ok(|sent| sent as usize)
    }

    /// Sends some bytes of `content` in `range` in the same way, and returns their number. Errors: `BrokenPipe` if the
    /// stream is gone, `UnexpectedEof` if the file has fewer bytes.
    pub(super) fn poll_send_file(
        &mut self,
        cx: &Context<'_>,
        stream: u32,
        content: ContentFile<'_>,
        range: Range<u64>,
    ) -> Poll<io::Result<u64>> {
        self.poll_frames(cx, stream, |state| {
            let bytes = state.write_file(stream, content, range.clone())?;
            Ok(WrittenPart { bytes, has_more: bytes < range.end - range.start })
        })
    }

    /// Writes the first frames of a reply's content, if it is in a memory file and no other stream has content to send.
    /// The content of `reply` becomes the rest. Returns whether there is none, and the stream was ended.
    pub(super) fn begin(&mut self, stream: u32, reply: &mut Reply) -> bool {
        if self.wire.is_any_waiting() || !self.writing.has_room() {
            return false;
        }
        let Some((content, range)) = in_file(reply) else { return false };
        // The task that sends the rest gets the error, too.
        let bytes = self.write_file(stream, content, range).unwrap_or(0);
        if bytes == 0 {
            return false;
        }
        self.sent_at = clock::millis();
        let Content::Stored(from, to) = &mut reply.content else { return false };
        *from += bytes;
        let is_whole = from == to;
        match is_whole {
            true => self.end(stream, &HeaderMap::new()),
            false => self.wire.want(stream, true),
        }
        is_whole
    }

    /// Writes some bytes of `content` in `range`, as the windows allow it, and returns their number.
    fn write_file(&mut self, stream: u32, content: ContentFile<'_>, range: Range<u64>) -> io::Result<u64> {
        let frames = self.frames(stream);
        let Self { wire, writing, .. } = self;
        let end = range.end.min(range.start + wire.room(stream) as u64);
        writing.write_frames(content, range.start..end, frames, |length| wire.data_header(stream, length))
    }

    /// Calls `write` when the windows of the stream allow it and no other stream has priority.
    fn poll_frames(
        &mut self,
        cx: &Context<'_>,
        stream: u32,
        write: impl FnOnce(&mut Self) -> io::Result<WrittenPart>,
    ) -> Poll<io::Result<u64>> {
        let Some(task) = self.tasks.get_mut(&stream).filter(|task| !task.gone) else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        keep(&mut task.waker, cx);
        self.wire.want(stream, true);
        ready!(self.poll_turn(stream));
        let WrittenPart { bytes, has_more } = write(self)?;
        if bytes == 0 {
            self.pass();
            return Poll::Pending;
        }
        self.sent_at = clock::millis();
        self.wire.want(stream, has_more);
        self.wrote(stream);
        Poll::Ready(Ok(bytes))
    }

    /// Ready if `stream` may write a frame now. Otherwise its task is woken when it may.
    fn poll_turn(&mut self, stream: u32) -> Poll<()> {
        if self.turn.is_none() {
            self.choose();
            self.wake_next(stream);
        }
        if self.turn != Some(stream) {
            return Poll::Pending;
        }
        if !self.writing.has_room() {
            // The connection's task passes the turn when it has sent the frames.
            self.turn = None;
            self.tell();
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    /// Continues after `stream` has written frames: sends them if there is no room for more, and selects the next stream.
    fn wrote(&mut self, stream: u32) {
        // On an error, the connection's task gets it, too.
        if !self.writing.has_room() && !self.writing.send_now().unwrap_or(false) {
            self.turn = None;
            return self.tell();
        }
        self.wake_queue();
        self.choose();
        match self.turn {
            Some(_) => self.wake_next(stream),
            // What is left is sent with the frames that other tasks write before the connection's task runs.
            None if self.writing.unsent() > 0 => self.tell(),
            None => {}
        }
    }

    /// Returns the number of frames that a stream may write before another one writes.
    fn frames(&self, stream: u32) -> usize {
        if self.wire.takes_turns(stream) { 1 } else { BATCH }
    }

    /// Selects the stream that sends next.
    fn choose(&mut self) {
        self.turn = None;
        while self.writing.has_room()
            && let Some((stream, _)) = self.wire.next_to_send()
        {
            if self.tasks.contains_key(&stream) {
                self.turn = Some(stream);
                return;
            }
            self.wire.want(stream, false);
        }
    }

    /// Wakes the task of the stream that sends next, unless that is the task of `stream`, which runs.
    fn wake_next(&self, stream: u32) {
        if let Some(next) = self.turn.filter(|next| *next != stream)
            && let Some(task) = self.tasks.get(&next)
        {
            wake(task);
        }
    }

    /// Selects the stream that sends next, and wakes its task.
    pub(super) fn pass(&mut self) {
        self.choose();
        if let Some(task) = self.turn.and_then(|next| self.tasks.get(&next)) {
            wake(task);
        } else if self.writing.unsent() > 0 {
            self.tell();
        }
    }

    /// Continues after windows have opened, or frames were sent.
    pub(super) fn opened(&mut self) {
        self.wake_queue();
        if self.turn.is_none() {
            self.pass();
        }
    }

    /// Sends all frames that were written, and lets streams write more.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.writing.poll_flush(cx))?;
        self.opened();
        Poll::Ready(Ok(()))
    }
}
