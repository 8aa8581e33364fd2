//! Sends a request on: a place in the gate, the fields an origin should see, the origin whose turn
//! it is, and another one if that fails before it answered.

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request as HttpRequest, Response, StatusCode, header,
};
use hyper::body::Incoming;
use larder_semantics::status::Why;
use larder_semantics::{fields::members, storable};

use crate::origin::{Client, Download, OriginError, Place, Turn, Upload, uri};
use crate::outcome::Outcome;
use crate::reply::{Content, Reply, Source};
use crate::request::{Interim, Request};
use crate::route::{Route, SiteState};
use crate::serve::Context;
use crate::settings::{ClientAddress, HostHeader};
use crate::worker::{Plan, Worker};
use std::sync::Arc;

/// An origin's answer, and the place it holds until its content has arrived.
pub(crate) struct Answer {
    pub(crate) response: Response<Incoming>,
    pub(crate) place: Place,
}

/// As often as a request may pass through proxies of this name before that is a loop.
const MOST_PASSES: usize = 8;

/// Sends `request` with `fields` instead of its own. Its content can be sent once only.
///
/// # Errors
/// Why there is no answer.
pub(crate) async fn send(
    cx: Context<'_>,
    request: &mut Request,
    fields: HeaderMap,
) -> Result<Answer, OriginError> {
    send_for(cx.worker, cx.plan, request, fields).await
}

/// The same without caching rules, for requests that pass through.
///
/// # Errors
/// Why there is no answer.
pub(crate) async fn send_for(
    worker: &Arc<Worker>,
    plan: &Arc<Plan>,
    request: &mut Request,
    mut fields: HeaderMap,
) -> Result<Answer, OriginError> {
    introduce(plan, request, &mut fields)?;
    let full = || OriginError {
        status: StatusCode::SERVICE_UNAVAILABLE,
        why: Why::Overloaded,
        detail: "every place for requests to origins is taken, and so is the queue".to_owned(),
        unsent: true,
    };
    let patience = plan.settings.timeouts.first_byte;
    let place = tokio::time::timeout(patience, plan.gate.enter()).await;
    let place = place.ok().and_then(Result::ok).ok_or_else(full)?;
    let clients = worker.clients(plan);
    let response = match request.route.clone() {
        Route::Anywhere => {
            let (https, authority) = (request.scheme == "https", request.authority.clone());
            let one = outgoing(request, fields, https, &authority, &authority)?;
            clients.forward.send(one).await?
        }
        Route::Site(site) => to_site(&clients.reverse, &site, request, fields).await?,
    };
    refuse_unasked_change(request, response.status())?;
    Ok(Answer { response, place })
}

/// A client that asked for no other protocol would take what follows for an answer to its next
/// request (RFC 9110 section 15.2.2).
fn refuse_unasked_change(request: &Request, status: StatusCode) -> Result<(), OriginError> {
    match status == StatusCode::SWITCHING_PROTOCOLS && request.upgrade.is_none() {
        false => Ok(()),
        true => Err(OriginError {
            status: StatusCode::BAD_GATEWAY,
            why: Why::OriginMalformed,
            detail: "the origin changed to a protocol that nobody asked for".to_owned(),
            unsent: false,
        }),
    }
}

async fn to_site(
    client: &Client,
    site: &SiteState,
    request: &mut Request,
    fields: HeaderMap,
) -> Result<Response<Incoming>, OriginError> {
    let mut tries_left = site.settings.retries;
    loop {
        let turn = site.pool.next();
        let repeatable = matches!(request.content, Upload::Empty);
        let one = outgoing_to(request, fields.clone(), site, &turn)?;
        match client.send(one).await {
            Ok(response) => {
                turn.succeeded();
                return Ok(response);
            }
            Err(error) => {
                turn.failed();
                let again = repeatable && (error.unsent || is_idempotent(&request.method));
                if !again || tries_left == 0 {
                    return Err(error);
                }
                tracing::debug!("{}: {error}; trying again", request.url());
                tries_left -= 1;
            }
        }
    }
}

fn outgoing_to(
    request: &mut Request,
    fields: HeaderMap,
    site: &SiteState,
    turn: &Turn<'_>,
) -> Result<HttpRequest<Upload>, OriginError> {
    let origin = turn.origin();
    let host = match &site.settings.host {
        HostHeader::Preserve if !request.authority.is_empty() => request.authority.clone(),
        HostHeader::Preserve | HostHeader::Origin => origin.authority.clone(),
        HostHeader::Set(host) => host.clone(),
    };
    outgoing(request, fields, origin.https, &origin.authority, &host)
}

