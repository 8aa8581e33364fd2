//! Iterates over all residents in slices while requests are served, so that no request waits for long.
//!
//! A shard is locked while the walk takes references to some residents, and while it removes residents. In
//! between, while it examines a resident or frees its memory, no lock is held.

use std::thread;
use std::time::Duration;

use super::shards::Shard;
use super::{Memory, Resident, UsedResident, Uses};
use crate::Entry;

/// Slots of a shard that are visited under its lock: a few microseconds.
const SLICE: u32 = 64;
/// Pause before the next slice, in which shard and processor are free for requests.
pub(super) const REST: Duration = Duration::from_micros(100);

/// The uses of the responses stored under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyUsage {
    /// The time of the last request for it (UNIX seconds).
    pub last: u32,
    /// The number of hits.
    pub hits: u32,
    /// The number of hits since the latest of its responses was stored or validated.
    pub lately: u32,
}

impl KeyUsage {
    fn of(kept: &UsedResident) -> Self {
        let Uses { last, hits, earlier } = kept.uses();
        Self { last: last.get(), hits: hits.get(), lately: hits.get().saturating_sub(earlier.get()) }
    }
}

/// A copy of a resident at the time of the visit.
struct VisitedResident {
    hash: u64,
    resident: Resident,
    used: KeyUsage,
}

impl Memory {
    /// Returns the responses stored under `key` and their uses, without counting a use.
    pub fn used(&self, key: &[u8]) -> Option<(Resident, KeyUsage)> {
        self.settle();
        let hash = self.hash(key);
        let shard = self.shard(hash);
        let kept = shard.peek(hash).filter(|kept| kept.is_for(key))?;
        Some((kept.resident(), KeyUsage::of(kept)))
    }

    /// Returns the keyed hash of the variant of `key` with this signature.
    pub fn variant(&self, key: &[u8], signature: &[u8]) -> u64 {
        self.hash(&[key, signature].concat())
    }

    /// Passes the responses stored under each key, and their uses, to `see`. Responses stored meanwhile may
    /// be missed, or be shown twice if they replace others.
    pub fn list(&self, see: &mut dyn FnMut(&Resident, KeyUsage)) {
        self.walk(&mut |_, slice| slice.iter().for_each(|met| see(&met.resident, met.used)));
    }

    /// Removes the URLs for which `dies` returns true; it gets the variants and the time of their last request (UNIX
    /// seconds). Responses that replaced them meanwhile stay. Returns the number of URLs examined.
    pub fn prune(&self, dies: &mut dyn FnMut(&[Entry], u32) -> bool) -> u64 {
        let mut looked = 0;
        self.walk(&mut |shard, mut slice| {
            looked += slice.len() as u64;
            slice.retain(|met| dies(met.resident.variants(), met.used.last));
            self.take_out(shard, &slice);
        });
        looked
    }

    fn walk(&self, see: &mut dyn FnMut(&Shard, Vec<VisitedResident>)) {
        self.settle();
        for shard in self.shards.iter() {
            let mut next = Some(0);
            while let Some(from) = next {
                let mut slice = Vec::new();
                next = self.shards.lock(shard).walk(from, SLICE, &mut |hash, kept| {
                    slice.push(VisitedResident { hash, resident: kept.resident(), used: KeyUsage::of(kept) });
                });
                see(shard, slice);
                if next.is_some() {
                    thread::sleep(REST);
                }
            }
        }
    }

    /// Removes those that are still stored.
    fn take_out(&self, shard: &Shard, dead: &[VisitedResident]) {
        if dead.is_empty() {
            return;
        }
        let (mut shard, mut dropped) = (self.shards.lock(shard), Vec::with_capacity(dead.len()));
        for met in dead {
            if shard.peek(met.hash).is_some_and(|kept| kept.resident().is(&met.resident)) {
                shard.remove(met.hash, &mut dropped);
            }
        }
        self.unlock(shard, &dropped);
    }
}

impl Resident {
    /// Whether both have the same entries, not merely equal ones.
    pub(super) fn is(&self, other: &Self) -> bool {
        let (one, other) = (self.variants(), other.variants());
        one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.is_same(other))
    }
}
