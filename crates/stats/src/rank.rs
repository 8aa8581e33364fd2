//! The scheduling priority of the writing thread.

use std::mem::size_of;

use rustix::process::{getpriority_process, setpriority_process};

/// The `nice` value of the writing thread, which reduces its share of the processor.
const NICENESS: i32 = 10;
/// Its time slice in nanoseconds, the longest that the kernel allows. A waking thread with a shorter slice
/// preempts it at once.
const SLICE: u64 = 100_000_000;
/// `SCHED_FLAG_KEEP_POLICY`: the user may have chosen a policy.
const KEEP_POLICY: u64 = 0x08;

/// `sched_attr` of sched_setattr(2), of its first version.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Gives requests precedence over the calling thread, and over threads that it starts, where processors are few.
/// Kernels before Linux 6.12 do not support slices: there requests take precedence with the next tick of the clock.
pub(crate) fn stand_back() {
    // The niceness never decreases.
    let nice = getpriority_process(None).unwrap_or(0).max(NICENESS);
    let _ = setpriority_process(None, nice);
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        flags: KEEP_POLICY,
        nice,
        runtime: SLICE,
        ..Attributes::default()
    };
    // No library wraps this call for threads without a real-time policy.
    // SAFETY: the kernel reads `size` bytes, which exist, and keeps no reference. Where the call does not
    // exist or is forbidden, it returns an error and has no effect.
    let _ = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_thread_that_stands_back_does_so_with_all_that_it_starts() {
        let niceness = || {
            let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
            stat.rsplit_once(')').unwrap().1.split_whitespace().nth(16).unwrap().parse::<i32>().unwrap()
        };
        let before = niceness();
        let seen = std::thread::spawn(move || {
            stand_back();
            [niceness(), std::thread::spawn(niceness).join().unwrap()]
        });
        assert_eq!(seen.join().unwrap(), [before.max(NICENESS); 2]);
        assert_eq!(niceness(), before);
    }
}
