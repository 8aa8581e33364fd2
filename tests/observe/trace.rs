//! Traces and metrics from the view of an OpenTelemetry collector, and traces from that of an origin.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use larder_testkit::{Larder, Origin, Seen, eventually};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Figure;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Metric, NumberDataPoint};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";
const STORED: &str = "200 OK\nCache-Control: max-age=60\n\nstored";

/// A collector of spans, with the name of their service.
struct Collector {
    server: Origin,
    spans: Arc<Mutex<Vec<(String, Span)>>>,
}

impl Collector {
    fn start() -> Self {
        let spans = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&spans);
        let server = Origin::by(move |seen| {
            assert_eq!((seen.method.as_str(), seen.target.as_str()), ("POST", "/v1/traces"));
            assert_eq!(seen.field("content-type"), Some("application/x-protobuf"));
            taken.lock().expect("spans").extend(read(seen));
            "200 OK\nContent-Type: application/x-protobuf\n\n".to_owned()
        });
        Self { server, spans }
    }

    fn config(&self, keys: &str) -> String {
        format!("name = 'Pantry'\n[trace]\nendpoint = '{}'\n{keys}", self.server.url())
    }

    /// Waits until there are `count` spans for `path`, and returns them: the server's, then the clients'.
    fn spans(&self, path: &str, count: usize) -> Vec<Span> {
        let about = |span: &Span| text(span, "url.full").is_some_and(|url| url.ends_with(path));
        eventually(&format!("{count} spans for {path}"), || {
            let spans = self.spans.lock().expect("spans");
            assert!(spans.iter().all(|(service, _)| service == "Pantry"));
            let found: Vec<_> =
                spans.iter().map(|(_, span)| span).filter(|span| about(span)).cloned().collect();
            (found.len() >= count).then_some(found)
        })
    }
}

fn read(seen: &Seen) -> Vec<(String, Span)> {
    let request = ExportTraceServiceRequest::decode(seen.body.as_slice()).expect("protobuf");
    let mut spans = Vec::new();
    for resource in request.resource_spans {
        let attributes = resource.resource.expect("a resource").attributes;
        let service = attributes.iter().find(|pair| pair.key == "service.name").expect("a service");
        let Some(Value::StringValue(service)) = service.value.clone().and_then(|value| value.value) else {
            panic!("a service without a name");
        };
        let scopes = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
        spans.extend(scopes.map(|span| (service.clone(), span)));
    }
    spans
}

fn value(span: &Span, key: &str) -> Option<Value> {
    span.attributes.iter().find(|pair| pair.key == key)?.value.clone()?.value
}

fn text(span: &Span, key: &str) -> Option<String> {
    match value(span, key)? {
        Value::StringValue(text) => Some(text),
        other => panic!("{key} is {other:?}"),
    }
}

