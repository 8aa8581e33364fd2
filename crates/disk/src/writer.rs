//! An object that is being written.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::queue::Command;
use crate::record::record_len;
use crate::shared::Shared;

/// Bytes of a body that are handed to the writing thread at once.
const PIECE: usize = 256 << 10;

/// Takes an object's body in pieces. It is published by [`finish`](Self::finish); dropped before that, it
/// changes nothing. An object that is given up takes the older one of its key with it, which it has made out of
/// date. No call waits for the disk.
#[must_use = "an object is stored by `finish`"]
pub struct Writer {
    shared: Arc<Shared>,
    ticket: Arc<Ticket>,
    piece: Vec<u8>,
    taken: u64,
    has_begun: bool,
    is_finished: bool,
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, ticket: Ticket) -> Self {
        let ticket = Arc::new(ticket);
        Self { shared, ticket, piece: Vec::new(), taken: 0, has_begun: false, is_finished: false }
    }

    /// Takes the next bytes of the body. False once the object has been given up, because the queue was full,
    /// it grew too large or longer than it was said to be, its key was removed, or a write failed.
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

    /// Whether so much waits to be written that an object which comes as fast as this one is given up soon.
    pub fn is_behind(&self) -> bool {
        self.shared.queue.is_behind()
    }

    /// Bytes that the disk has taken so far, of all objects: as long as these increase, it works.
    pub fn written(&self) -> u64 {
        self.shared.counts.written_bytes.get()
    }

    /// Whether the object has been given up.
    pub fn is_given_up(&self) -> bool {
        self.ticket.is_given_up()
    }

    /// Says that the body is whole. False if the object has been given up, or is shorter than it was said to
    /// be. Soon after, the object is found, unless the policy refuses it or its key is removed meanwhile.
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

    /// Publishes what has come so far, which is not all that was said, under another `meta`, as long as the first.
    /// False if there is nothing to publish, or `meta` is longer or shorter.
    pub fn finish_early(mut self, meta: &[u8]) -> bool {
        if self.ticket.is_given_up() || self.taken == 0 || meta.len() != self.ticket.meta.len() {
            return false;
        }
        let is_first = self.ticket.late_meta.set(meta.into()).is_ok();
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

/// An object on its way in, as both ends know it.
pub(crate) struct Ticket {
    /// Of two objects of a key, that with the higher number began later.
    pub(crate) id: u64,
    pub(crate) hash: u64,
    pub(crate) key: Box<[u8]>,
    meta: Box<[u8]>,
    /// What takes its place, if the object ends early.
    late_meta: OnceLock<Box<[u8]>>,
    /// Bytes of the body, if they are known.
    pub(crate) expected: Option<u64>,
    /// Seconds since 1970.
    pub(crate) stored: u32,
    pub(crate) cost: u32,
    given_up: Arc<AtomicBool>,
    writing: Arc<Writing>,
}

impl Ticket {
    /// Bytes of a record before its body.
    pub(crate) fn head_len(&self) -> usize {
        crate::record::FIXED + self.key.len() + self.meta.len()
    }

    pub(crate) fn meta(&self) -> &[u8] {
        self.late_meta.get().unwrap_or(&self.meta)
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    /// False if it was given up before.
    pub(crate) fn give_up(&self) -> bool {
        !self.given_up.swap(true, Ordering::AcqRel)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.writing.leave(self.hash, self.id);
    }
}

/// The tickets' numbers, and where each is given up.
type ByHash = HashMap<u64, Vec<(u64, Arc<AtomicBool>)>>;

/// Every object on its way in, so that a removal reaches it: what was removed must not be published after.
#[derive(Default)]
pub(crate) struct Writing {
    next: AtomicU64,
    by_hash: Mutex<ByHash>,
}

/// What a caller says of a new object.
pub(crate) struct Announced<'a> {
    pub(crate) hash: u64,
    pub(crate) key: &'a [u8],
    pub(crate) meta: &'a [u8],
    pub(crate) expected: Option<u64>,
    pub(crate) stored: u32,
    pub(crate) cost: u32,
}

impl Writing {
    /// Above the number of every ticket.
    pub(crate) const ALL: u64 = u64::MAX;

    pub(crate) fn enter(self: &Arc<Self>, new: Announced) -> Ticket {
        let Announced { hash, expected, stored, cost, .. } = new;
        let (id, given_up) = (self.next.fetch_add(1, Ordering::Relaxed), Arc::default());
        self.lock().entry(hash).or_default().push((id, Arc::clone(&given_up)));
        let (key, meta, writing) = (new.key.into(), new.meta.into(), Arc::clone(self));
        Ticket { id, hash, key, meta, late_meta: OnceLock::new(), expected, stored, cost, given_up, writing }
    }

    /// Gives up the objects of `hash` with tickets below `before`.
    pub(crate) fn cancel(&self, hash: u64, before: u64) {
        give_up(self.lock().get(&hash).into_iter().flatten().filter(|(id, _)| *id < before));
    }

    /// Whether an object of `hash` with a ticket below `before` is on its way.
    pub(crate) fn has(&self, hash: u64, before: u64) -> bool {
        self.lock().get(&hash).into_iter().flatten().any(|&(id, _)| id < before)
    }

    pub(crate) fn cancel_all(&self) {
        give_up(self.lock().values().flatten());
    }

    fn leave(&self, hash: u64, id: u64) {
        let mut by_hash = self.lock();
        if let Some(tickets) = by_hash.get_mut(&hash) {
            tickets.retain(|ticket| ticket.0 != id);
            if tickets.is_empty() {
                by_hash.remove(&hash);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, ByHash> {
        self.by_hash.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn give_up<'a>(tickets: impl Iterator<Item = &'a (u64, Arc<AtomicBool>)>) {
    tickets.for_each(|(_, given_up)| given_up.store(true, Ordering::Release));
}
