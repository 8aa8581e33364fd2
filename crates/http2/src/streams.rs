//! The streams of a connection.

use crate::frame::LARGEST_WINDOW;
use crate::limits::EARLY_PRIORITIES;
use crate::priority::Priority;

/// The number of closed streams whose end is remembered.
const REMEMBERED: usize = 32;
/// The bytes of content that a stream sends before others of the same urgency have their turn.
const STRETCH: u64 = 1 << 20;
/// The maximum lead in bytes of content over waiting streams of the same urgency. Bytes beyond that are forgotten: a
/// stream that has sent much while no other stream waited must not wait until younger ones are complete.
const LEAD: u64 = 2 * STRETCH;

/// A stream that is open in at least one direction.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: u32,
    /// Bytes that the server may send; negative after the client has reduced its windows.
    pub(crate) window: i64,
    /// Bytes that the client may send.
    pub(crate) allowed: i64,
    /// Bytes of unread content.
    pub(crate) held: i64,
    /// Bytes that were read since the last window update to the client.
    pub(crate) released: i64,
    /// The remaining content in bytes, if its length was announced.
    pub(crate) expected: Option<u64>,
    /// Whether the client has not ended its message.
    pub(crate) receives: bool,
    /// Whether the head of the response was sent.
    pub(crate) answered: bool,
    /// Whether it is a tunnel, or will be one once the request is granted: each direction ends independently.
    pub(crate) tunnel: bool,
    /// Whether its request was `CONNECT`. Then its content counts towards the connection's window only until it
    /// arrives: a tunnel whose content stays unread for long must not close that window for the other streams.
    pub(crate) uncounted: bool,
    /// Whether the server has sent the end. The client may still send.
    pub(crate) ended: bool,
    /// The time until which a request without an end may [linger](Self::lingers), once it is known.
    pub(crate) lingers_until: Option<u64>,
    /// Whether content is ready to be sent.
    pub(crate) wants: bool,
    pub(crate) priority: Priority,
    /// Bytes of content that were sent; at most [`LEAD`] more than those of waiting streams.
    pub(crate) sent: u64,
    /// Its last turn, as a count of turns.
    pub(crate) turn: u64,
}

/// The end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The stream never began.
    Idle,
    /// Both sides have ended it, or the client has reset it.
    Closed,
    /// The server has reset it: frames of the client may still be in flight.
    Reset,
    /// The end is no longer remembered, or the stream was skipped.
    Forgotten,
}

/// The streams of a connection.
#[derive(Debug)]
pub(crate) struct Streams {
    /// Open streams in the order of their numbers.
    open: Vec<Stream>,
    /// The streams that ended last, and whether the server reset them.
    ended: [(u32, bool); REMEMBERED],
    /// The number of streams that have ended.
    count: usize,
    /// The highest number that the client has used.
    pub(crate) last: u32,
    /// The number of turns so far.
    turns: u64,
    /// Priorities of streams that are not open yet.
    early: Vec<(u32, Priority)>,
}

impl Stream {
    /// Returns the bytes of unread content that count towards the connection's window.
    pub(crate) fn counted(&self) -> i64 {
        if self.uncounted { 0 } else { self.held }
    }

    /// Whether its content alternates with that of other streams. Otherwise, it is sent before that of higher-numbered
    /// streams.
    pub(crate) fn takes_turns(&self) -> bool {
        self.priority.incremental || self.tunnel
    }

    /// Records that `length` bytes of content are sent.
    pub(crate) fn send(&mut self, length: usize) {
        self.window -= length as i64;
        self.sent += length as u64;
    }

    /// Whether the response is complete but the request, which is no tunnel, is not.
    pub(crate) fn lingers(&self) -> bool {
        self.ended && self.receives && !self.tunnel
    }

    /// Whether both directions have ended, and all content was read. Until then a tunnel counts as a stream, which
    /// bounds the unread content.
    pub(crate) fn is_over(&self) -> bool {
        self.ended && !self.receives && self.held == 0
    }
}

