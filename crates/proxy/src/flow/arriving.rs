//! Replies from a response that is arriving, to the client that caused its fetch and to others.

use http::{Method, StatusCode};
use larder_semantics::fields::Fields;
use larder_semantics::range::{self, ContentRange};
use larder_semantics::revalidate::{self, Precondition};
use larder_store::fill::{Head, Reader};

use crate::base::clock;
use crate::base::outcome::Outcome;
use crate::exchange::reply::{Content, Reply, Source};
use crate::exchange::request::Request;
use crate::flow::{coded_stream, conditions};

/// Returns the reply to `request` from a response that is arriving.
pub(crate) fn reply(
    request: &Request,
    head: &Head,
    fields: Source,
    mut reader: Reader,
    outcome: Outcome,
) -> Reply {
    let lines = head.fields.view();
    let date = Some(head.freshness.date);
    let condition = revalidate::precondition(&request.method, &request.fields, head.status, &lines, date);
    let mut reply = Reply { length: head.length, ..Reply::new(head.status, fields, outcome) };
    if matches!(reply.fields, Source::Fill(_)) && head.freshness.initial_age > 0 {
        reply.age = Some(head.freshness.age(clock::now()));
    }
    if condition == Precondition::NotModified {
        return conditions::not_modified(reply);
    }
    if request.method == Method::HEAD {
        return reply;
    }
    if let Some(part) = wanted_part(request, head) {
        reader.narrow(*part.range().start(), part.range().end() + 1);
        reply.status = StatusCode::PARTIAL_CONTENT;
        reply.narrow(part);
    }
    reply.content = Content::Fill(reader.into());
    reply
}

/// Returns the single range that the client requests of an arriving whole response, if its length is known and the client
/// gets it as the origin sent it.
pub(crate) fn wanted_part(request: &Request, head: &Head) -> Option<ContentRange> {
    let complete = head.length.filter(|_| head.status == StatusCode::OK)?;
    let specs = request.fields.first("range").and_then(range::parse)?;
    let lines = head.fields.view();
    if !range::if_range(&request.fields, &lines, &head.freshness)
        || coded_stream::is_undone(request, head.status, &lines)
    {
        return None;
    }
    match range::resolve(&specs, complete) {
        range::RangeSelection::Satisfied(ranges) if ranges.len() == 1 => {
            ContentRange::new(ranges.into_iter().next()?, complete)
        }
        _ => None,
    }
}
