//! The machine that measured, in a few words, so that numbers can be compared with others.

use std::fs;
use std::thread;

/// Names and values.
pub(super) fn describe() -> Vec<(&'static str, String)> {
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
        ("network", "loopback; origin and clients on the same machine".to_owned()),
    ]
}
