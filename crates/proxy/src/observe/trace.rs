//! Traces: each request as a span, each question to an origin as a span below it, for an OpenTelemetry collector.
//!
//! What is known of a request lives in its [`Trace`] until it ends; `otlp` makes spans of it then, and sends them. All of it
//! is behind the feature `otlp`; without, `untraced` stands here.

use std::sync::Arc;
use std::time::Duration;

use larder_semantics::fields::Fields;
use serde::Serialize;

use super::memo::{Ended, Memo};
use crate::base::error::Error;
use crate::base::settings::Settings;
use crate::counts::span::Trace;

mod otlp;

use otlp::Exporter;

/// Makes spans of requests.
#[derive(Debug)]
pub(crate) struct Tracer {
    /// Of the requests whose clients say nothing of it, so many are traced.
    sample: f64,
    exporter: Exporter,
}

/// What `/stats` shows of the spans: how many were sent, wait to be sent, or never will be.
#[derive(Debug, Serialize)]
pub(crate) struct TraceReport {
    pub(crate) sent: u64,
    pub(crate) queued: u64,
    pub(crate) dropped: u64,
}

impl TraceReport {
    /// The outcomes of those that no longer wait.
    pub(crate) fn fates(&self) -> [(&'static str, u64); 2] {
        [("sent", self.sent), ("dropped", self.dropped)]
    }

    pub(crate) fn queued(&self) -> u64 {
        self.queued
    }
}

impl Tracer {
    /// Prepares to send spans, if tracing is configured.
    ///
    /// # Errors
    /// When the thread or the client that sends them cannot be made.
    pub(crate) fn start(settings: &Settings) -> Result<Option<Self>, Error> {
        let tracing = &settings.trace;
        let Some(endpoint) = &tracing.endpoint else { return Ok(None) };
        let exporter = Exporter::start(endpoint, &settings.name);
        let exporter =
            exporter.map_err(|why| Error::new(format!("cannot send traces to {endpoint}"), why))?;
        Ok(Some(Self { sample: tracing.sample, exporter }))
    }

    /// The span of a request with `fields`. Whether it is recorded is for the client to say, then for chance.
    pub(crate) fn begin(&self, fields: &impl Fields) -> Arc<Trace> {
        Arc::new(Trace::begin(fields, self.sample))
    }

    /// Sends the spans of a request that has ended, and took so long.
    pub(crate) fn record(&self, memo: &Memo, ended: &Ended, took: Duration) {
        if let Some(trace) = memo.trace.as_deref().filter(|trace| trace.own.sampled) {
            self.exporter.export(trace, memo, ended, took);
        }
    }

    pub(crate) fn report(&self) -> TraceReport {
        self.exporter.report()
    }

    /// Sends what waits, for a short while, and ends.
    pub(crate) fn finish(&self) {
        self.exporter.finish();
    }
}
