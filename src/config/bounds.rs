//! The bounds of values that both the file and flags set.

use std::ops::RangeInclusive;

/// How many worker threads there may be.
pub(crate) const THREADS: RangeInclusive<u64> = 1..=1_024;
/// How many bytes the memory tier may have: up to what a process can address.
pub(crate) const MEMORY: RangeInclusive<u64> = 1..=1 << 47;
/// How many bytes a directory of the disk tier may have.
pub(crate) const DISK: RangeInclusive<u64> = 1 << 20..=1 << 47;
/// How many entries the memory tier may have: its slots are 32 bits wide.
pub(crate) const ENTRIES: RangeInclusive<u64> = 1..=u32::MAX as u64 - 1;
