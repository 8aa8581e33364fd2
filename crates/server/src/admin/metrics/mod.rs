//! `GET /metrics`: the figures of `/stats` and the counts of every site, for Prometheus.
//!
//! `table` lists the metrics, `text` writes them, and `otlp` sends them to a collector of OpenTelemetry. The reference for users is rendered from that table, too. `observe`
//! does the counting.

mod otlp;
mod points;
mod table;
mod text;

use std::sync::Arc;

use larder_advise::Report;

pub(super) use self::otlp::send;
use self::table::METRICS;
use self::text::{Form, Metric, Samples};
use super::{State, Stats};
use crate::base::findings::Validation;
use crate::counts::counters::Counts;
use crate::counts::histogram::Distributions;

/// The media type of the answer.
pub(super) const TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

const INTRODUCTION: &str = "\
# Metrics

`GET /metrics` on the admin listener answers in the text format of Prometheus (version 0.0.4). Let Prometheus scrape it:

```yaml
scrape_configs:
  - job_name: larder
    static_configs:
      - targets: [\"127.0.0.1:9145\"]
```

[`grafana.json`](grafana.json) is a dashboard for Grafana on these names: import it, and choose the data source.

Names, types and labels are stable once released. Counters begin with the process, and no request waits for them. `/stats`
has the same data in JSON.

- The label `outcome` has the words of the statistics database: `hit`, `stale-hit`, `coalesced`, `revalidated`, `miss`,
  `pass`, `refused`, `failed`. The first three are hits; the statistics count `revalidated` as validated.
  [Hit ratios](statistics.md#hit-ratios) has the definitions.
- The label `site` is a site's name, `forward` for the forward proxy and RPC listeners, and empty for requests without a
  site, such as refused ones.
- The label `reason` has the words of `detail` in `Cache-Status` and in the access log.
- The label `tier` is the tier of a hit: `memory`, `disk` or `engine`, the second tier of a cluster. It is empty without a hit.
- Times of requests begin when a request has been read. The time of a miss ends with the last byte of its reply, that
  of a hit when its reply is passed to the kernel; hits from memory that are answered in a group of up to 16 count with
  the time of the group. Bounds are powers of two, in microseconds.

";

/// The sources of all metrics, at one moment.
struct Moment {
    stats: Stats,
    sites: Vec<(Arc<str>, Counts)>,
    times: Distributions,
    validation: Validation,
    /// The connections of each worker.
    connections: Vec<usize>,
    /// The predictions of the shadow caches, if there are any.
    advice: Option<Arc<Report>>,
}

impl Moment {
    fn gather(state: &State) -> Self {
        let shared = &state.shared;
        let accounts = shared.observers.accounts.all();
        let sites = accounts.iter().map(|account| (Arc::clone(account.site()), account.counts()));
        let validation = shared.observers.validator.report(&shared.plan());
        let connections = shared.workers().iter().map(|worker| worker.connections.count()).collect();
        let advice = shared.advisor.as_ref().map(|advisor| advisor.latest());
        Self {
            connections,
            sites: sites.collect(),
            times: shared.times(),
            stats: Stats::gather(state),
            validation,
            advice,
        }
    }
}

/// Returns the page that Prometheus scrapes.
pub(super) fn page(state: &State) -> String {
    let moment = Moment::gather(state);
    let mut page = String::new();
    for metric in METRICS {
        (metric.collect)(&moment, &mut Samples::of(metric, Form::Page(&mut page)));
    }
    page
}

/// Returns the reference of all metrics in Markdown: `docs/metrics.md`.
pub fn reference() -> String {
    let mut page = INTRODUCTION.to_owned() + "| name | type | labels | meaning |\n|---|---|---|---|\n";
    for Metric { name, kind, labels, about, .. } in METRICS {
        let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
        page += &format!("| `{name}` | {} | {} | {about} |\n", kind.word(), labels.join(" "));
    }
    page
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::Value;

    use super::text::MetricKind;
    use super::*;

    #[test]
    fn names_are_those_of_the_field() {
        let names: HashSet<_> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), METRICS.len());
        for Metric { name, kind, labels, about, .. } in METRICS {
            let is_word = |word: &str| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            assert!(name.starts_with("larder_") && is_word(name), "{name}");
            assert!(labels.iter().all(|label| is_word(label) && *label != "le"), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == MetricKind::Counter, "{name}");
            assert!(*kind != MetricKind::Histogram || name.ends_with("_seconds"), "{name}");
            assert!(!about.contains(['\n', '|', '\\']), "{name}: {about}");
        }
    }

    /// Returns the names in a query that begin as ours do.
    fn names(query: &str) -> impl Iterator<Item = &str> {
        query.match_indices("larder_").map(|(at, _)| {
            let rest = &query[at..];
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            &rest[..end.unwrap_or(rest.len())]
        })
    }

    fn exists(name: &str) -> bool {
        METRICS.iter().any(|metric| match name.strip_prefix(metric.name) {
            Some("") => metric.kind != MetricKind::Histogram,
            Some("_bucket" | "_count" | "_sum") => metric.kind == MetricKind::Histogram,
            _ => false,
        })
    }

    fn queries<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match value {
                        Value::String(text) if name == "expr" || name == "definition" || name == "query" => {
                            found.push(text);
                        }
                        _ => queries(value, found),
                    }
                }
            }
            Value::Array(values) => values.iter().for_each(|value| queries(value, found)),
            _ => {}
        }
    }

    #[test]
    fn the_dashboard_for_grafana_asks_for_what_there_is() {
        let page = include_str!("../../../../../docs/grafana.json");
        let page: Value = serde_json::from_str(page).expect("json");
        assert_eq!(page["__inputs"][0]["name"], "DS_PROMETHEUS");
        assert!(page["schemaVersion"].as_u64() >= Some(39));
        let mut found = Vec::new();
        queries(&page, &mut found);
        let panels = page["panels"].as_array().expect("panels");
        assert!(found.len() >= panels.len() && panels.len() > 5, "{found:?}");
        for query in found {
            assert!(names(query).count() > 0, "asks for nothing of ours: {query}");
            for name in names(query) {
                assert!(exists(name), "no metric is called {name}: {query}");
            }
        }
    }
}
