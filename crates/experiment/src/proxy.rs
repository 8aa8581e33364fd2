//! The program under test: `larder serve` as a child, on free ports of loopback, that ends when this value is dropped.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use larder_evict::{By, Capacity};
use larder_load::Via;
use serde_json::Value;
use tempfile::TempDir;

use super::Halt;
use super::child::ChildProcess;
use super::origin::spent;

/// The timeout of the admin listener.
const PATIENCE: Duration = Duration::from_secs(10);
/// The maximum length of the proxy's answers, in bytes.
const LARGEST: u64 = 16 << 20;
/// The share of a memory in bytes that is reserved for fills and not available to stored responses: one in this number.
const FILLING: u64 = 8;

/// The configuration of the child.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// The capacity for stored responses.
    pub(crate) capacity: Capacity,
    /// Whether bytes count only content. If not, heads and bookkeeping are included.
    pub(crate) counts_content: bool,
    /// The policy's name.
    pub(crate) policy: String,
    /// The maximum number of requests to origins in flight; `None` for no limit.
    pub(crate) in_flight: Option<usize>,
    /// Worker threads; `None` for one on each core.
    pub(crate) threads: Option<usize>,
    /// Keys of `[forward]`, one line each.
    pub(crate) forward: &'static str,
}

impl Setting {
    /// Returns a setting with one worker, as most of the reports' servers had.
    pub(crate) fn of(capacity: Capacity, policy: &str) -> Self {
        let (policy, counts_content) = (policy.to_owned(), false);
        Self { capacity, counts_content, policy, in_flight: None, threads: Some(1), forward: "" }
    }

    /// Returns a setting with room for everything, and the default number of workers.
    pub(crate) fn roomy() -> Self {
        let capacity = Capacity { by: By::Bytes, amount: 1 << 30 };
        Self { threads: None, ..Self::of(capacity, "lru") }
    }

    /// Returns the config file.
    pub(crate) fn toml(&self) -> String {
        let memory = match self.counts_content {
            true => memory_of_content(self.capacity, &self.policy),
            false => memory(self.capacity, &self.policy),
        };
        let threads = self.threads.map_or_else(String::new, |threads| format!("threads = {threads}\n"));
        let forward = self.forward;
        let mut text = format!(
            "{threads}admin = '127.0.0.1:0'\n{memory}[stats]\nurl = 'none'\n\
             [forward]\nlisten = ['127.0.0.1:0']\nallow_private = true\n{forward}[onc]\nrpcbind = 'off'\n\
             listen = ['127.0.0.1:0']\n[thrift]\nlisten = ['127.0.0.1:0']\n[line]\nlisten = ['127.0.0.1:0']\n"
        );
        if let Some(in_flight) = self.in_flight {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "[limits]\nin_flight = {in_flight}");
        }
        text
    }
}

/// Returns the section of a config file for a memory with `capacity` for stored responses.
pub(super) fn memory(capacity: Capacity, policy: &str) -> String {
    let room = match capacity.by {
        By::Entries => format!("entries = {}", capacity.amount),
        By::Bytes => format!("size = '{}B'", with_filling(capacity.amount)),
    };
    format!("[memory]\n{room}\npolicy = '{policy}'\n")
}

/// Returns the same for a capacity and a policy that count only content.
fn memory_of_content(Capacity { by, amount }: Capacity, policy: &str) -> String {
    let room = match by {
        By::Entries => format!("entries = {amount}"),
        By::Bytes => format!("size = '{amount}B'"),
    };
    format!("[memory]\n{room}\ncount = 'content'\npolicy = '{policy}'\n")
}

/// Returns the size of a memory with `kept` bytes for stored responses.
fn with_filling(kept: u64) -> u64 {
    let near = kept + kept / (FILLING - 1);
    (near.saturating_sub(FILLING)..=near + FILLING).find(|size| size - size / FILLING == kept).unwrap_or(near)
}

/// A running `larder serve`.
pub(crate) struct Proxy {
    running: ChildProcess,
    _directory: TempDir,
}

impl Proxy {
    /// Starts `program` with `setting`. Fails if it does not start; the error contains its output.
    pub(crate) fn start(program: &Path, setting: &Setting) -> Result<Self, Halt> {
        Self::configured(program, &setting.toml())
    }

    /// Starts `program` with this config file. Fails if it does not start; the error contains its output.
    pub(crate) fn configured(program: &Path, toml: &str) -> Result<Self, Halt> {
        let failed = |error| Halt::because("cannot start larder serve", error);
        let directory = tempfile::tempdir().map_err(failed)?;
        let file = directory.path().join("larder.toml");
        fs::write(&file, toml).map_err(failed)?;
        let words = ["--config".as_ref(), file.as_os_str()];
        let running = ChildProcess::start(program, "larder serve", &words, |line| line.starts_with("try: "))?;
        Ok(Self { running, _directory: directory })
    }

