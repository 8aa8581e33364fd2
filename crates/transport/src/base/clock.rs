//! The time at low cost: the kernel's coarse clocks, which are a few milliseconds behind.
//!
//! A cache hit needs the current second, and reading the precise clock would take longer than the lookup of the
//! response.

use rustix::time::{ClockId, clock_gettime};

/// Returns the seconds since the UNIX epoch.
#[inline]
pub fn now() -> u32 {
    (clock_gettime(ClockId::RealtimeCoarse).tv_sec + skew()).try_into().unwrap_or(0)
}

/// Returns the milliseconds since some moment before the process started.
#[inline]
pub fn millis() -> u64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    time.tv_sec as u64 * 1_000 + time.tv_nsec as u64 / 1_000_000
}

/// Returns the milliseconds since the UNIX epoch.
#[inline]
pub fn unix_millis() -> u64 {
    let time = clock_gettime(ClockId::RealtimeCoarse);
    u64::try_from(time.tv_sec + skew()).unwrap_or(0) * 1_000 + time.tv_nsec as u64 / 1_000_000
}

/// Returns the clock skew of this machine in seconds, as tests of several machines set it, or the skew in the file that a test of
/// long times names, which changes.
#[cfg(debug_assertions)]
fn skew() -> i64 {
    static SKEW: std::sync::LazyLock<Option<String>> =
        std::sync::LazyLock::new(|| std::env::var("LARDER_CLOCK_SKEW").ok());
    let Some(skew) = &*SKEW else { return 0 };
    let seconds = skew.parse().ok();
    seconds.or_else(|| std::fs::read_to_string(skew).ok()?.parse().ok()).unwrap_or(0)
}

/// Release builds have no clock skew.
#[cfg(not(debug_assertions))]
const fn skew() -> i64 {
    0
}
