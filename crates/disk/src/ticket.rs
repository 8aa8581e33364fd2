//! Objects that are being written, shared by their writers and the writing thread.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

/// An object in progress, shared by both threads.
pub(crate) struct Ticket {
    /// The ticket's number: of two objects of a key, the one with the higher number began later.
    pub(crate) id: u64,
    pub(crate) hash: u64,
    pub(crate) key: Box<[u8]>,
    meta: Box<[u8]>,
    /// The replacement of `meta`, if the object ends early.
    late_meta: OnceLock<Box<[u8]>>,
    /// Bytes of the body, if they are known.
    pub(crate) expected: Option<u64>,
    /// The time of storage, in seconds since 1970.
    pub(crate) stored: u32,
    pub(crate) cost: u32,
    given_up: Arc<AtomicBool>,
    writing: Arc<WriteTable>,
}

impl Ticket {
    /// Returns the bytes of a record before its body.
    pub(crate) fn head_len(&self) -> usize {
        crate::record::FIXED + self.key.len() + self.meta.len()
    }

    /// Returns the bytes of `meta`, replaced or not.
    pub(crate) fn meta_len(&self) -> usize {
        self.meta.len()
    }

    /// Replaces `meta` by another of its length. Returns false if it was replaced before.
    pub(crate) fn set_late_meta(&self, meta: &[u8]) -> bool {
        self.late_meta.set(meta.into()).is_ok()
    }

    pub(crate) fn meta(&self) -> &[u8] {
        self.late_meta.get().unwrap_or(&self.meta)
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    /// Gives the object up. Returns false if it was given up before.
    pub(crate) fn give_up(&self) -> bool {
        !self.given_up.swap(true, Ordering::AcqRel)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.writing.leave(self.hash, self.id);
    }
}

/// The tickets' numbers, and the flags that give each up.
type ByHash = HashMap<u64, Vec<(u64, Arc<AtomicBool>)>>;

/// Every object in progress, so that a removal reaches it: a removed object must not be published later.
#[derive(Default)]
pub(crate) struct WriteTable {
    next: AtomicU64,
    by_hash: Mutex<ByHash>,
}

/// The caller's data about a new object.
pub(crate) struct NewObject<'a> {
    pub(crate) hash: u64,
    pub(crate) key: &'a [u8],
    pub(crate) meta: &'a [u8],
    pub(crate) expected: Option<u64>,
    pub(crate) stored: u32,
    pub(crate) cost: u32,
}

impl WriteTable {
    /// A number above that of every ticket.
    pub(crate) const ALL: u64 = u64::MAX;

    pub(crate) fn enter(self: &Arc<Self>, new: NewObject) -> Ticket {
        let NewObject { hash, expected, stored, cost, .. } = new;
        let (id, given_up) = (self.next.fetch_add(1, Ordering::Relaxed), Arc::default());
        self.by_hash.lock().entry(hash).or_default().push((id, Arc::clone(&given_up)));
        let (key, meta, writing) = (new.key.into(), new.meta.into(), Arc::clone(self));
        Ticket { id, hash, key, meta, late_meta: OnceLock::new(), expected, stored, cost, given_up, writing }
    }

    /// Gives up the objects of `hash` with tickets below `before`.
    pub(crate) fn cancel(&self, hash: u64, before: u64) {
        give_up(self.by_hash.lock().get(&hash).into_iter().flatten().filter(|(id, _)| *id < before));
    }

    /// Whether an object of `hash` with a ticket below `before` is in progress.
    pub(crate) fn has(&self, hash: u64, before: u64) -> bool {
        self.by_hash.lock().get(&hash).into_iter().flatten().any(|&(id, _)| id < before)
    }

    pub(crate) fn cancel_all(&self) {
        give_up(self.by_hash.lock().values().flatten());
    }

    fn leave(&self, hash: u64, id: u64) {
        let mut by_hash = self.by_hash.lock();
        if let Some(tickets) = by_hash.get_mut(&hash) {
            tickets.retain(|ticket| ticket.0 != id);
            if tickets.is_empty() {
                by_hash.remove(&hash);
            }
        }
    }
}

fn give_up<'a>(tickets: impl Iterator<Item = &'a (u64, Arc<AtomicBool>)>) {
    tickets.for_each(|(_, given_up)| given_up.store(true, Ordering::Release));
}
