//! The changes of the tier since an upgrade has begun to copy it, so that the copy can be corrected.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::{Memory, UsedResident};

/// The changes so far; no changes are noted before an upgrade.
#[derive(Debug, Default)]
pub(super) struct Changes {
    is_on: AtomicBool,
    noted: Mutex<Noted>,
}

/// Changes of the tier.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    /// Everything was removed. The other changes came later.
    pub(crate) is_cleared: bool,
    /// The keys whose responses changed, and whether a change has removed or invalidated some.
    pub(crate) keys: HashMap<Box<[u8]>, bool>,
}

impl Changes {
    /// Whether an upgrade copies the tier.
    #[inline]
    pub(super) fn are_noted(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Notes a change of the responses under `key`. To be called while the key's shard is locked: a copy of the shard has
    /// the change, or its change is noted.
    #[inline]
    pub(super) fn note(&self, key: &[u8], is_removal: bool) {
        if self.are_noted() {
            *self.noted.lock().keys.entry(key.into()).or_default() |= is_removal;
        }
    }

    pub(super) fn note_clear(&self) {
        if self.are_noted() {
            *self.noted.lock() = Noted { is_cleared: true, ..Noted::default() };
        }
    }
}

impl Memory {
    /// Notes changes from now on, or stops that, and forgets those noted before.
    pub(crate) fn note_changes(&self, is_on: bool) {
        self.changes.is_on.store(is_on, Ordering::Release);
        self.take_changes();
    }

    /// Returns the changes since the last call.
    pub(crate) fn take_changes(&self) -> Noted {
        std::mem::take(&mut *self.changes.noted.lock())
    }

    /// Notes that `kept` is being stored or replaced.
    pub(super) fn note_changed(&self, kept: &UsedResident) {
        if let Some(entry) = kept.variants().first() {
            self.changes.note(entry.key(), false);
        }
    }
}
