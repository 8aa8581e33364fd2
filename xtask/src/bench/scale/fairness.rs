//! Whether connections are dealt fairly: 64 clients over HTTP/2, each with its own share of a fixed rate, and the time that
//! the slowest of their requests take. Connections that meet at one worker would wait for each other.

use super::{MANY_CONNECTIONS, configure, widen};
use crate::bench::goal::Goal;
use crate::bench::h2::H2LOAD;
use crate::bench::measure::percentile;
use crate::bench::origin::Origin;
use crate::bench::peers::{Peer, Programs, Which};
use crate::bench::server::RunningServer;
use crate::bench::table::{Cell, Row};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::process::Command;
use std::time::Duration;

/// Requests a second of each connection, whatever the answers take.
const RATE: u32 = 60;
/// The most that the busiest worker may run, over the mean of all.
const BUSIEST: f64 = 1.5;

/// What some workers did under the load.
pub(super) struct Fairness {
    workers: &'static str,
    /// Microseconds from a request to the end of its answer, sorted.
    times: Vec<f64>,
    /// The time that the busiest worker ran, over the mean.
    busiest: f64,
}

impl Fairness {
    /// Loads a proxy with this number of workers for so long. Fails if a request is not answered.
    pub(super) fn measure(
        (workers, peer): (&'static str, Peer),
        programs: &Programs,
        origin: &Origin,
        duration: Duration,
    ) -> Result<Self> {
        let server = RunningServer::start(&peer, programs, origin)?;
        // Its workers begin, and the page is stored.
        load(server.port, Duration::from_secs(1))?;
        widen(&server)?;
        let before = ran(&server)?;
        let times = load(server.port, duration)?;
        let after = ran(&server)?;
        let used: Vec<_> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
        let mean = used.iter().sum::<f64>() / used.len() as f64;
        Ok(Self { workers, times, busiest: used.iter().copied().fold(0.0, f64::max) / mean })
    }

    pub(super) fn row(&self) -> Row {
        let time = |share| Cell::number(percentile(&self.times, share), 0);
        vec![
            ("workers", Cell::word(self.workers)),
            ("requests", Cell::number(self.times.len() as f64, 0)),
            ("p50 us", time(50.0)),
            ("p99 us", time(99.0)),
            ("p99.9 us", time(99.9)),
            ("busiest worker over mean", Cell::number(self.busiest, 2)),
        ]
    }

    pub(super) fn goal(&self) -> Goal {
        let what = format!("busiest of {} workers over their mean, 64 HTTP/2 connections", self.workers);
        Goal::new(what, BUSIEST, self.busiest)
    }
}

/// Returns the servers of this load.
pub(super) fn entrants() -> [(&'static str, Peer); 2] {
    [
        ("2", Peer::apart("2-workers-h2", Which::Larder, None, |setup| configure(setup, "2", false))),
        ("16", Peer::apart("16-workers-h2", Which::Larder, None, |setup| configure(setup, "16", false))),
    ]
}

/// Returns the time of each request in microseconds, sorted.
fn load(port: u16, duration: Duration) -> Result<Vec<f64>> {
    let folder = tempfile::tempdir().context("cannot create a folder")?;
    let log = folder.path().join("log");
    let mut h2load = Command::new(H2LOAD.program);
    h2load.args(["-t", "1", "-m", "100", "-c", &MANY_CONNECTIONS.to_string(), "--rps", &RATE.to_string()]);
    h2load.args(["-D", &duration.as_secs().to_string(), "--log-file"]).arg(&log);
    let output = h2load.arg(format!("http://127.0.0.1:{port}/1k")).output().context("cannot start h2load")?;
    ensure!(output.status.success(), "h2load: {}", String::from_utf8_lossy(&output.stderr).trim());
    let text = fs::read_to_string(&log).context("h2load wrote no log")?;
    let time = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        ensure!(words.next() == Some("200"), "h2load: another status in '{line}'");
        words.next().and_then(|time| time.parse::<f64>().ok()).with_context(|| format!("h2load: '{line}'"))
    };
    let mut times = text.lines().map(time).collect::<Result<Vec<_>>>()?;
    ensure!(!times.is_empty(), "h2load asked for nothing");
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// Returns the nanoseconds that each worker has run.
fn ran(server: &RunningServer) -> Result<Vec<f64>> {
    let mut all = Vec::new();
    for process in server.processes()? {
        let tasks = fs::read_dir(format!("/proc/{process}/task")).context("no threads")?;
        let mut tasks: Vec<_> = tasks.flatten().map(|task| task.path()).collect();
        tasks.sort();
        for task in tasks {
            let name = fs::read_to_string(task.join("comm")).unwrap_or_default();
            if name.starts_with("worker") {
                let text = fs::read_to_string(task.join("schedstat")).context("no schedstat")?;
                let time = text.split(' ').next().and_then(|time| time.parse().ok());
                all.push(time.with_context(|| format!("schedstat: '{text}'"))?);
            }
        }
    }
    ensure!(!all.is_empty(), "no thread is named worker");
    Ok(all)
}
