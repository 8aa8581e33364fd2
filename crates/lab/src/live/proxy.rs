//! The program under test: `larder serve` as a child, on free ports of loopback, that ends with this value.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use larder_evict::{By, Capacity};
use serde_json::Value;
use tempfile::TempDir;

use super::Halt;
use super::child::Running;
use super::load::Via;
use super::origin::spent;

/// How long the admin listener may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than any answer of its has, in bytes.
const LARGEST: u64 = 16 << 20;
/// The share of a memory in bytes that responses on their way in have, and stored ones have not: one in so many.
const FILLING: u64 = 8;

/// What the child is to be like.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// What may be stored.
    pub(crate) capacity: Capacity,
    /// Whether bytes are those of content; else heads and bookkeeping are included.
    pub(crate) counts_content: bool,
    /// The policy's name.
    pub(crate) policy: String,
    /// How many requests to origins may be under way; nothing for as many as it likes.
    pub(crate) in_flight: Option<usize>,
    /// Worker threads; nothing for one on each core.
    pub(crate) threads: Option<usize>,
    /// Keys of `[forward]`, a line each.
    pub(crate) forward: &'static str,
}

impl Setting {
    /// One worker, as most of the reports' servers had.
    pub(crate) fn of(capacity: Capacity, policy: &str) -> Self {
        let (policy, counts_content) = (policy.to_owned(), false);
        Self { capacity, counts_content, policy, in_flight: None, threads: Some(1), forward: "" }
    }

    /// Room for everything, and workers as they are when nobody says anything.
    pub(crate) fn roomy() -> Self {
        let capacity = Capacity { by: By::Bytes, amount: 1 << 30 };
        Self { threads: None, ..Self::of(capacity, "lru") }
    }

    /// As its config file says it.
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

/// The section of a config file about a memory in which `capacity` is left for what is stored.
pub(super) fn memory(capacity: Capacity, policy: &str) -> String {
    let room = match capacity.by {
        By::Entries => format!("entries = {}", capacity.amount),
        By::Bytes => format!("size = '{}B'", with_filling(capacity.amount)),
    };
    format!("[memory]\n{room}\npolicy = '{policy}'\n")
}

/// The same where capacity and policy count content alone.
fn memory_of_content(Capacity { by, amount }: Capacity, policy: &str) -> String {
    let room = match by {
        By::Entries => format!("entries = {amount}"),
        By::Bytes => format!("size = '{amount}B'"),
    };
    format!("[memory]\n{room}\ncount = 'content'\npolicy = '{policy}'\n")
}

/// The size of a memory of which `kept` bytes are left for what is stored.
fn with_filling(kept: u64) -> u64 {
    let near = kept + kept / (FILLING - 1);
    (near.saturating_sub(FILLING)..=near + FILLING).find(|size| size - size / FILLING == kept).unwrap_or(near)
}

/// A running `larder serve`.
pub(crate) struct Proxy {
    running: Running,
    _directory: TempDir,
}

impl Proxy {
    /// Starts `program` with `setting`.
    ///
    /// # Errors
    /// When it does not start, with what it said.
    pub(crate) fn start(program: &Path, setting: &Setting) -> Result<Self, Halt> {
        Self::configured(program, &setting.toml())
    }

    /// Starts `program` with this config file.
    ///
    /// # Errors
    /// When it does not start, with what it said.
    pub(crate) fn configured(program: &Path, toml: &str) -> Result<Self, Halt> {
        let failed = |error| Halt::because("cannot start larder serve", error);
        let directory = tempfile::tempdir().map_err(failed)?;
        let file = directory.path().join("larder.toml");
        fs::write(&file, toml).map_err(failed)?;
        let words = ["--config".as_ref(), file.as_os_str()];
        let running = Running::start(program, &["serve"], &words, |line| line.starts_with("try: "))?;
        Ok(Self { running, _directory: directory })
    }

    /// Where it takes requests by `via`.
    ///
    /// # Errors
    /// When it did not say so.
    pub(crate) fn door(&self, via: Via) -> Result<SocketAddr, Halt> {
        self.listener(match via {
            Via::Http => "forward",
            Via::Thrift => "thrift",
            Via::Onc => "onc",
            Via::Line => "line",
        })
    }

    /// Where its listener of this kind is.
    ///
    /// # Errors
    /// When it did not say so.
    pub(crate) fn listener(&self, kind: &str) -> Result<SocketAddr, Halt> {
        self.running.address("listening on ", &format!(" ({kind})"))
    }

    /// A number of its `/stats`.
    ///
    /// # Errors
    /// When it does not answer, or has no such number.
    pub(crate) fn figure(&self, name: &str) -> Result<u64, Halt> {
        let missing = || self.running.ended(&format!("its /stats have no {name}"));
        self.tell("/stats")?[name].as_u64().ok_or_else(missing)
    }

    /// What its admin listener says at `path`.
    ///
    /// # Errors
    /// When it does not answer.
    pub(crate) fn tell(&self, path: &str) -> Result<Value, Halt> {
        let admin = self.running.address("admin on http://", "/")?;
        let ended = |why: String| self.running.ended(&format!("no answer to {path}: {why}"));
        let text = get(admin, path).map_err(|error| ended(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| ended(error.to_string()))
    }

    /// Waits until no fetch is under way, so that what came is stored.
    ///
    /// # Errors
    /// As [`figure`](Self::figure); or when one does not end.
    pub(crate) fn settle(&self) -> Result<(), Halt> {
        let begun = Instant::now();
        while self.figure("fills")? > 0 {
            if begun.elapsed() > PATIENCE {
                return Err(self.running.ended("a fetch does not end"));
            }
        }
        Ok(())
    }

    /// What all its threads have taken of the processor so far.
    pub(crate) fn processor(&self) -> Duration {
        threads_spent(self.running.id())
    }

    /// Bytes of memory that it takes at this moment.
    pub(crate) fn resident(&self) -> u64 {
        let pages = fs::read_to_string(format!("/proc/{}/statm", self.running.id())).unwrap_or_default();
        let pages = pages.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
        pages.unwrap_or(0) * rustix::param::page_size() as u64
    }

    /// `halt`, and what the child said last if it has ended.
    pub(crate) fn explain(&mut self, halt: Halt) -> Halt {
        self.running.explain(halt)
    }
}

/// What all threads of a process have taken of the processor.
pub(super) fn threads_spent(process: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let one = |thread: fs::DirEntry| spent(&fs::read_to_string(thread.path().join("schedstat")).ok()?);
    threads.filter_map(one).sum()
}

/// HTTP/1.0 asks for an answer that ends with the connection.
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
