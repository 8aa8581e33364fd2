//! The time, cheaply: the kernel's coarse clocks, a few milliseconds behind.
//!
//! A cache hit needs to know the second it is; reading the precise clock would cost it more than
//! finding the response.

use rustix::time::{ClockId, clock_gettime};

/// Seconds since the UNIX epoch.
pub(crate) fn now() -> u32 {
    clock_gettime(ClockId::RealtimeCoarse).tv_sec.try_into().unwrap_or(0)
}

/// Milliseconds since some moment before the process started.
pub(crate) fn millis() -> u64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    time.tv_sec as u64 * 1_000 + time.tv_nsec as u64 / 1_000_000
}

/// Milliseconds since the UNIX epoch.
pub(crate) fn unix_millis() -> u64 {
    let time = clock_gettime(ClockId::RealtimeCoarse);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000 + time.tv_nsec as u64 / 1_000_000
}
