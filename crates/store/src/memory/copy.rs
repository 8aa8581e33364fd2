//! Copies of residents for another memory tier, and the residents of such copies.

use std::sync::atomic::Ordering;

use larder_evict::InsertResult;

use super::resident::{UsedResident, Uses};
use super::{Memory, Resident};
use crate::Entry;

/// Slots of a shard that are visited under its lock.
const SLICE: u32 = 256;

/// A copy of a resident and its uses; its entries are shared, not copied.
pub(crate) struct CopiedResident {
    pub(crate) resident: Resident,
    pub(crate) uses: Uses,
}

impl Memory {
    /// Returns the hashes of all residents, with the one used last at the end. Residents stored meanwhile may be missing.
    pub(crate) fn by_last_use(&self) -> Vec<u64> {
        self.settle();
        self.sorted(&|kept| Some(kept.uses().last.get()))
    }

    /// Returns the hashes of the residents that have a `place`, in the order of their places.
    pub(super) fn sorted<P: Ord>(&self, place: &dyn Fn(&UsedResident) -> Option<P>) -> Vec<u64> {
        let mut all: Vec<(P, u64)> = Vec::new();
        for shard in self.shards.iter() {
            let mut next = Some(0);
            while let Some(from) = next {
                next = self.shards.lock(shard).walk(from, SLICE, &mut |hash, kept| {
                    all.extend(place(kept).map(|place| (place, hash)));
                });
            }
        }
        all.sort_unstable();
        let mut hashes: Vec<_> = all.into_iter().map(|(_, hash)| hash).collect();
        // It has the room of the places, too.
        hashes.shrink_to_fit();
        hashes
    }

    /// Returns a copy of the resident with this hash.
    pub(crate) fn copy(&self, hash: u64) -> Option<CopiedResident> {
        let shard = self.shard(hash);
        shard.peek(hash).map(|kept| CopiedResident { resident: kept.resident(), uses: kept.uses().clone() })
    }

    /// Stores a resident of another tier, in place of the responses with its key, without the admission check. Returns
    /// false if it is too large.
    pub(crate) fn restore(&self, mut variants: Vec<Entry>, uses: Uses) -> bool {
        variants.truncate(self.max_variants.load(Ordering::Relaxed).max(1));
        let Some(hash) = variants.first().map(|entry| self.hash(entry.key())) else { return false };
        let Some(resident) = Resident::of(variants) else { return false };
        let (kept, mut dropped) = (UsedResident::packed(resident, uses), Vec::new());
        let (object, added) = (kept.object(hash, self.budget.counts), self.counts_of(&kept));
        self.make_room_for(object.size);
        let mut shard = self.shard(hash);
        let is_stored = matches!(shard.insert(object, kept, true, &mut dropped), InsertResult::Stored);
        if is_stored {
            self.note_added(added);
        }
        self.unlock(shard, &dropped);
        is_stored
    }
}
