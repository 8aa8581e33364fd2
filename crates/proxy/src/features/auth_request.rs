//! Asks a service whether a request is served, as rules require it (`auth_request`).
//!
//! The check precedes the cache, so that it applies to hits. 2xx serves the request. The client gets any other answer below
//! 500, such as 401 with `WWW-Authenticate`, a page with 403, or a redirect to a login. After another answer, or none, the
//! rule decides whether the request is served.

use std::net::IpAddr;
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use larder_semantics::fields::Fields;
use larder_semantics::status::Why;
use tokio::time::timeout;

use super::permissions::{Permissions, TakenFields};
use crate::base::outcome::{Kind, Outcome};
use crate::base::settings::{AuthRequest, Origin, PermissionBy};
use crate::exchange::outgoing::is_trace;
use crate::exchange::plan::Plan;
use crate::exchange::reply::Reply;
use crate::exchange::request::Request;
use crate::exchange::route::Route;
use crate::flow::context::failure;
use crate::flow::sending::authorises_connection;
use crate::flow::upstream;
use crate::flow::worker::Worker;
use crate::http::body::Upload;
use crate::http::fields::FieldWriter;
use crate::http::response::Head;
use crate::net::concurrency::{ConcurrencyLimit, Permit};
use crate::origin::{Client, Download, OriginRequest, OutgoingHead, Waits};

/// How long the service may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// The most requests that wait for their turn to ask a service.
const WAITING: usize = 4_096;

static PERMISSIONS: LazyLock<Permissions> = LazyLock::new(Permissions::new);
/// The turns to ask services, apart from requests to origins: those may be slow while hits are served.
static TURNS: OnceLock<Arc<ConcurrencyLimit>> = OnceLock::new();

/// Checks `request` as its rules require it, and adds the fields of the service's answer that its origin gets. Errors:
/// the reply to a request that is not served.
pub(crate) async fn check(worker: &Worker, plan: &Plan, request: &mut Request) -> Result<(), Box<Reply>> {
    let (Some(mut sent), Route::Site(site)) = (request.inquiry.take(), &request.route) else { return Ok(()) };
    let Some(auth) = request.ruling.auth_request.clone().flatten() else { return Ok(()) };
    describe(request, &auth, &mut sent);
    let print = auth.print(&sent);
    let now = Instant::now();
    if let Some(known) = print.as_ref().and_then(|print| PERMISSIONS.find(print, now)) {
        take(request, known);
        return Ok(());
    }
    let turn = turn(plan, request).await?;
    let clients = worker.clients(plan);
    // The answer is perhaps that to the client, which gets no content for a HEAD.
    let method = if request.method == Method::HEAD { Method::HEAD } else { Method::GET };
    let asker = Some(request.client.ip());
    let why = match ask(clients.of_site(site.number), &auth.service, &method, *sent, asker).await {
        Ok((head, download)) if head.status.is_success() => {
            download.spare();
            let fields = taken(&auth, &head);
            if let Some(print) = print {
                PERMISSIONS.remember(print, &fields, now, now + auth.cache);
            }
            take(request, fields);
            return Ok(());
        }
        Ok((head, download)) if is_refusal(head.status) => {
            return Err(Box::new(refusal(request, head, download.holding(Some(turn)))));
        }
        Ok((head, _)) => format!("status {}", head.status.as_u16()),
        Err(why) => why,
    };
    let whole = || format!("{} {}: {}: {why}", request.method, request.logged_url(), auth.service);
    worker.shared.observers.repeats.warn(&why, whole);
    match auth.fails_open {
        true => Ok(()),
        false => Err(Box::new(failure(StatusCode::SERVICE_UNAVAILABLE, Why::AuthUnanswered))),
    }
}

