//! Traces for an OpenTelemetry collector: a span for each request, with a child span for each request to an origin.
//!
//! [`Trace`] holds the data of a request until it ends; then `exporter` makes and sends its spans.

use std::sync::Arc;
use std::time::Duration;

use larder_semantics::fields::Fields;
use serde::Serialize;

use super::memo::{RequestRecord, RequestResult};
use super::otlp::Collector;
use crate::base::error::Error;
use crate::base::settings::Settings;
use crate::counts::span::Trace;

mod exporter;

use exporter::Exporter;

/// Creates and sends the spans of requests.
#[derive(Debug)]
pub struct Tracer {
    /// The traced share of the requests whose clients send no sampling decision.
    sample: f64,
    exporter: Exporter,
}

/// The spans in `/stats`: sent, waiting and dropped ones.
#[derive(Debug, Serialize)]
pub struct TraceReport {
    pub(crate) sent: u64,
    pub(crate) queued: u64,
    pub(crate) dropped: u64,
}

impl TraceReport {
    /// Returns the counts of spans that no longer wait, by result.
    pub fn fates(&self) -> [(&'static str, u64); 2] {
        [("sent", self.sent), ("dropped", self.dropped)]
    }

    /// Returns the number of spans that wait.
    pub fn queued(&self) -> u64 {
        self.queued
    }
}

impl Tracer {
    /// Starts the export of spans, if tracing is configured. Fails when the export thread or its HTTP client cannot be
    /// created.
    pub(crate) fn start(settings: &Settings) -> Result<Option<Self>, Error> {
        let Some(collector) = Collector::new(settings, "traces")? else { return Ok(None) };
        let exporter =
            Exporter::start(collector).map_err(|why| Error::new("cannot start the thread of traces", why))?;
        Ok(Some(Self { sample: settings.trace.sample, exporter }))
    }

    /// Begins the span of a request with `fields`. The client's sampling decision applies, or else chance.
    pub(crate) fn begin(&self, fields: &impl Fields) -> Arc<Trace> {
        Arc::new(Trace::begin(fields, self.sample))
    }

    /// Sends the spans of a request that has ended after `took`.
    pub(crate) fn record(&self, memo: &RequestRecord, ended: &RequestResult, took: Duration) {
        if let Some(trace) = memo.trace.as_deref().filter(|trace| trace.own.sampled) {
            self.exporter.export(trace, memo, ended, took);
        }
    }

    /// Returns the counts.
    pub fn report(&self) -> TraceReport {
        self.exporter.report()
    }

    /// Sends the waiting spans within a short time, and ends the export.
    pub fn finish(&self) {
        self.exporter.finish();
    }
}