    /// Returns the address for requests by `via`. Fails if it did not print the address.
    pub(crate) fn door(&self, via: Via) -> Result<SocketAddr, Halt> {
        self.listener(match via {
            Via::Http | Via::Http2 => "forward",
            Via::Thrift => "thrift",
            Via::Onc => "onc",
            Via::Line => "line",
        })
    }

    /// Returns the address of its listener of this kind. Fails if it did not print the address.
    pub(crate) fn listener(&self, kind: &str) -> Result<SocketAddr, Halt> {
        self.running.address("listening on ", &format!(" ({kind})"))
    }

    /// Returns a number from its `/stats`. Fails if it does not answer, or has no such number.
    pub(crate) fn figure(&self, name: &str) -> Result<u64, Halt> {
        let missing = || self.running.ended(&format!("its /stats have no {name}"));
        self.tell("/stats")?[name].as_u64().ok_or_else(missing)
    }

    /// Returns the answer of its admin listener for `path`. Fails if it does not answer.
    pub(crate) fn tell(&self, path: &str) -> Result<Value, Halt> {
        let admin = self.running.address("admin on http://", "/")?;
        let ended = |why: String| self.running.ended(&format!("no answer to {path}: {why}"));
        let text = get(admin, path).map_err(|error| ended(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| ended(error.to_string()))
    }

    /// Waits until no fetch is in flight, so that all responses are stored.
    pub(crate) fn settle(&self) -> Result<(), Halt> {
        let begun = Instant::now();
        while self.figure("fills")? > 0 {
            if begun.elapsed() > PATIENCE {
                return Err(self.running.ended("a fetch does not end"));
            }
        }
        Ok(())
    }

    /// Returns the processor time of all its threads so far.
    pub(crate) fn processor(&self) -> Duration {
        threads_spent(self.running.id())
    }

    /// Returns its current memory in bytes.
    pub(crate) fn resident(&self) -> u64 {
        let pages = fs::read_to_string(format!("/proc/{}/statm", self.running.id())).unwrap_or_default();
        let pages = pages.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
        pages.unwrap_or(0) * rustix::param::page_size() as u64
    }

    /// Returns the peak of its memory so far, in bytes.
    pub(crate) fn peak(&self) -> u64 {
        peak(self.running.id())
    }

    /// Returns `halt`, extended by the child's last output if the child has ended.
    pub(crate) fn explain(&mut self, halt: Halt) -> Halt {
        self.running.explain(halt)
    }
}

/// Returns the peak of a process's memory since it began its program, in bytes. The peak in `getrusage` also counts the
/// memory of the program that started it.
fn peak(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// Returns the processor time of all threads of a process.
pub(super) fn threads_spent(process: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let one = |thread: fs::DirEntry| spent(&fs::read_to_string(thread.path().join("schedstat")).ok()?);
    threads.filter_map(one).sum()
}

/// Requests `path` by HTTP/1.0, so that the answer ends with the connection.
fn get(admin: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut connection = TcpStream::connect_timeout(&admin, PATIENCE)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    write!(connection, "GET {path} HTTP/1.0\r\nHost: {admin}\r\nAccept: application/json\r\n\r\n")?;
    let mut answer = String::new();
    connection.take(LARGEST).read_to_string(&mut answer)?;
    Ok(answer.split_once("\r\n\r\n").map(|(_, content)| content.to_owned()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::subprocess::Subprocess;

    #[test]
    fn the_configured_memory_size_leaves_the_requested_room_after_its_filling() {
        for kept in (1..2_000).chain([1 << 20, 123_456_789]) {
            let size = with_filling(kept);
            assert_eq!(size - size / FILLING, kept);
        }
    }

    #[test]
    fn a_childs_peak_of_memory_has_no_part_of_its_parent() {
        let parent = vec![1_u8; 256 << 20];
        let cat = Subprocess::start(&mut Command::new("cat")).unwrap();
        assert!((1..16 << 20).contains(&peak(cat.id())), "{} bytes", peak(cat.id()));
        assert!(peak(std::process::id()) >= parent.len() as u64);
    }

    #[test]
    fn a_program_that_ends_at_once_is_reported_with_its_output() {
        let program = Path::new("/bin/false");
        let Err(halt) = Proxy::start(program, &Setting::roomy()) else { panic!("it serves") };
        assert_eq!(halt.to_string(), "larder serve: it ended before it served");
        let Err(halt) = Proxy::start(Path::new("no-such-program"), &Setting::roomy()) else {
            panic!("it serves")
        };
        assert!(halt.to_string().starts_with("cannot start larder serve: "), "{halt}");
    }
}
