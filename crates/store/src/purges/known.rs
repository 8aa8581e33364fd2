//! The cache groups that stored responses may have, so that invalidations of other groups create no rules.
//!
//! A group becomes known when a response with it may be stored, before any other request can get that response, and stays
//! known until the process ends. An invalidation of an unknown group reaches no stored response; but it has to reach responses
//! that are being fetched, whose groups are not known yet. So for each partition of all origins the last such invalidation is
//! recorded, and the groups of a response whose fetch began before it count as invalidated then, unless they were known
//! already. That may reach a response that was not invalidated, which costs one validation; it never misses one. Groups on
//! disks from earlier processes are not known: with disks, all invalidations create rules.

use std::collections::HashMap;

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
    /// The generation in which each became known.
    hashes: HashMap<u64, Generation>,
    /// The last invalidation of a group that was not known, by part.
    skipped: HashMap<u64, Mark>,
}

impl Known {
    /// Whether something that is stored may have a group, or be of an origin and have any.
    pub(super) fn may_have(&self, hash: u64) -> bool {
        !self.is_on || self.hashes.len() >= MOST_KNOWN || self.hashes.contains_key(&hash)
    }

    /// Whether there is nothing to note of a response of `origin` with these groups.
    pub(super) fn has(&self, origin: u64, groups: &[u64], born: Generation) -> bool {
        let is_over = |group| {
            let since = self.hashes.get(group);
            since.is_some_and(|since| *since <= born || self.missed(origin, born).is_none())
        };
        !self.is_on || groups.iter().all(is_over)
    }

    /// Makes the groups of a response of `origin` known in generation `now`. Those that may have been invalidated since its
    /// fetch began, and when that was at the latest.
    pub(super) fn insert(
        &mut self,
        origin: u64,
        groups: &[u64],
        born: Generation,
        now: Generation,
    ) -> Vec<(u64, Mark)> {
        let missed = self.missed(origin, born);
        // An invalidation since a group is known has made a rule of its own.
        let invalidated = |group: &u64| {
            let since = self.hashes.get(group).copied().unwrap_or(Generation::LAST);
            let mark = missed.map(|mark| Mark { generation: mark.generation.min(since), ..mark })?;
            (mark.generation > born).then_some((*group, mark))
        };
        let invalidated = groups.iter().filter_map(invalidated).collect();
        if self.hashes.len() < MOST_KNOWN && !groups.is_empty() {
            for hash in groups.iter().chain([&origin]) {
                self.hashes.entry(*hash).or_insert(now);
            }
        }
        invalidated
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
