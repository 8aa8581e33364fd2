//! The state that a connection's task and the tasks of its streams share. All of them run on one thread, so that the
//! lock is almost never contended.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue};
use larder_http2::hpack::encoder;
use larder_http2::{Code, Connection, DATA_PAYLOAD, Fields, HEADER};

use crate::base::clock;
use crate::exchange::reply::{Banner, Reply};
use crate::exchange::send::at_hand;
use crate::exchange::sink::GATHER;
use crate::net::input::{borrow_buffer, give_buffer};
use crate::net::tls::records::Records;

thread_local! {
    /// The field lines of the reply that is being written.
    static LINES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The state of a connection, under a lock.
pub(super) struct Session(Mutex<State>);

pub(super) struct State {
    pub(super) wire: Connection,
    /// Frames that have not been sent yet.
    pub(super) out: Vec<u8>,
    /// Frames before those in `out`. Content is read from files directly into them.
    pub(super) bulk: Records,
    /// Streams that have a task.
    tasks: HashMap<u32, Task>,
    /// The stream that may send next, if several wait.
    turn: Option<u32>,
    /// Wakes the connection's task.
    waker: Option<Waker>,
    /// The time at which content was last sent on any stream, in `clock::millis`.
    pub(super) sent_at: u64,
}

/// The messages for a stream's task.
#[derive(Default)]
struct Task {
    waker: Option<Waker>,
    /// Content that it has not taken yet.
    content: BytesMut,
    /// The trailers, if all content has arrived.
    end: Option<HeaderMap>,
    /// Whether the client has sent all content. The content stays valid if the connection ends afterwards.
    whole: bool,
    /// Whether its client no longer wants an answer.
    gone: bool,
}

/// The next part of a request's content for a stream's task.
pub(super) enum Piece {
    Data(Bytes),
    End(HeaderMap),
    Gone,
}

impl Session {
    pub(super) fn new(wire: Connection, out: Vec<u8>) -> Self {
        let sent_at = clock::millis();
        let (bulk, tasks) = (Records::default(), HashMap::new());
        Self(Mutex::new(State { wire, out, bulk, tasks, turn: None, waker: None, sent_at }))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Ensures that there is a buffer to write to.
    pub(super) fn wake(&mut self) {
        if self.out.capacity() == 0 {
            self.out = borrow_buffer();
        }
    }

    /// Returns the number of bytes that have not been sent yet.
    fn unsent(&self) -> usize {
        self.bulk.len() + self.out.len()
    }

    /// Whether a stream is about to send content.
    pub(super) fn is_sending(&self) -> bool {
        self.turn.is_some()
    }

    /// Releases the buffers while there is nothing to send.
    pub(super) fn rest(&mut self) {
        self.bulk.rest();
        if self.out.is_empty() && self.out.capacity() > 0 {
            give_buffer(std::mem::take(&mut self.out));
        }
    }

    /// Ready if there are bytes to send; otherwise `cx`, the connection's task, is woken when there are.
    pub(super) fn poll_news(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.unsent() > 0 {
            return Poll::Ready(());
        }
        keep(&mut self.waker, cx);
        Poll::Pending
    }

    fn tell(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Registers a task for a stream; `end`: its request has no content. Returns false if there are too many tasks:
    /// those of reset streams may still run.
    pub(super) fn enlist(&mut self, stream: u32, end: bool, most: usize) -> bool {
        let has_room = self.tasks.len() < most;
        if has_room {
            let task = Task { end: end.then(HeaderMap::new), whole: end, ..Task::default() };
            self.tasks.insert(stream, task);
        }
        has_room
    }

    /// Whether a stream is open, or has a task.
    pub(super) fn is_busy(&self) -> bool {
        self.wire.open_streams() > 0 || !self.tasks.is_empty()
    }

    /// Removes the task of a stream, and resets the stream if it is still open.
    pub(super) fn resign(&mut self, stream: u32) {
        self.tasks.remove(&stream);
        self.wire.reset(&mut self.out, stream, Code::INTERNAL_ERROR);
        if self.turn == Some(stream) {
            self.pass();
        }
        self.tell();
    }

    /// Resets a stream, if it is still open.
    pub(super) fn reset(&mut self, stream: u32, code: Code) {
        self.wire.reset(&mut self.out, stream, code);
        self.tell();
    }

    /// Adds content that has arrived for a stream.
    pub(super) fn received(&mut self, stream: u32, data: &[u8], end: bool) {
        match self.tasks.get_mut(&stream) {
            Some(task) => {
                task.content.extend_from_slice(data);
                if end {
                    (task.end, task.whole) = (Some(HeaderMap::new()), true);
                }
                wake(task);
            }
            None => self.wire.release(&mut self.out, stream, data.len()),
        }
    }

    /// Adds the trailers of a request, which end it.
    pub(super) fn ended(&mut self, stream: u32, fields: Fields<'_>) {
        let Some(task) = self.tasks.get_mut(&stream) else { return };
        let field = |(name, value): (&str, &[u8])| {
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_bytes(value).ok()?))
        };
        let mut trailers = HeaderMap::with_capacity(fields.count());
        for (name, value) in fields.iter().filter_map(field) {
            trailers.append(name, value);
        }
        (task.end, task.whole) = (Some(trailers), true);
        wake(task);
    }

    /// Records the reset of a stream: its client no longer wants an answer, and its content is incomplete.
    pub(super) fn gone(&mut self, stream: u32) {
        if let Some(task) = self.tasks.get_mut(&stream) {
            let waker = task.waker.take();
            *task = Task { waker, gone: true, ..Task::default() };
            wake(task);
        }
    }

    /// Records the end of the connection. Content that has arrived completely is still carried to its reader.
    pub(super) fn close(&mut self) {
        for task in self.tasks.values_mut() {
            task.gone = true;
            wake(task);
        }
    }

    /// Returns the next piece of a stream's content.
    pub(super) fn poll_content(&mut self, cx: &Context<'_>, stream: u32) -> Poll<Piece> {
        let Some(task) = self.tasks.get_mut(&stream) else { return Poll::Ready(Piece::Gone) };
        if task.gone && !task.whole {
            return Poll::Ready(Piece::Gone);
        }
        if !task.content.is_empty() {
            return Poll::Ready(Piece::Data(task.content.split().freeze()));
        }
        if let Some(trailers) = task.end.take() {
            return Poll::Ready(Piece::End(trailers));
        }
        keep(&mut task.waker, cx);
        Poll::Pending
    }

    /// Records that `bytes` bytes of a stream's content have reached their reader, and lets the client send as many
    /// more.
    pub(super) fn release(&mut self, stream: u32, bytes: usize) {
        self.wire.release(&mut self.out, stream, bytes);
        if !self.out.is_empty() {
            self.tell();
        }
    }

    /// Whether the client of a stream has left; if not, `cx` is woken when it leaves.
    pub(super) fn is_gone(&mut self, cx: &Context<'_>, stream: u32) -> bool {
        let Some(task) = self.tasks.get_mut(&stream) else { return true };
        keep(&mut task.waker, cx);
        task.gone
    }

    /// Whether the client of a stream has left after it had sent all content.
    pub(super) fn has_left_whole(&self, stream: u32) -> bool {
        self.tasks.get(&stream).is_some_and(|task| task.gone && task.whole)
    }

    /// Writes the head of `reply`; `end`: it has no content. Returns false if the stream is closed.
    pub(super) fn head(&mut self, stream: u32, reply: &Reply, end: bool, banner: &Banner) -> bool {
        let length = reply.length.filter(|_| !reply.is_bodiless());
        self.wake();
        LINES.with_borrow_mut(|lines| {
            lines.clear();
            reply.write_lines(lines, banner);
            let written = self.wire.head(&mut self.out, stream, reply.status.as_u16(), end, |block| {
                encoder::lines(block, lines);
                if let Some(length) = length {
                    encoder::field(block, b"content-length", itoa::Buffer::new().format(length).as_bytes());
                }
            });
            self.tell();
            written
        })
    }

    /// Writes `reply`, with its content if that is in memory and the windows allow it. Returns false if only the head
    /// was written, and the content has to be sent. Writes nothing to a stream that is closed or has an answer already.
    pub(super) fn reply(&mut self, stream: u32, reply: &Reply, head_only: bool, banner: &Banner) -> bool {
        let content = if head_only || reply.is_bodiless() { Some(&[][..]) } else { at_hand(reply) };
        let fits = |content: &&[u8]| {
            content.is_empty()
                || content.len() <= self.wire.room(stream) && self.unsent() + content.len() <= GATHER
        };
        let content = content.filter(fits);
        let is_empty = content.is_some_and(<[u8]>::is_empty);
        if !self.head(stream, reply, is_empty, banner) {
            return true;
        }
        if let Some(content) = content.filter(|_| !is_empty) {
            self.wire.data(&mut self.out, stream, content, true);
        }
        content.is_some()
    }

    /// Writes an interim response with the fields that `write` appends.
    ///
    /// A client that does not read gets none: interim responses are announcements, and the final response follows.
    pub(super) fn interim(&mut self, stream: u32, status: u16, write: impl FnOnce(&mut Vec<u8>)) {
        if self.unsent() >= GATHER {
            return;
        }
        self.wire.interim(&mut self.out, stream, status, write);
        self.tell();
    }

    /// Ends a stream with trailers, or with an empty frame if there are none.
    pub(super) fn end(&mut self, stream: u32, trailers: &HeaderMap, keeps: impl Fn(&HeaderName) -> bool) {
        let mut trailers = trailers.iter().filter(|(name, _)| keeps(name)).peekable();
        match trailers.peek() {
            None => drop(self.wire.data(&mut self.out, stream, &[], true)),
            Some(_) => self.wire.trailers(&mut self.out, stream, |block| {
                trailers.for_each(|(name, value)| {
                    encoder::field(block, name.as_str().as_bytes(), value.as_bytes())
                });
            }),
        }
        self.tell();
    }

    /// Sends some of `bytes` on a stream when its windows allow it and no other stream has priority. Returns their
    /// number.
    ///
    /// # Errors
    /// `BrokenPipe` if the stream is gone.
    pub(super) fn poll_send(
        &mut self,
        cx: &Context<'_>,
        stream: u32,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_frame(cx, stream, |state, most| {
            state.wake();
            let part = &bytes[..bytes.len().min(most)];
            Ok(state.wire.data(&mut state.out, stream, part, false))
        })
    }

    /// Sends some of the `length` bytes of `file` at `offset` in the same way, and returns their number.
    ///
    /// # Errors
    /// `BrokenPipe` if the stream is gone, `UnexpectedEof` if the file has fewer bytes.
    pub(super) fn poll_send_file(
        &mut self,
        cx: &Context<'_>,
        stream: u32,
        file: &File,
        (offset, length): (u64, u64),
    ) -> Poll<io::Result<usize>> {
        self.poll_frame(cx, stream, |state, most| {
            let room = state.wire.room(stream).min(most);
            let total = usize::try_from(length).unwrap_or(room).min(room);
            if total > 0 {
                state.bulk.append(&state.out);
                state.out.clear();
            }
            let mut sent = 0;
            while sent < total {
                let length = (total - sent).min(DATA_PAYLOAD);
                let (header, content) = state.bulk.room(HEADER + length).split_at_mut(HEADER);
                file.read_exact_at(content, offset + sent as u64)?;
                header.copy_from_slice(&state.wire.data_header(stream, length));
                state.bulk.add(HEADER + length);
                sent += length;
            }
            Ok(sent)
        })
    }

    /// Calls `write` when the windows of the stream allow it and no other stream has priority. `write` writes at most
    /// as many bytes of content as its second argument, and returns their number.
    fn poll_frame(
        &mut self,
        cx: &Context<'_>,
        stream: u32,
        write: impl FnOnce(&mut Self, usize) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let Some(task) = self.tasks.get_mut(&stream).filter(|task| !task.gone) else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        keep(&mut task.waker, cx);
        let is_next = match self.turn {
            Some(turn) => turn == stream,
            None => !self.wire.is_any_waiting(),
        };
        if is_next && self.unsent() < GATHER {
            let sent = write(self, self.at_once(stream))?;
            if sent > 0 {
                self.sent_at = clock::millis();
                self.wire.want(stream, false);
                self.tell();
                self.pass();
                return Poll::Ready(Ok(sent));
            }
        }
        self.wire.want(stream, true);
        if is_next || self.turn.is_none() {
            self.pass();
        }
        Poll::Pending
    }

    /// Returns the bytes of content that a stream may send before another one: frames until the buffer is full, or one
    /// frame if it takes turns with others.
    fn at_once(&self, stream: u32) -> usize {
        let frames = if self.wire.takes_turns(stream) { 1 } else { (GATHER - self.unsent()) / DATA_PAYLOAD };
        frames.max(1) * DATA_PAYLOAD
    }

    /// Selects the stream that sends next, and wakes its task.
    pub(super) fn pass(&mut self) {
        self.turn = None;
        while self.unsent() < GATHER
            && let Some((stream, _)) = self.wire.next_to_send()
        {
            if let Some(task) = self.tasks.get(&stream) {
                self.turn = Some(stream);
                return wake(task);
            }
            self.wire.want(stream, false);
        }
    }

    /// Continues after windows have opened.
    pub(super) fn opened(&mut self) {
        if self.turn.is_none() {
            self.pass();
        }
    }
}

fn keep(waker: &mut Option<Waker>, cx: &Context<'_>) {
    if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
        *waker = Some(cx.waker().clone());
    }
}

fn wake(task: &Task) {
    if let Some(waker) = &task.waker {
        waker.wake_by_ref();
    }
}