/// Waits until a service may be asked for `request`. Errors: 503, also if the rule opens a site whose service fails: a crowd
/// does not make it fail.
async fn turn(plan: &Plan, request: &Request) -> Result<Permit, Box<Reply>> {
    let most = plan.settings.limits.inquiries;
    let turns = TURNS.get_or_init(|| Arc::new(ConcurrencyLimit::lent_out(most, WAITING)));
    let claim = turns.claim(request.route.number(), request.client.ip());
    let entered = timeout(PATIENCE, turns.enter(claim, None)).await;
    let busy = || Box::new(failure(StatusCode::SERVICE_UNAVAILABLE, Why::AuthUnanswered));
    entered.ok().and_then(Result::ok).ok_or_else(busy)
}

/// Adds the fields that describe the request to those that the service gets.
fn describe(request: &Request, auth: &AuthRequest, sent: &mut HeaderMap) {
    // The permission for a GET is one for a HEAD.
    let method = if request.method == Method::HEAD { &Method::GET } else { &request.method };
    let client = request.client.ip().to_string();
    let uri = auth.is_by(&PermissionBy::Uri).then_some(&*request.path);
    let client = auth.is_by(&PermissionBy::Client).then_some(&*client);
    for (name, value) in [
        ("x-forwarded-method", Some(method.as_str())),
        ("x-forwarded-proto", Some(request.scheme)),
        ("x-forwarded-host", Some(&*request.authority)),
        ("x-forwarded-uri", uri),
        ("x-forwarded-for", client),
    ] {
        if let Some(value) = value.and_then(|value| HeaderValue::from_bytes(value.as_bytes()).ok()) {
            sent.insert(HeaderName::from_static(name), value);
        }
    }
}

/// Sends a request with these fields, and without content, to the path of `service`, for a client at the address
/// `asker`. The error is the reason why there is no answer, for the log.
pub(super) async fn ask(
    client: &Client,
    service: &Origin,
    method: &Method,
    sent: HeaderMap,
    asker: Option<IpAddr>,
) -> Result<(Head, Box<Download>), String> {
    let host = service.host();
    let path = service.path.as_ref().map_or_else(|| "/".to_owned(), ToString::to_string);
    let mut lines = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n").into_bytes();
    sent.iter().for_each(|(name, value)| lines.mapped(name, value));
    lines.extend_from_slice(b"\r\n");
    let is_alone = authorises_connection(&sent);
    let head = match service.http2 {
        true => OutgoingHead::Http2 { host, path: &path, fields: Box::new(sent) },
        false => OutgoingHead::Http1(&lines),
    };
    let mut content = Upload::Empty;
    let mut outgoing = OriginRequest {
        waits: Waits { first_byte: Some(PATIENCE), between: Some(PATIENCE), connect: None },
        client: asker,
        is_alone,
        ..OriginRequest::new(service.https, &service.authority, method, &mut content)
    };
    client.send(head, &mut outgoing).await.map_err(|error| error.to_string())
}

/// Whether the client gets an answer with this status.
fn is_refusal(status: StatusCode) -> bool {
    status.is_client_error() || (status.is_redirection() && status != StatusCode::NOT_MODIFIED)
}

fn refusal(request: &Request, head: Head, download: Box<Download>) -> Reply {
    let why = if head.status == StatusCode::FORBIDDEN { Why::AccessDenied } else { Why::Unauthorized };
    let outcome = Outcome::forwarded(Kind::Refused, why);
    upstream::pass_on(request.method == Method::HEAD, head.status, head.fields, download, outcome)
}

/// Returns the fields of the service's answer that the origin gets.
fn taken(auth: &AuthRequest, head: &Head) -> TakenFields {
    let lines = |name: &HeaderName| {
        let name = name.clone();
        let values = head.fields.lines(name.as_str()).filter_map(|value| HeaderValue::from_bytes(value).ok());
        values.map(|value| (name.clone(), value)).collect::<Vec<_>>()
    };
    auth.take.iter().flat_map(lines).collect()
}

/// Adds fields of the service's answer to the request. An origin could show them to the client of a TRACE.
pub(super) fn take(request: &mut Request, fields: TakenFields) {
    if !is_trace(&request.method) {
        fields.into_iter().for_each(|(name, value)| _ = request.fields.append(name, value));
    }
}
