//! A gateway beside its backend: it answers 304 to clients that send a current entity-tag, and stores nothing but
//! tags.
//!
//! The pools are in `larder-tags`; this module asks them about each request.

use std::borrow::Cow;
use std::future::ready;
use std::pin::pin;
use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode, header};
use larder_semantics::invalidate;
use larder_semantics::status::Why;
use larder_tags::{Pools, TagDecision, Ticket, Verdict};

use crate::base::outcome::{Kind, Outcome};
use crate::base::settings::CountedRequests;
use crate::cluster::change::Change;
use crate::exchange::limits;
use crate::exchange::plan::Plan;
use crate::exchange::reply::{Content, Reply, Source};
use crate::exchange::request::Request;
use crate::features::validator;
use crate::flow::context::{failure, refused};
use crate::flow::decide::Decision;
use crate::flow::follow::left;
use crate::flow::pass;
use crate::flow::upstream::{self, Answer};
use crate::flow::worker::Worker;
use crate::http::body::Upload;
use crate::http::response::Lines;
use crate::origin::{Chunk, Download};

/// Returns the reply to a request for a gateway.
pub(crate) async fn serve(
    worker: &Arc<Worker>,
    plan: &Arc<Plan>,
    pools: &Arc<Pools>,
    request: &mut Request,
) -> Reply {
    let authority = authority(request);
    let target = request.path.as_bytes();
    let has_content = !request.content.is_empty();
    let decision = || decide(pools, request, has_content);
    if request.is_prefetch
        && let Decision::Refuse(why) = decision()
    {
        return refused(why);
    }
    if limits::has_limits(request, CountedRequests::Misses)
        && decision().asks_origin()
        && let Err(reply) = limits::enter(request, CountedRequests::Misses)
    {
        return *reply;
    }
    let is_plain = is_plain(request, has_content);
    let asked = match request.method == Method::GET && !is_plain {
        true => TagDecision::Pass(pools.pass(&request.method, target)),
        false => pools.ask(&request.method, authority.as_bytes(), target, &request.fields),
    };
    match asked {
        TagDecision::NotModified(fields) => {
            let outcome = Outcome { ttl: None, ..Outcome::hit(Kind::Hit, Why::TagCurrent, 0) };
            not_modified(fields, outcome)
        }
        TagDecision::Forward(ticket) => forward(worker, plan, request, &ticket).await,
        TagDecision::Change(held) => {
            let held = Change::new(worker.shared.cluster.as_ref(), request, held);
            change(worker, plan, request, held).await
        }
        TagDecision::Pass(mut lines) => {
            let why = passed_for(request, is_plain);
            let reply = pass::through(worker, plan, request, why).await;
            // A doubt may have begun during the pass. A doubt from before the pass counts even if it is over by now.
            if !lines.is_empty() && !lines.contains_key(header::CACHE_CONTROL) {
                lines = pools.pass(&request.method, request.path.as_bytes());
            }
            with(reply, lines)
        }
    }
}

pub(crate) fn decide(pools: &Pools, request: &Request, has_content: bool) -> Decision {
    if invalidate::is_unsafe(&request.method) {
        return Decision::Pass(Why::Method);
    }
    let (authority, target) = (authority(request), request.path.as_bytes());
    let is_plain = is_plain(request, has_content);
    let ask = || pools.is_current(&request.method, authority.as_bytes(), target, &request.fields);
    match is_plain.then(ask).flatten() {
        Some(true) => Decision::Hit(Why::TagCurrent),
        _ if request.is_for_cache_only() => Decision::Refuse(Why::PrefetchNotStored),
        Some(false) => Decision::Fetch(Why::TagUnknown),
        None => Decision::Pass(passed_for(request, is_plain)),
    }
}

/// Whether a tag may answer a GET like `request`. A gateway cannot answer 304 for a change that it has not received
/// yet.
fn is_plain(request: &Request, has_content: bool) -> bool {
    request.upgrade.is_none()
        && !has_content
        && request.awaited.is_none()
        && !validator::is_marked(&request.fields)
}

/// Returns the reason why a safe request is forwarded without a look at the tags.
fn passed_for(request: &Request, is_plain: bool) -> Why {
    if is_plain && request.method != Method::GET { Why::Method } else { Why::Bypass }
}

/// Returns the authority in the keys of tags, with the scheme if that is https: a trusted proxy uses both schemes,
/// and the backend may answer them differently.
fn authority(request: &Request) -> Cow<'_, str> {
    match request.scheme {
        "https" => format!("https://{}", request.authority).into(),
        _ => (&*request.authority).into(),
    }
}

