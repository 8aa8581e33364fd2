//! State beside stored responses that a successor takes: each kind is a part of its own, with its own version.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use larder_store::purges;

use super::frame::Sink;
use crate::base::clock;
use crate::features::credentials;
use crate::flow::worker::ProcessState;
use crate::net::limiter::Limiter;

/// A kind of state.
pub(super) struct Kind {
    /// The name of its part.
    pub(super) name: &'static str,
    /// The version of its encoding.
    pub(super) version: u32,
    /// Whether it contains hashes of cache keys.
    pub(super) has_hashes: bool,
    copy: fn(&ProcessState) -> Vec<u8>,
    /// Restores a copy, before this process serves. Returns `None`, and changes nothing, if the copy is malformed.
    pub(super) restore: fn(&ProcessState, &[u8]) -> Option<()>,
}

/// The purges in force.
pub(super) const PURGES: Kind = Kind {
    name: "purges",
    version: purges::COPY_VERSION,
    has_hashes: false,
    copy: |shared| shared.cache.store.purges.copy().1,
    restore: |shared, copy| shared.cache.store.purges.restore_copy(copy),
};

/// The doubts about changes with an unknown result.
pub(super) const DOUBTS: Kind = Kind {
    name: "doubts",
    version: 2,
    has_hashes: true,
    copy: |shared| pairs(shared.cache.doubts.all()),
    restore: |shared, copy| each_pair(copy, |doubt| shared.cache.doubts.restore(doubt)),
};

const LIMITS: Kind =
    Kind { name: "limits", version: 1, has_hashes: false, copy: copy_limits, restore: restore_limits };

const HIT_FOR_MISS: Kind = Kind {
    name: "hit-for-miss",
    version: 1,
    has_hashes: true,
    copy: |shared| {
        let marks = shared.cache.hit_for_miss.marks(clock::now());
        pairs(marks.map(|(hash, until)| (hash, u64::from(until))))
    },
    restore: |shared, copy| {
        each_pair(copy, |(hash, until)| shared.cache.hit_for_miss.mark(hash, until as u32))
    },
};

const HISTORIES: Kind = Kind {
    name: "histories",
    version: 1,
    has_hashes: true,
    copy: |shared| pairs(shared.cache.histories.all()),
    restore: |shared, copy| each_pair(copy, |history| shared.cache.histories.restore(history)),
};

const HINTS: Kind = Kind {
    name: "hints",
    version: larder_store::handover::VERSION,
    has_hashes: false,
    copy: |shared| shared.cache.store.copy_hints(),
    restore: |shared, copy| shared.cache.store.restore_hints(copy).ok(),
};

/// The predictions of next requests. They may miss the last ones, so they are sent before the cut.
pub(super) const PREDICTIONS: Kind = Kind {
    name: "predictions",
    version: larder_predict::COPY_VERSION,
    has_hashes: true,
    copy: |shared| shared.cache.prefetches.copy(),
    restore: |shared, copy| shared.cache.prefetches.restore(copy),
};

/// The kinds that are sent at the cut, in this order.
pub(super) const KINDS: [Kind; 6] = [PURGES, DOUBTS, LIMITS, HIT_FOR_MISS, HISTORIES, HINTS];

impl Kind {
    /// Sends a copy.
    pub(super) fn send(&self, shared: &ProcessState, sink: &mut impl Sink) -> io::Result<()> {
        sink.part(self.name, self.version, |out| out.write_all(&(self.copy)(shared)))
    }

    /// Restores a copy of this version. Returns false, and changes nothing, if it cannot be read.
    pub(super) fn take(&self, shared: &ProcessState, version: u32, copy: &[u8]) -> bool {
        version == self.version && (self.restore)(shared, copy).is_some()
    }
}

/// Returns pairs of numbers as bytes.
fn pairs(pairs: impl Iterator<Item = (u64, u64)>) -> Vec<u8> {
    pairs.flat_map(|(one, other)| [one, other].map(u64::to_le_bytes)).flatten().collect()
}

/// Passes each pair of numbers to `take`.
fn each_pair(copy: &[u8], mut take: impl FnMut((u64, u64))) -> Option<()> {
    let (numbers, []) = copy.as_chunks() else { return None };
    let (pairs, []) = numbers.as_chunks() else { return None };
    pairs.iter().for_each(|[one, other]| take((u64::from_le_bytes(*one), u64::from_le_bytes(*other))));
    Some(())
}

/// Returns, for each limit, its name and its buckets, each behind its length in 4 bytes.
fn copy_limits(shared: &ProcessState) -> Vec<u8> {
    let (now, mut copy) = (Instant::now(), Vec::new());
    for (name, limiter) in shared.plan().limits().chain([passwords()]) {
        for part in [name.into_bytes(), limiter.copy(now)] {
            copy.extend((part.len() as u32).to_le_bytes());
            copy.extend(part);
        }
    }
    copy
}

fn restore_limits(shared: &ProcessState, mut copy: &[u8]) -> Option<()> {
    let (now, plan) = (Instant::now(), shared.plan());
    // Equal limits of rules without a name follow each other.
    let mut own: Vec<_> = plan.limits().chain([passwords()]).collect();
    let mut copied = Vec::new();
    while !copy.is_empty() {
        copied.push((run(&mut copy)?, run(&mut copy)?));
    }
    for (name, buckets) in copied {
        if let Some(at) = own.iter().position(|(own, _)| own.as_bytes() == name) {
            own.remove(at).1.restore(buckets, now)?;
        }
    }
    Some(())
}

/// Returns the limit on wrong passwords.
fn passwords<'l>() -> (String, &'l Arc<Limiter>) {
    ("passwords".to_owned(), credentials::failures())
}

/// Takes bytes behind their length in 4 bytes.
fn run<'c>(copy: &mut &'c [u8]) -> Option<&'c [u8]> {
    let (len, rest) = copy.split_first_chunk()?;
    let (run, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    *copy = rest;
    Some(run)
}
