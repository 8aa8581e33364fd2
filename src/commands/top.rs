//! `larder top`: the most requested URLs of a running larder, as a live table on a terminal, or once in a pipe.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, from_slice};

use crate::cli::admin::{AdminClient, AdminListener};
use crate::cli::numbers::whole;
use crate::cli::tables::{Column, fitted, shortened};
use crate::cli::terminal::{self, CLEAR, Keys, Tone, coloured};
use crate::cli::units::{about_count, about_size, about_time, counted, parse_duration};
use crate::cli::words::printable;
use crate::cli::{Failure, say};

pub(super) const EXAMPLES: &str = "\
Examples:
  larder top
      the most requested URLs of the last one to two minutes, every second
  larder top --by misses
  larder top --for 10s --json

Hit ratio = hits / (hits + validated + misses). On a terminal, q quits. In a pipe it collects for 5
seconds and prints one table.";

/// The arguments of `top`.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Rank URLs by requests, hits, validated, misses, bytes, or origin time
    #[arg(long, value_name = "MEASURE", default_value = "requests")]
    by: String,
    /// End after this time [default: 5s in a pipe]
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    period: Option<Duration>,
    /// Number of URLs [default: 20, or as many as fit the terminal]
    #[arg(long, value_name = "NUMBER", value_parser = whole::<usize>(1..=u64::MAX))]
    limit: Option<usize>,
    /// Print one table, as JSON
    #[arg(long)]
    json: bool,
    /// The admin listener.
    #[command(flatten)]
    listener: AdminListener,
}

/// The time for which requests are collected before a table is printed, if the output is not a live terminal.
const LOOK: Duration = Duration::from_secs(5);
/// Rows of a table without a terminal.
const ROWS: usize = 20;
/// Lines of the terminal that are not rows.
const FRAME: usize = 9;

/// Shows the table until the user ends it, or for the requested time.
pub(crate) fn run(top: &Top) -> Result<(), Failure> {
    let remote = AdminClient::new(&top.listener).map_err(Failure::Failed)?;
    let is_live = io::stdout().is_terminal() && !top.json;
    let _keys = is_live.then(Keys::quit_on_q);
    let limit = top.period.or((!is_live).then_some(LOOK));
    let (begun, mut last) = (Instant::now(), None);
    let query = [("by", top.by.clone())];
    // The last event arrives after the end of that time.
    let patience = limit.map(|limit| limit + Duration::from_secs(5));
    remote.events("top", &query, patience, &mut |_, data| {
        if data.is_empty() {
            return Ok(true);
        }
        let report: Value = from_slice(data).map_err(|error| error.to_string())?;
        let goes_on = limit.is_none_or(|limit| begun.elapsed() < limit);
        if is_live {
            let lines = terminal::size().map_or(ROWS + FRAME, |(lines, _)| lines);
            let rows = (lines.saturating_sub(FRAME) * 3 / 4).min(top.limit.unwrap_or(usize::MAX));
            let table = page(&report, rows, terminal::columns());
            let shown = writeln!(io::stdout(), "{CLEAR}{table}q quits").and_then(|()| io::stdout().flush());
            return Ok(shown.is_ok() && goes_on);
        }
        last = Some(report);
        Ok(goes_on)
    })?;
    match last {
        Some(report) if top.json => say(&report.to_string()),
        Some(report) => {
            say(page(&report, top.limit.unwrap_or(ROWS), terminal::columns()).trim_end());
        }
        None => {}
    }
    Ok(())
}

/// The outcomes that count in hit ratios.
const CACHEABLE: &[&str] = &["hits", "validated", "misses"];
const LEGEND: [&str; 2] = [
    "hit ratio = hits / (hits + validated + misses)",
    "+validated = (hits + validated) / (hits + validated + misses)",
];
/// The most characters of a site's name.
const LONGEST_SITE: usize = 24;

