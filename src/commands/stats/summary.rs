//! The default output of `larder stats`: the most important numbers, on one screen.

use serde_json::{Map, Value, json};

use crate::cli::json::Parts;
use crate::cli::units::{about_count, about_size, about_time, counted};
use crate::cli::words::printable;

/// The most reasons that are shown, the most frequent first.
const REASONS: usize = 6;
/// The most sites and disks that are shown; the rest is counted.
const ROWS: usize = 5;

/// Returns the lines of the summary, none longer than `width`.
pub(super) fn lines(numbers: &Map<String, Value>, width: Option<usize>) -> Vec<String> {
    let all = Value::Object(numbers.clone());
    let mut lines = vec![requests(&all), line("", &ratios(&all)), others(&all)];
    lines.extend(statuses(&all));
    lines.push(bytes(&all));
    lines.extend(["hit", "validated", "miss", "origin"].iter().filter_map(|kind| latency(&all, kind)));
    lines.extend(versions(&all));
    lines.push(memory(&all));
    lines.extend(ahead(&all));
    lines.extend(some(&all["disks"], disk));
    lines.extend(some(&all["sites"], site));
    lines.extend(some(&rules(&all), rule));
    lines.extend(some(&all["acme"]["names"], certificate));
    lines.extend(["association", "sequence"].iter().filter_map(|kind| prefetches(&all, kind)));
    lines.push(in_progress(&all));
    lines.extend(reasons(&all));
    lines.iter().map(|line| cut(line, width)).collect()
}

fn line(name: &str, text: &str) -> String {
    format!("{name:<9} {text}")
}

fn ratio(value: &Value, name: &str) -> String {
    format!("{:.2}%", value[name].as_f64().unwrap_or_default() * 100.0)
}

fn requests(all: &Value) -> String {
    let each = |name, one, many| counted(all.count(name), one, many);
    let text = format!(
        "{}: {}, {} validated, {}",
        about_count(all.count("requests")),
        each("hits", "hit", "hits"),
        about_count(all.count("validated")),
        each("misses", "miss", "misses"),
    );
    line("requests", &text)
}

/// Formats the hit ratio, and the one with validated requests if there are any.
fn ratios(of: &Value) -> String {
    let with = match of.count("validated") {
        0 => String::new(),
        _ => format!(", {} with validated", ratio(of, "validated_hit_ratio")),
    };
    format!("{} hit ratio{with}", ratio(of, "hit_ratio"))
}

/// Formats the requests that count in no hit ratio.
fn others(all: &Value) -> String {
    let number = |name| about_count(all.count(name));
    let text = format!(
        "{}, {} refused, {}; {} stale, {} coalesced",
        counted(all.count("passes"), "pass", "passes"),
        number("refused"),
        counted(all.count("errors"), "error", "errors"),
        number("stale"),
        number("coalesced"),
    );
    line("", &text)
}

fn bytes(all: &Value) -> String {
    let text = format!(
        "{} served ({} byte hit ratio), {} from origins",
        about_size(all.count("bytes_served")),
        ratio(all, "byte_hit_ratio"),
        about_size(all.count("origin_bytes")),
    );
    line("bytes", &text)
}

/// Formats the requests by version of HTTP, if several versions are in use.
fn versions(all: &Value) -> Option<String> {
    let counts = all["http_versions"].as_object()?.iter();
    let used = counts.filter_map(|(name, count)| Some((name, count.as_u64().filter(|count| *count > 0)?)));
    let texts: Vec<_> =
        used.map(|(name, count)| format!("{} by HTTP/{}", about_count(count), printable(name))).collect();
    (texts.len() > 1).then(|| line("", &texts.join(", ")))
}

/// Formats the times of one kind of answer; `None` before the first one.
fn latency(all: &Value, kind: &str) -> Option<String> {
    let times = &all["latency"][kind];
    let at = |name| about_time(times.count(name) as f64);
    let text =
        format!("half within {}, 99% within {}, 99.9% within {}", at("p50_us"), at("p99_us"), at("p999_us"));
    (times.count("count") > 0).then(|| line(kind, &text))
}

