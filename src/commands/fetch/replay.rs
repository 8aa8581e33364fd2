//! Sends requests one after the other on each of several connections, and measures.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::door;
use super::keep::Keep;
use super::server::Server;
use crate::cli::Failure;
use crate::cli::progress::Bar;

/// The longest time that is told from a longer one, in microseconds: an hour.
const LONGEST: u64 = 3_600_000_000;
/// How many failures are kept as text.
const KEPT: usize = 1000;

/// What to ask for, in order.
pub(super) struct List {
    /// Every URL once.
    pub(super) urls: Vec<String>,
    /// Which of them is asked for.
    pub(super) order: Vec<u32>,
    /// How often all of it is.
    pub(super) times: usize,
}

impl List {
    fn len(&self) -> u64 {
        (self.order.len() as u64).saturating_mul(self.times as u64)
    }

    /// Request number `at`, counted from 0.
    fn url(&self, at: u64) -> &str {
        &self.urls[self.order[(at % self.order.len() as u64) as usize] as usize]
    }
}

/// What the client saw.
pub(super) struct Seen {
    /// Pages asked for.
    pub(super) requests: u64,
    /// Those that did not come.
    pub(super) errors: u64,
    /// Bytes of those that did.
    pub(super) bytes: u64,
    /// From the first request to the last answer.
    pub(super) elapsed: Duration,
    /// How long each page took that came, in microseconds.
    pub(super) times: Histogram<u64>,
    /// URLs and why they failed; not all, if there are many.
    pub(super) failures: Vec<String>,
}

impl Seen {
    fn new() -> Result<Self, Failure> {
        let times = Histogram::new_with_bounds(1, LONGEST, 3);
        let times = times.map_err(|error| Failure::Failed(format!("cannot measure: {error}")))?;
        Ok(Self { requests: 0, errors: 0, bytes: 0, elapsed: Duration::ZERO, times, failures: Vec::new() })
    }

    fn fail(&mut self, failure: String) {
        self.errors += 1;
        if self.failures.len() < KEPT {
            self.failures.push(failure);
        }
    }

    fn add(&mut self, other: Self) -> Result<(), Failure> {
        self.requests += other.requests;
        self.errors += other.errors;
        self.bytes += other.bytes;
        self.failures.extend(other.failures);
        let added = self.times.add(other.times);
        added.map_err(|error| Failure::Failed(format!("cannot add measurements: {error}")))
    }
}

/// Asks `server` for everything in `list`, on so many `connections` at once.
///
/// # Errors
/// When a connection cannot even be prepared. A page that does not come is counted instead.
pub(super) fn run(server: &Server, list: &List, connections: usize, keep: &Keep) -> Result<Seen, Failure> {
    let bar = Bar::new(server.via.name(), usize::try_from(list.len()).unwrap_or(usize::MAX));
    let work = Work { server, list, next: AtomicU64::new(0), keep: Mutex::new(keep), bar: &bar };
    let started = Instant::now();
    let parts: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..connections).map(|_| scope.spawn(|| work.run())).collect();
        workers.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    let elapsed = started.elapsed();
    bar.finish();
    let mut seen = Seen { elapsed, ..Seen::new()? };
    for part in parts {
        let part = part.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        seen.add(part?)?;
    }
    Ok(seen)
}

/// What workers share.
struct Work<'w> {
    server: &'w Server,
    list: &'w List,
    next: AtomicU64,
    /// One at a time: a URL that is asked for twice at once has one file.
    keep: Mutex<&'w Keep>,
    bar: &'w Bar,
}

impl Work<'_> {
    fn run(&self) -> Result<Seen, Failure> {
        let mut seen = Seen::new()?;
        let mut door = self.server.open()?;
        loop {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            if at >= self.list.len() {
                return Ok(seen);
            }
            let url = self.list.url(at);
            let started = Instant::now();
            let page = door::page(&mut *door, url);
            let took = started.elapsed();
            seen.requests += 1;
            let kept = page.and_then(|page| {
                seen.bytes += page.len() as u64;
                seen.times.saturating_record(u64::try_from(took.as_micros()).unwrap_or(LONGEST));
                self.keep.lock().unwrap_or_else(PoisonError::into_inner).page(url, &page)
            });
            if let Err(why) = kept {
                seen.fail(format!("{url}: {why}"));
            }
            self.bar.advance(1);
        }
    }
}
