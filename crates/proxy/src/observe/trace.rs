//! Traces: each request as a span, each question to an origin as a span below it, for an OpenTelemetry collector.
//!
//! What is known of a request lives in its [`Trace`] until it ends; `parent` reads and writes the field by which
//! programs tell each other of spans; `otlp` makes spans of it in the end, and sends them. All of it is behind the
//! feature `otlp`; without, `untraced` stands here.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use larder_semantics::fields::Fields;
use larder_semantics::status::Why;
use serde::Serialize;

use super::memo::{Ended, Memo};
use crate::base::error::Error;
use crate::base::settings::Settings;

mod otlp;
mod parent;

use otlp::Exporter;
use parent::Traceparent;

/// Makes spans of requests.
#[derive(Debug)]
pub(crate) struct Tracer {
    /// Of the requests whose clients say nothing of it, so many are traced.
    sample: f64,
    exporter: Exporter,
}

/// A request as a span, and what it asked of origins.
#[derive(Debug)]
pub(crate) struct Trace {
    own: Traceparent,
    /// The client's span, if it told us.
    parent: Option<u64>,
    calls: Mutex<Vec<Call>>,
}

/// A question to an origin that has been answered, or never will be.
#[derive(Debug)]
struct Call {
    span: u64,
    /// Host, and port if it is not the scheme's own.
    origin: String,
    begun: Instant,
    took: Duration,
    /// What the origin answered, or why it did not.
    answer: Result<u16, Why>,
}

/// A question to an origin that is under way.
pub(crate) struct Asking<'t> {
    trace: &'t Trace,
    span: u64,
    origin: &'t str,
    begun: Instant,
}

/// What `/stats` shows of the spans: how many were sent, wait to be sent, or never will be.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) sent: u64,
    pub(crate) queued: u64,
    pub(crate) dropped: u64,
}

impl Report {
    /// What became of those that no longer wait.
    pub(crate) fn fates(&self) -> [(&'static str, u64); 2] {
        [("sent", self.sent), ("dropped", self.dropped)]
    }

    pub(crate) fn queued(&self) -> u64 {
        self.queued
    }
}

impl Tracer {
    /// Gets ready to send spans, if that shall be done.
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
        Arc::new(match Traceparent::of(fields) {
            Some(parent) => Trace::new(parent.child(), Some(parent.span)),
            None => Trace::new(Traceparent::root(fastrand::f64() < self.sample), None),
        })
    }

    /// Sends the spans of a request that has ended, and took so long.
    pub(crate) fn record(&self, memo: &Memo, ended: &Ended, took: Duration) {
        if let Some(trace) = memo.trace.as_deref().filter(|trace| trace.own.sampled) {
            self.exporter.export(trace, memo, ended, took);
        }
    }

    pub(crate) fn report(&self) -> Report {
        self.exporter.report()
    }

    /// Sends what waits, for a short while, and ends.
    pub(crate) fn finish(&self) {
        self.exporter.finish();
    }
}

impl Trace {
    fn new(own: Traceparent, parent: Option<u64>) -> Self {
        Self { own, parent, calls: Mutex::default() }
    }

    /// Asks `origin`.
    pub(crate) fn ask<'t>(&'t self, origin: &'t str) -> Asking<'t> {
        Asking { trace: self, span: self.own.child().span, origin, begun: Instant::now() }
    }

    /// The questions that have ended.
    fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Asking<'_> {
    /// What the origin is told of it.
    pub(crate) fn traceparent(&self) -> String {
        Traceparent { span: self.span, ..self.trace.own }.to_string()
    }

    /// The origin answered with a status, or did not.
    pub(crate) fn ended(self, answer: Result<u16, Why>) {
        let Self { trace, span, origin, begun } = self;
        if trace.own.sampled {
            let call = Call { span, origin: origin.to_owned(), begun, took: begun.elapsed(), answer };
            trace.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        }
    }
}
