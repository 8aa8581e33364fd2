//! Properties of the machine that the config needs.

/// Returns the bytes of memory that this process may use: the machine's, or its container's.
pub(super) fn memory() -> u64 {
    let machine = rustix::system::sysinfo();
    let installed = (machine.totalram as u64).saturating_mul(u64::from(machine.mem_unit));
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    limit.and_then(|limit| limit.trim().parse().ok()).map_or(installed, |limit| installed.min(limit))
}
