//! Sends spans to a collector with OTLP over HTTP, on a dedicated thread. Requests do not wait for it.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    self as sdk, BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanEvents, SpanLinks, SpanProcessor,
};

use super::super::memo::{RequestRecord, RequestResult};
use super::TraceReport;
use crate::base::networks::host_of;
use crate::base::settings::Door;
use crate::counts::span::{Call, Trace, Traceparent};
use crate::counts::versions;
use crate::origin::tls_config;

/// The path for spans, below the collector's endpoint.
const PATH: &str = "/v1/traces";
/// Maximum of spans that wait to be sent.
const QUEUE: usize = 8_192;
/// Maximum time that a span waits for others in its batch.
const DELAY: Duration = Duration::from_secs(1);
/// Timeout of the collector for one batch.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum time that the end of the process waits for the last spans.
const LAST: Duration = Duration::from_secs(2);

/// Sends spans.
#[derive(Debug)]
pub(super) struct Exporter {
    processor: BatchSpanProcessor,
    fate: Arc<Fate>,
    scope: InstrumentationScope,
}

/// Counts of spans by result.
#[derive(Debug, Default)]
struct Fate {
    queued: AtomicUsize,
    sent: AtomicU64,
    dropped: AtomicU64,
}

/// Sends batches, and counts the results.
#[derive(Debug)]
struct Sender {
    otlp: SpanExporter,
    endpoint: String,
    fate: Arc<Fate>,
    /// Whether the log already has the current failure.
    failing: AtomicBool,
}

impl sdk::SpanExporter for Sender {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let result = self.otlp.export(batch).await;
        let counter = if result.is_ok() { &self.fate.sent } else { &self.fate.dropped };
        counter.fetch_add(spans as u64, Ordering::Relaxed);
        self.fate.queued.fetch_sub(spans, Ordering::Relaxed);
        let failed_before = self.failing.swap(result.is_err(), Ordering::Relaxed);
        match &result {
            Err(error) if !failed_before => tracing::warn!("traces do not reach {}: {error}", self.endpoint),
            Ok(()) if failed_before => tracing::info!("traces reach {} again", self.endpoint),
            _ => {}
        }
        result
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.otlp.set_resource(resource);
    }
}

impl Exporter {
    /// Starts to send to the collector at `endpoint`, as the service `name`.
    pub(super) fn start(endpoint: &str, name: &str) -> Result<Self, String> {
        let tls = tls_config::tls().map_err(|error| error.to_string())?;
        let client = reqwest::blocking::Client::builder()
            .tls_backend_preconfigured((*tls).clone())
            .no_proxy()
            .timeout(PATIENCE)
            .build()
            .map_err(|error| error.to_string())?;
        let otlp = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint([endpoint.trim_end_matches('/'), PATH].concat())
            .with_timeout(PATIENCE)
            .build()
            .map_err(|error| error.to_string())?;
        let fate = Arc::new(Fate::default());
        let sender = Sender {
            otlp,
            endpoint: endpoint.to_owned(),
            fate: Arc::clone(&fate),
            failing: AtomicBool::new(false),
        };
        let config = BatchConfigBuilder::default().with_max_queue_size(QUEUE).with_scheduled_delay(DELAY);
        let mut processor = BatchSpanProcessor::builder(sender).with_batch_config(config.build()).build();
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = Resource::builder().with_service_name(name.to_owned()).with_attribute(version);
        processor.set_resource(&resource.build());
        let scope = InstrumentationScope::builder("larder").with_version(env!("CARGO_PKG_VERSION")).build();
        Ok(Self { processor, fate, scope })
    }

    /// Queues the spans of a request that has just ended.
    pub(super) fn export(&self, trace: &Trace, memo: &RequestRecord, ended: &RequestResult, took: Duration) {
        let span = SpanData {
            parent_span_id: trace.parent.map_or(SpanId::INVALID, SpanId::from),
            parent_span_is_remote: trace.parent.is_some(),
            span_kind: SpanKind::Server,
            attributes: attributes(memo, ended),
            status: status(ended.status >= 500, ""),
            ..self.span(trace.own, memo, memo.begun, took)
        };
        self.queue(span);
        for call in trace.calls() {
            let own = Traceparent { span: call.span, ..trace.own };
            let span = SpanData {
                parent_span_id: SpanId::from(trace.own.span),
                span_kind: SpanKind::Client,
                attributes: call_attributes(&call, memo),
                status: match call.answer {
                    Ok(code) => status(code >= 400, ""),
                    Err(why) => status(true, why.explanation()),
                },
                ..self.span(own, memo, call.begun, call.took)
            };
            self.queue(span);
        }
    }

