//! `larder log`: shows the requests of a running larder as they end, each with its decision.

use std::io::{self, Write};
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, from_slice};

use crate::cli::admin::{AdminClient, AdminListener};
use crate::cli::units::{about_count, about_size, about_time, parse_duration};
use crate::cli::words::printable;
use crate::cli::{Failure, say};

pub(super) const EXAMPLES: &str = "\
Examples:
  larder log
      every request as it ends, until you stop it
  larder log --outcome miss --url /api/
  larder log --status 5xx --json
  larder log --slower 100ms --for 1m

Outcomes: hit, stale-hit, coalesced, revalidated, miss, pass, refused, failed.
Requests are collected only while this runs. Requests that come too fast to be shown are counted.";

/// Which requests `log` shows.
#[derive(Debug, Args)]
pub(crate) struct Log {
    /// Only those for this site
    #[arg(long, value_name = "NAME")]
    site: Option<String>,
    /// Only those answered with this status, such as 404, or one of this class, such as 4xx
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Only those with this outcome
    #[arg(long, value_name = "WORD")]
    outcome: Option<String>,
    /// Only those whose URL contains this text
    #[arg(long, value_name = "TEXT")]
    url: Option<String>,
    /// Only those that took longer than this
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    slower: Option<Duration>,
    /// End after this time
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    limit: Option<Duration>,
    /// Print each request as JSON, a line each
    #[arg(long)]
    json: bool,
    /// The admin listener.
    #[command(flatten)]
    listener: AdminListener,
}

/// What stands over the lines.
const HEADING: [&str; 8] = ["time", "status", "outcome", "reason", "bytes", "took", "origin", "request"];

/// Shows requests for as long as somebody reads, or as long as was asked for.
pub(crate) fn run(log: &Log) -> Result<(), Failure> {
    let remote = AdminClient::new(&log.listener).map_err(Failure::Failed)?;
    if !log.json {
        say(&row(HEADING));
    }
    let zone = TimeZone::system();
    remote.events("log", &query(log), log.limit, &mut |name, data| match (name, data) {
        (_, []) => Ok(io::stdout().flush().is_ok()),
        ("dropped", data) => {
            let dropped: Value = from_slice(data).map_err(|error| error.to_string())?;
            let dropped = about_count(dropped["dropped"].as_u64().unwrap_or_default());
            eprintln!("larder: {dropped} requests so far came too fast to be shown");
            Ok(true)
        }
        (_, data) if log.json => Ok(print(&String::from_utf8_lossy(data))),
        (_, data) => Ok(print(&line(&from_slice(data).map_err(|error| error.to_string())?, &zone))),
    })?;
    Ok(())
}

fn query(log: &Log) -> Vec<(&'static str, String)> {
    let slower = log.slower.map(|slower| slower.as_micros().to_string());
    let all = [
        ("site", log.site.clone()),
        ("status", log.status.clone()),
        ("outcome", log.outcome.clone()),
        ("url", log.url.clone()),
        ("slower_us", slower),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// False once nobody reads.
fn print(line: &str) -> bool {
    writeln!(io::stdout(), "{line}").is_ok()
}

/// A request as people read it.
fn line(seen: &Value, zone: &TimeZone) -> String {
    let word = |name: &str| printable(seen[name].as_str().unwrap_or_default());
    let number = |name: &str| seen[name].as_u64();
    let time = number("time").and_then(|time| Timestamp::from_millisecond(i64::try_from(time).ok()?).ok());
    let time =
        time.map_or_else(String::new, |time| time.to_zoned(zone.clone()).strftime("%T%.3f").to_string());
    let took = |name: &str| number(name).map_or_else(|| "-".to_owned(), |micros| about_time(micros as f64));
    let outcome = match word("tier").as_str() {
        "disk" => format!("{} disk", word("outcome")),
        _ => word("outcome"),
    };
    let status = number("status").unwrap_or_default().to_string();
    let bytes = about_size(number("bytes").unwrap_or_default());
    let request = format!("{} {}", word("method"), word("url"));
    row([
        &time,
        &status,
        &outcome,
        &word("reason"),
        &bytes,
        &took("service_us"),
        &took("origin_us"),
        &request,
    ])
}

/// Cells in their columns.
fn row([time, status, outcome, reason, bytes, took, origin, request]: [&str; 8]) -> String {
    format!(
        "{time:<12}  {status:>6}  {outcome:<14}  {reason:<22}  {bytes:>10}  {took:>8}  {origin:>8}  {request}"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_stands_under_its_heading_and_shows_no_control_characters() {
        let seen = json!({
            "time": 1_700_000_000_123_u64, "status": 200, "outcome": "hit", "reason": "fresh", "tier": "disk",
            "bytes": 2048, "service_us": 35, "method": "GET", "url": "http://a/\u{1b}",
        });
        let line = line(&seen, &TimeZone::UTC);
        assert!(line.starts_with("22:13:20.123     200  hit disk        fresh "), "{line}");
        assert!(line.ends_with("  2.00 KiB     35 us         -  GET http://a/\\u{1b}"), "{line}");
        assert_eq!(row(HEADING).find("request"), line.find("GET"));
    }
}
