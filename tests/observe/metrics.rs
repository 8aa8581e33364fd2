//! `GET /metrics`: the metrics for Prometheus, compared with `/stats` and checked by Prometheus' own tool.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::process::{Command, Stdio};

use larder_testkit::{Engine, Larder, Origin, Pair, eventually, mixed};
use serde_json::Value;
use tempfile::TempDir;

use super::site;

/// The samples of the page, by name and labels.
struct Page(BTreeMap<String, f64>);

impl Page {
    /// Parses a page, more strictly than version 0.0.4 of the format: help, type, then samples.
    fn read(text: &str) -> Self {
        let (mut samples, mut seen) = (BTreeMap::new(), HashSet::new());
        let mut family = "";
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                family = help.split_once(' ').expect("a help text").0;
                assert!(seen.insert(family), "{family} comes twice");
                let kind = lines.next().and_then(|line| line.strip_prefix(&format!("# TYPE {family} ")));
                assert!(matches!(kind, Some("counter" | "gauge" | "histogram")), "{family}: {kind:?}");
                assert!(lines.peek().is_some_and(|line| line.starts_with(family)), "{family} has no sample");
                continue;
            }
            let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
            assert!(series.starts_with(family) && !family.is_empty(), "{series} is not of {family}");
            let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
            assert!(samples.insert(series.to_owned(), value).is_none(), "{series} comes twice");
        }
        assert!(text.ends_with('\n'));
        Self(samples)
    }

    fn of(larder: &Larder) -> Self {
        Self::read(&scrape(larder))
    }

    fn get(&self, series: &str) -> f64 {
        *self.0.get(series).unwrap_or_else(|| panic!("no {series} in {:#?}", self.0))
    }

    /// Returns the sum of the samples of `name` whose labels contain `label`.
    fn sum(&self, name: &str, label: &str) -> f64 {
        let of = |series: &&String| series.starts_with(&format!("{name}{{")) && series.contains(label);
        self.0.keys().filter(of).map(|series| self.0[series]).sum()
    }
}

