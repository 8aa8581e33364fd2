//! Load by `openssl s_time`: a connection with TLS 1.3 for each request. wrk cannot make this load: after a connection
//! has ended in order, it resumes the session, and so makes full handshakes with some servers and resumed ones with
//! others.
//!
//! A server that only offers TLS 1.2 would resume sessions without a key exchange, which TLS 1.3 always has here.

use anyhow::{Context, Result, bail, ensure};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The handshakes of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Handshakes {
    Full,
    /// Each resumes the session of the one before.
    Resumed,
}

/// Requests `path` on a port for `duration`, with as many processes as `connections`. Returns the number of requests.
/// Fails if openssl fails, or if handshakes are not as intended.
pub(super) fn run(
    handshakes: Handshakes,
    port: u16,
    path: &str,
    connections: u32,
    duration: Duration,
) -> Result<u64> {
    let kind = if handshakes == Handshakes::Full { "-new" } else { "-reuse" };
    let seconds = duration.as_secs().to_string();
    let start = |_| {
        let mut openssl = Command::new("openssl");
        openssl.args(["s_time", "-connect", &format!("127.0.0.1:{port}"), kind, "-www", path]);
        openssl.args(["-tls1_3", "-time", &seconds]).stdout(Stdio::piped()).stderr(Stdio::piped());
        openssl.spawn().context("cannot start openssl")
    };
    let started = (0..connections).map(start).collect::<Result<Vec<_>>>()?;
    let mut requests = 0;
    for process in started {
        let output = process.wait_with_output().context("openssl")?;
        if !output.status.success() {
            bail!("openssl failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        requests += parse(handshakes, &String::from_utf8_lossy(&output.stdout))?;
    }
    Ok(requests)
}

/// Returns the number of connections in a report. The report has a line with a letter for each connection: `r` if its
/// session was resumed.
fn parse(handshakes: Handshakes, text: &str) -> Result<u64> {
    let count = text.lines().find_map(|line| line.split_once(" connections in ")?.0.parse::<u64>().ok());
    let count = count.filter(|count| *count > 0).context("openssl counted no connections")?;
    let is_marks =
        |line: &&str| line.len() as u64 == count && line.bytes().all(|mark| !mark.is_ascii_whitespace());
    let marks = text.lines().find(is_marks).context("openssl printed no marks")?;
    let resumed = marks.bytes().filter(|mark| *mark == b'r').count() as u64;
    let expected = if handshakes == Handshakes::Full { 0 } else { count };
    ensure!(resumed == expected, "{resumed} of {count} sessions were resumed, not {expected}");
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::{Handshakes, parse};

    #[test]
    fn only_handshakes_of_one_kind_count() {
        let report = |marks: &str| {
            format!(
                "starting\n{marks}\n\n3 connections in 0.10s; 30.00 connections/user sec, bytes read 9\n\
                 3 connections in 1 real seconds, 3 bytes read per connection\n"
            )
        };
        assert_eq!(parse(Handshakes::Resumed, &report("rrr")).unwrap(), 3);
        assert_eq!(parse(Handshakes::Full, &report("***")).unwrap(), 3);
        let error = parse(Handshakes::Resumed, &report("r*r")).unwrap_err();
        assert_eq!(error.to_string(), "2 of 3 sessions were resumed, not 3");
        assert!(parse(Handshakes::Full, &report("r**")).is_err());
        assert!(parse(Handshakes::Full, "starting\n").is_err());
    }
}
