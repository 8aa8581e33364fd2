//! The state that a connection's task and the tasks of its streams share. All of them run on one thread, so that the
//! lock is almost never contended.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use http::HeaderMap;
use larder_http2::hpack::encoder;
use larder_http2::{Code, Connection, Fields};
use larder_semantics::fields::to_map;
use parking_lot::{Mutex, MutexGuard};

use super::section::{ListSize, Section, at_most};
use crate::base::clock;
use crate::exchange::link::Interim;
use crate::exchange::reply::{Banner, Reply};
use crate::exchange::send::at_hand;
use crate::exchange::sink::GATHER;
use crate::flow::drain::ConnectionPermit;
use crate::flow::worker::ProcessState;
use crate::http::chunked::may_trail;
use crate::http::fields::FieldWriter;
use crate::http::response::LONGEST;
use crate::net::byte_budget::{ByteBudget, Share};
use crate::net::io::WriteHalf;
use crate::wire::content::Piece;

/// The state of a connection, under a lock. Tasks of streams may hold it, and with it the socket, longer than the
/// connection's task: it counts as a connection until then.
pub(super) struct Session {
    state: Mutex<State>,
    client: IpAddr,
    /// Limits the heads and trailers that wait because clients do not read.
    unsent: ByteBudget,
    _permit: ConnectionPermit,
}

pub(super) struct State {
    pub(super) wire: Connection,
    /// The half of the socket to which frames are written. Tasks of streams send when it has no room for more frames,
    /// the connection's task sends the rest.
    pub(super) writing: WriteHalf,
    /// Streams that have a task.
    pub(super) tasks: HashMap<u32, Task>,
    /// The stream that sends next, if any has content to send.
    pub(super) turn: Option<u32>,
    /// Streams whose head or trailers wait for room, the next one first.
    queue: VecDeque<u32>,
    /// Wakes the connection's task.
    waker: Option<Waker>,
    /// Whether the connection's task waits for frames to send.
    waits: bool,
    /// The time at which content was last sent on any stream, in `clock::millis`.
    pub(super) sent_at: u64,
    /// Its part of the memory for content that waits, beyond [`READ_AHEAD`].
    unread: Share,
}

/// Content that may wait on a connection, in bytes, even if other connections fill the memory for it.
const READ_AHEAD: usize = 16 << 10;

/// No list of fields is this large: each line adds 32 bytes to its size, and has at least 3 bytes in a head of
/// [`LONGEST`] bytes. The size is not counted for clients that accept this much.
const LARGE_LIST: usize = 16 * LONGEST;

/// The messages for a stream's task.
#[derive(Default)]
pub(super) struct Task {
    pub(super) waker: Option<Waker>,
    /// Content that it has not taken yet.
    content: BytesMut,
    /// The trailers, if all content has arrived.
    end: Option<HeaderMap>,
    /// Whether the client has sent all content. The content stays valid if the connection ends afterwards.
    whole: bool,
    /// Whether its client has cancelled it.
    pub(super) gone: bool,
}

impl Session {
    pub(super) fn new(
        wire: Connection,
        writing: WriteHalf,
        (client, shared): (IpAddr, &ProcessState),
        permit: ConnectionPermit,
    ) -> Self {
        let (tasks, queue, sent_at) = (HashMap::new(), VecDeque::new(), clock::millis());
        let unread = shared.unread.share(client);
        let state =
            State { wire, writing, tasks, turn: None, queue, waker: None, waits: false, sent_at, unread };
        Self { state: Mutex::new(state), client, unsent: shared.unsent.clone(), _permit: permit }
    }