fn memory(all: &Value) -> String {
    let capacity = match all["by"].as_str() {
        Some("entries") => counted(all.count("capacity"), "entry", "entries"),
        Some("content") => format!("{} of content", about_size(all.count("capacity"))),
        _ => about_size(all.count("capacity")),
    };
    let of_config = all["policy_of_config"].as_str();
    let text = format!(
        "{}, {} of {capacity}, policy {}{}, {}",
        counted(all.count("objects"), "object", "objects"),
        about_size(all.count(if all["by"] == "content" { "bytes_content" } else { "bytes_stored" })),
        word(all, "policy"),
        of_config.map(|policy| format!(" (applied; {policy} in the config)")).unwrap_or_default(),
        counted(all.count("evictions"), "eviction", "evictions"),
    );
    line("memory", &text)
}

/// Formats the refreshes and hints that precede requests; `None` if there were none.
fn ahead(all: &Value) -> Option<String> {
    let (refreshes, hints) = (&all["refreshes_ahead"], &all["early_hints"]);
    let (started, measured) = (refreshes.count("started"), refreshes.count("measured"));
    let precision = match measured {
        0 => String::new(),
        _ => {
            let share = 100.0 * refreshes.count("used") as f64 / measured as f64;
            format!(", {share:.0}% of {} measured were of use", about_count(measured))
        }
    };
    let each = [
        (started, format!("{}{precision}", counted(started, "refresh", "refreshes"))),
        (hints.count("sent"), counted(hints.count("sent"), "early hint", "early hints")),
        (
            all.count("client_prefetches"),
            counted(all.count("client_prefetches"), "prefetch of a client", "prefetches of clients"),
        ),
    ];
    let texts: Vec<_> = each.into_iter().filter(|(number, _)| *number > 0).map(|(_, text)| text).collect();
    (!texts.is_empty()).then(|| line("ahead", &texts.join("; ")))
}

fn disk(disk: &Value) -> String {
    let text = format!(
        "{}, {}, {} of {}, {}",
        word(disk, "state"),
        counted(disk.count("objects"), "record", "records"),
        about_size(disk.count("bytes_occupied")),
        about_size(disk.count("size")),
        word(disk, "path"),
    );
    line("disk", &text)
}

fn site(site: &Value) -> String {
    let state = origins(site).map(|states| format!(", {states}")).unwrap_or_default();
    let requests = counted(site.count("requests"), "request", "requests");
    let text = match &*word(site, "site") {
        // Such as refused ones: these count in no hit ratio.
        "" => format!("none: {requests}"),
        name => format!("{name}: {requests}, {}{state}", ratios(site)),
    };
    line("site", &text)
}

/// Formats the states of a site's origins; `None` without any.
fn origins(site: &Value) -> Option<String> {
    let origins = site["origins"].as_array()?;
    let each = [("up", "up"), ("down", "down"), ("unknown", "not asked yet")].map(|(state, text)| {
        let number = origins.iter().filter(|origin| origin["state"] == state).count();
        (number > 0).then(|| format!("{number} {text}"))
    });
    let states: Vec<_> = each.into_iter().flatten().collect();
    let name = if origins.len() == 1 { "origin" } else { "origins" };
    (!states.is_empty()).then(|| format!("{name}: {}", states.join(", ")))
}

/// Formats the responses by the class of their status; `None` before the first one.
fn statuses(all: &Value) -> Option<String> {
    let each = all["statuses"].as_object()?.iter().filter(|(_, number)| number.as_u64() > Some(0));
    let each: Vec<_> = each
        .map(|(class, number)| format!("{} {}", printable(class), about_count(number.as_u64().unwrap_or(0))))
        .collect();
    (!each.is_empty()).then(|| line("status", &each.join(", ")))
}

/// Returns the rules of all sites, each with the name of its site.
fn rules(all: &Value) -> Value {
    let sites = all.list("sites");
    let of_site = |site: &Value| {
        let rules = site["rules"].as_array().cloned().unwrap_or_default();
        let name = site["site"].clone();
        rules.into_iter().map(move |rule| json!({"site": name, "rule": rule}))
    };
    sites.iter().flat_map(of_site).collect()
}

