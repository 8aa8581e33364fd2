//! The queue of the writing thread: bounded by bytes for objects, which may be dropped, and by number for removals; it never
//! blocks.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::snapshot::Snapshot;
use crate::ticket::Ticket;

/// Bytes that a command counts for, beside its piece of a body.
const COMMAND: usize = 256;

/// The most removals that may wait, some 40 bytes each.
pub(crate) const MOST_REMOVALS: usize = 1 << 18;

/// The commands to the writing thread, in order.
pub(crate) enum Command {
    /// The next piece of an object; the first one with a ticket begins it.
    Piece { ticket: Arc<Ticket>, bytes: Vec<u8>, is_last: bool },
    /// The object will not be finished.
    Abort(u64),
    /// The object of this hash is removed, which a restart must know.
    Remove(u64),
    /// Everything is removed.
    Clear,
    /// Makes everything before it durable.
    Sync(Sender<io::Result<()>>),
    /// Returns a snapshot of the index.
    Capture(Sender<Snapshot>),
    /// Frees room until the store is within its current limit.
    Fit,
    /// The last command.
    Stop,
}

impl Command {
    fn bytes(&self) -> usize {
        match self {
            Self::Piece { ticket, bytes, .. } => COMMAND + ticket.head_len() + bytes.len(),
            _ => 0,
        }
    }
}

/// A queue with any number of writers and one reader.
pub(crate) struct Queue {
    waiting: Mutex<Backlog>,
    filled: Condvar,
    limit: usize,
}

#[derive(Default)]
struct Backlog {
    commands: VecDeque<Command>,
    bytes: usize,
    /// The hashes whose latest command is a removal.
    removed: HashSet<u64>,
    is_closed: bool,
}

impl Queue {
    /// Creates a queue that refuses pieces beyond `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { waiting: Mutex::default(), filled: Condvar::new(), limit }
    }

    /// Adds `command`. Returns false, and drops `command`, when there is no room for its bytes.
    pub(crate) fn offer(&self, command: Command) -> bool {
        let mut waiting = self.waiting.lock();
        let bytes = waiting.bytes + command.bytes();
        if bytes > self.limit || waiting.is_closed {
            return false;
        }
        waiting.bytes = bytes;
        if let Command::Piece { ticket, .. } = &command {
            waiting.removed.remove(&ticket.hash);
        }
        waiting.commands.push_back(command);
        self.filled.notify_one();
        true
    }

    /// Adds the removal of the object of `hash`, unless it waits already. Returns false if too many removals
    /// wait, so that everything has to be removed: no removal may be lost.
    pub(crate) fn remove(&self, hash: u64) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.is_closed || waiting.removed.contains(&hash) {
            return true;
        }
        if waiting.removed.len() >= MOST_REMOVALS {
            return false;
        }
        waiting.removed.insert(hash);
        waiting.commands.push_back(Command::Remove(hash));
        self.filled.notify_one();
        true
    }

    /// Replaces the waiting removals by the removal of everything. A waiting sync or snapshot must include
    /// the removals before it, so everything is removed before that command as well.
    pub(crate) fn clear(&self) {
        let mut waiting = self.waiting.lock();
        if waiting.is_closed {
            return;
        }
        let mut is_due = false;
        for command in std::mem::take(&mut waiting.commands) {
            match command {
                Command::Remove(_) => is_due = true,
                Command::Sync(_) | Command::Capture(_) if std::mem::take(&mut is_due) => {
                    waiting.commands.extend([Command::Clear, command]);
                }
                _ => waiting.commands.push_back(command),
            }
        }
        waiting.removed = HashSet::new();
        waiting.commands.push_back(Command::Clear);
        self.filled.notify_one();
    }

    /// Adds a command that must not be lost for lack of room.
    pub(crate) fn add(&self, command: Command) {
        let mut waiting = self.waiting.lock();
        if waiting.is_closed {
            return;
        }
        waiting.bytes += command.bytes();
        waiting.commands.push_back(command);
        self.filled.notify_one();
    }

    /// Returns the next command, or `None` if there is none within `patience`.
    pub(crate) fn next(&self, patience: Duration) -> Option<Command> {
        let mut waiting = self.waiting.lock();
        self.filled.wait_while_for(&mut waiting, |waiting| waiting.commands.is_empty(), patience);
        let command = waiting.commands.pop_front()?;
        waiting.bytes -= command.bytes();
        if let Command::Remove(hash) = command {
            waiting.removed.remove(&hash);
        }
        Some(command)
    }

    /// Drops all commands, now and from now on, so that no caller waits for an answer that does not come.
    pub(crate) fn close(&self) {
        let waiting =
            std::mem::replace(&mut *self.waiting.lock(), Backlog { is_closed: true, ..Backlog::default() });
        drop(waiting);
    }

    /// Whether the queue is more than half full.
    pub(crate) fn is_behind(&self) -> bool {
        self.bytes() > self.limit / 2
    }

    pub(crate) fn bytes(&self) -> usize {
        self.waiting.lock().bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removals_wait_once_each_and_up_to_a_limit() {
        let queue = Queue::new(0);
        for hash in 0..MOST_REMOVALS as u64 {
            assert!(queue.remove(hash) && queue.remove(0));
        }
        assert!(!queue.remove(u64::MAX));
        assert_eq!(queue.waiting.lock().commands.len(), MOST_REMOVALS);
        queue.clear();
        assert!(matches!(queue.next(Duration::ZERO), Some(Command::Clear)));
        assert!(queue.next(Duration::ZERO).is_none());
        assert!(queue.remove(1) && matches!(queue.next(Duration::ZERO), Some(Command::Remove(1))));
    }
}
