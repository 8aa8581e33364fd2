//! Load by `tls-load` (`bench/src/tls_load`): latencies in open loop over TLS, and the time of the cipher alone.
//!
//! wrk cannot make this load: it sends when the last answer has arrived, so that a server that stalls gets fewer
//! requests.

use super::measure::median;
use super::server::RunningServer;
use super::table::{Cell, Row};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The number of connections of a load.
const CROWDS: [u32; 2] = [10, 1_000];
/// The rate of the load, as a share of what the server answers when each connection always has a request.
const SHARE: f64 = 0.5;
const PATH: &str = "/1k";
/// The duration for which the cipher works.
const SEALING: Duration = Duration::from_millis(300);

/// The program.
pub(super) struct Tool(pub(super) PathBuf);

/// The results of a load.
#[derive(Debug, PartialEq)]
struct Report {
    per_second: f64,
    /// The latencies within which 50, 99 and 99.9 of 100 requests were answered, in microseconds.
    within: [f64; 3],
}

impl Tool {
    /// Returns the CPU microseconds in which the cipher that a server chooses seals 1 MiB alone, in records of 16 KiB.
    /// Fails if the program fails.
    pub(super) fn cipher(&self, server: &RunningServer) -> Result<f64> {
        let (address, certificate) = to(server);
        let text = self.run(&["cipher", &address, &certificate, &SEALING.as_millis().to_string()])?;
        let nanoseconds = text.trim().split_once(' ').and_then(|(_, time)| time.parse::<u64>().ok());
        Ok(nanoseconds.context("the time of the cipher")? as f64 / 1e3)
    }

    /// Loads a server at `rate`, or as fast as it answers.
    fn load(
        &self,
        server: &RunningServer,
        connections: u32,
        duration: Duration,
        rate: Option<u32>,
    ) -> Result<Report> {
        let ((address, certificate), connections) = (to(server), connections.to_string());
        let (duration, rate) = (duration.as_millis().to_string(), rate.map(|rate| rate.to_string()));
        let mut words = vec![address.as_str(), &certificate, PATH, &connections, &duration];
        words.extend(rate.as_deref());
        parse(&self.run(&words)?)
    }

    fn run(&self, words: &[&str]) -> Result<String> {
        let output = Command::new(&self.0).args(words).output().context("cannot start tls-load")?;
        if !output.status.success() {
            bail!("tls-load failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Returns the address of a server, and the file of its certificate.
fn to(server: &RunningServer) -> (String, String) {
    let certificate = server.folder().join("cert.pem");
    (format!("127.0.0.1:{}", server.port), certificate.display().to_string())
}

fn parse(text: &str) -> Result<Report> {
    let numbers = text.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>();
    let [requests, elapsed, p50, p99, p999] = numbers.context("the numbers of tls-load")?[..] else {
        bail!("tls-load printed: {text}");
    };
    Ok(Report { per_second: requests / elapsed * 1e9, within: [p50, p99, p999].map(|time| time / 1e3) })
}

/// Returns the latencies of servers at half of what each of them answers, for each number of connections. Each round
/// measures all servers, one after the other. Fails if a load fails.
pub(super) fn latencies(
    tool: &Tool,
    servers: &[&RunningServer],
    rounds: u32,
    duration: Duration,
) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for connections in CROWDS {
        let load = |server: &RunningServer, rate| {
            let report = tool.load(server, connections, duration, rate);
            report.with_context(|| format!("{} with {connections} connections", server.name))
        };
        let mut rates = Vec::new();
        for server in servers {
            rates.push((load(server, None)?.per_second * SHARE).max(1.0) as u32);
        }
        let mut samples: Vec<Vec<[f64; 3]>> = vec![Vec::new(); servers.len()];
        for round in 1..=rounds {
            eprintln!("open loop, {connections} connections, round {round} of {rounds}");
            for ((server, rate), samples) in servers.iter().zip(&rates).zip(&mut samples) {
                samples.push(load(server, Some(*rate))?.within);
            }
        }
        for ((server, rate), samples) in servers.iter().zip(rates).zip(samples) {
            rows.push(row(connections, server.name, rate, &samples));
        }
    }
    Ok(rows)
}

fn row(connections: u32, server: &str, rate: u32, samples: &[[f64; 3]]) -> Row {
    let within = |which: usize| median(samples.iter().map(|sample| sample[which]).collect());
    vec![
        ("connections", Cell::number(f64::from(connections), 0)),
        ("server", Cell::word(server)),
        ("requests/s", Cell::number(f64::from(rate), 0)),
        ("p50 us", Cell::number(within(0), 0)),
        ("p99 us", Cell::number(within(1), 0)),
        ("p99.9 us", Cell::number(within(2), 0)),
    ]
}

#[cfg(test)]
mod tests {
    use super::{Report, parse};

    #[test]
    fn numbers_have_their_units() {
        let report = parse("3000 1500000000 80000 200000 900500\n").unwrap();
        assert_eq!(report, Report { per_second: 2_000.0, within: [80.0, 200.0, 900.5] });
        for text in ["", "1 2 3", "1 2 3 4 x"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
