//! `larder top`: the most requested URLs of a running larder, as a live table on a terminal, or once in a pipe.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::termios::tcgetwinsize;
use serde_json::{Value, from_slice};

use crate::cli::admin::{AdminClient, AdminListener};
use crate::cli::tables::aligned;
use crate::cli::units::{about_count, about_size, about_time, parse_duration};
use crate::cli::words::printable;
use crate::cli::{Failure, say};

pub(super) const EXAMPLES: &str = "\
Examples:
  larder top
      the most requested URLs of the last one to two minutes, every second
  larder top --by misses
  larder top --for 10s --json

Hit ratio = hits / (hits + validated + misses). In a pipe it collects for 5 seconds and prints one table.";

/// What `top` shows.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Rank URLs by requests, hits, validated, misses, bytes, or origin time
    #[arg(long, value_name = "MEASURE", default_value = "requests")]
    by: String,
    /// End after this time [default: 5s in a pipe]
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    limit: Option<Duration>,
    /// Print one table, as JSON
    #[arg(long)]
    json: bool,
    /// The admin listener.
    #[command(flatten)]
    listener: AdminListener,
}

/// How long is looked before a table is printed where it cannot be followed.
const LOOK: Duration = Duration::from_secs(5);
/// Rows of a table where no terminal sets a limit.
const ROWS: usize = 20;
/// Lines that are no rows.
const FRAME: usize = 7;
/// Clears a terminal.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Shows the table until somebody ends it, or for as long as was asked for.
pub(crate) fn run(top: &Top) -> Result<(), Failure> {
    let remote = AdminClient::new(&top.listener).map_err(Failure::Failed)?;
    let is_live = io::stdout().is_terminal() && !top.json;
    let limit = top.limit.or((!is_live).then_some(LOOK));
    let (begun, mut last) = (Instant::now(), None);
    let query = [("by", top.by.clone())];
    // The last one comes when the time is over.
    let patience = limit.map(|limit| limit + Duration::from_secs(5));
    remote.events("top", &query, patience, &mut |_, data| {
        if data.is_empty() {
            return Ok(true);
        }
        let report: Value = from_slice(data).map_err(|error| error.to_string())?;
        let goes_on = limit.is_none_or(|limit| begun.elapsed() < limit);
        if is_live {
            let (lines, columns) = size();
            let table = page(&report, lines.saturating_sub(FRAME) * 3 / 4, columns);
            let shown = write!(io::stdout(), "{CLEAR}{table}").and_then(|()| io::stdout().flush());
            return Ok(shown.is_ok() && goes_on);
        }
        last = Some(report);
        Ok(goes_on)
    })?;
    match last {
        Some(report) if top.json => say(&report.to_string()),
        Some(report) => say(page(&report, ROWS, usize::MAX).trim_end()),
        None => {}
    }
    Ok(())
}

/// Lines and columns of the terminal.
fn size() -> (usize, usize) {
    tcgetwinsize(io::stdout()).map_or((ROWS + FRAME, 80), |size| (size.ws_row.into(), size.ws_col.into()))
}

/// Requests that hit ratios are taken of.
const CACHEABLE: &[&str] = &["hits", "validated", "misses"];
const LEGEND: &str =
    "hit ratio = hits / (hits + validated + misses); +validated = (hits + validated) / the same";

