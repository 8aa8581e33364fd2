//! `larder describe`: statistics of traces, as figures on a terminal, JSON, or a page with charts.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use larder_lab::describe::{self, Description, Percentiles};
use larder_lab::trace;
use serde_json::{Value, json};

use crate::cli::files::unwritten;
use crate::cli::progress::Bar;
use crate::cli::traces::{TraceOptions, names};
use crate::cli::units::{about_count, about_size};
use crate::cli::{Failure, say};

pub(super) const EXAMPLES: &str = "\
Examples:
  larder describe access.log
      number of requests, sizes, popularity, reuse
  larder describe access.log -o page.html
      the same as a page with pictures
  larder describe ~/.mozilla/firefox/*/places.sqlite --base-urls --json
      the history of a browser, by site, as JSON
  larder describe trace.csv --columns time,_,key,size
      a table without names

Formats are detected from the content, also if compressed with gzip or zstd.";

/// The arguments of `describe`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Describe {
    /// Trace files; - is standard input
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,
    /// Write a self-contained page with pictures
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The options for reading the files.
    #[command(flatten)]
    reading: TraceOptions,
}

/// A figure's name, and its value.
type Row = (String, String);

/// Runs the command. Traces are read one by one, so that memory holds only one.
pub(crate) fn run(args: &Describe) -> Result<(), Failure> {
    let options = args.reading.options();
    let (mut described, mut parts) = (Vec::new(), Vec::new());
    let names = names(&args.traces);
    for (at, (path, name)) in args.traces.iter().zip(&names).enumerate() {
        let looks = Bar::wait(format!("looking at {name}"));
        let (trace, reading) =
            trace::read(path, &options).map_err(|error| Failure::Refused(error.to_string()))?;
        let found = describe::describe(&trace);
        looks.finish();
        for note in reading.notes() {
            eprintln!("larder: {name}: {note}");
        }
        let rows = rows(&found, reading.format.name());
        if args.output.is_some() {
            parts.push(describe::part(name, &trace, &found, &rows));
        }
        if args.json {
            described.push(as_json(name, &reading, &found));
        } else {
            table(name, &rows, at == 0);
        }
    }
    if args.json {
        say(&json!({ "traces": described }).to_string());
    }
    if let Some(file) = &args.output {
        let page = describe::page(&names.join(", "), &parts);
        fs::write(file, page).map_err(|error| {
            Failure::Failed(format!("cannot write '{}': {}", file.display(), unwritten(&error)))
        })?;
    }
    Ok(())
}

fn as_json(name: &str, reading: &trace::ReadSummary, found: &Description) -> Value {
    let left_out: u64 = reading.left_out.values().sum();
    json!({
        "trace": name,
        "format": reading.format.name(),
        "read": { "requests": reading.requests, "kept": reading.kept, "left_out": left_out, "broken": reading.broken },
        "description": found,
    })
}

fn table(name: &str, rows: &[Row], is_first: bool) {
    if !is_first {
        say("");
    }
    say(name);
    let widest = rows.iter().map(|(what, _)| what.len()).max().unwrap_or(0);
    for (what, value) in rows {
        say(&format!("  {what:<widest$}  {value}"));
    }
}

/// Formats the figures for people.
fn rows(found: &Description, format: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |what: &str, value: String| rows.push((what.to_owned(), value));
    row("format", format.to_owned());
    row("requests", about_count(found.requests));
    if let Some(seconds) = found.seconds.filter(|seconds| *seconds > 0.0) {
        let rate = found.requests as f64 / seconds;
        row("time", format!("{}, {rate:.3} requests/s", about_time(seconds)));
    }
    let once = percent(found.one_hit_share);
    row(
        "objects",
        format!(
            "{}; requested once: {} ({once})",
            about_count(found.objects),
            about_count(found.one_hit_objects)
        ),
    );
    if let (Some(requested), Some(distinct)) = (found.bytes_requested, found.bytes_distinct) {
        row("bytes", format!("{} requested, {} distinct", about_size(requested), about_size(distinct)));
    }
    row("best hit ratio", percent(1.0 - found.objects as f64 / found.requests as f64));
    row("most popular", format!("{} of the requests", percent(found.most_popular_share)));
    if let Some(exponent) = found.zipf_exponent {
        row("zipf exponent", format!("{exponent:.2}"));
    }
    for (what, spread, show, unit) in [
        ("object size", &found.object_size, about_size as fn(u64) -> String, ""),
        ("reuse distance", &found.reuse_distance, about_count, " objects"),
        ("", &found.reuse_distance_bytes, about_size, ""),
    ] {
        if let Some(spread) = spread {
            row(what, percentiles(spread, show) + unit);
        }
    }
    row("working set", working_set(found));
    rows
}

fn percentiles(spread: &Percentiles, show: fn(u64) -> String) -> String {
    let Percentiles { p10, p50, p90, p99, max, .. } = *spread;
    let named = [("10%", p10), ("50%", p50), ("90%", p90), ("99%", p99), ("most", max)];
    named.map(|(name, number)| format!("{name} {}", show(number))).join(", ")
}

fn working_set(found: &Description) -> String {
    let sizes = found.working_set.iter().map(|window| window.objects);
    let (least, most) = (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0));
    format!(
        "{} to {} objects in each of {} parts",
        about_count(least),
        about_count(most),
        found.working_set.len()
    )
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// Formats a duration in its largest two units.
fn about_time(seconds: f64) -> String {
    let whole = seconds as u64;
    let (days, hours, minutes) = (whole / 86_400, whole / 3_600 % 24, whole / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds:.3} s"),
        (0, 0, _) => format!("{minutes} min {} s", whole % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{} d {hours} h", about_count(days)),
    }
}

#[cfg(test)]
mod tests {
    use super::about_time;

    #[test]
    fn durations_are_told_in_two_units() {
        let table = [
            (0.25, "0.250 s"),
            (59.0, "59.000 s"),
            (61.5, "1 min 1 s"),
            (7_260.0, "2 h 1 min"),
            (356_400.0, "4 d 3 h"),
        ];
        for (seconds, text) in table {
            assert_eq!(about_time(seconds), text);
        }
    }
}
