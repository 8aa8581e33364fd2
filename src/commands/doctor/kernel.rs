//! The kernel: what the proxy needs of it, the queue of new connections, and the clock.

use std::env;
use std::time::UNIX_EPOCH;

use jiff::Timestamp;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::system::uname;

use super::Finding;
use crate::cli::clock;
use crate::config::machine::Machine;

const KERNEL: &str = "kernel";
const QUEUE: &str = "accept queue";
const CLOCK: &str = "clock";

/// The connections that a listener asks the kernel to queue.
const BACKLOG: u32 = 4_096;

/// The files of programs that synchronise the clock, below `/run`, and whether they exist only once it is synchronised.
const KEEPERS: &[(&str, &str)] = &[
    ("run/systemd/timesync/synchronized", "systemd-timesyncd"),
    ("run/chrony/chronyd.pid", "chrony"),
    ("run/chronyd.pid", "chrony"),
    ("run/ntpd.pid", "ntpd"),
];

/// Tries to make a memory file, in which large bodies are kept.
pub(super) fn memory_files() -> Finding {
    let release = uname().release().to_string_lossy().into_owned();
    match memfd_create("larder-doctor", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING) {
        Ok(_) => Finding::ok(KERNEL, format!("Linux {release}, with memory files")),
        Err(error) => Finding::problem(
            KERNEL,
            format!("Linux {release} makes no memory files ({error})"),
            "permit memfd_create in the sandbox or seccomp profile: large bodies are kept in such files",
        ),
    }
}

/// Compares the kernel's limit of connections that wait to be accepted with the limit that listeners ask for.
pub(super) fn queue(machine: &Machine) -> Finding {
    let limit = machine.read("proc/sys/net/core/somaxconn").and_then(|limit| limit.parse().ok());
    match limit.filter(|limit: &u32| *limit < BACKLOG) {
        Some(limit) => Finding::warning(
            QUEUE,
            format!("net.core.somaxconn is {limit}"),
            format!("set it to {BACKLOG}: in a burst of new connections, further ones wait a second or more"),
        ),
        None => Finding::ok(QUEUE, format!("{BACKLOG} connections may wait for each worker")),
    }
}

/// Examines whether the clock is plausible, and whether a program synchronises it.
pub(super) fn clock(machine: &Machine) -> Finding {
    let program = env::current_exe().and_then(|path| path.metadata()?.modified()).ok();
    let made = program.and_then(|time| Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs()));
    judge(machine, clock::now(), made.unwrap_or(0))
}

/// Judges a clock that says `now`, if this program was `made` at that time; both in seconds since 1970.
fn judge(machine: &Machine, now: u64, made: u64) -> Finding {
    // File systems may round times up, and the program may have been made on another machine.
    const TOLERANCE: u64 = 86_400;
    const WHY: &str = "lifetimes and certificates depend on it";
    if now + TOLERANCE < made {
        let now = Timestamp::from_second(now.try_into().unwrap_or(0)).unwrap_or_default();
        let found = format!("it is {now} by the clock, before this program was made");
        return Finding::problem(CLOCK, found, format!("set the clock: {WHY}"));
    }
    match KEEPERS.iter().find(|(file, _)| machine.has(file)) {
        Some((_, program)) => Finding::ok(CLOCK, format!("synchronised by {program}")),
        None if !machine.has("run/systemd/system") => {
            Finding::ok(CLOCK, "no program synchronises it here; in a container, it is that of the host")
        }
        None => Finding::warning(
            CLOCK,
            "no program synchronises it, or it has not yet",
            format!("install chrony, or enable systemd-timesyncd: {WHY}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::commands::doctor::Level;

    #[test]
    fn a_clock_before_the_program_or_without_a_keeper_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine::at(folder.path());
        let level = |now, made| judge(&machine, now, made).level;
        assert_eq!(level(1_000_000, 1_700_000_000), Level::Problem);
        assert_eq!(level(1_700_000_000, 1_700_000_000), Level::Ok);
        fs::create_dir_all(folder.path().join("run/systemd/system")).unwrap();
        assert_eq!(level(1_700_000_000, 0), Level::Warning);
        fs::create_dir_all(folder.path().join("run/systemd/timesync")).unwrap();
        fs::write(folder.path().join("run/systemd/timesync/synchronized"), "").unwrap();
        assert_eq!(level(1_700_000_000, 0), Level::Ok);
    }

    #[test]
    fn a_short_accept_queue_is_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("proc/sys/net/core");
        fs::create_dir_all(&directory).unwrap();
        for (limit, level) in [("128\n", Level::Warning), ("4096\n", Level::Ok)] {
            fs::write(directory.join("somaxconn"), limit).unwrap();
            assert_eq!(queue(&Machine::at(folder.path())).level, level);
        }
    }
}
