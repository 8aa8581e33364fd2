//! Sends a request to an origin: takes a permit and writes the fields for the origin.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use http::{HeaderMap, Method, StatusCode, header};
use larder_semantics::fields::Fields;
use larder_semantics::status::Why;

use crate::base::clock;
use crate::base::outcome::Outcome;
use crate::cluster::peers;
use crate::counts::accounts::Meter;
use crate::exchange::plan::Plan;
use crate::exchange::reply::{Content, Reply, Source};
use crate::exchange::request::Request;
use crate::exchange::request_destination;
use crate::exchange::route::Route;
use crate::exchange::ruling::Ruling;
use crate::exchange::upgrade;
use crate::flow::attempts;
use crate::flow::packages;
use crate::flow::sending::{Protocol, SiteAddress, is_expecting, once};
use crate::flow::worker::Worker;
use crate::http::body::Upload;
use crate::http::response::{Head, Lines};
use crate::net::concurrency::{Claim, Permit};
use crate::origin::{Download, OriginError};

/// An origin's answer. Its content holds the permit of the request until it has arrived.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) fields: Box<Lines>,
    pub(crate) download: Box<Download>,
    /// Whether it comes from the node that owns the key.
    pub(crate) by_peer: bool,
    /// When the request was sent (UNIX seconds). The time in the queue for a permit is no part of the answer's age.
    pub(crate) requested: u32,
    /// The rules of the site for the request and this answer; `None` if they are those of the request.
    pub(crate) ruling: Option<Arc<Ruling>>,
}

impl Answer {
    /// Returns the answer in the form in which it is forwarded to a client. Rules change a 304 only here, since they
    /// apply to the response that it confirms.
    pub(crate) fn for_client(mut self, plan: &Plan, request: &Request) -> Self {
        if !self.by_peer && self.status == StatusCode::NOT_MODIFIED {
            let ruling = self.ruling.as_ref().unwrap_or(&request.ruling);
            request.response_edits(plan, ruling).apply_to_lines(self.status, &mut self.fields);
        }
        self
    }

    /// Returns the fields as the origin has written them, without changes by other nodes.
    pub(crate) fn written(&self) -> HeaderMap {
        let mut fields = self.fields.to_map();
        if self.by_peer {
            peers::unwrite(&mut fields);
        }
        fields
    }
}

/// Sends `request` with `fields` instead of its own fields. Its content can be sent once only. `fetch` identifies the
/// fetch that this is for, if other requests may follow it. Errors: the reason why there is no answer.
pub(crate) async fn send(
    worker: &Arc<Worker>,
    plan: &Arc<Plan>,
    request: &Request,
    fields: &HeaderMap,
    content: &mut Upload,
    fetch: Option<usize>,
) -> Result<Answer, OriginError> {
    match request.link.as_ref().filter(|_| !content.is_empty() && is_of_http2(request)) {
        // The origin may have to send first, and both sides may pause.
        Some(link) => link.let_pause(),
        // The client sends its content only after the origin has seen the head.
        None if content.is_empty() || is_expecting(request) => {}
        // Wait for the content before taking a permit: a client that announces content and sends none holds no permit.
        None => content.begun().await,
    }
    let mut permit = match request.is_own_prefetch {
        true => Some(plan.concurrency.try_enter_spare(claim(plan, request)).ok_or_else(no_permit)?),
        false => plan.concurrency.try_enter(claim(plan, request)),
    };
    if permit.is_none() {
        permit = Some(Box::pin(queue_up(plan, claim(plan, request), fetch)).await?);
    }
    let (begun, requested) = (Instant::now(), clock::now());
    let changed = packages::asked(plan, request, fields);
    let fields = changed.as_deref().unwrap_or(fields);
    let answered = match request.asks_peers || request.by_peer && request.is_own_prefetch {
        false => ask(worker, plan, request, fields, content).await,
        // In a box: otherwise the state of all other requests would be larger.
        true => Box::pin(ask_peers(worker, plan, request, fields, content)).await,
    };
    let took = begun.elapsed();
    request.origin.add(took);
    let (mut head, download, by_peer) = answered?;
    let length = match request.method {
        Method::HEAD => {
            head.fields.first("content-length").and_then(|length| str::from_utf8(length).ok()?.parse().ok())
        }
        _ => download.length(),
    };
    let by_answer = request.rule_response(plan, (head.status, length, &*head.fields));
    let ruling = by_answer.as_ref().unwrap_or(&request.ruling);
    let rulebook = request.route.rulebook(&plan.forward);
    if !by_peer {
        rulebook.counts().count_response(worker.number, &ruling.numbers, &request.ruling.numbers);
    }
    if !by_peer && head.status != StatusCode::NOT_MODIFIED {
        request.response_edits(plan, ruling).apply_to_lines(head.status, &mut head.fields);
    }
    worker.times.answered(took);
    upgrade::check(request, &head)?;
    if head.status == StatusCode::NOT_MODIFIED && !is_conditional(fields) && !is_conditional(&request.fields)
    {
        return Err(unasked_304());
    }
    let download = match by_peer {
        true => download.holding(permit),
        false => {
            let meter = Meter::new(plan.sites.account(request.route.number()), worker.number);
            download.holding(permit).counted(meter)
        }
    };
    let answered = (head.status, &*head.fields);
    let download = packages::examined(worker, plan, (request, ruling), answered, download)?;
    let download =
        packages::filtered((worker, ask_beside), plan, (request, ruling), (&mut head, download)).await?;
    Ok(Answer { status: head.status, fields: head.fields, download, by_peer, requested, ruling: by_answer })
}