/// Forwards a request that may change something. The pools are blanked before the client gets the answer, and are in
/// doubt from the moment at which a try of the request gets no answer.
async fn change(worker: &Arc<Worker>, plan: &Arc<Plan>, request: &mut Request, mut held: Change) -> Reply {
    // Changes on a connection that leaves HTTP cannot be seen.
    request.upgrade = None;
    let mut content = std::mem::take(&mut request.content);
    let lines = held.lines();
    if worker.cache.gateways.is_closed() {
        held.never_sent();
        return ending();
    }
    let answered = {
        let sent = pin!(upstream::send(worker, plan, request, &request.fields, &mut content, None));
        request.noticing_lost_try(sent, || held.lost_try()).await
    };
    let reply = match answered {
        Ok(Answer { status, fields, download, .. }) => {
            // The backend may still carry out an earlier try, regardless of the answer to the last one.
            let known = if request.has_lost_try() { StatusCode::GATEWAY_TIMEOUT } else { status };
            let position = held.answered(known).await;
            let outcome = Outcome::forwarded(Kind::Pass, Why::Method).answered(status);
            upstream::pass_on(false, status, fields, download.guarded(held), outcome).at(position)
        }
        Err(error) => {
            if error.unsent {
                held.never_sent();
            }
            pass::failed(worker, request, &error)
        }
    };
    with(reply, lines)
}

/// Returns the refusal of a change that arrives after this process has recorded that no change is in progress.
fn ending() -> Reply {
    let outcome = Outcome::forwarded(Kind::Failed, Why::Method);
    let text = "503: this process is about to end; send the request again\n";
    Reply::text(StatusCode::SERVICE_UNAVAILABLE, text.to_owned(), outcome)
}

/// Forwards a request to the backend if no known tag answers it.
async fn forward(worker: &Arc<Worker>, plan: &Arc<Plan>, request: &Request, ticket: &Ticket) -> Reply {
    let mut fields = Cow::Borrowed(&request.fields);
    if Pools::is_conditioned_twice(&fields) {
        Pools::leave_tags(fields.to_mut());
    }
    let mut nothing = Upload::Empty;
    let sent = pin!(upstream::send(worker, plan, request, &fields, &mut nothing, None));
    let Answer { status, fields, download, requested, ruling, .. } =
        match request.unless_left(sent, ready(())).await {
            Some(Ok(answer)) => answer.for_client(plan, request),
            Some(Err(error)) => return pass::failed(worker, request, &error),
            None => return left(),
        };
    let outcome = Outcome::forwarded(Kind::Miss, Why::TagUnknown).answered(status);
    match ticket.answer(&request.fields, status, &*fields, download.length()) {
        Verdict::Pass(lines) => with(upstream::pass_on(false, status, fields, download, outcome), lines),
        Verdict::NotModified(kept) => {
            download.spare();
            not_modified(kept, Outcome { kind: Kind::Revalidated, ..outcome })
        }
        Verdict::Read(most, lines) => {
            let answer = Answer { status, fields, download, by_peer: false, requested, ruling };
            read(request, ticket, answer, (most, lines), outcome).await
        }
    }
}

/// Reads an answer's content to get its tag, and returns the reply.
async fn read(
    request: &Request,
    ticket: &Ticket,
    answer: Answer,
    (most, lines): (u64, HeaderMap),
    outcome: Outcome,
) -> Reply {
    let Answer { status, fields, mut download, .. } = answer;
    let content = match whole(&mut download, most).await {
        Ok(Ok(content)) => content,
        Ok(Err(beginning)) => {
            let reply = upstream::pass_on(false, status, fields, download.behind(beginning), outcome);
            return with(reply, lines);
        }
        Err(error) => {
            tracing::warn!("{}: content truncated: {error}", request.logged_url());
            return failure(StatusCode::BAD_GATEWAY, Why::OriginMalformed);
        }
    };
    match ticket.content(&request.fields, &*fields, &content) {
        Verdict::NotModified(kept) => not_modified(kept, Outcome { kind: Kind::Revalidated, ..outcome }),
        Verdict::Pass(lines) | Verdict::Read(_, lines) => with(read_already(fields, content, outcome), lines),
    }
}

/// Returns all of the content, or the part that was read when it exceeded `most` bytes. Drops trailers (RFC 9110
/// section 6.5.1).
async fn whole(download: &mut Download, most: u64) -> Result<Result<Vec<u8>, Vec<u8>>, String> {
    let expected = download.length().and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    let mut content = Vec::with_capacity(expected);
    while let Some(chunk) = download.next().await? {
        if let Chunk::Data(data) = chunk {
            content.extend_from_slice(data);
        }
        if content.len() as u64 > most {
            return Ok(Err(content));
        }
    }
    Ok(Ok(content))
}

fn read_already(fields: Box<Lines>, content: Vec<u8>, outcome: Outcome) -> Reply {
    let length = Some(content.len() as u64);
    let content = Content::Bytes(content.into());
    Reply { length, content, ..Reply::new(StatusCode::OK, Source::Answer(fields), outcome) }
}

fn not_modified(fields: HeaderMap, outcome: Outcome) -> Reply {
    Reply::new(StatusCode::NOT_MODIFIED, Source::Fields(fields.into()), outcome)
}

/// Returns the same reply with these lines added.
fn with(mut reply: Reply, lines: HeaderMap) -> Reply {
    if !lines.is_empty() {
        reply.extra.get_or_insert_default().extend(lines);
    }
    reply
}
