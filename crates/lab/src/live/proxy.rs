//! The program under test: `larder serve` as a child, on free ports of loopback, that ends with this value.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use larder_evict::{By, Capacity};
use serde_json::Value;
use tempfile::TempDir;

use super::Halt;
use super::load::Via;
use super::origin::spent;

/// How long the admin listener may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a child may take to end once its connections broke.
const LAST_MOMENTS: Duration = Duration::from_millis(500);
/// More than any answer of its has, in bytes.
const LARGEST: u64 = 16 << 20;
/// The share of a memory in bytes that responses on their way in have, and stored ones have not: one in so many.
const FILLING: u64 = 8;

/// What the child is to be like.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// What may be stored: for bytes, heads and bookkeeping included.
    pub(crate) capacity: Capacity,
    /// The policy's name.
    pub(crate) policy: String,
    /// How many requests to origins may be under way; nothing for as many as it likes.
    pub(crate) in_flight: Option<usize>,
}

impl Setting {
    /// Room for everything.
    pub(crate) fn roomy() -> Self {
        let capacity = Capacity { by: By::Bytes, amount: 1 << 30 };
        Self { capacity, policy: "lru".to_owned(), in_flight: None }
    }

    /// As its config file says it. One worker, as the reports' servers had.
    pub(crate) fn toml(&self) -> String {
        let memory = match self.capacity.by {
            By::Entries => format!("entries = {}", self.capacity.amount),
            By::Bytes => format!("size = '{}B'", with_filling(self.capacity.amount)),
        };
        let mut text = format!(
            "threads = 1\nadmin = '127.0.0.1:0'\n[memory]\n{memory}\npolicy = '{}'\n[stats]\nurl = 'none'\n\
             [forward]\nlisten = ['127.0.0.1:0']\nallow_private = true\n[onc]\nrpcbind = 'off'\n\
             listen = ['127.0.0.1:0']\n[thrift]\nlisten = ['127.0.0.1:0']\n[line]\nlisten = ['127.0.0.1:0']\n",
            self.policy
        );
        if let Some(in_flight) = self.in_flight {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "[limits]\nin_flight = {in_flight}");
        }
        text
    }
}

/// The size of a memory of which `kept` bytes are left for what is stored.
fn with_filling(kept: u64) -> u64 {
    let near = kept + kept / (FILLING - 1);
    (near.saturating_sub(FILLING)..=near + FILLING).find(|size| size - size / FILLING == kept).unwrap_or(near)
}

/// A running child.
pub(crate) struct Proxy {
    child: Child,
    _directory: TempDir,
    log: Arc<Mutex<String>>,
    said: Vec<String>,
}

