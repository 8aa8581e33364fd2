//! Which cache groups something stored may have, so that answers that invalidate other groups make no rules.
//!
//! A group becomes known when a response that names it may be stored, before anybody else can have that response, and
//! stays known until the process ends. An invalidation of a group that is not known reaches nothing that is stored; but
//! it has to reach responses that are being fetched, whose groups nobody has seen. So for each part of all origins the last
//! such invalidation is remembered, and the groups of a response whose fetch began before it count as invalidated then. That
//! may reach a response that nobody has invalidated, which costs it one validation; it never misses one. What disks
//! hold since earlier processes nobody knows: with disks, all invalidations make rules.

use std::collections::{HashMap, HashSet};

use super::{Generation, Mark};

/// Groups and origins that are known at most. Beyond, any group may be one that something stored has.
pub const MOST_KNOWN: usize = 1 << 17;
/// The parts of all origins, by hash.
const PARTS: u64 = 1 << 10;

/// Groups and their origins, by their hashes.
#[derive(Default)]
pub(super) struct Known {
    /// Whether invalidations are told apart by this; otherwise all make rules.
    pub(super) is_on: bool,
    hashes: HashSet<u64>,
    /// The last invalidation of a group that was not known, by part.
    skipped: HashMap<u64, Mark>,
}

impl Known {
    /// Whether something that is stored may have a group, or be of an origin and have any.
    pub(super) fn may_have(&self, hash: u64) -> bool {
        !self.is_on || self.hashes.len() >= MOST_KNOWN || self.hashes.contains(&hash)
    }

    /// Whether there is nothing to note of a response of `origin` with these groups.
    pub(super) fn has(&self, origin: u64, groups: &[u64], born: Generation) -> bool {
        let are_known = || groups.iter().all(|group| self.hashes.contains(group));
        !self.is_on || (are_known() && self.missed(origin, born).is_none())
    }

    /// Makes the groups of a response of `origin` known. When they may have been invalidated since its fetch began.
    pub(super) fn insert(&mut self, origin: u64, groups: &[u64], born: Generation) -> Option<Mark> {
        if self.hashes.len() < MOST_KNOWN && !groups.is_empty() {
            self.hashes.insert(origin);
            self.hashes.extend(groups);
        }
        self.missed(origin, born)
    }

    /// The last invalidation of a group that was not known, if it came after `born`.
    fn missed(&self, origin: u64, born: Generation) -> Option<Mark> {
        self.skipped.get(&(origin % PARTS)).copied().filter(|mark| mark.generation > born)
    }

    /// Remembers an invalidation of a group that is not known.
    pub(super) fn skip(&mut self, origin: u64, mark: Mark) {
        let last = self.skipped.entry(origin % PARTS).or_insert(mark);
        *last = mark.max(*last);
    }

    /// Forgets invalidations that are no later than `mark`.
    pub(super) fn forget(&mut self, mark: Mark) {
        self.skipped.retain(|_, skipped| *skipped > mark);
    }
}
