//! One measurement of one server under load, its checks, and the statistics of several.

use super::load::{self, Script};
use super::origin::Origin;
use super::process;
use super::server::RunningServer;
use anyhow::{Result, bail};
use std::thread;
use std::time::Duration;

/// The object of a load.
#[derive(Clone, Copy)]
pub(super) struct Object {
    pub(super) name: &'static str,
    /// A path that ends with a slash stands for new paths below it.
    pub(super) path: &'static str,
    pub(super) length: u64,
    /// The number of connections of the load.
    pub(super) connections: u32,
}

impl Object {
    /// Returns the script of the load of a round.
    pub(super) fn script(&self, round: u32) -> Result<Script> {
        if self.path.ends_with('/') { Script::once(&format!("{}{round}/", self.path)) } else { Script::one() }
    }
}

/// One measurement of one server.
pub(super) struct Sample {
    /// CPU time per request, in microseconds.
    pub(super) cpu: f64,
    pub(super) per_second: f64,
    /// Resident bytes after the load.
    pub(super) memory: u64,
}

/// The condition on the origin's count while a server is measured.
#[derive(Clone, Copy)]
pub(super) enum Expect {
    Cached,
    Passed,
}

/// Measures one server once, and checks that it answered from the expected source.
pub(super) fn sample(
    server: &RunningServer,
    object: &Object,
    expect: Expect,
    duration: Duration,
    origin: &Origin,
    script: &Script,
) -> Result<Sample> {
    let processes = server.processes()?;
    let asked_before = origin.requests();
    let load = || load::run(script, server.port, object.path, object.connections, duration);
    let (used, load) = server.cpu_during(load)?;
    check_origin(expect, origin.requests() - asked_before, load.requests)?;
    check_bytes(load.bytes, load.requests, object)?;
    Ok(Sample {
        cpu: used / load.requests as f64,
        per_second: load.requests as f64 / load.elapsed.as_secs_f64(),
        memory: process::resident(&processes)?,
    })
}

/// Checks the origin's count. Cached: it received no requests. Passed: it received each request, and those that were
/// cut off at the end.
fn check_origin(expect: Expect, asked: u64, answered: u64) -> Result<()> {
    match expect {
        Expect::Cached if asked > 0 => bail!("asked the origin {asked} times for what it had stored"),
        Expect::Passed if asked < answered => bail!("asked the origin {asked} times for {answered} requests"),
        _ => Ok(()),
    }
}

/// Checks that the bytes received contain each complete body, and not much more: heads are under 2 KiB. Answers that
/// were cut off at the end are included in the bytes, but not in the requests: at most one for each connection.
fn check_bytes(bytes: u64, requests: u64, object: &Object) -> Result<()> {
    let length = object.length;
    let most = (requests + u64::from(object.connections)) * (length + 2048);
    if bytes < requests * length || bytes > most {
        bail!("{bytes} bytes in {requests} answers of {length} bytes");
    }
    Ok(())
}

/// Returns the percentile `share` of `sorted`; NaN if it is empty.
pub(super) fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}

/// Runs `event` after a third of the `duration` of `load`, and returns the results of both.
pub(super) fn amid<L, E: Send>(
    duration: Duration,
    load: impl FnOnce() -> Result<L>,
    event: impl FnOnce() -> Result<E> + Send,
) -> Result<(L, E)> {
    thread::scope(|scope| {
        let event = scope.spawn(|| {
            thread::sleep(duration / 3);
            event()
        });
        let load = load();
        match event.join() {
            Ok(event) => Ok((load?, event?)),
            Err(_) => bail!("a thread panicked amid a load"),
        }
    })
}

/// Runs `client` with each number below `count` in a thread of its own, and returns the results in that order. Fails if
/// one fails.
pub(super) fn side_by_side<T: Send>(
    count: usize,
    client: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let client = &client;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|number| scope.spawn(move || client(number))).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended.map(|result| result.unwrap_or_else(|_| bail!("a client panicked"))).collect()
    })
}

/// Returns the median of the ratios of two measurements, round by round.
pub(super) fn ratio<'v>(own: &[f64], base: impl IntoIterator<Item = &'v f64>) -> f64 {
    median(own.iter().zip(base).map(|(own, base)| own / base).collect())
}

/// Returns the middle value, or the mean of the two middle ones; NaN if there are none.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::{Expect, Object, check_bytes, check_origin, median, percentile};

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        for (share, value) in [(0.0, 1.0), (50.0, 50.0), (99.0, 99.0), (99.5, 100.0), (100.0, 100.0)] {
            assert_eq!(percentile(&hundred, share), value, "{share}");
        }
        assert_eq!(percentile(&[7.0], 50.0), 7.0);
        assert!(percentile(&[], 50.0).is_nan());
    }

    #[test]
    fn the_median_is_in_the_middle() {
        for (values, middle) in
            [(vec![3.0], 3.0), (vec![9.0, 1.0, 2.0], 2.0), (vec![4.0, 1.0, 2.0, 9.0], 3.0)]
        {
            assert_eq!(median(values), middle);
        }
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn the_origins_count_tells_hits_from_misses() {
        for (expect, asked, answered, holds) in [
            (Expect::Cached, 0, 1000, true),
            (Expect::Cached, 1, 1000, false),
            (Expect::Passed, 1000, 1000, true),
            (Expect::Passed, 1064, 1000, true),
            (Expect::Passed, 999, 1000, false),
        ] {
            assert_eq!(check_origin(expect, asked, answered).is_ok(), holds, "{asked} of {answered}");
        }
    }

    #[test]
    fn bytes_prove_that_bodies_came_whole() {
        let object = &Object { name: "1k", path: "/1k", length: 1024, connections: 64 };
        assert!(check_bytes(1000 * 1300, 1000, object).is_ok());
        assert!(check_bytes(1000 * 1000, 1000, object).is_err());
        assert!(check_bytes(1000 * 9000, 1000, object).is_err());
    }
}
