//! Requests that are due at their times, whatever the answers do; or as many as the server answers.

use crate::connection::Connection;
use anyhow::{Context, Result, ensure};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustls::ClientConfig;
use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The client does not sleep for less than this: its core would be late to wake up.
const SPIN: Duration = Duration::from_millis(1);
/// The times of the requests are the same in each run.
const SEED: u64 = 42;

/// The parameters of a load.
pub(crate) struct Load<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) path: &'a str,
    pub(crate) connections: usize,
    pub(crate) duration: Duration,
    /// Requests a second on average. Without it, each connection sends when its last answer has arrived.
    pub(crate) rate: Option<u32>,
}

/// The answers: their number, the time from the first request to the last answer, and percentiles of latency, all in
/// nanoseconds.
pub(crate) struct Report {
    latencies: Vec<u64>,
    elapsed: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} {}", self.latencies.len(), self.elapsed.as_nanos())?;
        [50.0, 99.0, 99.9].iter().try_for_each(|share| write!(to, " {}", percentile(&self.latencies, *share)))
    }
}

/// Returns the percentile `share` of sorted values; 0 if there are none.
fn percentile(sorted: &[u64], share: f64) -> u64 {
    let rank = (share / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(0)
}

impl Load<'_> {
    /// Opens all connections, sends requests for the duration, and waits for all answers. Fails if a connection or an
    /// answer fails.
    pub(crate) fn run(&self) -> Result<Report> {
        let open = |_| Connection::open(self.address, &self.config);
        let connections = (0..self.connections).map(open).collect::<Result<Vec<_>>>()?;
        // If this fails, waits take about 50 us longer, for every server alike.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        Run::new(self, connections)?.finish()
    }
}

/// A load in progress.
struct Run {
    epoll: OwnedFd,
    connections: Vec<Connection>,
    /// For each connection, the due time of the request in progress.
    asked: Vec<Option<Instant>>,
    /// The connections without a request, the longest idle one first.
    free: VecDeque<usize>,
    request: Vec<u8>,
    schedule: Schedule,
    latencies: Vec<u64>,
    begun: Instant,
}

impl Run {
    fn new(load: &Load, connections: Vec<Connection>) -> Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        for (number, connection) in connections.iter().enumerate() {
            epoll::add(&epoll, &connection.stream, EventData::new_u64(number as u64), EventFlags::IN)?;
        }
        let begun = Instant::now();
        Ok(Self {
            epoll,
            asked: vec![None; connections.len()],
            free: (0..connections.len()).collect(),
            connections,
            request: format!("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", load.path).into_bytes(),
            schedule: Schedule::new(begun, load.duration, load.rate),
            latencies: Vec::new(),
            begun,
        })
    }

    fn finish(mut self) -> Result<Report> {
        let mut events = Vec::with_capacity(256);
        loop {
            self.ask()?;
            let now = Instant::now();
            let due = self.schedule.next_after(now);
            if due.is_none() && self.free.len() == self.connections.len() {
                break;
            }
            // With no free connection, only an answer allows the next request.
            let due = due.filter(|_| !self.free.is_empty());
            let most = due.map_or(PATIENCE, |due| due.saturating_duration_since(now));
            let most = if most < SPIN { Duration::ZERO } else { most };
            events.clear();
            self.wait(&mut events, most)?;
            ensure!(due.is_some() || !events.is_empty(), "no answer in {} s", PATIENCE.as_secs());
            for event in &events {
                self.read(event.data.u64() as usize)?;
            }
        }
        self.latencies.sort_unstable();
        ensure!(!self.latencies.is_empty(), "no request was due");
        Ok(Report { elapsed: self.begun.elapsed(), latencies: self.latencies })
    }

    /// Sends the requests that are due, as far as there are free connections.
    fn ask(&mut self) -> Result<()> {
        while let Some(&number) = self.free.front() {
            let Some(due) = self.schedule.take(Instant::now()) else { break };
            self.free.pop_front();
            self.asked[number] = Some(due);
            self.connections[number].ask(&self.request)?;
        }
        Ok(())
    }

    fn wait(&self, events: &mut Vec<Event>, most: Duration) -> Result<()> {
        let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: i64::from(most.subsec_nanos()) };
        epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), Some(&most))?;
        Ok(())
    }

    fn read(&mut self, number: usize) -> Result<()> {
        if self.connections[number].read()? {
            let due = self.asked[number].take().context("an answer without a request")?;
            self.latencies.push(due.elapsed().as_nanos() as u64);
            self.free.push_back(number);
        }
        Ok(())
    }
}

/// The times at which requests are due.
struct Schedule {
    next: Instant,
    end: Instant,
    /// The mean time between two requests; `None` if one is due at any time.
    gap: Option<Duration>,
    random: fastrand::Rng,
}

impl Schedule {
    fn new(begin: Instant, duration: Duration, rate: Option<u32>) -> Self {
        let gap = rate.map(|rate| Duration::from_secs(1) / rate.max(1));
        Self { next: begin, end: begin + duration, gap, random: fastrand::Rng::with_seed(SEED) }
    }

    /// Returns when the next request is due, seen from `now`; `None` after the end.
    fn next_after(&self, now: Instant) -> Option<Instant> {
        let next = if self.gap.is_some() { self.next } else { now };
        (next < self.end).then_some(next)
    }

    /// Takes the next request, and returns when it was due; `None` if it is not due yet.
    fn take(&mut self, now: Instant) -> Option<Instant> {
        let due = self.next_after(now).filter(|due| *due <= now)?;
        if let Some(gap) = self.gap {
            // The times between independent events are exponentially distributed.
            self.next += gap.mul_f64(-(1.0 - self.random.f64()).ln());
        }
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::{Schedule, percentile};
    use std::time::{Duration, Instant};

    #[test]
    fn requests_are_due_at_their_rate_however_late_they_are_taken() {
        let begin = Instant::now();
        let (second, late) = (Duration::from_secs(1), begin + Duration::from_secs(100));
        let mut schedule = Schedule::new(begin, second, Some(10_000));
        let dues: Vec<_> = std::iter::from_fn(|| schedule.take(late)).collect();
        assert!((9_500..10_500).contains(&dues.len()), "{}", dues.len());
        assert!(dues.is_sorted() && dues.iter().all(|due| *due < begin + second));
        assert_eq!(schedule.next_after(late), None);
        let mut schedule = Schedule::new(begin, second, Some(10_000));
        assert_eq!((schedule.take(begin), schedule.take(begin)), (Some(begin), None));
    }

    #[test]
    fn a_schedule_without_a_rate_is_due_until_its_end() {
        let begin = Instant::now();
        let mut schedule = Schedule::new(begin, Duration::from_secs(1), None);
        assert_eq!((schedule.take(begin), schedule.take(begin)), (Some(begin), Some(begin)));
        assert_eq!(schedule.take(begin + Duration::from_secs(1)), None);
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let hundred: Vec<u64> = (1..=100).collect();
        for (share, value) in [(50.0, 50), (99.0, 99), (99.9, 100)] {
            assert_eq!(percentile(&hundred, share), value);
        }
        assert_eq!(percentile(&[], 50.0), 0);
    }
}
