//! Clients' conditions on answers that are not stored, which no stored response has answered (RFC 9110 section 13).

use http::{HeaderMap, Method, StatusCode, header};
use larder_semantics::revalidate::{self, Precondition};
use larder_store::Entry;

use crate::base::clock;
use crate::base::outcome::Outcome;
use crate::exchange::reply::{Content, Reply, Source};
use crate::exchange::request::Request;
use crate::flow::context::Context;
use crate::flow::revalidation::Revalidation;
use crate::flow::upstream;
use crate::http::response::Lines;
use crate::origin::Download;

/// Returns the form of the request about `stored`. Without a stored response, the origin gets the conditions of the client
/// if its response will most probably not be stored for others.
pub(super) fn revalidation(
    cx: Context<'_>,
    request: &Request,
    stored: Option<&Entry>,
    wants_part: bool,
) -> Revalidation {
    let is_marked = || cx.worker.cache.hit_for_miss.marked(request.hash, clock::now());
    match stored {
        None if request.asked.no_store || cx.rules.stores_nothing || is_marked() => Revalidation::AsAsked,
        stored => Revalidation::about(stored, wants_part),
    }
}

/// Whether `sent` to the origin lack conditions of the client that come before its range (RFC 9110 section 13.2.2).
pub(super) fn lacks(sent: &HeaderMap, request: &Request) -> bool {
    [header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE]
        .iter()
        .any(|name| request.fields.contains_key(name) && sent.get(name) != request.fields.get(name))
}

/// Returns the reply that forwards the origin's answer to a GET or HEAD as it arrives, or that tells the client that it
/// has this response. The conditions of a request whose response might have been stored are evaluated only here.
pub(super) fn pass_on(
    request: &Request,
    status: StatusCode,
    fields: Box<Lines>,
    download: Box<Download>,
    outcome: Outcome,
) -> Reply {
    let condition = revalidate::precondition(&request.method, &request.fields, status, &*fields, None);
    if condition == Precondition::Proceed {
        return upstream::pass_on(request.method == Method::HEAD, status, fields, download, outcome);
    }
    download.spare();
    not_modified(Reply::new(status, Source::Answer(fields), outcome))
}

/// Makes `reply`, of status 200 or 206, the 304 for a client that has this response.
pub(super) fn not_modified(mut reply: Reply) -> Reply {
    if let Source::Answer(lines) = &mut reply.fields {
        lines.rebuild(|name, _| !revalidate::describes_content(name), std::iter::empty());
    }
    Reply { status: StatusCode::NOT_MODIFIED, length: None, content: Content::None, ..reply }
}
