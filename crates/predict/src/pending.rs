//! Prefetches in flight, and finished ones whose use is not known yet.

use std::collections::{HashMap, VecDeque};

use crate::Predictor;

/// The maximum number of prefetches that are observed at once.
pub(crate) const MOST: usize = 1_024;
/// The time within which a client has to request the prefetched content, in milliseconds.
pub(crate) const PATIENCE: u64 = 60_000;

/// The identity of a prefetch: a URL, and the first byte of the range; `u64::MAX` for the whole content.
pub(crate) type Key = (u64, u64);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Prefetch {
    pub(crate) kind: Predictor,
    pub(crate) site: u64,
    /// The limit of its content while it runs, and then its actual length, in bytes.
    pub(crate) bytes: u64,
    pub(crate) is_running: bool,
    /// Whether a client used it; `None` until that is known.
    pub(crate) is_used: Option<bool>,
    until: u64,
}

/// All observed prefetches.
#[derive(Debug, Default)]
pub(crate) struct PrefetchWatch {
    all: HashMap<Key, Prefetch>,
    /// Expiry times and keys, in the order of time; some of the prefetches may be gone.
    ends: VecDeque<(u64, Key)>,
}

impl PrefetchWatch {
    pub(crate) fn has_room_for(&self, key: Key) -> bool {
        self.all.len() < MOST && self.ends.len() < 2 * MOST && !self.all.contains_key(&key)
    }

    pub(crate) fn add(&mut self, key: Key, kind: Predictor, site: u64, bytes: u64, now: u64) {
        let until = now.saturating_add(PATIENCE);
        self.all.insert(key, Prefetch { kind, site, bytes, is_running: true, is_used: None, until });
        self.ends.push_back((until, key));
    }

    pub(crate) fn get(&mut self, key: Key) -> Option<&mut Prefetch> {
        self.all.get_mut(&key)
    }

    /// Removes the prefetch if it has ended and its use is known.
    pub(crate) fn settle(&mut self, key: Key) {
        if self.all.get(&key).is_some_and(|prefetch| !prefetch.is_running && prefetch.is_used.is_some()) {
            self.all.remove(&key);
        }
    }

    /// Removes the prefetch without further conditions.
    pub(crate) fn forget(&mut self, key: Key) {
        self.all.remove(&key);
    }

    /// Returns a prefetch that has expired at `now` without use.
    pub(crate) fn expired(&mut self, now: u64) -> Option<Key> {
        while let Some((until, key)) = self.ends.front().copied().filter(|(until, _)| *until <= now) {
            self.ends.pop_front();
            let is_it = |prefetch: &Prefetch| prefetch.until == until && prefetch.is_used.is_none();
            if self.all.get(&key).is_some_and(is_it) {
                return Some(key);
            }
        }
        None
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let entry = size_of::<(Key, Prefetch)>() + 1;
        self.all.capacity() * 8 / 7 * entry + self.ends.capacity() * size_of::<(u64, Key)>()
    }
}
