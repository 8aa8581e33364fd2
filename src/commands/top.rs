//! `larder top`: the most requested URLs of a running larder, as a live table on a terminal, or once in a pipe.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, from_slice};

use crate::cli::admin::AdminListener;
use crate::cli::json::Parts;
use crate::cli::numbers::whole;
use crate::cli::tables::{Figure, of_figures, shortened, with_heading};
use crate::cli::terminal::{self, CLEAR, Keys};
use crate::cli::units::{about_count, about_size, about_time, counted, parse_duration};
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
    let remote = top.listener.client()?;
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
    let requests = |name| counted(report.count(name), "request", "requests");
    let mut lines = vec![format!("the last {:.0} s", report["seconds"].as_f64().unwrap_or_default())];
    if report.count("dropped") > 0 {
        lines.push(format!("{} came too fast to be shown", requests("dropped")));
    }
    if report.count("others") > 0 {
        lines.push(format!("{} for URLs beyond those that are summed", requests("others")));
    }
    let (urls, routes) = (report.list("urls"), report.list("routes"));
    if urls.is_empty() {
        lines.push("no requests".to_owned());
    } else {
        lines.extend(table(URLS, &urls[..urls.len().min(rows)], width));
        lines.push(String::new());
        lines.extend(table(ROUTES, &routes[..routes.len().min(rows / 3 + 1)], width));
        lines.extend(LEGEND.map(str::to_owned));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The columns of both tables. The last one is shortened if it does not fit.
const URLS: &[Figure<Value>] = &[
    Figure::number("requests", 0, |url| about_count(url.count("requests"))),
    Figure::number("hits", 0, |url| about_count(url.count("hits"))),
    Figure::number("validated", 4, |url| about_count(url.count("validated"))),
    Figure::number("misses", 0, |url| about_count(url.count("misses"))),
    Figure::number("bytes", 1, |url| about_size(url.count("bytes"))),
    Figure::number("origin", 3, |url| match url.count("origin_us") {
        0 => "-".to_owned(),
        origin => about_time(origin as f64),
    }),
    Figure::text("why", 2, |url| url.word("why")),
    Figure::text("url", 0, |url| url.word("url")),
];
const ROUTES: &[Figure<Value>] = &[
    Figure::number("requests", 0, |route| about_count(route.count("requests"))),
    Figure::number("hits", 1, |route| about_count(route.count("hits"))),
    Figure::number("validated", 4, |route| about_count(route.count("validated"))),
    Figure::number("misses", 1, |route| about_count(route.count("misses"))),
    Figure::number("hit ratio", 0, |route| ratio(route, "hit_ratio")),
    Figure::number("+validated", 3, |route| ratio(route, "validated_hit_ratio")),
    Figure::number("of bytes", 2, |route| ratio(route, "byte_hit_ratio")),
    Figure::text("site", 0, |route| shortened(&route.word("site"), LONGEST_SITE)),
    Figure::text("route", 0, |route| format!("/{}", route.word("route"))),
];

fn ratio(route: &Value, name: &str) -> String {
    match route[name].as_f64() {
        Some(ratio) if CACHEABLE.iter().any(|name| route.count(name) > 0) => format!("{:.1}%", ratio * 100.0),
        _ => "-".to_owned(),
    }
}

fn table(figures: &[Figure<Value>], rows: &[Value], width: Option<usize>) -> Vec<String> {
    with_heading(of_figures(figures, rows, figures.len() - 1, width))
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
