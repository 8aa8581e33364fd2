//! The directory of the cache. Several runs at once have a part of it each: the first that no other run uses.

use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{self, Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use larder_store::private;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

use super::environment::PROXY;
use super::process::is_lingering;
use super::report::Times;
use crate::cli::files::unwritten;

/// The most runs at once.
const MOST: usize = 64;
/// The longest wait for a proxy that lingers, and the time between two looks at it.
const PATIENCE: Duration = Duration::from_secs(5);
const MOMENT: Duration = Duration::from_millis(10);

/// A part of the cache that this run alone uses.
pub(super) struct Cache {
    folder: PathBuf,
    /// Locked until this process ends.
    _lock: File,
}

impl Cache {
    /// Opens the first free part of the cache in `folder`, or in the user's directory for caches. A proxy that lingers there ends. The
    /// error is the reason why there is none, in one line.
    pub(super) fn open(folder: Option<&Path>) -> Result<Self, String> {
        let folder = absolute(folder)?;
        let unmade = |error| {
            format!("cannot use {}: {}; --cache names another directory", folder.display(), unwritten(&error))
        };
        for number in 0..MOST {
            let part = folder.join(number.to_string());
            // A process that an earlier run has left runs this one, behind the proxy that lingers for it.
            if port_in(&part).is_some_and(is_of_environment) {
                continue;
            }
            let mut locked = lock(&part).map_err(unmade)?;
            if locked.is_none() && end_lingering(&part) {
                locked = lock(&part).map_err(unmade)?;
            }
            if let Some(lock) = locked {
                return Ok(Self { folder: part, _lock: lock });
            }
        }
        Err(format!("{MOST} runs use {} already", folder.display()))
    }

    /// Opens the part that a run with this port had, until the next run ends this process. The error is the reason why there is none,
    /// in one line.
    pub(super) fn linger(folder: Option<&Path>, port: u16) -> Result<Self, String> {
        let folder = absolute(folder)?;
        let parts = (0..MOST).map(|number| folder.join(number.to_string()));
        let mut had = parts.filter(|part| port_in(part) == Some(port));
        let free = had.find_map(|part| {
            // A run that finds the part locked knows by whom. If this cannot be written, it takes another part.
            let _ = private::write(&part.join(LINGERING), process::id().to_string().as_bytes());
            Some(Self { _lock: lock(&part).ok()??, folder: part })
        });
        free.ok_or_else(|| format!("no part of {} is for port {port}", folder.display()))
    }

    pub(super) fn linger_no_more(&self) {
        let _ = fs::remove_file(self.folder.join(LINGERING));
    }

    /// Returns the directory for stored responses.
    pub(super) fn responses(&self) -> PathBuf {
        self.folder.join("responses")
    }

    /// Returns the port of the last run.
    pub(super) fn port(&self) -> Option<u16> {
        port_in(&self.folder)
    }

    /// Keeps the port for the next run.
    pub(super) fn keep_port(&self, port: u16) {
        // If it cannot be kept, the next run has another one.
        let _ = private::write(&self.folder.join(PORT), port.to_string().as_bytes());
    }

    /// Returns how long requests to hosts took in earlier runs; nothing if that is not known.
    pub(super) fn times(&self) -> Times {
        let text = fs::read_to_string(self.folder.join(TIMES)).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Returns the hosts, and their ports, that have answered in intercepted tunnels not long before `now`, in UNIX seconds.
    pub(super) fn known(&self, now: u64) -> Vec<String> {
        let known = self.times().into_iter().filter(|(_, times)| times.is_known(now));
        known.map(|(site, _)| site).collect()
    }

    /// Keeps how long requests to hosts took. Errors: the error of the file.
    pub(super) fn keep_times(&self, times: &Times) -> io::Result<()> {
        private::write(&self.folder.join(TIMES), serde_json::to_string(times)?.as_bytes())
    }
}

const TIMES: &str = "times.json";
const PORT: &str = "port";
const LINGERING: &str = "lingering";

fn port_in(part: &Path) -> Option<u16> {
    fs::read_to_string(part.join(PORT)).ok()?.parse().ok()
}

/// Whether the environment names the proxy at this port of this machine.
fn is_of_environment(port: u16) -> bool {
    let address = format!("http://127.0.0.1:{port}");
    PROXY.iter().any(|name| env::var(name).is_ok_and(|url| url.trim_end_matches('/') == address))
}

/// Ends the proxy that lingers in a part, and waits for its end. Whether there was one.
fn end_lingering(part: &Path) -> bool {
    let process = fs::read_to_string(part.join(LINGERING)).ok().and_then(|text| text.parse().ok());
    let Some(process) = process.and_then(Pid::from_raw) else { return false };
    // The number may be that of another process by now.
    let lingers = || is_lingering(process);
    if !lingers() || kill_process(process, Signal::TERM).is_err() {
        return false;
    }
    let end = Instant::now() + PATIENCE;
    while lingers() && Instant::now() < end {
        thread::sleep(MOMENT);
    }
    true
}

/// Returns the lock of a part, which is made if it is not there; `None` if another run holds it.
fn lock(part: &Path) -> io::Result<Option<File>> {
    private::make_directory(part)?;
    let file = private::open(private::options().write(true).create(true), &part.join("run.lock"))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(error) if error == rustix::io::Errno::WOULDBLOCK => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the directory of the caches of all runs: `folder`, or that of this user.
fn absolute(folder: Option<&Path>) -> Result<PathBuf, String> {
    let none = "there is no directory for the cache: set XDG_CACHE_HOME or HOME, or name one with --cache";
    let folder = folder.map(Path::to_owned).or_else(of_user).ok_or(none)?;
    path::absolute(&folder).map_err(|error| format!("cannot use {}: {error}", folder.display()))
}

fn of_user() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(caches.join("larder"))
}

#[cfg(test)]
mod tests {
    use super::Cache;

    #[test]
    fn concurrent_runs_have_a_part_each_the_next_has_the_first() {
        let folder = tempfile::tempdir().expect("a directory");
        let open = || Cache::open(Some(folder.path())).expect("a part");
        let (first, second) = (open(), open());
        assert_ne!(first.responses(), second.responses());
        let place = first.responses();
        drop(first);
        assert_eq!(open().responses(), place);
    }
}