fn number(span: &Span, key: &str) -> Option<i64> {
    match value(span, key)? {
        Value::IntValue(number) => Some(number),
        other => panic!("{key} is {other:?}"),
    }
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_miss_joins_its_clients_trace_with_the_origin_span_below() {
    let (collector, origin) = (Collector::start(), Origin::always(STORED));
    let larder = Larder::with(&origin, &collector.config(""));
    larder.ask(&format!("GET /a\ntraceparent: 00-{TRACE}-{SPAN}-01\ntracestate: a=b"));
    larder.get("/a");
    let spans = collector.spans("/a", 3);
    let [server, client] = [SpanKind::Server, SpanKind::Client].map(|kind| {
        let of_trace = |span: &&Span| span.kind() == kind && hex(&span.trace_id) == TRACE;
        spans.iter().find(of_trace).expect("a span of the client's trace")
    });
    assert_eq!(hex(&server.parent_span_id), SPAN);
    assert_eq!(client.parent_span_id, server.span_id);
    let seen = origin.last();
    let own = format!("00-{TRACE}-{}-01", hex(&client.span_id));
    assert_eq!((seen.field("traceparent"), seen.field("tracestate")), (Some(&*own), Some("a=b")));
    assert_eq!(seen.fields.iter().filter(|line| line.0.eq_ignore_ascii_case("traceparent")).count(), 1);
    assert!(server.start_time_unix_nano <= client.start_time_unix_nano);
    assert!(client.start_time_unix_nano <= client.end_time_unix_nano);
    for span in [server, client] {
        assert_eq!((span.name.as_str(), text(span, "http.request.method").as_deref()), ("GET", Some("GET")));
        assert_eq!(number(span, "http.response.status_code"), Some(200));
    }
    assert_eq!(text(client, "server.address").as_deref(), Some("127.0.0.1"));
    assert_eq!(number(client, "server.port"), Some(i64::from(origin.address.port())));
    let words = |span| ["cache.outcome", "cache.reason", "cache.tier"].map(|key| text(span, key));
    assert_eq!(words(server), [Some("miss".to_owned()), Some("absent".to_owned()), None]);
    // The hit began a separate trace, and caused no request to an origin.
    let hit = spans.iter().find(|span| hex(&span.trace_id) != TRACE).expect("a span of the hit");
    assert_eq!((hit.kind(), hit.parent_span_id.len()), (SpanKind::Server, 0));
    assert_eq!(words(hit), ["hit", "fresh", "memory"].map(|word| Some(word.to_owned())));
}

#[test]
fn traces_have_the_id_that_origins_and_logs_have() {
    let (collector, origin) = (Collector::start(), Origin::always("200 OK\n\n"));
    let keys = "request_id = 'X-Request-Id'\ntrust = '127.0.0.1'\n";
    let larder = Larder::with(&origin, &format!("{keys}{}", collector.config("")));
    for (request, path) in [("GET /sent\nX-Request-Id: id-of-a-proxy", "/sent"), ("GET /made", "/made")] {
        larder.ask(&format!("{request}\ntraceparent: 00-{TRACE}-{SPAN}-01"));
        let seen = origin.last();
        let told = seen.field("x-request-id").expect("an id").to_owned();
        assert_eq!(told == "id-of-a-proxy", path == "/sent", "{told}");
        let spans = collector.spans(path, 2);
        let server =
            spans.iter().find(|span| span.kind() == SpanKind::Server).expect("a span of the request");
        assert_eq!((text(server, "request.id"), hex(&server.trace_id).as_str()), (Some(told), TRACE));
        assert!(seen.field("traceparent").is_some_and(|own| own.starts_with(&format!("00-{TRACE}-"))));
    }
}

#[test]
fn clients_say_what_is_traced_and_chance_says_the_rest() {
    let (collector, origin) = (Collector::start(), Origin::always("200 OK\n\n"));
    let larder = Larder::with(&origin, &collector.config("sample = 0"));
    larder.get("/by-chance");
    let told = origin.last().field("traceparent").expect("a field").to_owned();
    assert!(told.ends_with("-00"), "{told}");
    larder.ask(&format!("GET /not\ntraceparent: 00-{TRACE}-{SPAN}-00"));
    let told = origin.last().field("traceparent").expect("a field").to_owned();
    assert_eq!(
        told,
        format!("00-{TRACE}-{SPAN}-00"),
        "no span is recorded below which the origin's could be"
    );
    larder.ask(&format!("GET /yes\ntraceparent: 00-{TRACE}-{SPAN}-01"));
    assert_eq!(collector.spans("/yes", 2).len(), 2);
    assert_eq!(collector.spans("", 2).len(), 2, "only what the client wants is traced");
}

#[test]
fn w3c_a_trace_that_begins_here_has_no_state_of_another() {
    let (collector, origin) = (Collector::start(), Origin::always("200 OK\n\n"));
    let larder = Larder::with(&origin, &collector.config(""));
    let valid = format!("00-{TRACE}-{SPAN}-03");
    for (parent, state) in [(valid.as_str(), Some("a=b")), ("00-x", None), ("", None)] {
        let parent = if parent.is_empty() { String::new() } else { format!("\ntraceparent: {parent}") };
        larder.ask(&format!("GET /{parent}\ntracestate: a=b"));
        let seen = origin.last();
        let own = seen.field("traceparent").expect("a field");
        assert_eq!((seen.field("tracestate"), own.contains(TRACE)), (state, state.is_some()), "{own}");
        assert!(own.ends_with(if state.is_some() { "-03" } else { "-01" }), "{own}");
    }
}

#[test]
fn each_try_is_a_span_and_says_what_went_wrong() {
    let (collector, dead, origin) = (Collector::start(), Origin::always(""), Origin::always("200 OK\n\n"));
    dead.die();
    let config =
        format!("{}\n{}", collector.config(""), larder_testkit::site(&[&dead, &origin], "retries = 1"));
    let larder = Larder::start(&config);
    // Requests alternate between the origins: one of the two requests goes to the dead origin first.
    for _ in 0..2 {
        assert_eq!(larder.get("/a").status, 200);
    }
    let failed = |span: &&Span| span.kind() == SpanKind::Client && value(span, "error.type").is_some();
    let span = eventually("a failed try", || collector.spans("/a", 1).iter().find(failed).cloned());
    assert_eq!(number(&span, "server.port"), Some(i64::from(dead.address.port())));
    assert_eq!(text(&span, "error.type").as_deref(), Some("origin-unreachable"));
}

#[test]
fn a_dead_collector_costs_no_request() {
    let (collector, origin) = (Collector::start(), Origin::always(STORED));
    let larder = Larder::with(&origin, &collector.config(""));
    collector.server.die();
    for _ in 0..20 {
        assert_eq!(larder.get("/a").status, 200);
    }
    larder.wait_for_log("traces do not reach");
    eventually("dropped spans", || (larder.stats()["traces"]["dropped"].as_u64()? >= 1).then_some(()));
    let metrics = larder.ask_admin("GET /metrics").text().to_owned();
    assert!(metrics.contains("larder_trace_spans_total{fate=\"sent\"} 0\n"), "{metrics}");
    assert!(!metrics.contains("larder_trace_spans_total{fate=\"dropped\"} 0\n"), "{metrics}");
    assert_eq!(larder.get("/a").status, 200);
}

#[test]
fn waiting_spans_are_sent_before_the_process_ends() {
    let (collector, origin) = (Collector::start(), Origin::always(STORED));
    let mut larder = Larder::with(&origin, &collector.config(""));
    larder.get("/a");
    larder.stop();
    assert_eq!(collector.spans("/a", 2).len(), 2);
}

/// Starts a collector of metrics. Returns it with the metrics that it got last.
fn collector_of_metrics() -> (Origin, Arc<Mutex<Vec<Metric>>>) {
    let last = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&last);
    let server = Origin::by(move |seen| {
        if seen.target == "/v1/metrics" {
            let request = ExportMetricsServiceRequest::decode(seen.body.as_slice()).expect("protobuf");
            let scopes = request.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
            *taken.lock().expect("metrics") = scopes.flat_map(|scope| scope.metrics).collect();
        }
        "200 OK\n\n".to_owned()
    });
    (server, last)
}

