//! The streams of a connection.

use crate::frame::LARGEST_WINDOW;
use crate::limits::EARLY_PRIORITIES;
use crate::priority::Priority;

/// Streams of which is remembered how they ended.
const REMEMBERED: usize = 32;
/// Bytes of content that a stream sends before others that are as urgent.
const STRETCH: u64 = 1 << 20;
/// Bytes of content that a stream may be ahead of others that are as urgent and wait. What it has sent beyond that is
/// forgotten: a stream that has sent much while nothing else waited must not wait for the whole of younger ones.
const LEAD: u64 = 2 * STRETCH;

/// A stream that is open in at least one direction.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: u32,
    /// Bytes that may be sent; negative after the client has made its windows smaller.
    pub(crate) window: i64,
    /// Bytes that the client may send.
    pub(crate) allowed: i64,
    /// Bytes of content that wait for their reader.
    pub(crate) held: i64,
    /// Bytes that have been read since the client was last told.
    pub(crate) released: i64,
    /// Content that is still to come, if its length was announced.
    pub(crate) expected: Option<u64>,
    /// The client has not ended its message.
    pub(crate) receives: bool,
    /// The head of the response was sent.
    pub(crate) answered: bool,
    /// It is a tunnel, or will be once its request is granted: each direction ends on its own.
    pub(crate) tunnel: bool,
    /// Its request was `CONNECT`. Its content counts for the window of the connection only until it arrives: a tunnel that
    /// is not read for long must not close that window for the other streams.
    pub(crate) uncounted: bool,
    /// Nothing more is sent, though the client still may.
    pub(crate) ended: bool,
    /// Content is ready to be sent.
    pub(crate) wants: bool,
    pub(crate) priority: Priority,
    /// Bytes of content that were sent; at most [`LEAD`] more than of others that wait.
    pub(crate) sent: u64,
    /// When it was last its turn, as a count of turns.
    pub(crate) turn: u64,
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It never began.
    Idle,
    /// By both sides, or by the client's reset.
    Closed,
    /// By a reset of ours: frames of it may still be under way.
    Reset,
    /// It is not known any more, or it was skipped.
    Forgotten,
}

/// The streams of a connection.
#[derive(Debug)]
pub(crate) struct Streams {
    /// By number.
    open: Vec<Stream>,
    /// Those that ended last, and whether by a reset of ours.
    ended: [(u32, bool); REMEMBERED],
    /// How many have ended.
    count: usize,
    /// The highest number that the client has used.
    pub(crate) last: u32,
    /// The turns so far.
    turns: u64,
    /// Priorities of streams that are still to come.
    early: Vec<(u32, Priority)>,
}

impl Stream {
    /// Bytes of the connection's window that wait for their reader.
    pub(crate) fn counted(&self) -> i64 {
        if self.uncounted { 0 } else { self.held }
    }

    /// Whether its content takes turns with that of others: without that, it is sent before that of higher numbers.
    pub(crate) fn takes_turns(&self) -> bool {
        self.priority.incremental || self.tunnel
    }

    /// Notes that `length` bytes of content are sent.
    pub(crate) fn send(&mut self, length: usize) {
        self.window -= length as i64;
        self.sent += length as u64;
    }

    /// Whether both directions have ended, and all content was read. Until then a tunnel counts as a stream, which bounds
    /// the content that waits for readers.
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
        // A request that is answered at once is the last one.
        match self.open.last() {
            Some(last) if last.id == id => Some(self.open.len() - 1),
            _ => self.open.binary_search_by_key(&id, |stream| stream.id).ok(),
        }
    }

    /// Adds a stream whose number is the highest.
    pub(crate) fn open(&mut self, mut stream: Stream) {
        if let Some(place) = self.early.iter().position(|(id, _)| *id == stream.id) {
            stream.priority = self.early.swap_remove(place).1;
        }
        self.open.push(stream);
    }

    /// Removes a stream; `by_us` says that it was reset here.
    pub(crate) fn end(&mut self, id: u32, by_us: bool) -> Option<Stream> {
        let place = self.place(id)?;
        self.remember(id, by_us);
        Some(self.open.remove(place))
    }

    /// Remembers the end of a stream that was refused, or ended.
    pub(crate) fn remember(&mut self, id: u32, by_us: bool) {
        self.ended[self.count % REMEMBERED] = (id, by_us);
        self.count += 1;
    }

    /// How a stream that is not open has ended.
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

    /// Applies a `Priority` field value that came in a frame of its own.
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

    /// The stream whose turn it is to send, if one has something to send and a window for it: the most urgent one; among
    /// these the lowest number, or if they are incremental, that which has waited longest. A response without an end must
    /// not hold up all others: those that have sent less come first, in steps of [`STRETCH`].
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

    /// Whether a stream waits for a window.
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