/// The tables of URLs and of routes, with so many rows of the first at most, and lines no longer than `columns`.
fn page(report: &Value, rows: usize, columns: usize) -> String {
    let list = |name: &str| report[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let number = |name: &str| report[name].as_u64().unwrap_or_default();
    let mut lines = vec![format!("the last {:.0} s", report["seconds"].as_f64().unwrap_or_default())];
    if number("dropped") > 0 {
        lines.push(format!("{} requests came too fast to be looked at", about_count(number("dropped"))));
    }
    if number("others") > 0 {
        lines.push(format!(
            "{} requests were for URLs beyond those that are summed",
            about_count(number("others"))
        ));
    }
    if list("urls").is_empty() {
        lines.push("no requests".to_owned());
    } else {
        lines.extend(urls(&list("urls")[..list("urls").len().min(rows)]));
        lines.push(String::new());
        lines.extend(routes(&list("routes")[..list("routes").len().min(rows / 3 + 1)]));
        lines.push(LEGEND.to_owned());
    }
    let cut = |line: &String| line.chars().take(columns).chain(['\n']).collect::<String>();
    lines.iter().map(cut).collect()
}

fn urls(urls: &[Value]) -> Vec<String> {
    let heading = ["requests", "hits", "validated", "misses", "bytes", "origin", "why", "url"];
    let row = |url: &Value| {
        let number = |name: &str| url[name].as_u64().unwrap_or_default();
        let word = |name: &str| printable(url[name].as_str().unwrap_or_default());
        let origin = number("origin_us");
        vec![
            about_count(number("requests")),
            about_count(number("hits")),
            about_count(number("validated")),
            about_count(number("misses")),
            about_size(number("bytes")),
            if origin == 0 { "-".to_owned() } else { about_time(origin as f64) },
            format!("{:<22}", word("why")),
            word("url"),
        ]
    };
    table(heading.map(str::to_owned).to_vec(), urls.iter().map(row), 2)
}

fn routes(routes: &[Value]) -> Vec<String> {
    let heading = ["requests", "hits", "validated", "misses", "hit ratio", "+validated", "of bytes"];
    let heading = heading.into_iter().chain(["site", "route"]).map(str::to_owned).collect();
    let row = |route: &Value| {
        let number = |name: &str| about_count(route[name].as_u64().unwrap_or_default());
        let word = |name: &str| printable(route[name].as_str().unwrap_or_default());
        let any = CACHEABLE.iter().any(|name| route[*name].as_u64().is_some_and(|count| count > 0));
        let ratio = |name: &str| match route[name].as_f64() {
            Some(ratio) if any => format!("{:.1}%", ratio * 100.0),
            _ => "-".to_owned(),
        };
        let counts = ["requests"].iter().chain(CACHEABLE).map(|name| number(name));
        let ratios = ["hit_ratio", "validated_hit_ratio", "byte_hit_ratio"].map(ratio);
        let names = [word("site"), format!("/{}", word("route"))];
        counts.chain(ratios).chain(names).collect()
    };
    table(heading, routes.iter().map(row), 2)
}

/// Rows under a heading, the last `words` columns aligned to the left.
fn table(heading: Vec<String>, rows: impl Iterator<Item = Vec<String>>, words: usize) -> Vec<String> {
    let rows: Vec<_> = std::iter::once(heading).chain(rows).collect();
    let numbers = rows[0].len() - words;
    let (left, right): (Vec<_>, Vec<_>) =
        rows.iter().map(|row| (row[..numbers].to_vec(), row[numbers..].to_vec())).unzip();
    let (left, right) = (aligned(&left, 0, "  "), aligned(&right, words, "  "));
    let widest = left.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    left.iter().zip(right).map(|(left, right)| format!("{left:<widest$}  {right}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tables_are_aligned_and_show_no_control_characters() {
        let report = json!({
            "seconds": 61.5, "dropped": 3, "others": 0,
            "urls": [
                {"url": "http://a/\u{1b}", "requests": 12, "hits": 9, "validated": 1, "misses": 2, "bytes": 2048,
                 "origin_us": 1500, "why": "no-freshness"},
                {"url": "http://a/b", "requests": 1, "hits": 0, "misses": 0, "bytes": 1, "origin_us": 0, "why": "method"},
            ],
            "routes": [{"site": "a", "route": "", "requests": 13, "hits": 9, "validated": 1, "misses": 2,
                        "hit_ratio": 0.75, "validated_hit_ratio": 0.833, "byte_hit_ratio": 0.5}],
        });
        let expected = "\
the last 62 s
3 requests came too fast to be looked at
requests  hits  validated  misses     bytes   origin  why                     url
      12     9          1       2  2.00 KiB  1.50 ms  no-freshness            http://a/\\u{1b}
       1     0          0       0       1 B        -  method                  http://a/b

requests  hits  validated  misses  hit ratio  +validated  of bytes  site  route
      13     9          1       2      75.0%       83.3%     50.0%  a     /
hit ratio = hits / (hits + validated + misses); +validated = (hits + validated) / the same
";
        assert_eq!(page(&report, 5, 200), expected);
        assert!(page(&report, 5, 20).lines().all(|line| line.len() <= 20));
    }
}
