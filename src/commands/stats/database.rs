//! `larder stats --by`, `--top` and `--sql`: queries the statistics database, whether the proxy runs or not.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::{ArgGroup, Args};
use jiff::Timestamp;
use larder_stats::{Database, Dimension, Group, Measure, QueryError, Table};
use serde_json::{Map, Value, json};

use crate::cli::numbers::whole;
use crate::cli::tables::{Figure, aligned, of_figures, with_heading};
use crate::cli::terminal;
use crate::cli::units::{about_count, about_size, about_time, parse_duration, show_duration};
use crate::cli::{Failure, choice, say};
use crate::config::flags::Flags;
use crate::config::names;
use crate::config::{self, DatabasePlace};

/// The default number of URLs of `--top`.
const URLS: u32 = 20;
/// The default period of a question, in the past.
const SINCE: Duration = Duration::from_secs(86_400);

/// The question for the statistics database; without one, the running proxy is asked.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("question").multiple(false), next_help_heading = "Statistics database")]
pub(super) struct Query {
    /// Show sums by this
    #[arg(long, value_name = "PROPERTY", group = "question", value_parser = choice(Dimension::NAMES))]
    by: Option<Dimension>,
    /// Show the URLs with the most hits, validations, misses, bytes, or origin time
    #[arg(long, value_name = "MEASURE", group = "question", value_parser = choice(Measure::NAMES))]
    top: Option<Measure>,
    /// Show the result of this read-only query
    #[arg(long, value_name = "SELECT", group = "question")]
    sql: Option<String>,
    /// Only requests of this last period [default: 1d]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "question", conflicts_with = "sql")]
    since: Option<Duration>,
    /// Number of rows [default: 20 URLs, or all sums]
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u32>(1..=u32::MAX.into()), requires = "question", conflicts_with = "sql")]
    limit: Option<u32>,
    /// Use this database instead of the config's
    #[arg(long, value_name = "URL", value_parser = names::database, requires = "question")]
    stats: Option<DatabasePlace>,
    /// Config file with the database
    #[arg(long, value_name = "FILE", requires = "question")]
    config: Option<PathBuf>,
}

impl Query {
    /// Answers the question, if there is one, and returns whether there was. The error is the reason why there is no
    /// answer, in one line.
    pub(super) fn answer(&self, as_json: bool) -> Result<bool, Failure> {
        if self.by.is_none() && self.top.is_none() && self.sql.is_none() {
            return Ok(false);
        }
        let url = self.url()?;
        let file = url.strip_prefix("sqlite:").and_then(|rest| rest.split('?').next());
        if file.is_some_and(|file| !Path::new(file).exists()) {
            let why = "no such file; larder serve creates it, or name another by --stats";
            return Err(Failure::Failed(format!("statistics database '{url}': {why}")));
        }
        let mut database = Database::open_read(&url).map_err(|error| Failure::Failed(error.to_string()))?;
        let page = self.ask(&mut database, as_json);
        let failed = |error: QueryError| Failure::Failed(format!("statistics database: {error}"));
        page.map_err(failed)?.iter().for_each(|line| say(line));
        Ok(true)
    }

    fn url(&self) -> Result<String, Failure> {
        let flags = Flags { stats: self.stats.clone(), ..Flags::default() };
        let settings = config::load(self.config.as_deref(), &flags);
        let settings = settings.map_err(|error| Failure::Refused(error.to_string()))?;
        let url = settings.statistics.database.url();
        let missing = "no statistics database is configured; name one by --stats or --config";
        if url.is_empty() { Err(Failure::Refused(missing.to_owned())) } else { Ok(url) }
    }

    fn ask(&self, database: &mut Database, as_json: bool) -> Result<Vec<String>, QueryError> {
        let period = self.since.unwrap_or(SINCE);
        let limit = self.limit.unwrap_or(if self.top.is_some() { URLS } else { u32::MAX });
        let since = SystemTime::now().checked_sub(period);
        let since = since.and_then(|since| since.duration_since(SystemTime::UNIX_EPOCH).ok());
        let since = since.map_or(0, |since| since.as_millis() as u64);
        let (name, groups) = match (&self.sql, self.by, self.top) {
            (Some(sql), ..) => {
                let table = database.query(sql)?;
                return Ok(if as_json { vec![found_json(&table)] } else { found(&table) });
            }
            (_, Some(dimension), _) => (dimension.name(), database.by(dimension, since)?),
            (.., Some(measure)) => ("url", database.top(measure, since, limit)?),
            (None, None, None) => return Ok(Vec::new()),
        };
        if as_json {
            return Ok(vec![groups_json(name, &groups)]);
        }
        if groups.is_empty() {
            return Ok(vec![format!("no such requests in the last {}", show_duration(period))]);
        }
        let shown = &groups[..groups.len().min(limit as usize)];
        let mut lines = table(name, shown, terminal::columns());
        if shown.len() < groups.len() {
            lines.push(format!("and {} more; --limit shows more of them", groups.len() - shown.len()));
        }
        Ok(lines)
    }
}

