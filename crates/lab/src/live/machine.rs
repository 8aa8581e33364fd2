//! A short description of the measuring machine, for comparisons.

use std::fs;
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// What this thread has taken of the processor.
pub(super) fn spent_by_thread() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Names and values; its load is that of this moment.
pub fn describe() -> Vec<(&'static str, String)> {
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
    let build = if cfg!(debug_assertions) { "debug, slower than what is released" } else { "release" };
    vec![
        ("processor", format!("{processor}, {cores} to use")),
        (
            "memory",
            memory.map_or_else(|| "unknown".to_owned(), |kib| format!("{:.1} GiB", kib / 1_048_576.0)),
        ),
        ("system", format!("{} {}", word(system.sysname()), word(system.release()))),
        ("larder", format!("{} ({build})", env!("CARGO_PKG_VERSION"))),
        ("load at the start", load(&read("/proc/loadavg"), cores)),
        ("network", "loopback; origin and clients on the same machine".to_owned()),
    ]
}

/// How many programs wanted to run in the last minute, which tells whether others took part.
fn load(averages: &str, cores: usize) -> String {
    match averages.split(' ').next() {
        Some(minute) if !minute.is_empty() => {
            format!("{minute} programs wanted one of {cores} cores in the minute before")
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
            "0.52 programs wanted one of 2 cores in the minute before"
        );
        assert_eq!(load("", 2), "unknown");
    }

    #[test]
    fn a_machine_has_names_and_values() {
        assert!(describe().iter().all(|(name, value)| !name.is_empty() && !value.is_empty()));
    }
}
