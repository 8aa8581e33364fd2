//! The replacement of [`trace`](super::trace) without the feature `otlp`: requests have no spans, and the compiler
//! removes the code that handles them.

use std::sync::Arc;
use std::time::Duration;

use larder_semantics::fields::Fields;
use serde::Serialize;

use super::memo::{RequestRecord, RequestResult};
use crate::base::error::Error;
use crate::base::settings::Settings;
use crate::counts::span::Trace;

/// The replacement of the tracer. It has no values.
#[derive(Debug)]
pub(crate) enum Tracer {}

/// The replacement of the report in `/stats`. It has no values.
#[derive(Debug, Serialize)]
pub(crate) enum TraceReport {}

impl TraceReport {
    pub(crate) fn fates(&self) -> [(&'static str, u64); 2] {
        match *self {}
    }

    pub(crate) fn queued(&self) -> u64 {
        match *self {}
    }
}

impl Tracer {
    /// # Errors
    /// When tracing is configured.
    pub(crate) fn start(settings: &Settings) -> Result<Option<Self>, Error> {
        match &settings.trace.endpoint {
            None => Ok(None),
            Some(endpoint) => {
                let what = format!("cannot send traces to {endpoint}");
                Err(Error::new(what, "built without the feature otlp"))
            }
        }
    }

    pub(crate) fn begin(&self, _fields: &impl Fields) -> Arc<Trace> {
        match *self {}
    }

    pub(crate) fn record(&self, _memo: &RequestRecord, _ended: &RequestResult, _took: Duration) {
        match *self {}
    }

    pub(crate) fn report(&self) -> TraceReport {
        match *self {}
    }

    pub(crate) fn finish(&self) {
        match *self {}
    }
}
