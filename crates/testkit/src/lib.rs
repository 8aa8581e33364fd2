//! The parts of scenarios and measurements: programs that end with their parent, scripted origins, and a strict client.
//! Rules that a pure function decides are tested beside that function instead.
//!
//! Messages are written short: `"GET /a\nRange: bytes=0-1"` and `"200 OK\nETag: \"1\"\n\nbody"`. The version, line
//! ends, `Host` and `Content-Length` are added if the text lacks them. Tests do not depend on timing: slow steps are
//! held by a [`Gate`] or awaited with [`eventually`].
//!
//! A missing resource ends the test: most functions panic.

#![allow(missing_docs, reason = "names and tests explain these items")]

mod apart;
mod client;
pub mod databases;
mod engine;
#[cfg(feature = "proxy")]
pub mod http2;
mod larder;
pub mod nodes;
mod origin;
mod process;
pub mod programs;
mod sockets;
mod systemd;
#[cfg(feature = "proxy")]
mod tls;

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::TempDir;

pub use apart::{OUTER, not_tested, with_outer_address};
pub use client::{Client, Response};
pub use engine::{ELECTION, Engine};
pub use larder::{Larder, site};
pub use origin::{Answer, Origin, Peer, Seen, answer, mixed};
pub use process::{Process, children, is_over, resident, successor};
pub use programs::{output, program, stderr, stdout};
pub use sockets::{connect_from, fields, free, free_ports, head, limited, listen, serve};
pub use systemd::Systemd;
#[cfg(feature = "proxy")]
pub use tls::{Authority, Pair};

/// The time after which a scenario has failed. It is long, because machines that run tests can be busy.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Polls `condition` until it returns a value, for at most [`PATIENCE`].
pub fn eventually<T>(what: &str, condition: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, what, condition)
}

/// Polls `condition` until it returns a value, for at most `patience`: for steps whose time depends on other programs
/// than the proxy.
pub fn within<T>(patience: Duration, what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(started.elapsed() < patience, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Blocks an origin until the test opens the gate.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn open(&self) {
        *locked(&self.0.0) = true;
        self.0.1.notify_all();
    }

    /// Blocks again from now on.
    pub fn close(&self) {
        *locked(&self.0.0) = false;
    }

    pub fn is_open(&self) -> bool {
        *locked(&self.0.0)
    }

    pub fn pass(&self) {
        let open = locked(&self.0.0);
        let waited = self.0.1.wait_timeout_while(open, PATIENCE, |open| !*open);
        assert!(!waited.unwrap_or_else(PoisonError::into_inner).1.timed_out(), "the gate stayed closed");
    }
}

/// Locks `mutex`, whose value is valid even if a thread has panicked.
pub fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the seed of a test's random choices, and prints it; `LARDER_SEED` repeats a run.
pub fn seed() -> u64 {
    let given = std::env::var("LARDER_SEED").ok().map(|seed| seed.parse().expect("a number"));
    let seed = given.unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!("LARDER_SEED={seed}");
    seed
}

/// Writes a file into a new folder, which is removed with the first value. Returns its path, too.
pub fn file_with(name: &str, content: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join(name);
    std::fs::write(&file, content).expect("written");
    (folder, file)
}

/// Raises the limit of open files to the hard limit, and returns that limit.
pub fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
        .expect("the hard limit is allowed");
    limit.maximum.unwrap_or(u64::MAX)
}

/// The name and the value of a field line.
pub type Line = (String, String);

fn first<'l>(lines: &'l [Line], name: &str) -> Option<&'l str> {
    lines.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// Converts a short message to its full form: `first_line`, then the other `lines`, then the `added` ones that it
/// lacks.
fn message(first_line: &str, lines: &[&str], added: &[String]) -> String {
    let mut out = format!("{first_line}\r\n");
    for line in lines.iter().copied().chain(added.iter().map(String::as_str)) {
        out.push_str(line);
        out.push_str("\r\n");
    }
    out + "\r\n"
}

/// Splits a short message into the lines of its head and its content.
fn parts(text: &[u8]) -> (Vec<&str>, &[u8]) {
    let end = text.windows(2).position(|pair| pair == b"\n\n");
    let (head, content) = end.map_or((text, &b""[..]), |end| (&text[..end], &text[end + 2..]));
    (std::str::from_utf8(head).expect("a head is text").split('\n').collect(), content)
}

fn says(lines: &[&str], name: &str) -> bool {
    lines.iter().any(|line| line.split(':').next().is_some_and(|known| known.eq_ignore_ascii_case(name)))
}
