//! A short description of the measuring machine, for comparisons.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use jiff::Zoned;
use serde::{Deserialize, Serialize};

/// The machine and the program of measurements, recorded with the first of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Processor cores.
    pub cores: usize,
    /// Names and values for display.
    pub facts: Vec<(String, String)>,
}

/// Returns the current state of this machine, and the measured program.
pub(super) fn describe(program: &Path) -> Host {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let after = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let processor = after(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".to_owned());
    let memory = after(&read("/proc/meminfo"), "MemTotal");
    let memory = memory.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    let system = rustix::system::uname();
    let word = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let build = if cfg!(debug_assertions) { "debug, slower than a release" } else { "release" };
    let facts = [
        ("measured", Zoned::now().strftime("%-d %B %Y").to_string()),
        ("processor", format!("{processor}, {cores} cores available")),
        (
            "memory",
            memory.map_or_else(|| "unknown".to_owned(), |kib| format!("{:.1} GiB", kib / 1_048_576.0)),
        ),
        ("system", format!("{} {}", word(system.sysname()), word(system.release()))),
        ("larder", format!("{} ({build})", env!("CARGO_PKG_VERSION"))),
        (
            "commit",
            commit(program).unwrap_or_else(|| "unknown: the program is not in a repository".to_owned()),
        ),
        ("load at the start", load(&read("/proc/loadavg"), cores)),
        ("network", "loopback; origin and clients on the same machine".to_owned()),
    ];
    Host { cores, facts: facts.map(|(name, value)| (name.to_owned(), value)).to_vec() }
}

/// Returns the commit of the source tree that contains the program, with a mark if files differ from it.
fn commit(program: &Path) -> Option<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(program.parent()?).args([
        "describe",
        "--always",
        "--dirty",
        "--abbrev=12",
        "--exclude=*",
    ]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let commit = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !commit.is_empty()).then_some(commit)
}

/// Returns the number of runnable processes in the last minute, which shows whether other processes interfered.
fn load(averages: &str, cores: usize) -> String {
    match averages.split(' ').next() {
        Some(minute) if !minute.is_empty() => {
            format!("{minute} runnable programs on {cores} cores, on average over the minute before")
        }
        _ => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_told_in_words() {
        assert_eq!(
            load("0.52 0.30 0.10 1/200 77", 2),
            "0.52 runnable programs on 2 cores, on average over the minute before"
        );
        assert_eq!(load("", 2), "unknown");
    }

    #[test]
    fn a_machine_has_names_and_values() {
        let host = describe(Path::new("/nowhere/larder"));
        assert!(host.cores > 0);
        assert!(host.facts.iter().all(|(name, value)| !name.is_empty() && !value.is_empty()));
        assert!(host.facts.iter().any(|(name, value)| name == "commit" && value.starts_with("unknown")));
    }
}
