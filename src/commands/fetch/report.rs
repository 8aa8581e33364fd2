//! The server's counters and the client's measurements, for people and for programs. Names and units in JSON are
//! stable.

use hdrhistogram::Histogram;
use larder_rpc::{Slot, Statistics};
use serde_json::{Map, Value, json};

use super::measure::ClientFigures;
use crate::cli::units::{about_count, about_size, about_time, counted};

/// A figure's name in JSON, its name for people, and the formatter of its value.
type Row = (&'static str, &'static str, fn(&Value, &Figures) -> String);
/// Figures, by name.
pub(super) type Figures = Map<String, Value>;

const ROWS: &[Row] = &[
    ("requests", "requests", count),
    ("errors", "errors", count),
    ("hits", "hits", count),
    ("validated", "validated", count),
    ("misses", "misses", count),
    ("hit_ratio", "hit ratio", percent),
    ("validated_hit_ratio", "with validated", percent),
    ("byte_hit_ratio", "byte hit ratio", percent),
    ("seconds", "time", |value, _| format!("{:.3} s", value.as_f64().unwrap_or_default())),
    ("rate", "requests due/s", |value, _| format!("{:.1}", value.as_f64().unwrap_or_default())),
    ("requests_per_second", "requests/s", |value, _| format!("{:.1}", value.as_f64().unwrap_or_default())),
    ("average_micros", "average time", time),
    ("p50_micros", "50% within", time),
    ("p90_micros", "90% within", time),
    ("p99_micros", "99% within", time),
    ("p999_micros", "99.9% within", time),
    ("max_micros", "longest", time),
    ("service_p50_micros", "50% once sent", time),
    ("service_p99_micros", "99% once sent", time),
    ("statuses", "statuses", statuses),
    ("bytes", "bytes received", size),
    ("bytes_served", "bytes served", size),
    ("bytes_stored", "bytes stored", size),
    ("entries", "entries", count),
    ("policy", "policy", word),
    ("capacity", "capacity", capacity),
];

/// Percentiles of the client's times.
const SHARES: [(&str, f64); 4] =
    [("p50_micros", 0.5), ("p90_micros", 0.9), ("p99_micros", 0.99), ("p999_micros", 0.999)];
/// The length of the longest bar, in characters.
const BAR: u64 = 40;

/// Figures whose name on the admin listener differs from the name here.
const ADMIN_NAMES: &[(&str, &str)] = &[("objects", "entries"), ("by", "capacity_unit")];

/// Returns the figures of an RPC server.
pub(super) fn of_server(statistics: &Statistics) -> Figures {
    let value = |slot| match slot {
        Slot::Count(number) => json!(number),
        Slot::Real(number) => json!(number),
        Slot::Word(word) => json!(word),
    };
    statistics.clone().slots().map(|(name, slot)| (name.to_owned(), value(slot))).into_iter().collect()
}

/// Returns the same figures from the statistics of an admin listener.
pub(super) fn of_admin(numbers: Figures) -> Figures {
    let renamed = numbers.into_iter().map(|(name, value)| {
        let ours = ADMIN_NAMES.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| *ours);
        (ours.map_or(name, str::to_owned), value)
    });
    let is_known = |name: &str| name == "capacity_unit" || ROWS.iter().any(|(known, ..)| *known == name);
    renamed.filter(|(name, value)| is_known(name) && !value.is_object()).collect()
}

/// Returns the figures of the client.
pub(super) fn of_client(seen: &ClientFigures) -> Figures {
    let seconds = seen.elapsed.as_secs_f64();
    let mut figures = Figures::new();
    let mut put = |name: &str, value: Value| figures.insert(name.to_owned(), value);
    put("requests", json!(seen.requests));
    put("errors", json!(seen.errors));
    put("seconds", json!(seconds));
    put("requests_per_second", json!(if seconds > 0.0 { seen.requests as f64 / seconds } else { 0.0 }));
    put("bytes", json!(seen.bytes));
    put("statuses", seen.statuses.iter().map(|(status, count)| (status.to_string(), json!(count))).collect());
    if seen.hits + seen.misses > 0 {
        put("hits", json!(seen.hits));
        put("misses", json!(seen.misses));
    }
    if let Some(rate) = seen.rate {
        put("rate", json!(rate));
    }
    if !seen.times.is_empty() {
        put("average_micros", json!(seen.times.mean()));
        for (name, share) in SHARES {
            put(name, json!(seen.times.value_at_quantile(share)));
        }
        put("max_micros", json!(seen.times.max()));
        if seen.rate.is_some() {
            put("service_p50_micros", json!(seen.served.value_at_quantile(0.5)));
            put("service_p99_micros", json!(seen.served.value_at_quantile(0.99)));
        }
        put("histogram", buckets(&seen.times).map(|(to, count)| json!([to, count])).collect());
    }
    figures
}