impl Streams {
    pub(crate) fn new() -> Self {
        let ended = [(0, false); REMEMBERED];
        Self { open: Vec::new(), ended, count: 0, last: 0, turns: 0, early: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.open.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.open.iter_mut()
    }

    pub(crate) fn get(&self, id: u32) -> Option<&Stream> {
        self.place(id).map(|place| &self.open[place])
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        self.place(id).map(|place| &mut self.open[place])
    }

    fn place(&self, id: u32) -> Option<usize> {
        // A request that is answered immediately is the last one.
        match self.open.last() {
            Some(last) if last.id == id => Some(self.open.len() - 1),
            _ => self.open.binary_search_by_key(&id, |stream| stream.id).ok(),
        }
    }

    /// Adds a stream, whose number must be the highest so far.
    pub(crate) fn open(&mut self, mut stream: Stream) {
        if let Some(place) = self.early.iter().position(|(id, _)| *id == stream.id) {
            stream.priority = self.early.swap_remove(place).1;
        }
        self.open.push(stream);
    }

    /// Removes a stream; `by_us`: whether the server reset it. Returns its [counted](Stream::counted) bytes.
    pub(crate) fn end(&mut self, id: u32, by_us: bool) -> Option<i64> {
        let place = self.place(id)?;
        self.remember(id, by_us);
        let counted = self.open[place].counted();
        match place + 1 == self.open.len() {
            true => self.open.truncate(place),
            false => _ = self.open.remove(place),
        }
        Some(counted)
    }

    /// Remembers the end of a stream that was refused or has ended.
    pub(crate) fn remember(&mut self, id: u32, by_us: bool) {
        self.ended[self.count % REMEMBERED] = (id, by_us);
        self.count += 1;
    }

    /// Returns how a stream that is not open has ended.
    pub(crate) fn ended(&self, id: u32) -> End {
        if id > self.last || id.is_multiple_of(2) {
            return End::Idle;
        }
        match self.ended.iter().find(|(ended, _)| *ended == id) {
            Some((_, true)) => End::Reset,
            Some((_, false)) => End::Closed,
            None => End::Forgotten,
        }
    }

    /// Applies a `Priority` field value from a separate frame.
    pub(crate) fn prioritise(&mut self, id: u32, value: &[u8]) {
        let priority = Priority::default().update(value);
        if let Some(stream) = self.get_mut(id) {
            stream.priority = priority;
        } else if id > self.last {
            self.early.retain(|(early, _)| *early > self.last && *early != id);
            if self.early.len() < EARLY_PRIORITIES {
                self.early.push((id, priority));
            }
        }
    }

    /// Returns the stream that sends next, if any has content and an open window: the most urgent one. Among equals it
    /// is the lowest number or, if they are incremental, the stream that has waited longest. An endless response must
    /// not block all others, so streams that have sent less come first, in steps of [`STRETCH`].
    pub(crate) fn take_turn(&mut self) -> Option<&mut Stream> {
        let is_ready = |stream: &Stream| stream.wants && stream.answered && stream.window > 0;
        let first = self.open.iter().filter(|stream| is_ready(stream));
        let (urgency, least) = first.map(|stream| (stream.priority.urgency, stream.sent)).min()?;
        let equals = |stream: &&mut Stream| is_ready(stream) && stream.priority.urgency == urgency;
        self.open.iter_mut().filter(equals).for_each(|stream| stream.sent = stream.sent.min(least + LEAD));
        let stream = self.open.iter_mut().filter(equals).min_by_key(|stream| {
            let turn = if stream.takes_turns() { stream.turn + 1 } else { 0 };
            (stream.sent / STRETCH, turn, stream.id)
        })?;
        self.turns += 1;
        stream.turn = self.turns;
        Some(stream)
    }

    /// Returns the bytes of unread content that do not count towards the connection's window.
    pub(crate) fn uncounted(&self) -> i64 {
        self.open.iter().map(|stream| stream.held - stream.counted()).sum()
    }

    /// Whether any stream has content to send.
    pub(crate) fn is_any_waiting(&self) -> bool {
        self.open.iter().any(|stream| stream.wants)
    }

    pub(crate) fn allocated(&self) -> usize {
        self.open.capacity() * size_of::<Stream>() + self.early.capacity() * size_of::<(u32, Priority)>()
    }

    pub(crate) fn validate(&self, window: i64) -> Result<(), &'static str> {
        if !self.open.is_sorted_by(|a, b| a.id < b.id) {
            return Err("streams are not in order");
        }
        if self.open.iter().any(|stream| stream.id.is_multiple_of(2) || stream.id > self.last) {
            return Err("a stream has a number that no client may use");
        }
        if self.open.iter().any(|stream| stream.allowed + stream.held + stream.released != window) {
            return Err("a stream's window does not add up");
        }
        if self
            .open
            .iter()
            .any(|stream| stream.allowed < 0 || stream.held < 0 || stream.window > LARGEST_WINDOW)
        {
            return Err("a stream's window is out of range");
        }
        if self.early.len() > EARLY_PRIORITIES {
            return Err("too many priorities of streams to come");
        }
        Ok(())
    }
}
