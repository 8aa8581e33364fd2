//! Load by wrk: one thread, 64 kept connections, one object over and over.

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub(super) const CONNECTIONS: u32 = 64;

/// Prints the counters; given to wrk as a file.
pub(super) const SCRIPT: &str = include_str!("wrk.lua");

/// What wrk counted.
#[derive(Debug, PartialEq)]
pub(super) struct Load {
    pub(super) requests: u64,
    /// Heads and bodies received.
    pub(super) bytes: u64,
    pub(super) elapsed: Duration,
}

/// Loads `path` on a port for a while.
///
/// # Errors
/// When wrk fails, or counts any request that failed or was not answered with success.
pub(super) fn run(script: &Path, port: u16, path: &str, duration: Duration) -> Result<Load> {
    let output = Command::new("wrk")
        .args(["-t1", &format!("-c{CONNECTIONS}"), &format!("-d{}s", duration.as_secs()), "-s"])
        .arg(script)
        .arg(format!("http://127.0.0.1:{port}{path}"))
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
    let [requests, bytes, microseconds, errors] = numbers[..] else {
        bail!("wrk printed {} counters, not 4", numbers.len());
    };
    if errors > 0 {
        bail!("{errors} of {requests} requests failed");
    }
    if requests == 0 {
        bail!("no request was answered");
    }
    Ok(Load { requests, bytes, elapsed: Duration::from_micros(microseconds) })
}

#[cfg(test)]
mod tests {
    use super::{Load, parse};
    use std::time::Duration;

    #[test]
    fn counters_are_found_among_the_report() {
        let load = parse("Running 5s test\n  1 threads\ncounted 100 200000 5000000 0\n").unwrap();
        assert_eq!(load, Load { requests: 100, bytes: 200_000, elapsed: Duration::from_secs(5) });
    }

    #[test]
    fn a_load_with_failures_is_no_measurement() {
        for (text, complaint) in [
            ("counted 100 2000 5000000 3", "3 of 100 requests failed"),
            ("counted 0 0 5000000 0", "no request was answered"),
            ("counted 1 2", "wrk printed 2 counters, not 4"),
            ("", "wrk printed no counters"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), complaint);
        }
    }
}