/// Returns the tables of URLs and of routes, with at most `rows` rows of the first, in lines of at most `width`
/// characters.
fn page(report: &Value, rows: usize, width: Option<usize>) -> String {
    let list = |name: &str| report[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let number = |name: &str| report[name].as_u64().unwrap_or_default();
    let mut lines = vec![format!("the last {:.0} s", report["seconds"].as_f64().unwrap_or_default())];
    if number("dropped") > 0 {
        let dropped = counted(number("dropped"), "request", "requests");
        lines.push(format!("{dropped} came too fast to be shown"));
    }
    if number("others") > 0 {
        let others = counted(number("others"), "request", "requests");
        lines.push(format!("{others} for URLs beyond those that are summed"));
    }
    if list("urls").is_empty() {
        lines.push("no requests".to_owned());
    } else {
        lines.extend(urls(&list("urls")[..list("urls").len().min(rows)], width));
        lines.push(String::new());
        lines.extend(routes(&list("routes")[..list("routes").len().min(rows / 3 + 1)], width));
        lines.extend(LEGEND.map(str::to_owned));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn column(name: &'static str, rank: u8) -> Column {
    Column { name, is_text: false, rank }
}

fn text(name: &'static str, rank: u8) -> Column {
    Column { name, is_text: true, rank }
}

fn urls(urls: &[Value], width: Option<usize>) -> Vec<String> {
    let columns = [
        column("requests", 0),
        column("hits", 0),
        column("validated", 4),
        column("misses", 0),
        column("bytes", 1),
        column("origin", 3),
        text("why", 2),
        text("url", 0),
    ];
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
            word("why"),
            word("url"),
        ]
    };
    table(&columns, &urls.iter().map(row).collect::<Vec<_>>(), width)
}

fn routes(routes: &[Value], width: Option<usize>) -> Vec<String> {
    let columns = [
        column("requests", 0),
        column("hits", 1),
        column("validated", 4),
        column("misses", 1),
        column("hit ratio", 0),
        column("+validated", 3),
        column("of bytes", 2),
        text("site", 0),
        text("route", 0),
    ];
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
        let names = [shortened(&word("site"), LONGEST_SITE), format!("/{}", word("route"))];
        counts.chain(ratios).chain(names).collect()
    };
    table(&columns, &routes.iter().map(row).collect::<Vec<_>>(), width)
}

/// Returns a table with its heading. The last column is shortened if it does not fit.
fn table(columns: &[Column], rows: &[Vec<String>], width: Option<usize>) -> Vec<String> {
    let mut lines = fitted(columns, rows, columns.len() - 1, width);
    if let Some(heading) = lines.first_mut() {
        *heading = coloured(Tone::Heading, heading);
    }
    lines
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
3 requests came too fast to be shown
requests  hits  validated  misses     bytes   origin  why           url
      12     9          1       2  2.00 KiB  1.50 ms  no-freshness  http://a/\\u{1b}
       1     0          0       0       1 B        -  method        http://a/b

requests  hits  validated  misses  hit ratio  +validated  of bytes  site  route
      13     9          1       2      75.0%       83.3%     50.0%  a     /
hit ratio = hits / (hits + validated + misses)
+validated = (hits + validated) / (hits + validated + misses)
";
        assert_eq!(page(&report, 5, None), expected);
    }

    #[test]
    fn a_page_fits_the_terminal() {
        let url = format!("http://a.example/{}/index.html", "long".repeat(40));
        let report = json!({
            "seconds": 1.0, "dropped": 1, "others": 1,
            "urls": [{"url": url, "requests": 1_234_567, "hits": 900_000, "validated": 1, "misses": 334_566, "bytes": 1_u64 << 40,
                      "origin_us": 1500, "why": "no-freshness"}],
            "routes": [{"site": "s".repeat(80), "route": "r".repeat(80), "requests": 13, "hits": 9, "misses": 2}],
        });
        let page = page(&report, 5, Some(80));
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
        assert!(page.contains(" a.example/") && page.contains("/index.html\n"), "{page}");
        assert!(page.contains("1 request came too fast"), "{page}");
    }
}
