//! Processes: those that a test or a measurement starts, and what `/proc` says of any.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::{TcpStream, ToSocketAddrs};
use std::ops::{Deref, DerefMut};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Short, because it is part of the time that a start takes.
const PAUSE: Duration = Duration::from_millis(1);

/// A program that was started. It is killed when this is dropped.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts `command`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        command.spawn().map(Self)
    }

    /// Waits until it accepts connections at all of `places`.
    ///
    /// # Errors
    /// When it ends before, or takes longer than `patience`.
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

    /// The lines of its standard output, which is a pipe, up to the first that begins with `last`.
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

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self), signal).expect("it runs");
    }

    /// Ends it at once, if it has not ended by itself.
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

/// The children of a process at this moment, whichever of its threads has started them.
pub fn children(process: u32) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let texts = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    texts
        .flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|id| Pid::from_raw(id.parse().ok()?))
        .collect()
}

/// Whether a process has ended, even if its parent has not collected its status.
pub fn is_over(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    stat.map_or(true, |stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
}

/// Bytes of memory that a process has.
///
/// # Errors
/// When it has ended.
pub fn resident(process: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.map(|kilobytes| kilobytes << 10).ok_or_else(|| io::Error::other("it has no memory"))
}
