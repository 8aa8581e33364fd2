//! `larder log`: shows the requests of a running larder as they end, each with its decision.

use std::io::{self, Write};
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, from_slice};

use crate::cli::Failure;
use crate::cli::admin::AdminListener;
use crate::cli::json::Parts;
use crate::cli::numbers::whole;
use crate::cli::tables::shortened;
use crate::cli::terminal::{self, Keys, Tone, coloured};
use crate::cli::units::{about_size, about_time, counted, parse_duration};

pub(super) const EXAMPLES: &str = "\
Examples:
  larder log
      every request as it ends, until you stop it
  larder log --outcome miss --url /api/
  larder log --status 5xx --json
  larder log --slower 100ms --for 1m
  larder log --limit 10
      the next ten requests

On a terminal, q quits. Outcomes: hit, stale-hit, coalesced, revalidated, miss, pass, refused, failed.
Requests are collected only while this runs. Requests that come too fast to be shown are counted.";

/// Which requests `log` shows.
#[derive(Debug, Args)]
pub(crate) struct Log {
    /// Only requests for this site
    #[arg(long, value_name = "NAME")]
    site: Option<String>,
    /// Only requests answered with this status, such as 404, or with one of this class, such as 4xx
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Only requests with this outcome
    #[arg(long, value_name = "WORD")]
    outcome: Option<String>,
    /// Only requests whose URL contains this text
    #[arg(long, value_name = "TEXT")]
    url: Option<String>,
    /// Only requests that took longer than this
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    slower: Option<Duration>,
    /// End after this time
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    period: Option<Duration>,
    /// End after this many requests
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u64>(1..=u64::MAX))]
    limit: Option<u64>,
    /// Print a line of JSON for each request
    #[arg(long)]
    json: bool,
    /// The admin listener.
    #[command(flatten)]
    listener: AdminListener,
}

/// The width in columns from which every figure has a separate column.
const WIDE: usize = 120;
/// The headings of wide lines, and of narrow ones.
const HEADING: [&str; 8] = ["time", "status", "outcome", "reason", "bytes", "took", "origin", "request"];
const NARROW_HEADING: [&str; 5] = ["time", "status", "outcome, reason", "took", "request"];

/// Shows requests until the reader has left, or until the time or number of the options is reached.
pub(crate) fn run(log: &Log) -> Result<(), Failure> {
    let client = log.listener.client()?;
    let _keys = (!log.json).then(Keys::quit_on_q);
    let zone = TimeZone::system();
    let (mut is_first, mut left) = (true, log.limit.unwrap_or(u64::MAX));
    client.events("log", &query(log), log.period, &mut |name, data| {
        if data.is_empty() {
            return Ok(io::stdout().flush().is_ok());
        }
        let read = || from_slice::<Value>(data).map_err(|error| error.to_string());
        if name == "dropped" {
            let dropped = read()?.count("dropped");
            eprintln!("larder: {} so far came too fast to be shown", counted(dropped, "request", "requests"));
            return Ok(true);
        }
        left -= 1;
        if log.json {
            return Ok(print(&String::from_utf8_lossy(data)) && left > 0);
        }
        let width = terminal::columns();
        if std::mem::take(&mut is_first) {
            print(&coloured(Tone::Heading, &heading(width)));
        }
        Ok(print(&line(&read()?, &zone, width)) && left > 0)
    })?;
    Ok(())
}

/// Returns the colour of an outcome.
fn tone(outcome: &str) -> Tone {
    match outcome {
        "hit" | "coalesced" | "revalidated" | "stale-hit" => Tone::Good,
        "failed" | "refused" => Tone::Bad,
        _ => Tone::Fair,
    }
}

fn is_narrow(width: Option<usize>) -> Option<usize> {
    width.filter(|width| *width < WIDE)
}

