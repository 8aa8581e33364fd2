//! Processes that outlive their command, as the servers of Gradle and Bazel, and the proxy that stays for them.
//!
//! Their settings name the port and the files of the run that has started them. So another process of this program serves there until
//! the last of them has ended, or the next run takes its place.

use std::env;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::setsid;
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;

use super::args::RunArgs;
use super::cache::Cache;
use super::proxy::{Proxy, outlive_signals};
use crate::cli::units::counted;
use crate::cli::words::printable;
use crate::cli::{Failure, WatchAllocator};

/// The time between two looks at the processes.
const BETWEEN: Duration = Duration::from_secs(2);
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
    fn of(folder: PathBuf) -> Self {
        let mark = [folder.as_os_str().as_bytes(), b"/"].concat();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let named = entries.filter_map(|process| {
            let number = process.file_name().to_string_lossy().parse::<u32>().ok()?;
            let variables = fs::read(process.path().join("environ")).ok()?;
            variables.windows(mark.len()).any(|part| part == mark).then_some(())?;
            let name = fs::read_to_string(process.path().join("comm")).ok()?;
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
        format!("left by the command: {named}; a proxy serves until the end of the last, or the next run")
    }

    pub(super) fn remove_files(&self) {
        // Otherwise the system's cleaning of its directory for temporary files does it.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Serves at `port` for as long as a process uses the files in `folder`. Errors: the proxy cannot serve.
pub(super) fn serve(
    args: &RunArgs,
    (port, folder): (u16, PathBuf),
    watch_allocator: WatchAllocator,
) -> Result<(), Failure> {
    let _outlived = outlive_signals();
    let signals = Signals::new([SIGTERM]);
    let mut signals = signals.map_err(|error| Failure::Failed(format!("cannot receive signals: {error}")))?;
    let cache = Cache::linger(args.cache.as_deref(), port).map_err(Failure::Failed)?;
    let proxy = Proxy::start(args, &cache, None, watch_allocator)?;
    // Neither the end of the terminal nor a directory that is to be removed waits for it.
    let _ = setsid();
    let _ = env::set_current_dir("/");
    let (sender, next_run) = mpsc::channel();
    let wait = move || signals.forever().next().map(|_| sender.send(()));
    let _waiting = thread::Builder::new().name("signals".to_owned()).spawn(wait);
    let mut left = Left::of(folder);
    while !left.is_empty() && next_run.recv_timeout(BETWEEN).is_err() {
        left = Left::of(left.folder);
    }
    proxy.end();
    if left.is_empty() {
        left.remove_files();
    }
    cache.linger_no_more();
    Ok(())
}