fn rule(of: &Value) -> String {
    let rule = &of["rule"];
    let text = format!(
        "{} of {}: {}, {}, {} answered, {} refused",
        word(rule, "name"),
        word(of, "site"),
        counted(rule.count("requests"), "request", "requests"),
        counted(rule.count("hits"), "hit", "hits"),
        about_count(rule.count("answered")),
        about_count(rule.count("refused")),
    );
    line("rule", &text)
}

/// Formats a certificate that an authority issues.
fn certificate(of: &Value) -> String {
    let failures = match of.count("failures") {
        0 => String::new(),
        failures => format!(", {}", counted(failures, "failure", "failures")),
    };
    let trouble = of["trouble"].as_str().map(|why| format!(": {}", printable(why))).unwrap_or_default();
    let ordering = if of["ordering"] == true { ", being ordered" } else { "" };
    line("acme", &format!("{}: {}{ordering}{failures}{trouble}", word(of, "name"), word(of, "state")))
}

/// Formats the results of one kind of prediction; `None` before the first prefetch.
fn prefetches(all: &Value, kind: &str) -> Option<String> {
    let done = &all["prefetches"][kind];
    let off = match done.count("off") {
        0 => String::new(),
        sites => format!("; off: {}", counted(sites, "site", "sites")),
    };
    let text = format!(
        "{} by {kind}, {} of {} used ({}), {} unused{off}",
        about_count(done.count("started")),
        about_count(done.count("used")),
        about_count(done.count("used") + done.count("unused")),
        ratio(done, "precision"),
        about_size(done.count("unused_bytes")),
    );
    (done.count("started") > 0).then(|| line("prefetch", &text))
}

fn in_progress(all: &Value) -> String {
    let text = format!(
        "{}; {} to origins in progress, {} queued",
        counted(all.count("connections"), "connection", "connections"),
        counted(all.count("in_flight"), "request", "requests"),
        about_count(all.count("queued")),
    );
    line("now", &text)
}

/// Formats the most frequent reasons; `None` before the first request.
fn reasons(all: &Value) -> Option<String> {
    let mut counts: Vec<_> = all["reasons"].as_object()?.iter().collect();
    counts.sort_by_key(|(name, count)| (std::cmp::Reverse(count.as_u64()), name.as_str()));
    let shown = counts.iter().take(REASONS);
    let shown: Vec<_> = shown
        .map(|(name, count)| {
            format!("{} {}", printable(name), about_count(count.as_u64().unwrap_or_default()))
        })
        .collect();
    (!shown.is_empty()).then(|| line("reasons", &shown.join(", ")))
}

/// Returns the first entries of a list, and the number of the others.
fn some(list: &Value, row: fn(&Value) -> String) -> Vec<String> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut rows: Vec<_> = list.iter().take(ROWS).map(row).collect();
    if let Some(rest) = list.len().checked_sub(ROWS).filter(|rest| *rest > 0) {
        rows.push(line("", &format!("and {rest} more; --all shows them")));
    }
    rows
}

fn word(value: &Value, name: &str) -> String {
    printable(value[name].as_str().unwrap_or("unknown"))
}

