//! A conversion from any readable trace to a workload.

use super::{Method, Workload, WorkloadRequest};
use crate::trace::Trace;

/// Returns the requests of `trace`, which came from `source`. Objects without a URL are named by their number.
pub fn import(trace: Trace, source: &str) -> Workload {
    let header = vec![format!(
        "imported from {source}: {} requests for {} objects",
        trace.len(),
        trace.shape().objects
    )];
    let start = trace.span().start;
    let steps = (0..trace.len()).map(move |at| {
        let request = trace.request(at);
        let path = match trace.name(request.id) {
            Some(url) if !url.contains([' ', '\n', '\r']) => url.to_owned(),
            _ => format!("/object/{}", request.id),
        };
        let time = trace.time(at).saturating_sub(start);
        WorkloadRequest {
            time,
            method: Method::Get,
            path,
            size: request.size,
            cost: request.cost,
            body: String::new(),
        }
    });
    Workload { header, steps: Box::new(steps) }
}