impl Proxy {
    /// Starts `program` with `setting`.
    ///
    /// # Errors
    /// When it does not start, with what it said.
    pub(crate) fn start(program: &Path, setting: &Setting) -> Result<Self, Halt> {
        let failed = |error| Halt::because("cannot start larder serve", error);
        let directory = tempfile::tempdir().map_err(failed)?;
        let file: PathBuf = directory.path().join("larder.toml");
        fs::write(&file, setting.toml()).map_err(failed)?;
        let mut command = Command::new(program);
        command.args(["serve", "--config"]).arg(&file).env("LARDER_LOG", "warn").env_remove("RUST_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let log = Arc::new(Mutex::new(String::new()));
        if let Some(lines) = child.stderr.take() {
            let log = Arc::clone(&log);
            thread::spawn(move || keep_last(BufReader::new(lines), &log));
        }
        let output = child.stdout.take();
        let mut proxy = Self { child, _directory: directory, log, said: Vec::new() };
        for line in BufReader::new(output.ok_or_else(|| proxy.ended("it has no output"))?).lines() {
            let line = line.map_err(failed)?;
            let is_last = line.starts_with("try: ");
            proxy.said.push(line);
            if is_last {
                return Ok(proxy);
            }
        }
        Err(proxy.ended("it ended before it served"))
    }

    /// Where it takes requests by `via`.
    ///
    /// # Errors
    /// When it did not say so.
    pub(crate) fn door(&self, via: Via) -> Result<SocketAddr, Halt> {
        let name = match via {
            Via::Http => "forward",
            Via::Thrift => "thrift",
            Via::Onc => "onc",
            Via::Line => "line",
        };
        self.address("listening on ", &format!(" ({name})"))
    }

    fn address(&self, before: &str, after: &str) -> Result<SocketAddr, Halt> {
        let mut addresses =
            self.said.iter().filter_map(|line| line.strip_prefix(before)?.strip_suffix(after));
        let address = addresses.next().and_then(|address| address.parse().ok());
        address.ok_or_else(|| self.ended(&format!("it does not say what is{after}")))
    }

    /// A number of its `/stats`.
    ///
    /// # Errors
    /// When it does not answer, or has no such number.
    pub(crate) fn figure(&self, name: &str) -> Result<u64, Halt> {
        let admin = self.address("admin on http://", "/")?;
        let stats = stats(admin).map_err(|error| self.ended(&format!("its /stats do not come: {error}")))?;
        let missing = || self.ended(&format!("its /stats have no {name}"));
        serde_json::from_str::<Value>(&stats).ok().and_then(|stats| stats[name].as_u64()).ok_or_else(missing)
    }

    /// Waits until no fetch is under way, so that what came is stored.
    ///
    /// # Errors
    /// As [`figure`](Self::figure); or when one does not end.
    pub(crate) fn settle(&self) -> Result<(), Halt> {
        let begun = Instant::now();
        while self.figure("fills")? > 0 {
            if begun.elapsed() > PATIENCE {
                return Err(self.ended("a fetch does not end"));
            }
        }
        Ok(())
    }

    /// What all its threads have taken of the processor so far.
    pub(crate) fn processor(&self) -> Duration {
        threads_spent(self.child.id())
    }

    /// `halt`, and what the child said last if it has ended.
    pub(crate) fn explain(&mut self, halt: Halt) -> Halt {
        let Halt::Failed(why) = &halt else { return halt };
        let begun = Instant::now();
        // Its connections break a moment before it has ended.
        while begun.elapsed() < LAST_MOMENTS {
            match self.child.try_wait() {
                Ok(Some(status)) => return self.ended(&format!("{why}; it ended with {status}")),
                Ok(None) => thread::sleep(Duration::from_millis(5)),
                Err(_) => break,
            }
        }
        halt
    }

    fn ended(&self, why: &str) -> Halt {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let said = if log.is_empty() { String::new() } else { format!("; it said: {log}") };
        Halt::Failed(format!("larder serve: {why}{said}"))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // It may have ended before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What all threads of a process have taken of the processor.
pub(super) fn threads_spent(process: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let one = |thread: fs::DirEntry| spent(&fs::read_to_string(thread.path().join("schedstat")).ok()?);
    threads.filter_map(one).sum()
}

/// The last line of a log, as far as it has come.
fn keep_last(lines: impl BufRead, log: &Mutex<String>) {
    for line in lines.lines().map_while(Result::ok) {
        *log.lock().unwrap_or_else(PoisonError::into_inner) = line;
    }
}

/// HTTP/1.0 asks for an answer that ends with the connection.
fn stats(admin: SocketAddr) -> std::io::Result<String> {
    let mut connection = TcpStream::connect_timeout(&admin, PATIENCE)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    write!(connection, "GET /stats HTTP/1.0\r\nHost: {admin}\r\nAccept: application/json\r\n\r\n")?;
    let mut answer = String::new();
    connection.take(LARGEST).read_to_string(&mut answer)?;
    Ok(answer.split_once("\r\n\r\n").map(|(_, content)| content.to_owned()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_what_was_asked_for() {
        for kept in (1..2_000).chain([1 << 20, 123_456_789]) {
            let size = with_filling(kept);
            assert_eq!(size - size / FILLING, kept);
        }
    }

    #[test]
    fn a_program_that_ends_at_once_is_told_with_what_it_said() {
        let program = Path::new("/bin/false");
        let Err(halt) = Proxy::start(program, &Setting::roomy()) else { panic!("it serves") };
        assert_eq!(halt.to_string(), "larder serve: it ended before it served");
        let Err(halt) = Proxy::start(Path::new("no-such-program"), &Setting::roomy()) else {
            panic!("it serves")
        };
        assert!(halt.to_string().starts_with("cannot start larder serve: "), "{halt}");
    }
}