fn scrape(larder: &Larder) -> String {
    let response = larder.ask_admin("GET /metrics");
    assert_eq!(response.field("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    response.text().to_owned()
}

/// Starts a proxy with all features that have metrics, and more tables.
fn full(origin: &Origin, more: &str) -> (Larder, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let (disk, database) = (folder.path().join("disk"), folder.path().join("s.db"));
    let tables = format!(
        "[memory]\nsize = '16MiB'\npolicy = 's3fifo'\n[stats]\nurl = 'sqlite:{}'\n[[disk]]\npath = '{}'\nsize = '64MiB'",
        database.display(),
        disk.display(),
    );
    // No collector listens there.
    let traces = "[trace]\nendpoint = 'http://127.0.0.1:9'\n";
    let listener = "[reverse]\nlisten = '127.0.0.1:0'\nlisten_tls = '127.0.0.1:0'\n";
    let tls = Pair::self_signed(folder.path(), "proxy.test").table();
    (Larder::with(origin, &[traces, listener, &tls, &tables, "\n", more].concat()), folder)
}

/// Sends requests of every kind.
fn load(larder: &Larder) {
    let requests =
        ["GET /a", "GET /a", "POST /a\n\nx", "GET /v", "GET /v", "GET /f", "GET /b", "GET /a\nA b: c"];
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for request in requests.iter().cycle().take(400) {
                    larder.client().ask(request);
                }
            });
        }
        // During the load, each page is complete and sums do not decrease.
        let mut last = 0.0;
        for _ in 0..10 {
            let requests = Page::of(larder).sum("larder_requests_total", "");
            assert!(requests >= last);
            last = requests;
        }
    });
    larder.settle();
    // A request is counted once its response has been sent.
    larder.wait_for("requests", 1_600);
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn figures_are_those_of_the_stats() {
    let origin = Origin::by(mixed);
    let (larder, _folder) = full(&origin, "");
    load(&larder);
    let (page, stats) = (Page::of(&larder), larder.stats());
    let requests = |label: &str| page.sum("larder_requests_total", label);
    for (label, name) in [
        ("", "requests"),
        ("outcome=\"coalesced\"", "coalesced"),
        ("outcome=\"revalidated\"", "validated"),
        ("outcome=\"miss\"", "misses"),
        ("outcome=\"pass\"", "passes"),
        ("outcome=\"refused\"", "refused"),
        ("outcome=\"stale-hit\"", "stale"),
        ("tier=\"disk\"", "disk_hits"),
    ] {
        assert_eq!(requests(label), number(&stats[name]), "{name}");
    }
    let hits = ["hit", "stale-hit", "coalesced"].map(|outcome| requests(&format!("outcome=\"{outcome}\"")));
    assert_eq!(hits.iter().sum::<f64>(), number(&stats["hits"]));
    assert_eq!((requests(""), requests("outcome=\"refused\"")), (1_600.0, 200.0));
    assert_eq!(page.sum("larder_sent_bytes_total", ""), number(&stats["bytes_served"]));
    let of_site = number(&site(&stats, "site1")["requests"]);
    assert_eq!(requests("site=\"site1\""), of_site);
    for (reason, count) in stats["reasons"].as_object().expect("reasons") {
        assert_eq!(page.sum("larder_reasons_total", &format!("reason=\"{reason}\"")), number(count));
    }
    for (series, name) in [
        ("larder_cache_bytes{tier=\"memory\",directory=\"\"}", "bytes_stored"),
        ("larder_cache_objects{tier=\"memory\",directory=\"\"}", "objects"),
        ("larder_cache_capacity_bytes{tier=\"memory\",directory=\"\"}", "capacity"),
        ("larder_cache_evictions_total{tier=\"memory\",directory=\"\"}", "evictions"),
        ("larder_origin_requests", "in_flight"),
        ("larder_origin_queue", "queued"),
        ("larder_fills", "fills"),
    ] {
        assert_eq!(page.get(series), number(&stats[name]), "{name}");
    }
    assert_eq!(
        page.get("larder_origin_received_bytes_total{site=\"site1\"}"),
        number(&stats["origin_bytes"])
    );
    let latency = &stats["latency"];
    assert_eq!(page.get("larder_origin_duration_seconds_count"), number(&latency["origin"]["count"]));
    for result in ["miss", "other"] {
        let count = page.get(&format!("larder_request_duration_seconds_count{{result=\"{result}\"}}"));
        assert_eq!(count, number(&latency[result]["count"]), "{result}");
    }
}

#[test]
fn prometheus_finds_nothing_wrong_with_it() {
    let origin = Origin::by(mixed);
    let (larder, _folder) = full(&origin, "");
    load(&larder);
    let page = scrape(&larder);
    let mut tool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool: `cargo x test` installs the package prometheus, or apt-get does");
    tool.stdin.take().expect("a pipe").write_all(page.as_bytes()).expect("it reads");
    let output = tool.wait_with_output().expect("it ends");
    let found = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && found.is_empty(), "{found}{page}");
}

const RULE: &str = "[[site.rule]]\nstop = true\n";

#[test]
fn every_metric_is_there_and_in_the_reference() {
    let (origin, engine) = (Origin::by(mixed), Engine::start());
    let gateway = format!("[[site]]\nhosts = ['pools.test']\nrole = 'tags'\norigin = '{}'\n", origin.url());
    let cluster = format!("[cluster]\nengine = '{}'\nlisten = '127.0.0.1:0'\ntier = '8MiB'\n", engine.url());
    let (larder, _folder) = full(&origin, &format!("{cluster}[validate]\nsample = 1.0\n{gateway}{RULE}"));
    eventually("the engine to be heard", || {
        scrape(&larder).contains("\nlarder_cluster_trusted 1").then_some(())
    });
    for request in ["GET /a", "GET /a", "GET /a\nCookie: a=b", "GET /a\nHost: pools.test"] {
        larder.ask(request);
    }
    larder.wait_for("requests", 4);
    eventually("a hit that was validated", || scrape(&larder).contains("verdict=\"ok\"} 1").then_some(()));
    let page = scrape(&larder);
    let there: Vec<_> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let reference = include_str!("../../docs/metrics.md");
    let named = reference.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    // The metrics of ACME exist only if a site uses it; `tests/acme` reads them.
    let named: Vec<_> = named.filter(|name| !name.starts_with("larder_acme_")).collect();
    assert_eq!(there, named);
}