#[test]
fn a_collector_gets_the_figures_of_the_metrics_page() {
    let (collector, last) = collector_of_metrics();
    let origin = Origin::always(STORED);
    let config = format!("[trace]\nendpoint = '{}'\nsample = 0\nmetrics = '100ms'", collector.url());
    let larder = Larder::with(&origin, &config);
    for _ in 0..3 {
        larder.get("/a");
    }
    let metrics = || last.lock().expect("metrics").clone();
    let data = |name: &str| metrics().into_iter().find(|metric| metric.name == name)?.data;
    let cumulative = i32::from(AggregationTemporality::Cumulative);
    eventually("two hits", || {
        let Data::Sum(sum) = data("larder_requests_total")? else { panic!("no sum") };
        assert!(sum.is_monotonic && sum.aggregation_temporality == cumulative);
        let is_hit = |pair: &KeyValue| {
            let text = pair.value.clone().and_then(|value| value.value);
            pair.key == "outcome" && text == Some(Value::StringValue("hit".to_owned()))
        };
        let mut points = sum.data_points.into_iter().filter(|point| point.attributes.iter().any(is_hit));
        let hits = points.find(|point| point.value == Some(Figure::AsInt(2)))?;
        assert!(0 < hits.start_time_unix_nano && hits.start_time_unix_nano < hits.time_unix_nano);
        Some(())
    });
    let Some(Data::Histogram(times)) = data("larder_request_duration_seconds") else { panic!("no times") };
    let of_hits = &times.data_points[0];
    assert_eq!((of_hits.count, of_hits.bucket_counts.iter().sum()), (2, 2_u64));
    assert_eq!(of_hits.bucket_counts.len(), of_hits.explicit_bounds.len() + 1);
    assert!(of_hits.sum > Some(0.0) && of_hits.explicit_bounds.is_sorted());
    for Metric { name, data, .. } in metrics() {
        // The type of a figure must not depend on whether it is a whole number at the moment.
        let (points, is_counter) = match data {
            Some(Data::Sum(sum)) => (sum.data_points, true),
            Some(Data::Gauge(gauge)) => (gauge.data_points, false),
            _ => continue,
        };
        let is_right = |point: &NumberDataPoint| matches!(point.value, Some(Figure::AsInt(_))) == is_counter;
        assert!(points.iter().all(is_right), "{name}: {points:?}");
    }
    let page = larder.ask_admin("GET /metrics").text().to_owned();
    let on_page = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let names: BTreeSet<_> = metrics().into_iter().map(|metric| metric.name).collect();
    assert_eq!(names, on_page.map(str::to_owned).collect());
}
