//! The span of a request, with a child span for each request to an origin.

use std::time::{Duration, Instant};

use larder_semantics::fields::Fields;
use larder_semantics::status::Why;
use parking_lot::Mutex;

mod parent;

pub use parent::Traceparent;

/// The span of a request, and its calls to origins.
#[derive(Debug)]
pub struct Trace {
    /// The span of the request.
    pub own: Traceparent,
    /// The client's span, if the client sent it.
    pub parent: Option<u64>,
    calls: Mutex<Vec<Call>>,
}

/// A finished request to an origin.
#[derive(Debug)]
pub struct Call {
    /// Its span.
    pub span: u64,
    /// The host, and the port if it is not the scheme's default.
    pub origin: String,
    /// When it was sent.
    pub begun: Instant,
    /// The time until the response, or until there could be none.
    pub took: Duration,
    /// The status of the origin's response, or the reason why there was none.
    pub answer: Result<u16, Why>,
}

/// A request to an origin in flight.
pub struct OriginSpan<'t> {
    trace: &'t Trace,
    span: u64,
    origin: &'t str,
    begun: Instant,
}

impl Trace {
    fn new(own: Traceparent, parent: Option<u64>) -> Self {
        Self { own, parent, calls: Mutex::default() }
    }

    /// Begins the span of a request with `fields`. The client's sampling decision applies; without one, the span is
    /// recorded with the probability `sample`.
    pub fn begin(fields: &impl Fields, sample: f64) -> Self {
        match Traceparent::of(fields) {
            // No span is recorded that the origin's could have as their parent.
            Some(parent) if !parent.sampled => Self::new(parent, Some(parent.span)),
            Some(parent) => Self::new(parent.child(), Some(parent.span)),
            None => Self::new(Traceparent::root(fastrand::f64() < sample), None),
        }
    }

    /// Whether the trace begins here: the client sent no span, or one that cannot be read.
    pub fn is_new(&self) -> bool {
        self.parent.is_none()
    }

    /// Begins a request to `origin`.
    pub fn ask<'t>(&'t self, origin: &'t str) -> OriginSpan<'t> {
        let own = if self.own.sampled { self.own.child() } else { self.own };
        OriginSpan { trace: self, span: own.span, origin, begun: Instant::now() }
    }

    /// Takes the finished requests to origins.
    pub fn calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.calls.lock())
    }
}

impl OriginSpan<'_> {
    /// Returns the value of `traceparent` for the origin.
    pub fn traceparent(&self) -> String {
        Traceparent { span: self.span, ..self.trace.own }.to_string()
    }

    /// Ends the call with the status of the origin's response, or the reason why there was none.
    pub fn ended(self, answer: Result<u16, Why>) {
        let Self { trace, span, origin, begun } = self;
        if trace.own.sampled {
            let call = Call { span, origin: origin.to_owned(), begun, took: begun.elapsed(), answer };
            trace.calls.lock().push(call);
        }
    }
}
