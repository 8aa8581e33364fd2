//! Keeps the process near the budget when the allocator needs more memory than the stored responses.
//!
//! An allocator returns a page to the kernel once all of it is free. Where the sizes of responses change, a
//! few remaining responses of the old sizes occupy pages that responses of the new sizes cannot use. Then the
//! stored responses stay within the budget, but the process exceeds it. So the tier withholds a part of its
//! capacity as long as this lasts.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Memory;

/// The memory beyond the budget that may be held without being used: a sixteenth of the budget, and 8 MiB.
/// Freed pages that the allocator has not returned yet come on top.
const SPARE_SHARE: u64 = 16;
const SPARE_LEAST: u64 = 8 << 20;
/// The largest part of the capacity that is withheld, as a fraction.
const WITHHELD_MOST: (u64, u64) = (7, 8);
/// The divisor for the part of the capacity by which it changes at once. A shard is locked while it evicts as
/// much, about a millisecond.
const STEP_SHARE: u64 = 32;

/// Bytes of the capacity that are withheld.
#[derive(Debug, Default)]
pub(super) struct WithheldBytes(AtomicU64);

impl WithheldBytes {
    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Memory {
    /// Whether a part of the capacity is withheld.
    pub fn withholds(&self) -> bool {
        self.withheld.bytes() > 0
    }

    /// Makes room for `unused` bytes in pages that are only partly in use: withholds more of the capacity while these
    /// bytes and the stored responses together clearly exceed the budget, and less otherwise. The caller is expected
    /// to call it several times a second. A capacity that counts entries or content does not change.
    pub fn make_room(&self, unused: u64) {
        self.settle();
        if !self.budget.is_whole() {
            return;
        }
        let usage = self.usage();
        let (held, kept) = (usage.bytes + usage.filling + unused, self.budget.kept());
        let before = self.withheld.bytes();
        let after = withheld(before, held, self.budget.capacity.amount, kept).min(unused);
        if after != before {
            self.withheld.0.store(after, Ordering::Relaxed);
            self.shards.set_amount(kept - after);
            self.fit();
        }
    }
}

/// Returns the bytes to withhold of a capacity of `kept` bytes, after `before`, when `held` bytes are held
/// under `budget`.
fn withheld(before: u64, held: u64, budget: u64, kept: u64) -> u64 {
    let (most, step) = (kept / WITHHELD_MOST.1 * WITHHELD_MOST.0, kept / STEP_SHARE);
    let allowed = budget + budget / SPARE_SHARE + SPARE_LEAST;
    if held > allowed {
        return (before + (held - allowed).min(step)).min(most);
    }
    before - before.min(((allowed - held) / 4).min(step))
}

#[cfg(test)]
mod tests {
    use super::withheld;

    const MIB: u64 = 1 << 20;

    #[test]
    fn room_beyond_the_budget_is_withheld_step_by_step_and_returned() {
        let (budget, kept) = (256 * MIB, 224 * MIB);
        for (before, held, after) in [
            (0, 256, 0),
            (0, 280, 0),
            (0, 281, 1),
            (3, 286, 9),
            (3, 999, 10),
            (196, 999, 196),
            (8, 280, 8),
            (8, 276, 7),
            (8, 100, 1),
            (1, 100, 0),
        ] {
            let found = withheld(before * MIB, held * MIB, budget, kept);
            assert_eq!(found, after * MIB, "{before} MiB before, {held} MiB held");
        }
    }
}
