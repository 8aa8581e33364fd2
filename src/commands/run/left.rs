//! The processes that a command has left.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process;
use std::thread;
use std::time::Duration;

use super::process::role_in;
use crate::cli::units::counted;
use crate::cli::words::printable;

/// The looks at processes that may be about to end, and the time between two of them.
const LOOKS: usize = 10;
const MOMENT: Duration = Duration::from_millis(20);

/// The processes that a command has left: those whose environment names a file in the directory of its run.
pub(super) struct Left {
    pub(super) folder: PathBuf,
    /// Their names, with their numbers.
    processes: Vec<String>,
}

impl Left {
    pub(super) fn of(folder: PathBuf) -> Self {
        let mark = [folder.as_os_str().as_bytes(), b"/"].concat();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let named = entries.filter_map(|entry| {
            let number = entry.file_name().to_string_lossy().parse::<u32>().ok()?;
            let variables = fs::read(entry.path().join("environ")).ok()?;
            // A proxy may have inherited the mark from a process that has ended.
            let is_left = role_in(&variables).is_none() && number != process::id();
            (is_left && variables.windows(mark.len()).any(|part| part == mark)).then_some(())?;
            let name = fs::read_to_string(entry.path().join("comm")).ok()?;
            Some(format!("{} ({number})", printable(name.trim())))
        });
        Self { processes: named.collect(), folder }
    }

    /// Returns the processes that have not ended within a moment.
    pub(super) fn after_a_moment(folder: PathBuf) -> Self {
        let mut left = Self::of(folder);
        for _ in 1..LOOKS {
            if left.is_empty() {
                break;
            }
            thread::sleep(MOMENT);
            left = Self::of(left.folder);
        }
        left
    }

    pub(super) fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// Returns a line about the processes.
    pub(super) fn told(&self) -> String {
        let named = match self.processes.as_slice() {
            [one] => one.clone(),
            [first, rest @ ..] => {
                format!("{first} and {}", counted(rest.len() as u64, "other process", "other processes"))
            }
            [] => "no process".to_owned(),
        };
        format!(
            "left by this command or an earlier one: {named}; a proxy serves until the end of the last, or the next run"
        )
    }

    pub(super) fn remove_files(&self) {
        // Otherwise the system's cleaning of its directory for temporary files does it.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
