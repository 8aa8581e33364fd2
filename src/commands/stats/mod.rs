//! `larder stats`: reads the counters of a running proxy and shows them.

mod database;
mod findings;
mod summary;

use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value};

use crate::cli::admin::AdminListener;
use crate::cli::terminal::{self, CLEAR, Keys};
use crate::cli::units::{about_count, about_size};
use crate::cli::{Failure, counters, say};
use database::Query;
use findings::Findings;

pub(super) const EXAMPLES: &str = "\
Examples:
  larder stats
      a summary on one screen; --all shows every number, --watch repeats it every second
  larder stats --admin 127.0.0.1:9146 --json
  larder stats --validator
      hits that [validate] found stale
  larder stats --couplings
      writes that seem to change the responses of other paths
  larder stats --by route --since 1h
  larder stats --top misses --stats sqlite:statistics.db
  larder stats --sql 'SELECT url, status FROM transactions ORDER BY id DESC LIMIT 10'";

/// The interval at which `--watch` shows the numbers.
const EVERY: Duration = Duration::from_secs(1);

/// The arguments of `stats`.
#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// The admin listener.
    #[command(flatten)]
    listener: AdminListener,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print every number instead of a summary
    #[arg(long, conflicts_with_all = ["json", "question", "validator", "couplings"])]
    all: bool,
    /// Print the numbers every second until interrupted
    #[arg(long, conflicts_with_all = ["question", "validator", "couplings"])]
    watch: bool,
    /// The findings to print, instead of the numbers.
    #[command(flatten)]
    findings: Findings,
    /// The question for the statistics database, instead of the numbers.
    #[command(flatten)]
    query: Query,
}

/// Prints the numbers of the proxy at `stats.admin`, or the answer of the statistics database.
pub(crate) fn run(stats: &Stats) -> Result<(), Failure> {
    if stats.query.answer(stats.json)? {
        return Ok(());
    }
    if stats.findings.answer(&stats.listener, stats.json)? {
        return Ok(());
    }
    let _keys = stats.watch.then(Keys::quit_on_q);
    loop {
        print(stats)?;
        if !stats.watch {
            return Ok(());
        }
        std::thread::sleep(EVERY);
        say(if io::stdout().is_terminal() { CLEAR } else { "" });
    }
}

/// Prints the numbers once: as JSON, all of them, or those that fit on one screen.
fn print(stats: &Stats) -> Result<(), Failure> {
    let (text, numbers) = counters::read(&stats.listener).map_err(Failure::Failed)?;
    match (stats.json, stats.all) {
        (true, _) => say(text.trim_end()),
        (false, true) => table(&numbers).iter().for_each(|line| say(line)),
        (false, false) => summary::lines(&numbers, terminal::columns()).iter().for_each(|line| say(line)),
    }
    Ok(())
}

/// The most popular keys, which come first.
const FIRST: &[&str] = &[
    "requests",
    "hits",
    "validated",
    "misses",
    "hit_ratio",
    "validated_hit_ratio",
    "byte_hit_ratio",
    "bytes_served",
    "objects",
    "bytes_stored",
    "capacity",
    "policy",
];

/// Returns one aligned line for each number: the well-known ones, then the others by name.
fn table(numbers: &Map<String, Value>) -> Vec<String> {
    let by_entries = numbers.get("by").is_some_and(|by| by == "entries");
    let mut rows = Vec::new();
    for (name, value) in numbers {
        flatten(name.clone(), value, by_entries, &mut rows);
    }
    rows.sort_by_key(|(name, _)| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()));
    let widest = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    rows.into_iter().map(|(name, value)| format!("{name:<widest$}  {value}")).collect()
}

/// Adds `value` as rows of a name and a text. A value in an object is called `outer.inner`; one in a list is called by
/// its position, from 1.
fn flatten(name: String, value: &Value, by_entries: bool, rows: &mut Vec<(String, String)>) {
    match value {
        Value::Object(inner) => {
            for (key, value) in inner {
                flatten(format!("{name}.{key}"), value, by_entries, rows);
            }
        }
        Value::Array(all) => {
            for (at, value) in all.iter().enumerate() {
                flatten(format!("{name}.{}", at + 1), value, by_entries, rows);
            }
        }
        _ => {
            let text = show(&name, value, by_entries);
            rows.push((name.escape_debug().to_string(), text));
        }
    }
}

/// Formats a value for people: its name shows whether it is a ratio, a size or a count.
fn show(name: &str, value: &Value, by_entries: bool) -> String {
    let is_size = name.contains("bytes") || name == "capacity" && !by_entries;
    match (value, value.as_u64(), value.as_f64()) {
        (_, _, Some(ratio)) if name.ends_with("ratio") => format!("{:.2}%", ratio * 100.0),
        (_, Some(bytes), _) if is_size => about_size(bytes),
        (_, Some(count), _) => about_count(count),
        (Value::String(text), ..) => text.escape_debug().to_string(),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(value: &Value) -> Vec<String> {
        table(value.as_object().expect("an object"))
    }

    #[test]
    fn numbers_are_aligned_and_humanised_and_none_is_left_out() {
        let numbers = json!({
            "capacity": 1_073_741_824, "hit_ratio": 0.75, "hits": 3, "requests": 1_234_567,
            "bytes_served": 123_456_789, "policy": "lru", "origin": {"errors": 2}, "disks": [{"size": 1}],
        });
        let expected = [
            "requests       1,234,567",
            "hits           3",
            "hit_ratio      75.00%",
            "bytes_served   117.7 MiB",
            "capacity       1.00 GiB",
            "policy         lru",
            "disks.1.size   1",
            "origin.errors  2",
        ];
        assert_eq!(lines(&numbers), expected);
    }

    #[test]
    fn a_capacity_by_entries_is_a_count() {
        assert_eq!(
            lines(&json!({"capacity": 2048, "by": "entries"})),
            ["capacity  2,048", "by        entries"]
        );
    }
}
