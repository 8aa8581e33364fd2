//! The cache groups that stored responses may have, so that invalidations of other groups create no rules.
//!
//! A group becomes known when a response with it may be stored, before any other request can get that response, and stays
//! known until the process ends. An invalidation of an unknown group reaches no stored response; but it has to reach responses
//! that are being fetched, whose groups are not known yet. So for each bucket of origins the last such invalidation is
//! recorded, and the groups of a response whose fetch began before it count as invalidated then, unless they were known
//! already. That may reach a response that was not invalidated, which costs one validation; it never misses one. Groups on
//! disks from earlier processes are not known: with disks, all invalidations create rules.

use std::collections::HashMap;

use super::{Generation, Mark};

/// The most known groups and origins. Beyond, any group may belong to a stored response.
pub const MOST_KNOWN: usize = 1 << 17;
/// The number of buckets of origins, by hash.
const BUCKETS: u64 = 1 << 10;

/// Groups and their origins, by hash.
#[derive(Default)]
pub(super) struct GroupTable {
    /// Whether invalidations of unknown groups are skipped; otherwise all create rules.
    pub(super) is_on: bool,
    /// The generation in which each became known.
    hashes: HashMap<u64, Generation>,
    /// The last invalidation of an unknown group, for each bucket of origins.
    skipped: HashMap<u64, Mark>,
}

impl GroupTable {
    /// Whether a stored response may have this group, or have any group of this origin.
    pub(super) fn may_have(&self, hash: u64) -> bool {
        !self.is_on || self.hashes.len() >= MOST_KNOWN || self.hashes.contains_key(&hash)
    }

    /// Whether a response of `origin` with these groups that was fetched in generation `born` changes nothing here.
    pub(super) fn has(&self, origin: u64, groups: &[u64], born: Generation) -> bool {
        let is_over = |group| {
            let since = self.hashes.get(group);
            since.is_some_and(|since| *since <= born || self.missed(origin, born).is_none())
        };
        !self.is_on || groups.iter().all(is_over)
    }

    /// Makes the groups of a response of `origin` known in generation `now`. Returns the groups that may have
    /// been invalidated since its fetch began, and the latest time of that.
    pub(super) fn insert(
        &mut self,
        origin: u64,
        groups: &[u64],
        born: Generation,
        now: Generation,
    ) -> Vec<(u64, Mark)> {
        let missed = self.missed(origin, born);
        // An invalidation after a group became known has created a separate rule.
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

    /// Returns the last invalidation of an unknown group, if it came after `born`.
    fn missed(&self, origin: u64, born: Generation) -> Option<Mark> {
        self.skipped.get(&(origin % BUCKETS)).copied().filter(|mark| mark.generation > born)
    }

    /// Records an invalidation of an unknown group.
    pub(super) fn skip(&mut self, origin: u64, mark: Mark) {
        let last = self.skipped.entry(origin % BUCKETS).or_insert(mark);
        *last = mark.max(*last);
    }

    /// Removes invalidations that are no later than `mark`.
    pub(super) fn forget(&mut self, mark: Mark) {
        self.skipped.retain(|_, skipped| *skipped > mark);
    }
}