fn outgoing(
    request: &mut Request,
    fields: HeaderMap,
    https: bool,
    authority: &str,
    host: &str,
) -> Result<HttpRequest<Upload>, OriginError> {
    let impossible = |detail: String| OriginError {
        status: StatusCode::BAD_REQUEST,
        why: Why::OriginUnreachable,
        detail,
        unsent: true,
    };
    let content = std::mem::replace(&mut request.content, Upload::Empty);
    let chunked = content.is_of_unknown_length();
    let mut one = HttpRequest::new(content);
    *one.method_mut() = request.method.clone();
    *one.uri_mut() = uri(https, authority, &request.path).map_err(|error| impossible(error.to_string()))?;
    *one.headers_mut() = fields;
    let host = HeaderValue::from_str(host).map_err(|error| impossible(error.to_string()))?;
    one.headers_mut().insert(header::HOST, host);
    if chunked {
        // Said by ourselves, since it is unusual for a GET.
        one.headers_mut().insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    if let Some(upgrade) = request.upgrade.clone() {
        one.headers_mut().insert(header::UPGRADE, upgrade);
        one.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    }
    if let Some(interims) = request.interim.clone() {
        hyper::ext::on_informational(&mut one, move |response| {
            // More than the client takes are dropped: they announce, and the answer itself goes on.
            let mut fields = response.headers().clone();
            storable::remove_hop_by_hop(&mut fields);
            let _ = interims.try_send(Interim { status: response.status(), fields });
        });
    }
    Ok(one)
}

/// Says who sends this on, and for whom (RFC 9110 section 7.6.3, RFC 7239).
fn introduce(plan: &Plan, request: &Request, fields: &mut HeaderMap) -> Result<(), OriginError> {
    let name = plan.settings.name.as_bytes();
    let passes = members(fields, "via").filter(|pass| pass.ends_with(name)).count();
    if passes >= MOST_PASSES {
        return Err(OriginError {
            status: StatusCode::LOOP_DETECTED,
            why: Why::OriginForbidden,
            detail: "this request has come by here many times".to_owned(),
            unsent: true,
        });
    }
    append(fields, header::VIA, &format!("1.1 {}", plan.settings.name));
    let client = request.client.ip();
    match plan.settings.client_address {
        ClientAddress::Off => {}
        ClientAddress::XForwardedFor => {
            append(fields, HeaderName::from_static("x-forwarded-for"), &client.to_string());
            set(fields, HeaderName::from_static("x-forwarded-proto"), request.scheme);
            set(fields, HeaderName::from_static("x-forwarded-host"), &request.authority);
        }
        ClientAddress::Forwarded => {
            let node = if client.is_ipv6() { format!("\"[{client}]\"") } else { client.to_string() };
            let (host, proto) = (&request.authority, request.scheme);
            append(fields, header::FORWARDED, &format!("for={node};host=\"{host}\";proto={proto}"));
        }
    }
    Ok(())
}

/// Adds a member to a list field.
fn append(fields: &mut HeaderMap, name: HeaderName, member: &str) {
    let lines = fields.get_all(&name).iter().map(HeaderValue::as_bytes);
    let mut list = lines.collect::<Vec<_>>().join(&b", "[..]);
    if !list.is_empty() {
        list.extend_from_slice(b", ");
    }
    list.extend_from_slice(member.as_bytes());
    if let Ok(list) = HeaderValue::from_bytes(&list) {
        fields.insert(name, list);
    }
}

fn set(fields: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        fields.insert(name, value);
    }
}

/// Whether sending it twice means what sending it once does (RFC 9110 section 9.2.2).
fn is_idempotent(method: &Method) -> bool {
    matches!(
        *method,
        Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE | Method::PUT | Method::DELETE
    )
}

/// The reply that passes an origin's answer to one client, as it arrives.
pub(crate) fn pass_on(
    to_head: bool,
    status: StatusCode,
    mut fields: HeaderMap,
    download: Download,
    outcome: Outcome,
) -> Reply {
    storable::remove_hop_by_hop(&mut fields);
    let announced = fields.remove(header::CONTENT_LENGTH);
    // The answer to a HEAD has no content, but may say how long it would be.
    let length = match to_head {
        true => announced.and_then(|length| length.to_str().ok()?.parse().ok()),
        false => download.length(),
    };
    let (fields, content) = (Source::Fields(fields.into()), Content::Origin(Box::new(download)));
    Reply { length, content, ..Reply::new(status, fields, outcome) }
}