/// Asks for a resource beside one whose answer depends on it.
fn ask_beside(worker: Arc<Worker>, request: Request) -> packages::Beside {
    Box::pin(async move {
        let plan = worker.plan();
        let sent = send(&worker, &plan, &request, &request.fields, &mut Upload::Empty, None).await;
        let answer = sent.ok().filter(|answer| answer.status == StatusCode::OK)?;
        Some((answer.fields, answer.download))
    })
}

/// Sends the request to the node that owns the key, or else to an origin; `true` for an answer from the node.
async fn ask_peers(
    worker: &Arc<Worker>,
    plan: &Plan,
    request: &Request,
    fields: &HeaderMap,
    content: &mut Upload,
) -> Result<(Head, Box<Download>, bool), OriginError> {
    // A request to the owner is useless for a URL that is marked as hit-for-miss.
    let gains = || !worker.cache.hit_for_miss.marked(request.hash, clock::now());
    let cluster = worker.shared.cluster.as_ref().filter(|_| request.asks_peers && gains());
    let client = || worker.clients(plan).peers.clone();
    let only_stored = request.asks_peers && request.is_for_stored_only();
    let _busy = match cluster {
        None => None,
        Some(cluster) => {
            match Box::pin(peers::ask(cluster, client, plan, request, fields, only_stored)).await? {
                ControlFlow::Break((head, download)) => return Ok((head, download, true)),
                ControlFlow::Continue(busy) => busy,
            }
        }
    };
    if only_stored || request.by_peer && request.is_own_prefetch {
        return Err(not_given());
    }
    ask(worker, plan, request, fields, content).await
}

/// Sends the request to an origin; `false`, as no node has answered.
async fn ask(
    worker: &Worker,
    plan: &Plan,
    request: &Request,
    fields: &HeaderMap,
    content: &mut Upload,
) -> Result<(Head, Box<Download>, bool), OriginError> {
    let (head, download) = match &request.route {
        Route::Anywhere => {
            let (https, authority) = (request.scheme == "https", &request.authority);
            let path = if request.path.is_empty() { "*" } else { request.path.as_str() };
            let host = authority.as_str();
            let protocol =
                if https && plan.settings.forward.http2 { Protocol::Chosen } else { Protocol::Http1 };
            let to = SiteAddress { https, protocol, authority, host, path, signed: None };
            let clients = worker.clients(plan);
            once(&clients.forward, plan, request, fields, content, &to).await?
        }
        Route::Site(site) => attempts::at_site(worker, plan, site, request, fields, content).await?,
    };
    Ok((head, download, false))
}

/// Whether the origins that `request` may go to use HTTP/2.
fn is_of_http2(request: &Request) -> bool {
    request_destination::of_request(request).is_some_and(|chosen| chosen.pool.speaks_http2())
}

/// Returns the site and the client that a permit for `request` counts against. Among requests of the forward proxy,
/// each host counts as a site.
pub(crate) fn claim(plan: &Plan, request: &Request) -> Claim {
    let (host, most) = match &request.route {
        Route::Anywhere => (request.authority.as_str(), None),
        Route::Site(site) => ("", site.settings.in_flight),
    };
    let claim = plan.concurrency.claim((request.route.number(), host), request.client.ip());
    claim.at_most(most.unwrap_or(usize::MAX))
}

async fn queue_up(plan: &Plan, claim: Claim, fetch: Option<usize>) -> Result<Permit, OriginError> {
    let patience = plan.settings.timeouts.first_byte;
    let permit = tokio::time::timeout(patience, plan.concurrency.enter(claim, fetch)).await;
    permit.ok().and_then(Result::ok).ok_or_else(no_permit)
}

/// Returns the error for a stored response that another node does not have, or not any more.
#[cold]
fn not_given() -> OriginError {
    let detail = "the node that has offered or owns the response does not give it".to_owned();
    OriginError::new(StatusCode::GATEWAY_TIMEOUT, Why::OnlyIfCached, detail)
}

#[cold]
fn no_permit() -> OriginError {
    let detail =
        "no permit for a request to an origin is free for this site and client, and the queue is full";
    OriginError::unsent(StatusCode::SERVICE_UNAVAILABLE, Why::Overloaded, detail)
}

/// Whether a request with these fields may be answered by 304.
fn is_conditional(fields: &HeaderMap) -> bool {
    fields.contains_key(header::IF_NONE_MATCH) || fields.contains_key(header::IF_MODIFIED_SINCE)
}

/// Returns the error for a 304 to a request without conditions: it confirms no response, and the client has none (RFC
/// 9110 section 15.4.5).
#[cold]
fn unasked_304() -> OriginError {
    let detail = "the origin answered 304 to a request without conditions";
    OriginError::new(StatusCode::BAD_GATEWAY, Why::OriginMalformed, detail)
}

/// Returns the reply that forwards an origin's answer to one client as it arrives.
pub(crate) fn pass_on(
    to_head: bool,
    status: StatusCode,
    fields: Box<Lines>,
    download: Box<Download>,
    outcome: Outcome,
) -> Reply {
    // The answer to a HEAD has no content, but may tell the length of the content of a GET.
    let length = match to_head {
        true => {
            fields.first("content-length").and_then(|length| std::str::from_utf8(length).ok()?.parse().ok())
        }
        false => download.length(),
    };
    let (fields, content) = (Source::Answer(fields), Content::Origin(download));
    Reply { length, content, ..Reply::new(status, fields, outcome) }
}
