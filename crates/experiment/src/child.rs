//! A child process of an experiment: a Larder, or another instance of this program, on free ports of loopback. It ends
//! when this value is dropped.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::Halt;
use super::subprocess::Subprocess;

/// The maximum time between the end of a child's connections and the end of the child.
const LAST_MOMENTS: Duration = Duration::from_millis(500);

/// A child process with its output.
pub(super) struct ChildProcess {
    /// The command line that a user would type for it.
    name: String,
    child: Subprocess,
    said: Vec<String>,
}

impl ChildProcess {
    /// Starts `program` with the subcommand in its `name`, such as `larder serve`, and with `words`. Waits for the line
    /// that `is_ready` accepts. Fails if it does not start; the error contains its output.
    pub(super) fn start(
        program: &Path,
        name: &str,
        words: &[&OsStr],
        is_ready: impl Fn(&str) -> bool,
    ) -> Result<Self, Halt> {
        let failed = |error| Halt::because(&format!("cannot start {name}"), error);
        let mut command = Subprocess::ours(program);
        command.args(name.split(' ').skip(1)).args(words).env("LARDER_LOG", "warn").env_remove("RUST_LOG");
        let mut child = Subprocess::start(&mut command).map_err(failed)?;
        let output = child.output();
        let mut running = Self { name: name.to_owned(), child, said: Vec::new() };
        for line in BufReader::new(output.ok_or_else(|| running.ended("it has no output"))?).lines() {
            let line = line.map_err(failed)?;
            let is_last = is_ready(&line);
            running.said.push(line);
            if is_last {
                return Ok(running);
            }
        }
        Err(running.ended("it ended before it served"))
    }

    /// Returns the last line that it printed before it was ready.
    pub(super) fn said(&self) -> &str {
        self.said.last().map_or("", |line| line.trim())
    }

    /// Returns the address that it printed between `before` and `after`. Fails if it did not print the address.
    pub(super) fn address(&self, before: &str, after: &str) -> Result<SocketAddr, Halt> {
        let mut addresses =
            self.said.iter().filter_map(|line| line.strip_prefix(before)?.strip_suffix(after));
        let address = addresses.next().and_then(|address| address.parse().ok());
        address.ok_or_else(|| self.ended(&format!("it did not print an address{after}")))
    }

    /// Returns its process ID.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns `halt`, extended by the child's last output if the child has ended.
    pub(super) fn explain(&mut self, halt: Halt) -> Halt {
        let Halt::Failed(why) = &halt else { return halt };
        let begun = Instant::now();
        // The child's connections break shortly before it ends.
        while begun.elapsed() < LAST_MOMENTS {
            match self.child.ended() {
                Ok(Some(status)) => return self.ended(&format!("{why}; it ended with {status}")),
                Ok(None) => thread::sleep(Duration::from_millis(5)),
                Err(_) => break,
            }
        }
        halt
    }

    /// Returns an error with the reason and the child's last output.
    pub(super) fn ended(&self, why: &str) -> Halt {
        let complaint = self.child.last_line();
        let said = if complaint.is_empty() { String::new() } else { format!("; it said: {complaint}") };
        Halt::Failed(format!("{}: {why}{said}", self.name))
    }
}
