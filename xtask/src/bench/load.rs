//! Load by wrk: one thread, persistent connections, one object repeatedly, or a walk over many.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// A script for wrk, in a file that exists as long as this value.
pub(super) struct Script {
    path: PathBuf,
}

impl Script {
    /// Returns a script for the single URL of the command line.
    pub(super) fn one() -> Result<Self> {
        Self::write("")
    }

    /// Returns a script for the URLs `PREFIX0` to `PREFIX(count - 1)`, in steps of `stride`, repeatedly.
    pub(super) fn walk(prefix: &str, count: u64, stride: u64) -> Result<Self> {
        let text = include_str!("walk.lua")
            .replace("@PREFIX@", prefix)
            .replace("@COUNT@", &count.to_string())
            .replace("@STRIDE@", &stride.to_string());
        Self::write(&text)
    }

    /// Returns a script for the same URLs by chance, the first ones the most often: nearly by Zipf's law.
    pub(super) fn zipf(prefix: &str, count: u64) -> Result<Self> {
        let text =
            include_str!("zipf.lua").replace("@PREFIX@", prefix).replace("@COUNT@", &count.to_string());
        Self::write(&text)
    }

    /// Returns a script for `count` ranges of 1 MiB, repeatedly: each begins `stride` bytes behind the one before, and the
    /// first at `offset`.
    pub(super) fn ranges(count: u64, stride: u64, offset: u64) -> Result<Self> {
        let text = include_str!("slices.lua")
            .replace("@COUNT@", &count.to_string())
            .replace("@STRIDE@", &stride.to_string())
            .replace("@OFFSET@", &offset.to_string());
        Self::write(&text)
    }

    /// Returns a script for the URLs `PREFIX1`, `PREFIX2` and so on, each once.
    pub(super) fn once(prefix: &str) -> Result<Self> {
        Self::write(&include_str!("new.lua").replace("@PREFIX@", prefix))
    }

    fn write(requests: &str) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("larder-bench-{}.lua", std::process::id()));
        let text = format!("{}{requests}", include_str!("wrk.lua"));
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path })
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The results of wrk.
#[derive(Debug, PartialEq)]
pub(super) struct Load {
    pub(super) requests: u64,
    /// Heads and bodies received.
    pub(super) bytes: u64,
    pub(super) elapsed: Duration,
    /// The median and the 99th percentile of the latency.
    pub(super) p50: Duration,
    pub(super) p99: Duration,
}

/// Loads `path`, or the URLs of the script, on a port for `duration`. Fails if wrk fails, or counts any request that
/// failed or was not answered with success.
pub(super) fn run(
    script: &Script,
    port: u16,
    path: &str,
    connections: u32,
    duration: Duration,
) -> Result<Load> {
    run_at(script, &format!("http://127.0.0.1:{port}{path}"), connections, duration, &[])
}

/// Loads a URL in the same way, with additional request fields.
pub(super) fn run_at(
    script: &Script,
    url: &str,
    connections: u32,
    duration: Duration,
    fields: &[&str],
) -> Result<Load> {
    let output = Command::new("wrk")
        .args(["-t1", &format!("-c{connections}"), &format!("-d{}s", duration.as_secs()), "-s"])
        .arg(&script.path)
        .args(fields.iter().flat_map(|field| ["-H", field]))
        .arg(url)
        .output()
        .context("cannot start wrk")?;
    if !output.status.success() {
        bail!("wrk failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    parse(&String::from_utf8_lossy(&output.stdout))
}

fn parse(text: &str) -> Result<Load> {
    let line =
        text.lines().find_map(|line| line.strip_prefix("counted ")).context("wrk printed no counters")?;
    let numbers =
        line.split(' ').map(str::parse).collect::<Result<Vec<u64>, _>>().context("wrk's counters")?;
    let [requests, bytes, elapsed, errors, p50, p99] = numbers[..] else {
        bail!("wrk printed {} counters, not 6", numbers.len());
    };
    if errors > 0 {
        bail!("{errors} of {requests} requests failed");
    }
    if requests == 0 {
        bail!("no request was answered");
    }
    let [elapsed, p50, p99] = [elapsed, p50, p99].map(Duration::from_micros);
    Ok(Load { requests, bytes, elapsed, p50, p99 })
}

#[cfg(test)]
mod tests {
    use super::{Load, parse};
    use std::time::Duration;

    #[test]
    fn counters_are_found_among_the_report() {
        let load = parse("Running 5s test\n  1 threads\ncounted 100 200000 5000000 0 90 1000\n").unwrap();
        let [elapsed, p50, p99] = [5_000_000, 90, 1_000].map(Duration::from_micros);
        assert_eq!(load, Load { requests: 100, bytes: 200_000, elapsed, p50, p99 });
    }

    #[test]
    fn a_load_with_failures_is_no_measurement() {
        for (text, complaint) in [
            ("counted 100 2000 5000000 3 90 1000", "3 of 100 requests failed"),
            ("counted 0 0 5000000 0 0 0", "no request was answered"),
            ("counted 1 2", "wrk printed 2 counters, not 6"),
            ("", "wrk printed no counters"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), complaint);
        }
    }
}
