//! An object that is being written.

use std::sync::Arc;

use crate::queue::Command;
use crate::record::record_len;
use crate::shared::DiskState;
use crate::ticket::Ticket;

/// Bytes of a body that are passed to the writing thread at once.
const PIECE: usize = 256 << 10;

/// Takes an object's body in pieces. [`finish`](Self::finish) publishes it; if the writer is dropped before
/// that, the store does not change. When an object is given up, the older one of its key is removed, since it
/// is out of date. No call waits for the disk.
#[must_use = "an object is stored by `finish`"]
pub struct Writer {
    shared: Arc<DiskState>,
    ticket: Arc<Ticket>,
    piece: Vec<u8>,
    taken: u64,
    has_begun: bool,
    is_finished: bool,
}

impl Writer {
    pub(crate) fn new(shared: Arc<DiskState>, ticket: Ticket) -> Self {
        let ticket = Arc::new(ticket);
        Self { shared, ticket, piece: Vec::new(), taken: 0, has_begun: false, is_finished: false }
    }

    /// Takes the next bytes of the body. Returns false once the object has been given up, because the queue
    /// was full, it became too large or longer than announced, its key was removed, or a write failed.
    pub fn write(&mut self, mut bytes: &[u8]) -> bool {
        if self.ticket.is_given_up() {
            return false;
        }
        self.taken += bytes.len() as u64;
        let is_too_long = self.ticket.expected.is_some_and(|expected| self.taken > expected);
        if is_too_long || record_len(self.ticket.head_len() as u64, self.taken) > self.shared.largest() {
            self.give_up();
            return false;
        }
        while self.piece.len() + bytes.len() >= PIECE {
            let (now, later) = bytes.split_at(PIECE - self.piece.len());
            self.piece.extend_from_slice(now);
            bytes = later;
            if !self.hand_over(false) {
                return false;
            }
        }
        self.piece.extend_from_slice(bytes);
        true
    }

    /// Whether so many bytes wait to be written that an object which arrives as fast as this one will soon be
    /// given up.
    pub fn is_behind(&self) -> bool {
        self.shared.queue.is_behind()
    }

    /// Returns the bytes of all objects that the disk has written so far: as long as they increase, it works.
    pub fn written(&self) -> u64 {
        self.shared.counts.written_bytes.get()
    }

    /// Whether the object has been given up.
    pub fn is_given_up(&self) -> bool {
        self.ticket.is_given_up()
    }

    /// Completes the body. Returns false if the object has been given up, or is shorter than announced. Soon
    /// after, lookups find the object, unless the policy refuses it or its key is removed meanwhile.
    pub fn finish(mut self) -> bool {
        if self.ticket.is_given_up() {
            return false;
        }
        if self.ticket.expected.is_some_and(|expected| self.taken != expected) {
            self.give_up();
            return false;
        }
        self.is_finished = self.hand_over(true);
        self.is_finished
    }

    /// Publishes an incomplete body under another `meta`, which must be as long as the first. Returns false
    /// if no bytes have arrived, or the length of `meta` differs.
    pub fn finish_early(mut self, meta: &[u8]) -> bool {
        if self.ticket.is_given_up() || self.taken == 0 || meta.len() != self.ticket.meta_len() {
            return false;
        }
        let is_first = self.ticket.set_late_meta(meta);
        self.is_finished = is_first && self.hand_over(true);
        self.is_finished
    }

    fn hand_over(&mut self, is_last: bool) -> bool {
        let (ticket, bytes) = (Arc::clone(&self.ticket), std::mem::take(&mut self.piece));
        let taken = self.shared.queue.offer(Command::Piece { ticket, bytes, is_last });
        self.has_begun |= taken;
        if !taken {
            self.give_up();
        }
        taken
    }

    fn give_up(&self) {
        if self.ticket.give_up() {
            self.shared.counts.dropped.add(1);
            if self.shared.supersede(self.ticket.hash, self.ticket.id) {
                self.shared.remove(self.ticket.hash);
            }
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.has_begun && !self.is_finished {
            self.shared.queue.add(Command::Abort(self.ticket.id));
        }
    }
}