/// Cuts the end off a line that is longer than `width`.
fn cut(line: &str, width: Option<usize>) -> String {
    match width {
        Some(width) if line.chars().count() > width => {
            line.chars().take(width.saturating_sub(2)).chain("..".chars()).collect()
        }
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::lines;

    fn page(numbers: Value, width: Option<usize>) -> Vec<String> {
        lines(numbers.as_object().expect("an object"), width)
    }

    #[test]
    fn a_screen_has_what_most_people_look_for() {
        let numbers = json!({
            "requests": 1_234_567, "hits": 900_000, "validated": 60_000, "misses": 240_000, "passes": 34_567, "errors": 0,
            "statuses": {"1xx": 0, "2xx": 1_200_000, "4xx": 34_000, "5xx": 567},
            "hit_ratio": 0.75, "validated_hit_ratio": 0.8, "byte_hit_ratio": 0.5, "bytes_served": 5_368_709_120_u64, "origin_bytes": 1024,
            "objects": 1, "bytes_stored": 2048, "capacity": 1_073_741_824, "by": "bytes", "policy": "adaptive",
            "evictions": 0, "connections": 2, "in_flight": 1, "queued": 0,
            "latency": {"hit": {"count": 9, "p50_us": 20, "p99_us": 1500, "p999_us": 2_000_000}, "miss": {"count": 0}},
            "disks": [{"path": "cache", "state": "ready", "objects": 3, "bytes_occupied": 1024, "size": 2048}],
            "sites": [{
                "site": "default", "requests": 2, "hit_ratio": 1.0, "origins": [{"state": "up"}, {"state": "unknown"}],
                "rules": [{"name": "api", "requests": 2, "hits": 1, "answered": 0, "refused": 1}],
            }, {"site": "", "requests": 1, "hit_ratio": 0.0}],
            "acme": {"names": [
                {"name": "a.test", "state": "valid", "failures": 0, "ordering": true},
                {"name": "b.test", "state": "awaited", "failures": 2, "trouble": "no route\n(connection)"},
            ]},
            "reasons": {"absent": 3, "fresh": 7},
            "prefetches": {
                "association": {"started": 9, "used": 5, "unused": 2, "precision": 0.7143, "unused_bytes": 2048, "off": 1},
                "sequence": {"started": 0},
            },
            "refreshes_ahead": {"started": 1_200, "measured": 1_000, "used": 914}, "early_hints": {"sent": 1}, "client_prefetches": 0,
        });
        let expected = [
            "requests  1,234,567: 900,000 hits, 60,000 validated, 240,000 misses",
            "          75.00% hit ratio, 80.00% with validated",
            "          34,567 passes, 0 refused, 0 errors; 0 stale, 0 coalesced",
            "status    2xx 1,200,000, 4xx 34,000, 5xx 567",
            "bytes     5.00 GiB served (50.00% byte hit ratio), 1.00 KiB from origins",
            "hit       half within 20 us, 99% within 1.50 ms, 99.9% within 2.00 s",
            "memory    1 object, 2.00 KiB of 1.00 GiB, policy adaptive, 0 evictions",
            "ahead     1,200 refreshes, 91% of 1,000 measured were of use; 1 early hint",
            "disk      ready, 3 records, 1.00 KiB of 2.00 KiB, cache",
            "site      default: 2 requests, 100.00% hit ratio, origins: 1 up, 1 not asked yet",
            "site      none: 1 request",
            "rule      api of default: 2 requests, 1 hit, 0 answered, 1 refused",
            "acme      a.test: valid, being ordered",
            "acme      b.test: awaited, 2 failures: no route\\n(connection)",
            "prefetch  9 by association, 5 of 7 used (71.43%), 2.00 KiB unused; off: 1 site",
            "now       2 connections; 1 request to origins in progress, 0 queued",
            "reasons   fresh 7, absent 3",
        ];
        assert_eq!(page(numbers, Some(80)), expected);
    }

    #[test]
    fn one_of_a_kind_is_not_several() {
        let one = page(
            json!({"requests": 2, "hits": 1, "misses": 1, "passes": 1, "errors": 1, "capacity": 1, "by": "entries"}),
            None,
        );
        assert_eq!(one[0], "requests  2: 1 hit, 0 validated, 1 miss");
        assert_eq!(one[2], "          1 pass, 0 refused, 1 error; 0 stale, 0 coalesced");
        assert!(one.iter().any(|line| line.contains("0 B of 1 entry")), "{one:?}");
    }

    #[test]
    fn a_capacity_of_content_is_shown_with_the_stored_content() {
        let numbers = json!({"bytes_stored": 4096, "bytes_content": 1024, "capacity": 2048, "by": "content", "policy": "lru"});
        let memory = "memory    0 objects, 1.00 KiB of 2.00 KiB of content, policy lru, 0 evictions";
        assert!(page(numbers, None).iter().any(|line| line == memory));
    }

    #[test]
    fn lists_and_lines_are_bounded_whatever_the_numbers_are() {
        let site = json!({"site": "s".repeat(200), "origins": "none"});
        let numbers = json!({"sites": vec![site; 9], "disks": 3, "reasons": []});
        let long = page(numbers.clone(), Some(80));
        assert!(long.iter().all(|line| line.chars().count() <= 80));
        let whole = format!("{}: 0 requests", "s".repeat(200));
        assert!(page(numbers, None).iter().any(|line| line.contains(&whole)), "a pipe gets whole lines");
        assert!(long.contains(&"          and 4 more; --all shows them".to_owned()), "{long:?}");
    }
}
