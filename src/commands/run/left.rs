//! The processes that a command has left.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use std::{env, fs, process};

use larder_store::private;

use super::process::{arguments, role_in};
use crate::cli::units::counted;
use crate::cli::words::printable;

/// The looks at processes that may be about to end, and the time between two of them.
const LOOKS: usize = 10;
const MOMENT: Duration = Duration::from_millis(20);

/// The name of the file about the last run that has left a process.
const RUN: &str = "run";

/// The processes that a command has left: those whose environment names a file in the directory of its run.
pub(super) struct LeftProcesses {
    pub(super) folder: PathBuf,
    processes: Vec<LeftProcess>,
}

/// A process, by its number and the time of its start, which it keeps under another name.
struct LeftProcess {
    /// Its name, with its number.
    name: String,
    identity: String,
}

impl LeftProcesses {
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
            let times = fs::read_to_string(entry.path().join("stat")).ok()?;
            // Its name, in parentheses, may contain any of them, and spaces. After it comes field 3; the start is field 22.
            let start = times.rsplit(')').next()?.split_whitespace().nth(19)?;
            let name = format!("{} ({number})", printable(name.trim()));
            Some(LeftProcess { name, identity: format!("{number} {start}") })
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
            [one] => one.name.clone(),
            [first, rest @ ..] => {
                format!(
                    "{} and {}",
                    first.name,
                    counted(rest.len() as u64, "other process", "other processes")
                )
            }
            [] => "no process".to_owned(),
        };
        format!(
            "left by this command or an earlier one: {named}; a proxy serves until the end of the last, or the next run"
        )
    }

    /// Returns the directory and the arguments of the last run that has left a process. The run that ends now is it, unless an earlier
    /// one has left them all.
    pub(super) fn run(&self) -> (PathBuf, Vec<OsString>) {
        let file = self.folder.join(RUN);
        let known = fs::read(&file).unwrap_or_default();
        let mut words = known.split(|byte| *byte == 0).map(OsStr::from_bytes);
        let earlier = words.next().unwrap_or_default().to_string_lossy();
        let identities: Vec<_> = self.processes.iter().map(|process| process.identity.as_str()).collect();
        if identities.iter().all(|own| earlier.lines().any(|known| known == *own)) {
            return (words.next().unwrap_or_default().into(), words.map(OsStr::to_owned).collect());
        }
        let (place, arguments) = (env::current_dir().unwrap_or_default(), arguments());
        let processes = OsString::from(identities.join("\n"));
        let words = [&processes, place.as_os_str()].into_iter().map(OsStr::as_bytes);
        let words: Vec<_> = words.chain(arguments.iter().map(|word| word.as_bytes())).collect();
        // If it cannot be kept, the next run takes its own.
        let _ = private::write(&file, &words.join(&0));
        (place, arguments)
    }

    pub(super) fn remove_files(&self) {
        // Otherwise the system's cleaning of its directory for temporary files does it.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
