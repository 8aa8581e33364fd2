//! The time, cheaply: the kernel's coarse clocks, a few milliseconds behind.
//!
//! A cache hit needs to know the second it is; reading the precise clock would cost it more than
//! finding the response.

use rustix::time::{ClockId, clock_gettime};

/// Seconds since the UNIX epoch.
pub(crate) fn now() -> u32 {
    (clock_gettime(ClockId::RealtimeCoarse).tv_sec + skew()).try_into().unwrap_or(0)
}

/// Milliseconds since some moment before the process started.
pub(crate) fn millis() -> u64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    time.tv_sec as u64 * 1_000 + time.tv_nsec as u64 / 1_000_000
}

/// Milliseconds since the UNIX epoch.
pub(crate) fn unix_millis() -> u64 {
    let time = clock_gettime(ClockId::RealtimeCoarse);
    u64::try_from(time.tv_sec + skew()).unwrap_or(0) * 1_000 + time.tv_nsec as u64 / 1_000_000
}

/// How many seconds the clock of this machine is off, as tests of several machines want it.
#[cfg(debug_assertions)]
fn skew() -> i64 {
    static SKEW: std::sync::LazyLock<i64> = std::sync::LazyLock::new(|| {
        let seconds = std::env::var("LARDER_CLOCK_SKEW").ok();
        seconds.and_then(|seconds| seconds.parse().ok()).unwrap_or(0)
    });
    *SKEW
}

/// What people run has the clock that there is.
#[cfg(not(debug_assertions))]
const fn skew() -> i64 {
    0
}
