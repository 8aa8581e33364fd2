//! A child of an experiment: another process of the program, on free ports of loopback, that ends with this value.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::Halt;
use super::subprocess::Subprocess;

/// How long a child may take to end once its connections broke.
const LAST_MOMENTS: Duration = Duration::from_millis(500);

/// A child, and what it said.
pub(super) struct Running {
    /// What a user would type for it.
    name: String,
    child: Subprocess,
    said: Vec<String>,
}

impl Running {
    /// Starts `program` with a subcommand and its `words`, and waits for the line that `is_ready` knows.
    ///
    /// # Errors
    /// When it does not start, with what it said.
    pub(super) fn start(
        program: &Path,
        subcommand: &[&str],
        words: &[&OsStr],
        is_ready: impl Fn(&str) -> bool,
    ) -> Result<Self, Halt> {
        let name = format!("larder {}", subcommand.join(" "));
        let failed = |error| Halt::because(&format!("cannot start {name}"), error);
        let mut command = Subprocess::larder(program);
        command.args(subcommand).args(words).env("LARDER_LOG", "warn").env_remove("RUST_LOG");
        let mut child = Subprocess::start(&mut command).map_err(failed)?;
        let output = child.output();
        let mut running = Self { name: name.clone(), child, said: Vec::new() };
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

    /// The last line that it said before it was ready.
    pub(super) fn said(&self) -> &str {
        self.said.last().map_or("", |line| line.trim())
    }

    /// The address that it named between these words.
    ///
    /// # Errors
    /// When it did not say so.
    pub(super) fn address(&self, before: &str, after: &str) -> Result<SocketAddr, Halt> {
        let mut addresses =
            self.said.iter().filter_map(|line| line.strip_prefix(before)?.strip_suffix(after));
        let address = addresses.next().and_then(|address| address.parse().ok());
        address.ok_or_else(|| self.ended(&format!("it does not say what is{after}")))
    }

    /// Its process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// `halt`, and what the child said last if it has ended.
    pub(super) fn explain(&mut self, halt: Halt) -> Halt {
        let Halt::Failed(why) = &halt else { return halt };
        let begun = Instant::now();
        // Its connections break a moment before it has ended.
        while begun.elapsed() < LAST_MOMENTS {
            match self.child.ended() {
                Ok(Some(status)) => return self.ended(&format!("{why}; it ended with {status}")),
                Ok(None) => thread::sleep(Duration::from_millis(5)),
                Err(_) => break,
            }
        }
        halt
    }

    /// Why it is of no use, and what it said last.
    pub(super) fn ended(&self, why: &str) -> Halt {
        let complaint = self.child.last_line();
        let said = if complaint.is_empty() { String::new() } else { format!("; it said: {complaint}") };
        Halt::Failed(format!("{}: {why}{said}", self.name))
    }
}
