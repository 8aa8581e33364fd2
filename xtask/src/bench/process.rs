//! The CPU time and the memory of a process and all its descendants, from `/proc`.

use anyhow::{Context, Result};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::time::Duration;

/// The parts of `/proc/PID/stat` that are used.
#[derive(Debug, PartialEq)]
struct Stat {
    parent: u32,
    /// User and system time, in clock ticks.
    ticks: u64,
}

/// Parses a process's own line; its name may contain spaces and brackets, so fields are counted from the last bracket.
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Stat { parent: u32::try_from(number(1)?).ok()?, ticks: number(11)? + number(12)? })
}

/// Returns `root` and its descendants, from a table of parents.
fn descendants(root: u32, parents: &HashMap<u32, u32>) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(parents.iter().filter(|(_, of)| **of == parent).map(|(child, _)| *child));
        next += 1;
    }
    found
}

/// Returns a process and its descendants, at this moment.
pub(super) fn tree(root: u32) -> Result<Vec<u32>> {
    let mut parents = HashMap::new();
    for entry in fs::read_dir("/proc").context("cannot read /proc")?.flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // A process can end between the listing and the reading.
        let stat = fs::read_to_string(entry.path().join("stat")).ok();
        if let Some(stat) = stat.as_deref().and_then(parse_stat) {
            parents.insert(process, stat.parent);
        }
    }
    Ok(descendants(root, &parents))
}

/// Returns a process's command line, or its name if that is empty; an empty text if it has ended.
pub(super) fn command_line(process: u32) -> String {
    let bytes = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// Returns the bytes read from storage for these processes, without reads from the page cache. Fails if one of them has
/// ended, or belongs to another user.
pub(super) fn read_from_storage(processes: &[u32]) -> Result<u64> {
    let mut bytes = 0;
    for process in processes {
        let path = format!("/proc/{process}/io");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("read_bytes:"));
        bytes += line
            .and_then(|line| line.trim().parse::<u64>().ok())
            .with_context(|| format!("no read_bytes in {path}"))?;
    }
    Ok(bytes)
}

/// Returns the user and system time of these processes. Fails if one of them has ended: its time would be missing from
/// the sum.
pub(super) fn cpu_time(processes: &[u32]) -> Result<Duration> {
    let mut ticks = 0;
    for process in processes {
        let path = format!("/proc/{process}/stat");
        let text = fs::read_to_string(&path).with_context(|| format!("process {process} has ended"))?;
        ticks += parse_stat(&text).with_context(|| format!("cannot understand {path}"))?.ticks;
    }
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// Returns the user and system time of the processes that this one has started and waited for.
pub(super) fn children_time() -> Result<Duration> {
    let text = fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
    let fields = text.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect::<Vec<_>>());
    let number = |index: usize| fields.as_ref()?.get(index)?.parse::<u64>().ok();
    let ticks = number(13).zip(number(14)).map(|(user, system)| user + system);
    let ticks = ticks.context("cannot understand /proc/self/stat")?;
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// Returns the resident bytes of the processes in total; shared pages count for each. Fails if one of them has ended.
pub(super) fn resident(processes: &[u32]) -> Result<u64> {
    let sizes = processes.iter().map(|process| larder_testkit::resident(*process));
    sizes.sum::<io::Result<u64>>().context("a process has ended")
}

#[cfg(test)]
mod tests {
    use super::{Stat, command_line, cpu_time, descendants, parse_stat, read_from_storage, resident, tree};
    use std::collections::HashMap;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let text = "7 (a) b (c) S 3 7 7 0 -1 4194560 100 0 0 0 42 8 1 2 20 0 1 0 500 1000 10";
        assert_eq!(parse_stat(text), Some(Stat { parent: 3, ticks: 50 }));
        assert_eq!(parse_stat("7 (a) S"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn a_tree_holds_grandchildren_and_no_strangers() {
        let parents = HashMap::from([(2, 1), (3, 2), (4, 3), (5, 1), (9, 8)]);
        let mut found = descendants(2, &parents);
        found.sort_unstable();
        assert_eq!(found, [2, 3, 4]);
    }

    #[test]
    fn a_child_is_in_this_processes_tree() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // The echoed byte shows that it has started: before that, its command line is empty.
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let own = tree(std::process::id()).unwrap();
        let usage = (cpu_time(&[child.id()]).unwrap(), resident(&[child.id()]).unwrap());
        assert!(read_from_storage(&[child.id()]).is_ok() && !command_line(child.id()).is_empty());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(own.contains(&child.id()));
        assert!(usage.0.as_secs() < 10);
        assert!(cpu_time(&[child.id()]).is_err(), "an ended process has no time to sum");
    }
}