    /// Waits until `stream` may write a head or trailers of `length` bytes. Errors: `BrokenPipe` if the stream is gone;
    /// `OutOfMemory` if clients that do not read hold too many such bytes already.
    pub(super) async fn room(&self, stream: u32, length: impl FnOnce() -> usize) -> io::Result<()> {
        if self.state().has_room_for_all() {
            return Ok(());
        }
        let mut share = self.unsent.share(self.client);
        if !share.grow(length()) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        poll_fn(|cx| self.state().poll_section(cx, stream)).await
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// Whether a stream is about to send content.
    pub(super) fn is_sending(&self) -> bool {
        self.turn.is_some()
    }

    /// Ready if there are bytes to send; otherwise `cx`, the connection's task, is woken when there are.
    pub(super) fn poll_news(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.writing.unsent() > 0 {
            return Poll::Ready(());
        }
        keep(&mut self.waker, cx);
        self.waits = true;
        Poll::Pending
    }

    /// Prepares for a turn of the connection's task, which sends the frames at its end.
    pub(super) fn begin_turn(&mut self) {
        self.waits = false;
        self.writing.wake_for_frames();
    }

    /// Wakes the connection's task if it waits for frames to send.
    pub(super) fn tell(&mut self) {
        if std::mem::take(&mut self.waits)
            && let Some(waker) = &self.waker
        {
            waker.wake_by_ref();
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
        self.queue.retain(|queued| *queued != stream);
        self.wake_queue();
        self.wire.reset(&mut self.writing.out, stream, Code::INTERNAL_ERROR);
        self.unread.shrink(self.unread_beyond());
        if self.turn == Some(stream) {
            self.pass();
        }
        self.tell();
    }

    /// Resets a stream, if it is still open.
    pub(super) fn reset(&mut self, stream: u32, code: Code) {
        self.wire.reset(&mut self.writing.out, stream, code);
        self.tell();
    }

    /// Adds content that has arrived for a stream. If the memory for content that waits is full, resets the stream.
    pub(super) fn received(&mut self, stream: u32, data: &[u8], end: bool) {
        if !self.has_memory() {
            self.reset(stream, Code::ENHANCE_YOUR_CALM);
            return self.gone(stream);
        }
        match self.tasks.get_mut(&stream) {
            Some(task) => {
                task.content.extend_from_slice(data);
                if end {
                    (task.end, task.whole) = (Some(HeaderMap::new()), true);
                }
                wake(task);
            }
            None => self.wire.release(&mut self.writing.out, stream, data.len()),
        }
    }

    /// Adds the trailers of a request, which end it.
    pub(super) fn ended(&mut self, stream: u32, fields: Fields<'_>) {
        let Some(task) = self.tasks.get_mut(&stream) else { return };
        let trailers = to_map(fields.iter().map(|(name, value)| (name.as_bytes(), value)));
        (task.end, task.whole) = (Some(trailers), true);
        wake(task);
    }

    /// Records the reset of a stream: its client has cancelled the request, and its content is incomplete.
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
            let length = task.content.len().min(READ_AHEAD);
            return Poll::Ready(Piece::Data(task.content.split_to(length).freeze()));
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
        self.wire.release(&mut self.writing.out, stream, bytes);
        self.unread.shrink(self.unread_beyond());
        if !self.writing.out.is_empty() {
            self.tell();
        }
    }

    /// Takes or gives back memory for the content that waits. Returns false if it is full.
    fn has_memory(&mut self) -> bool {
        let unread = self.unread_beyond();
        self.unread.shrink(unread);
        let more = unread - self.unread.bytes();
        more == 0 || self.unread.grow(more)
    }

    fn unread_beyond(&self) -> usize {
        self.wire.unread().saturating_sub(READ_AHEAD)
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

    /// Whether a head or trailers may be written on any stream.
    fn has_room_for_all(&self) -> bool {
        self.queue.is_empty() && self.writing.has_room()
    }

    /// Ready when a head or trailers may be written on `stream`. They are written in the order of the calls: content,
    /// which takes turns by priority, must not delay them for long, as they are short.
    fn poll_section(&mut self, cx: &Context<'_>, stream: u32) -> Poll<io::Result<()>> {
        let Some(task) = self.tasks.get_mut(&stream).filter(|task| !task.gone) else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        keep(&mut task.waker, cx);
        let is_next = self.queue.front().is_none_or(|next| *next == stream);
        if !is_next || !self.writing.has_room() {
            if !self.queue.contains(&stream) {
                self.queue.push_back(stream);
            }
            // The connection's task sends the frames that were written, and wakes the first of the queue.
            self.tell();
            return Poll::Pending;
        }
        self.queue.pop_front();
        self.wake_queue();
        Poll::Ready(Ok(()))
    }

    /// Wakes the task of the stream whose head or trailers are next, if there is room for them.
    pub(super) fn wake_queue(&self) {
        if let Some(next) = self.queue.front()
            && self.writing.has_room()
            && let Some(task) = self.tasks.get(next)
        {
            wake(task);
        }
    }

    /// Whether the client accepts the list of fields that `write` writes.
    fn accepts(&self, write: impl FnOnce(&mut ListSize)) -> bool {
        let most = self.wire.longest_list();
        let size = || {
            let mut size = ListSize::default();
            write(&mut size);
            size.0
        };
        most >= LARGE_LIST || size() <= most
    }

    /// Whether the client accepts the head of `reply`.
    #[inline]
    pub(super) fn accepts_head(&self, reply: &Reply, banner: &Banner) -> bool {
        let most = self.wire.longest_list();
        let counted = || {
            self.accepts(|size| {
                size.field(b":status", b"200");
                write_head(size, reply, banner);
            })
        };
        most >= LARGE_LIST || at_most(reply, banner).is_some_and(|list| list <= most) || counted()
    }

    /// Writes the head of `reply`; `end`: it has no content. Returns false if the stream is closed.
    pub(super) fn head(&mut self, stream: u32, reply: &Reply, end: bool, banner: &Banner) -> bool {
        self.writing.wake_for_frames();
        let (out, status) = (&mut self.writing.out, reply.status.as_u16());
        let written = self.wire.head(out, stream, status, end, |block| {
            write_head(&mut Section(block), reply, banner);
        });
        self.tell();
        written
    }

    /// Writes `reply`, with its content if that is in memory and the windows allow it. Returns false if only the head
    /// was written, and the content has to be sent. Writes nothing to a stream that is closed or has an answer already.
    pub(super) fn reply(&mut self, stream: u32, reply: &Reply, head_only: bool, banner: &Banner) -> bool {
        let content = if head_only || reply.is_bodiless() { Some(&[][..]) } else { at_hand(reply) };
        let fits = |content: &&[u8]| {
            content.is_empty()
                || content.len() <= self.wire.room(stream) && self.writing.out.len() + content.len() <= GATHER
        };
        let content = content.filter(fits);
        let is_empty = content.is_some_and(<[u8]>::is_empty);
        if !self.head(stream, reply, is_empty, banner) {
            return true;
        }
        if let Some(content) = content.filter(|_| !is_empty) {
            self.wire.data(&mut self.writing.out, stream, content, true);
        }
        content.is_some()
    }

    /// Writes an interim response with the fields that `write` appends.
    ///
    /// A client that does not read gets none: interim responses are announcements, and the final response follows.
    pub(super) fn interim(&mut self, stream: u32, interim: &Interim) {
        let is_accepted = || {
            self.accepts(|size| {
                size.field(b":status", b"103");
                size.forward(&interim.fields);
            })
        };
        if self.writing.out.len() >= GATHER || !is_accepted() {
            return;
        }
        let status = interim.status.as_u16();
        let write = |block: &mut Vec<u8>| Section(block).forward(&interim.fields);
        self.wire.interim(&mut self.writing.out, stream, status, write);
        self.tell();
    }

    /// Ends a stream with trailers, or with an empty frame if there are none. Resets it if they are larger than the client
    /// accepts: without them, the response would seem whole.
    pub(super) fn end(&mut self, stream: u32, trailers: &HeaderMap) {
        let kept = || trailers.iter().filter(|(name, _)| may_trail(name));
        let is_short = self.accepts(|size| kept().for_each(|(name, value)| size.mapped(name, value)));
        let mut trailers = kept().peekable();
        match trailers.peek() {
            _ if !is_short => self.wire.reset(&mut self.writing.out, stream, Code::INTERNAL_ERROR),
            None => drop(self.wire.data(&mut self.writing.out, stream, &[], true)),
            Some(_) => self.wire.trailers(&mut self.writing.out, stream, |block| {
                trailers.for_each(|(name, value)| {
                    encoder::field(block, name.as_str().as_bytes(), value.as_bytes().trim_ascii())
                });
            }),
        }
        self.tell();
    }
}

/// Writes the fields of a head, without its status.
#[inline]
fn write_head(out: &mut impl FieldWriter, reply: &Reply, banner: &Banner) {
    reply.write_all_fields(out, banner);
    if let Some(length) = reply.length.filter(|_| !reply.is_bodiless()) {
        out.field(b"content-length", itoa::Buffer::new().format(length).as_bytes());
    }
}

pub(super) fn keep(waker: &mut Option<Waker>, cx: &Context<'_>) {
    if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
        *waker = Some(cx.waker().clone());
    }
}

pub(super) fn wake(task: &Task) {
    if let Some(waker) = &task.waker {
        waker.wake_by_ref();
    }
}
