//! Remembers origins that sent unsolicited bytes. Such bytes could be taken for the response to the next request on the
//! connection, so for a while each connection to these origins carries only one request.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::base::clock;

/// Time for which an origin is remembered, in seconds.
const MEMORY: u32 = 600;
/// Maximum of remembered origins; a new one may take the slot of another.
const SLOTS: usize = 4096;

/// The remembered origins, shared by all workers.
#[derive(Debug)]
pub(super) struct Careless {
    /// The upper half of the origin's hash, and the end of its time (UNIX seconds).
    slots: Box<[AtomicU64]>,
    /// Whether any origin was ever remembered. In most processes none is, and no hash is computed.
    any: AtomicBool,
    hasher: RandomState,
}

impl Default for Careless {
    fn default() -> Self {
        let slots = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        Self { slots, any: AtomicBool::new(false), hasher: RandomState::new() }
    }
}

impl Careless {
    /// Remembers an origin.
    pub(super) fn mark(&self, https: bool, authority: &str) {
        if !self.is_marked(https, authority) {
            tracing::warn!(
                "origin {authority} sent bytes after an answer: for {MEMORY} seconds each of its connections is used once"
            );
        }
        let (slot, tag) = self.slot(https, authority);
        slot.store(tag | u64::from(clock::now().saturating_add(MEMORY)), Ordering::Relaxed);
        self.any.store(true, Ordering::Release);
    }

    /// Whether an origin is remembered.
    pub(super) fn is_marked(&self, https: bool, authority: &str) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let (slot, tag) = self.slot(https, authority);
        let mark = slot.load(Ordering::Relaxed);
        mark & UPPER == tag && (mark & !UPPER) as u32 > clock::now()
    }

    fn slot(&self, https: bool, authority: &str) -> (&AtomicU64, u64) {
        let hash = self.hasher.hash_one((https, authority));
        (&self.slots[hash as usize % SLOTS], hash & UPPER)
    }
}

const UPPER: u64 = 0xffff_ffff_0000_0000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_remembered_for_its_scheme_and_authority() {
        let careless = Careless::default();
        assert!(!careless.is_marked(false, "a:80"));
        careless.mark(false, "a:80");
        let seen =
            [(false, "a:80"), (true, "a:80"), (false, "a:81")].map(|(https, a)| careless.is_marked(https, a));
        assert_eq!(seen, [true, false, false]);
    }
}
