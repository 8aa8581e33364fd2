//! The bounds of values that both the config file and flags set.

use std::ops::RangeInclusive;

/// The number of worker threads.
pub(crate) const THREADS: RangeInclusive<u64> = 1..=1_024;
/// The bytes of the memory tier: up to the size of a process's address space.
pub(crate) const MEMORY: RangeInclusive<u64> = 1..=1 << 47;
/// The bytes of a directory of the disk tier.
pub(crate) const DISK: RangeInclusive<u64> = 1 << 20..=1 << 47;
/// The entries of the memory tier: its slots are 32 bits wide.
pub(crate) const ENTRIES: RangeInclusive<u64> = 1..=u32::MAX as u64 - 1;
