//! A request as a span, and each question to an origin as a span below it. What stands for this without the feature `otlp` is
//! `no_span`.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use larder_semantics::fields::Fields;
use larder_semantics::status::Why;

mod parent;

pub(crate) use parent::Traceparent;

/// A request as a span, and what it asked of origins.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) own: Traceparent,
    /// The client's span, if it told us.
    pub(crate) parent: Option<u64>,
    calls: Mutex<Vec<Call>>,
}

/// A question to an origin that has been answered, or never will be.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) span: u64,
    /// Host, and port if it is not the scheme's own.
    pub(crate) origin: String,
    pub(crate) begun: Instant,
    pub(crate) took: Duration,
    /// What the origin answered, or why it did not.
    pub(crate) answer: Result<u16, Why>,
}

/// A question to an origin that is under way.
pub(crate) struct Asking<'t> {
    trace: &'t Trace,
    span: u64,
    origin: &'t str,
    begun: Instant,
}

impl Trace {
    fn new(own: Traceparent, parent: Option<u64>) -> Self {
        Self { own, parent, calls: Mutex::default() }
    }

    /// That of a request with `fields`. Whether it is recorded is for the client to say, then for chance: a `sample` of them
    /// is.
    pub(crate) fn begin(fields: &impl Fields, sample: f64) -> Self {
        match Traceparent::of(fields) {
            Some(parent) => Self::new(parent.child(), Some(parent.span)),
            None => Self::new(Traceparent::root(fastrand::f64() < sample), None),
        }
    }

    /// Asks `origin`.
    pub(crate) fn ask<'t>(&'t self, origin: &'t str) -> Asking<'t> {
        Asking { trace: self, span: self.own.child().span, origin, begun: Instant::now() }
    }

    /// The questions that have ended.
    pub(crate) fn calls(&self) -> Vec<Call> {
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