const FIGURES: &[Figure<Group>] = &[
    Figure::number("requests", 0, |of| about_count(of.counts.requests)),
    Figure::number("hits", 0, |of| about_count(of.counts.hits)),
    Figure::number("validated", 5, |of| about_count(of.counts.validated)),
    Figure::number("misses", 1, |of| about_count(of.counts.misses)),
    Figure::number("hit ratio", 0, |of| ratio(of.counts.hit_ratio(), of.counts.cacheable())),
    Figure::number("+validated", 4, |of| ratio(of.counts.validated_hit_ratio(), of.counts.cacheable())),
    Figure::number("of bytes", 6, |of| ratio(of.counts.byte_hit_ratio(), of.counts.bytes_cacheable)),
    Figure::number("bytes", 2, |of| about_size(of.counts.bytes)),
    Figure::number("mean time", 3, |of| time(of.counts.mean_service_us(), of.counts.requests)),
    Figure::number("of origins", 7, |of| time(of.counts.mean_origin_us(), of.counts.origin_requests)),
];

/// Returns the groups in lines of at most `width` characters.
fn table(name: &'static str, groups: &[Group], width: Option<usize>) -> Vec<String> {
    let names = Figure::text(name, 0, if name == "hour" { hour } else { shown });
    with_heading(of_figures([&names].into_iter().chain(FIGURES), groups, 0, width))
}

/// Returns the hour of a group.
fn hour(group: &Group) -> String {
    match group.name.parse().ok().and_then(|millis| Timestamp::from_millisecond(millis).ok()) {
        Some(hour) => hour.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        None => shown(group),
    }
}

/// Returns the name of a group.
fn shown(group: &Group) -> String {
    if group.name.is_empty() { "-".to_owned() } else { group.name.escape_debug().to_string() }
}

/// Formats a share of `whole` as a percentage; `-` if `whole` is 0.
fn ratio(ratio: f64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.2}%", ratio * 100.0) }
}

/// Formats the mean of `count` times; `-` if there are none.
fn time(micros: f64, count: u64) -> String {
    if count == 0 { "-".to_owned() } else { about_time(micros) }
}

fn groups_json(name: &str, groups: &[Group]) -> String {
    let group = |Group { name: value, counts }: &Group| {
        // As in the table of requests: milliseconds since 1970.
        let hour = value.parse::<i64>().ok().filter(|_| name == "hour");
        let value = hour.map_or_else(|| Value::from(value.as_str()), Value::from);
        json!({
            name: value, "requests": counts.requests, "hits": counts.hits, "validated": counts.validated,
            "misses": counts.misses, "hit_ratio": counts.hit_ratio(),
            "validated_hit_ratio": counts.validated_hit_ratio(), "byte_hit_ratio": counts.byte_hit_ratio(), "bytes": counts.bytes,
            "mean_micros": counts.mean_service_us(), "origin_requests": counts.origin_requests,
            "mean_origin_micros": counts.mean_origin_us(),
        })
    };
    Value::from(groups.iter().map(group).collect::<Vec<_>>()).to_string()
}

fn found(found: &Table) -> Vec<String> {
    let cell = |cell: &Option<String>| match cell {
        Some(text) => text.escape_debug().to_string(),
        None => "NULL".to_owned(),
    };
    let names = found.columns.iter().map(|name| name.escape_debug().to_string()).collect();
    let rows: Vec<_> = std::iter::once(names)
        .chain(found.rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>()))
        .collect();
    aligned(&rows, found.columns.len(), "  ")
}

fn found_json(found: &Table) -> String {
    let row = |row: &Vec<Option<String>>| {
        let cells = found.columns.iter().cloned().zip(row.iter().map(|cell| json!(cell)));
        Value::Object(cells.collect::<Map<_, _>>())
    };
    Value::from(found.rows.iter().map(row).collect::<Vec<_>>()).to_string()
}

#[cfg(test)]
mod tests {
    use larder_stats::Counts;

    use super::*;

    #[test]
    fn groups_are_rows_with_what_can_be_said_of_them() {
        let counts = Counts {
            requests: 1_300,
            hits: 900,
            validated: 60,
            misses: 240,
            bytes: 4 << 20,
            bytes_cacheable: 400,
            bytes_from_cache: 100,
            service_us: 2_600_000,
            origin_requests: 400,
            origin_us: 40_000,
        };
        let refused = Counts { requests: 1, ..Counts::default() };
        let group = |name: &str, counts| Group { name: name.to_owned(), counts };
        let groups = [group("docs/a\u{1b}", counts), group("", refused)];
        let expected = [
            "route         requests  hits  validated  misses  hit ratio  +validated  of bytes     bytes  mean time  of origins",
            "docs/a\\u{1b}     1,300   900         60     240     75.00%      80.00%    25.00%  4.00 MiB    2.00 ms      100 us",
            "-                    1     0          0       0          -           -         -       0 B       0 us           -",
        ];
        assert_eq!(table("route", &groups, None), expected);
        let narrow = table("route", &groups, Some(80));
        assert!(narrow.iter().all(|line| line.chars().count() <= 80), "{narrow:?}");
        assert!(narrow[0].contains("hit ratio") && !narrow[0].contains("of origins"), "{narrow:?}");
        let group = Group { name: "1600002000000".to_owned(), ..groups[0].clone() };
        assert_eq!(hour(&group), "2020-09-13 13:00 UTC");
    }

    #[test]
    fn any_query_result_is_shown_as_a_table_and_as_json() {
        let table = Table {
            columns: vec!["a".to_owned(), "n".to_owned()],
            rows: vec![vec![Some("x\ny".to_owned()), None], vec![Some(String::new()), Some("12".to_owned())]],
        };
        assert_eq!(found(&table), ["a     n", "x\\ny  NULL", "      12"]);
        assert_eq!(found_json(&table), r#"[{"a":"x\ny","n":null},{"a":"","n":"12"}]"#);
    }
}
