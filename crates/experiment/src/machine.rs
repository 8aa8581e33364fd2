//! A short description of the measuring machine, for comparisons.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

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

/// Returns the commit in the description of a machine and a program.
pub(super) fn commit_of(host: &Host) -> Option<&str> {
    host.facts.iter().find(|(name, _)| name == "commit").map(|(_, commit)| commit.as_str())
}

/// The processor time that this machine has spent until a moment, and the part of this process and its ended children.
#[derive(Clone, Copy, Debug)]
pub struct SpentTime {
    at: Instant,
    /// In ticks of the kernel's clock.
    all: u64,
    own: u64,
}

impl SpentTime {
    /// Returns the times until now; all are 0 if the kernel does not tell them.
    pub fn now() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (all, own) = (all_ticks(&read("/proc/stat")), own_ticks(&read("/proc/self/stat")));
        Self { at: Instant::now(), all: all.unwrap_or(0), own: own.unwrap_or(0) }
    }

    /// Returns the processor time of other programs since this moment, in cores.
    pub fn of_others(&self) -> f64 {
        let now = Self::now();
        let own = now.own.saturating_sub(self.own);
        let ticks = now.all.saturating_sub(self.all).saturating_sub(own);
        let seconds = (now.at - self.at).as_secs_f64() * rustix::param::clock_ticks_per_second() as f64;
        larder_lab::replay::ratio(ticks as f64, seconds)
    }
}

/// Returns the busy time of all cores from `/proc/stat`: of user, nice, system, irq, softirq and steal.
fn all_ticks(stat: &str) -> Option<u64> {
    let numbers = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let numbers: Vec<u64> = numbers.map_while(|number| number.parse().ok()).collect();
    Some(numbers.get(..3)?.iter().chain(numbers.get(5..8)?).sum())
}

/// Returns the time of a process and its ended children from its `stat`: fields 14 to 17.
fn own_ticks(stat: &str) -> Option<u64> {
    // The name before the last bracket may contain blanks.
    let numbers = stat.rsplit_once(')')?.1.split_whitespace().skip(11).take(4);
    numbers.map(|number| number.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn waiting_is_no_load_and_children_are_no_other_programs() {
        assert_eq!(all_ticks("cpu  1 2 4 800 1600 8 16 32 64 128\ncpu0 9"), Some(1 + 2 + 4 + 8 + 16 + 32));
        let stat = "7 (a ) b) R 1 1 1 0 -1 0 5 5 5 5 100 20 3 4 20 0 1";
        assert_eq!(own_ticks(stat), Some(127));
        assert_eq!((all_ticks(""), own_ticks("")), (None, None));
    }

    #[test]
    fn a_busy_program_beside_this_one_is_load_of_others() {
        let begun = SpentTime::now();
        let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        while begun.at.elapsed() < Duration::from_secs(1) {
            thread::yield_now();
        }
        // As long as it runs, the kernel does not count it to this process.
        let load = begun.of_others();
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert!(load > 0.1, "{load} cores");
    }

    #[test]
    fn a_machine_has_names_and_values() {
        let host = describe(Path::new("/nowhere/larder"));
        assert!(host.cores > 0);
        assert!(host.facts.iter().all(|(name, value)| !name.is_empty() && !value.is_empty()));
        assert!(host.facts.iter().any(|(name, value)| name == "commit" && value.starts_with("unknown")));
    }
}
