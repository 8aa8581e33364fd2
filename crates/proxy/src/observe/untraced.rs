//! What stands for [`trace`](super::trace) where the feature `otlp` is not built in: requests have no spans, and the
//! compiler leaves out what would be done with one.

use std::sync::Arc;
use std::time::Duration;

use larder_semantics::fields::Fields;
use serde::Serialize;

use super::memo::{Ended, Memo};
use crate::base::error::Error;
use crate::base::settings::Settings;
use crate::counts::span::Trace;

/// Would make spans of requests.
#[derive(Debug)]
pub(crate) enum Tracer {}

/// Would be what `/stats` shows of the spans.
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
    /// If tracing is configured.
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

    pub(crate) fn record(&self, _memo: &Memo, _ended: &Ended, _took: Duration) {
        match *self {}
    }

    pub(crate) fn report(&self) -> TraceReport {
        match *self {}
    }

    pub(crate) fn finish(&self) {
        match *self {}
    }
}
