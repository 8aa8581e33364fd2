//! Child processes of a test or a measurement, and data from `/proc` about any process.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::{TcpStream, ToSocketAddrs};
use std::ops::{Deref, DerefMut};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The pause between two polls. It is short, because it is part of the measured time of a start.
const PAUSE: Duration = Duration::from_millis(1);

/// A running program. It is killed when this value is dropped.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts `command`.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        command.spawn().map(Self)
    }

    /// Waits until the program accepts connections at all of `places`.
    ///
    /// # Errors
    /// If it ends before that, or if that takes longer than `patience`.
    pub fn listens(&mut self, places: &[impl ToSocketAddrs], patience: Duration) -> io::Result<()> {
        let begun = Instant::now();
        while places.iter().any(|place| TcpStream::connect(place).is_err()) {
            if let Some(status) = self.try_wait()? {
                return Err(io::Error::other(format!("it ended before it listened ({status})")));
            }
            if begun.elapsed() > patience {
                return Err(io::Error::other(format!("it does not listen after {} s", patience.as_secs())));
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Reads the lines of its standard output, which must be a pipe, up to the first that begins with `last`.
    pub fn said_until(&mut self, last: &str) -> Vec<String> {
        let mut said = Vec::new();
        for line in BufReader::new(self.stdout.take().expect("a pipe")).lines() {
            said.push(line.expect("text"));
            if said.last().is_some_and(|line| line.starts_with(last)) {
                break;
            }
        }
        said
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self), signal).expect("it runs");
    }

    /// Kills the process if it still runs, and waits for its end.
    pub fn end(&mut self) {
        let _ = self.kill();
        let _ = self.wait();
    }
}

impl Deref for Process {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns the children that a process has at this moment, for all of its threads.
pub fn children(process: u32) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let texts = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    texts
        .flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|id| Pid::from_raw(id.parse().ok()?))
        .collect()
}

/// Returns the process that serves now, as `larder upgrade` has `said`.
pub fn successor(said: &str) -> Option<Pid> {
    said.strip_prefix("process ").and_then(|rest| Pid::from_raw(rest.split(' ').next()?.parse().ok()?))
}

/// Whether a process has ended with all its threads, even if its parent has not collected its status.
pub fn is_over(process: Pid) -> bool {
    let folder = format!("/proc/{}", process.as_raw_nonzero());
    let stat = fs::read_to_string(format!("{folder}/stat"));
    let is_zombie =
        stat.map_or(true, |stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')));
    // The first thread may have ended before others, which still have the sockets.
    is_zombie && fs::read_dir(format!("{folder}/task")).map_or(true, |threads| threads.count() <= 1)
}

/// Returns the resident memory of a process in bytes.
///
/// # Errors
/// If the process has ended.
pub fn resident(process: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.map(|kilobytes| kilobytes << 10).ok_or_else(|| io::Error::other("it has no memory"))
}