    /// Creates a span with the common data of all spans.
    fn span(&self, own: Traceparent, memo: &RequestRecord, begun: Instant, took: Duration) -> SpanData {
        let (trace, span) = (TraceId::from(own.trace), SpanId::from(own.span));
        let start = SystemTime::now().checked_sub(begun.elapsed()).unwrap_or(SystemTime::UNIX_EPOCH);
        SpanData {
            span_context: SpanContext::new(trace, span, TraceFlags::SAMPLED, false, TraceState::NONE),
            parent_span_id: SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: Cow::Owned(memo.method.to_string()),
            start_time: start,
            end_time: start + took,
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: self.scope.clone(),
        }
    }

    fn queue(&self, span: SpanData) {
        // The processor does not report spans that it drops. Its queue has the same length, so this check prevents
        // drops there.
        if self.fate.queued.fetch_add(1, Ordering::Relaxed) < QUEUE {
            return self.processor.on_end(span);
        }
        self.fate.queued.fetch_sub(1, Ordering::Relaxed);
        self.fate.dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn report(&self) -> TraceReport {
        let Fate { queued, sent, dropped } = &*self.fate;
        TraceReport {
            sent: sent.load(Ordering::Relaxed),
            queued: queued.load(Ordering::Relaxed) as u64,
            dropped: dropped.load(Ordering::Relaxed),
        }
    }

    pub(super) fn finish(&self) {
        let ended = self.processor.shutdown_with_timeout(LAST);
        let lost = self.fate.queued.load(Ordering::Relaxed);
        if ended.is_err() && lost > 0 {
            tracing::warn!("{lost} spans were not sent before the end");
        }
    }
}

/// Returns an error, or no status: HTTP status codes are attributes.
fn status(is_error: bool, why: &'static str) -> Status {
    if is_error { Status::error(why) } else { Status::Unset }
}

/// Returns the attributes of a request, with the names of OpenTelemetry's HTTP conventions where they exist.
fn attributes(memo: &RequestRecord, ended: &RequestResult) -> Vec<KeyValue> {
    let outcome = &ended.outcome;
    let mut attributes = vec![
        KeyValue::new("http.request.method", memo.method.to_string()),
        KeyValue::new("url.full", memo.target.clone()),
        KeyValue::new("http.response.status_code", i64::from(ended.status)),
        KeyValue::new("server.address", memo.host().to_owned()),
        KeyValue::new("network.protocol.name", memo.door.map_or("http", Door::name)),
        KeyValue::new("cache.outcome", outcome.kind.word()),
        KeyValue::new("cache.reason", outcome.why.token()),
    ];
    if let Some(version) = memo.version {
        attributes.push(KeyValue::new("network.protocol.version", versions::name(version)));
    }
    if let Some(id) = memo.id.as_deref() {
        attributes.push(KeyValue::new("request.id", id.to_owned()));
    }
    if outcome.is_hit() {
        attributes.push(KeyValue::new("cache.tier", outcome.tier.name()));
    }
    if let Some(site) = memo.site.as_deref() {
        attributes.push(KeyValue::new("cache.site", site.to_owned()));
    }
    attributes
}

/// Returns the attributes of a request to an origin.
fn call_attributes(call: &Call, memo: &RequestRecord) -> Vec<KeyValue> {
    let host = host_of(&call.origin);
    let mut attributes = vec![
        KeyValue::new("http.request.method", memo.method.to_string()),
        KeyValue::new("url.full", memo.target.clone()),
        KeyValue::new("server.address", host.to_owned()),
    ];
    if let Some(port) = call.origin[host.len()..].strip_prefix(':').and_then(|port| port.parse::<u16>().ok())
    {
        attributes.push(KeyValue::new("server.port", i64::from(port)));
    }
    attributes.push(match call.answer {
        Ok(code) => KeyValue::new("http.response.status_code", i64::from(code)),
        Err(why) => KeyValue::new("error.type", why.token()),
    });
    attributes
}
