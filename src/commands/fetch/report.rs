//! The server's counters and the client's measurements, for people and for programs. Names and units in JSON are
//! stable.

use larder_rpc::Statistics;
use serde_json::{Map, Value, json};

use super::replay::Seen;
use crate::cli::units::{about_count, about_size};

/// A figure's name in JSON, what people call it, and how it is written for them.
type Row = (&'static str, &'static str, fn(&Value, &Figures) -> String);
/// Figures by name.
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
    ("requests_per_second", "requests/s", |value, _| format!("{:.1}", value.as_f64().unwrap_or_default())),
    ("average_micros", "average time", time),
    ("p50_micros", "50% within", time),
    ("p90_micros", "90% within", time),
    ("p99_micros", "99% within", time),
    ("max_micros", "longest", time),
    ("bytes", "bytes received", size),
    ("bytes_served", "bytes served", size),
    ("bytes_stored", "bytes stored", size),
    ("entries", "entries", count),
    ("policy", "policy", word),
    ("capacity", "capacity", capacity),
];

/// What an admin listener calls a figure that has another name here.
const ADMIN_NAMES: &[(&str, &str)] = &[("objects", "entries"), ("by", "capacity_unit")];

/// The figures of a server that speaks RPC.
pub(super) fn of_server(statistics: &Statistics) -> Figures {
    [
        ("requests", json!(statistics.requests)),
        ("hits", json!(statistics.hits)),
        ("validated", json!(statistics.validated)),
        ("misses", json!(statistics.misses)),
        ("hit_ratio", json!(statistics.hit_ratio)),
        ("validated_hit_ratio", json!(statistics.validated_hit_ratio)),
        ("byte_hit_ratio", json!(statistics.byte_hit_ratio)),
        ("average_micros", json!(statistics.average_micros)),
        ("p50_micros", json!(statistics.p50_micros)),
        ("p90_micros", json!(statistics.p90_micros)),
        ("p99_micros", json!(statistics.p99_micros)),
        ("bytes_stored", json!(statistics.bytes_stored)),
        ("entries", json!(statistics.entries)),
        ("policy", json!(statistics.policy)),
        ("capacity", json!(statistics.capacity)),
        ("capacity_unit", json!(statistics.capacity_unit)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into_iter()
    .collect()
}

/// The same figures out of all that an admin listener has.
pub(super) fn of_admin(numbers: Figures) -> Figures {
    let renamed = numbers.into_iter().map(|(name, value)| {
        let ours = ADMIN_NAMES.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| *ours);
        (ours.map_or(name, str::to_owned), value)
    });
    let is_known = |name: &str| name == "capacity_unit" || ROWS.iter().any(|(known, ..)| *known == name);
    renamed.filter(|(name, value)| is_known(name) && !value.is_object()).collect()
}

/// The figures of the client.
pub(super) fn of_client(seen: &Seen) -> Figures {
    let seconds = seen.elapsed.as_secs_f64();
    let mut figures = Figures::new();
    let mut put = |name: &str, value: Value| figures.insert(name.to_owned(), value);
    put("requests", json!(seen.requests));
    put("errors", json!(seen.errors));
    put("seconds", json!(seconds));
    put("requests_per_second", json!(if seconds > 0.0 { seen.requests as f64 / seconds } else { 0.0 }));
    put("bytes", json!(seen.bytes));
    if !seen.times.is_empty() {
        put("average_micros", json!(seen.times.mean()));
        for (name, share) in [("p50_micros", 0.5), ("p90_micros", 0.9), ("p99_micros", 0.99)] {
            put(name, json!(seen.times.value_at_quantile(share)));
        }
        put("max_micros", json!(seen.times.max()));
    }
    figures
}

/// One aligned line for each figure, below a title.
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
    let micros = value.as_f64().unwrap_or_default();
    match micros {
        ..1e3 => format!("{micros:.0} us"),
        ..1e6 => format!("{:.2} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
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
}
