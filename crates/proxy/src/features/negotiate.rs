//! Negotiates the form of a reply that took some waiting: by [`forms::choose`], also by rules on the response, and
//! without a coding for the few clients that do not accept the coding of the origin.

use std::sync::Arc;

use http::{Method, StatusCode};
use larder_semantics::coding::Coding;
use larder_semantics::storable::Rules;
use larder_store::{Body, Entry};

use crate::cache::decoder::{self, Decoded};
use crate::exchange::plan::Plan;
use crate::exchange::reply::{Content, Reply, Source};
use crate::exchange::request::Request;
use crate::exchange::rulebook::Ruling;
use crate::flow::forms;
use crate::flow::worker::Worker;

/// Chooses the form of a stored response. Another node that requests a response compresses it itself.
pub(super) async fn form(worker: &Arc<Worker>, plan: &Plan, request: &Request, reply: &mut Reply) {
    let Some(accepted) = request.accepted.as_ref().filter(|_| !request.by_peer && request.ruling.caches)
    else {
        return;
    };
    let by_response = request.route.rulebook(&plan.forward).compresses_by_response();
    let ruling = by_response.then(|| ruling(plan, request, reply)).flatten();
    let Rules { compression, .. } = &ruling.as_ref().unwrap_or(&request.ruling).caching;
    if !compression.is_on() {
        return;
    }
    if let Some(coding) = forms::choose(&worker.cache, compression, (&request.fields, accepted), reply)
        && let (Source::Entry(entry), Content::Stored(..)) = (&reply.fields, &reply.content)
    {
        let entry = entry.clone();
        Box::pin(undo(worker, coding, entry, request, reply)).await;
    }
}

/// Returns the ruling on the request and on the response of which `reply` is made; `None` if it is that of the request.
fn ruling(plan: &Plan, request: &Request, reply: &Reply) -> Option<Arc<Ruling>> {
    match &reply.fields {
        Source::Entry(entry) | Source::NotModified(entry) => {
            let about = (entry.status(), Some(entry.body().len()), &entry.fields());
            request.rule_response(plan, about)
        }
        Source::Fill(head) => request.rule_response(plan, (head.status, head.length, &head.fields.view())),
        Source::Answer(lines) => request.rule_response(plan, (reply.status, reply.length, &**lines)),
        Source::Fields(fields) if reply.status == StatusCode::OK => {
            request.rule_response(plan, (reply.status, reply.length, &**fields))
        }
        Source::Fields(_) => None,
    }
}

/// Replaces the content of the reply with the decoded content of `entry`, if that is possible.
async fn undo(worker: &Arc<Worker>, coding: Coding, entry: Entry, request: &Request, reply: &mut Reply) {
    if request.method == Method::HEAD {
        (reply.length, reply.content) = (None, Content::None);
        reply.negotiated = reply.negotiated.undone();
        return;
    }
    match decoder::decoded(&worker.cache, entry, coding, request.client.ip()).await {
        Some(Decoded::Stored(entry)) => {
            let length = entry.coded().and_then(|coded| coded.form(None)).map(Body::len);
            reply.fields = Source::Entry(entry);
            forms::replace(reply, length, Content::Coded(None));
        }
        Some(Decoded::Loose(bytes)) => {
            forms::replace(reply, Some(bytes.len() as u64), Content::Bytes(bytes));
        }
        None => {}
    }
}