fn heading(width: Option<usize>) -> String {
    match is_narrow(width) {
        Some(width) => narrow(NARROW_HEADING, width).join(" "),
        None => wide(HEADING).join("  "),
    }
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

/// Prints a line; returns false once the reader has left.
fn print(line: &str) -> bool {
    writeln!(io::stdout(), "{line}").is_ok()
}

/// Formats a request for people, in at most `width` characters.
fn line(seen: &Value, zone: &TimeZone, width: Option<usize>) -> String {
    let number = |name: &str| seen[name].as_u64();
    let time = number("time").and_then(|time| Timestamp::from_millisecond(i64::try_from(time).ok()?).ok());
    let time =
        time.map_or_else(String::new, |time| time.to_zoned(zone.clone()).strftime("%T%.3f").to_string());
    let took = |name: &str| number(name).map_or_else(|| "-".to_owned(), |micros| about_time(micros as f64));
    let (outcome, reason) = (seen.word("outcome"), seen.word("reason"));
    let tier = if seen["tier"] == "disk" { " disk" } else { "" };
    let status = seen.count("status").to_string();
    let request = format!("{} {}", seen.word("method"), seen.word("url"));
    let mut cells = match is_narrow(width) {
        Some(width) => {
            let decision = format!("{outcome}, {reason}");
            let time = time.get(..8).unwrap_or_default();
            narrow([time, &status, &decision, &took("service_us"), &request], width).to_vec()
        }
        None => {
            let bytes = about_size(seen.count("bytes"));
            let outcome = format!("{outcome}{tier}");
            let (took, origin) = (took("service_us"), took("origin_us"));
            wide([&time, &status, &outcome, &reason, &bytes, &took, &origin, &request]).to_vec()
        }
    };
    cells[2] = coloured(tone(&outcome), &cells[2]);
    cells.join(if is_narrow(width).is_some() { " " } else { "  " })
}

/// Aligns the cells of a wide line.
fn wide([time, status, outcome, reason, bytes, took, origin, request]: [&str; 8]) -> [String; 8] {
    [
        format!("{time:<12}"),
        format!("{status:>6}"),
        format!("{outcome:<14}"),
        format!("{reason:<22}"),
        format!("{bytes:>10}"),
        format!("{took:>8}"),
        format!("{origin:>8}"),
        request.to_owned(),
    ]
}

/// Aligns the cells of a narrow line of `width` characters.
fn narrow([time, status, decision, took, request]: [&str; 5], width: usize) -> [String; 5] {
    let cells = [
        format!("{time:<8}"),
        format!("{status:>6}"),
        format!("{:<24}", shortened(decision, 24)),
        format!("{took:>8}"),
    ];
    let used: usize = cells.iter().map(|cell| cell.chars().count() + 1).sum();
    let [time, status, decision, took] = cells;
    let room = width.saturating_sub(used);
    let request = match request.split_once(' ') {
        Some((method, url)) => {
            format!("{method} {}", shortened(url, room.saturating_sub(method.chars().count() + 1)))
        }
        None => shortened(request, room),
    };
    [time, status, decision, took, request]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_fits_the_terminal() {
        let url = format!("http://a.example/{}.html", "long".repeat(40));
        let seen = json!({"time": 1, "status": 200, "outcome": "revalidated", "reason": "heuristically-fresh-and-more",
                          "service_us": 35_000_000, "method": "GET", "url": url});
        let line = line(&seen, &TimeZone::UTC, Some(80));
        assert!(
            line.chars().count() == 80 && line.contains(" GET a.example/") && line.ends_with(".html"),
            "{line}"
        );
    }

    #[test]
    fn a_line_stands_under_its_heading_and_shows_no_control_characters() {
        let seen = json!({
            "time": 1_700_000_000_123_u64, "status": 200, "outcome": "hit", "reason": "fresh", "tier": "disk",
            "bytes": 2048, "service_us": 35, "method": "GET", "url": "http://a/\u{1b}",
        });
        let narrow = line(&seen, &TimeZone::UTC, Some(80));
        assert_eq!(narrow, "22:13:20    200 hit, fresh                  35 us GET http://a/\\u{1b}");
        let line = line(&seen, &TimeZone::UTC, None);
        assert!(line.starts_with("22:13:20.123     200  hit disk        fresh "), "{line}");
        assert!(line.ends_with("  2.00 KiB     35 us         -  GET http://a/\\u{1b}"), "{line}");
        assert_eq!(heading(None).find("request"), line.find("GET"));
        assert_eq!(heading(Some(80)).find("request"), narrow.find("GET"));
    }
}