/// Returns the counts of times by their upper bounds, in microseconds: the numbers 1, 2 and 5 with zeros, up to the
/// longest time.
fn buckets(times: &Histogram<u64>) -> impl Iterator<Item = (u64, u64)> {
    let bounds = (0..).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power)));
    let (mut before, max) = (None, times.max());
    let ends = bounds.scan(false, move |ended, to| {
        let goes_on = !*ended;
        *ended = to >= max;
        goes_on.then_some(to)
    });
    let counts = ends.map(move |to| {
        let upto = times.iter_recorded().take_while(|step| step.value_iterated_to() <= to);
        let upto: u64 = upto.map(|step| step.count_since_last_iteration()).sum();
        let count = upto - before.replace(upto).unwrap_or(0);
        (to, count)
    });
    counts.skip_while(|(_, count)| *count == 0)
}

/// Draws the times as bars, a line for each bucket.
pub(super) fn histogram(times: &Histogram<u64>) -> String {
    let rows: Vec<_> = buckets(times).collect();
    let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(1).max(1);
    let line = |&(to, count): &(u64, u64)| {
        let share = count as f64 / times.len() as f64 * 100.0;
        let bar = "#".repeat((count * BAR).div_ceil(most) as usize);
        let (to, count) = (about_time(to as f64), about_count(count));
        format!("\n  {:<14}  {count:>11}  {share:>6.2}%  {bar}", format!("to {to}")).trim_end().to_owned()
    };
    format!("latency of {}", counted(times.len(), "answer", "answers"))
        + &rows.iter().map(line).collect::<String>()
}

/// Returns one aligned line for each figure, below a title.
pub(super) fn table(title: &str, figures: &Figures) -> String {
    let known = ROWS.iter().filter_map(|(name, called, show)| Some((called, show, figures.get(*name)?)));
    let lines = known.map(|(called, show, value)| format!("\n  {called:<14}  {}", show(value, figures)));
    lines.fold(title.to_owned(), |table, line| table + &line)
}

fn count(value: &Value, _: &Figures) -> String {
    about_count(value.as_u64().unwrap_or_default())
}

fn size(value: &Value, _: &Figures) -> String {
    about_size(value.as_u64().unwrap_or_default())
}

fn percent(value: &Value, _: &Figures) -> String {
    format!("{:.2}%", value.as_f64().unwrap_or_default() * 100.0)
}

fn time(value: &Value, _: &Figures) -> String {
    about_time(value.as_f64().unwrap_or_default())
}

/// Formats statuses, such as `200: 1,234, 404: 7`.
fn statuses(value: &Value, figures: &Figures) -> String {
    let all = value.as_object().into_iter().flatten();
    all.map(|(status, number)| format!("{status}: {}", count(number, figures))).collect::<Vec<_>>().join(", ")
}

fn word(value: &Value, _: &Figures) -> String {
    value.as_str().unwrap_or_default().escape_debug().to_string()
}

fn capacity(value: &Value, figures: &Figures) -> String {
    match figures.get("capacity_unit").and_then(Value::as_str) {
        Some("entries") => format!("{} entries", count(value, figures)),
        _ => size(value, figures),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_figures_are_named_alike_however_they_come() {
        let statistics = Statistics {
            requests: 1200,
            hits: 900,
            validated: 60,
            misses: 240,
            hit_ratio: 0.75,
            validated_hit_ratio: 0.8,
            byte_hit_ratio: 0.5,
            average_micros: 1500.0,
            p99_micros: 2.5e6,
            entries: 7,
            capacity: 10,
            capacity_unit: "entries".to_owned(),
            policy: "lru".to_owned(),
            ..Statistics::default()
        };
        let table_of = table("server", &of_server(&statistics));
        let expected = "server\n  requests        1,200\n  hits            900\n  validated       60\n  misses          240\n  \
            hit ratio       75.00%\n  with validated  80.00%\n  byte hit ratio  50.00%\n  average time    1.50 ms\n  50% within      0 us\n  90% within      0 us\n  \
            99% within      2.50 s\n  bytes stored    0 B\n  entries         7\n  policy          lru\n  \
            capacity        10 entries";
        assert_eq!(table_of, expected);

        let admin = json!({"objects": 7, "by": "entries", "capacity": 10, "queued": 3, "errors": {"a": 1}});
        let figures = of_admin(admin.as_object().cloned().unwrap());
        assert_eq!(json!(figures), json!({"entries": 7, "capacity_unit": "entries", "capacity": 10}));
    }

    #[test]
    fn times_are_shown_as_bars_of_the_numbers_1_2_and_5() {
        let mut times = Histogram::new_with_bounds(1, 3_600_000_000, 3).unwrap();
        for micros in [30, 40, 50, 51, 700, 1_000, 1_900] {
            times.record(micros).unwrap();
        }
        let found: Vec<_> = buckets(&times).collect();
        assert_eq!(found, [(50, 3), (100, 1), (200, 0), (500, 0), (1_000, 2), (2_000, 1)]);
        let lines = histogram(&times);
        let lines: Vec<_> = lines.lines().collect();
        assert_eq!(lines[0], "latency of 7 answers");
        assert_eq!(lines[1], format!("  to 50 us                  3   42.86%  {}", "#".repeat(40)));
        assert_eq!(lines[3], "  to 200 us                 0    0.00%");
        assert_eq!(lines.len(), 7);
    }
}
