//! Answers a certificate authority that requests a file to verify that a name leads here (HTTP-01, RFC 8555 section
//! 8.3).

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use larder_semantics::status::Why;

use crate::base::outcome::{Kind, Outcome};
use crate::exchange::reply::{Reply, Source};
use crate::exchange::request::Request;
use crate::exchange::route::Route;
use crate::exchange::target::url_parts;
use crate::flow::worker::Worker;

/// Returns the verification file if `request` is for one.
pub(super) fn answer(worker: &Worker, request: &Request) -> Option<Reply> {
    let acme = worker.shared.acme.as_ref().filter(|acme| acme.has_answers())?;
    if !matches!(request.route, Route::Site(_)) || !matches!(request.method, Method::GET | Method::HEAD) {
        return None;
    }
    // The key has the path that the client requested, even if rules have rewritten it.
    let (_, _, path) = url_parts(&request.key)?;
    let content = Bytes::from(acme.answer(path)?);
    tracing::info!(client = %request.client.ip(), "answered the authority that verifies {}", request.authority);
    let mut fields = HeaderMap::new();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let outcome = Outcome::forwarded(Kind::Pass, Why::Bypass);
    let reply = Reply::new(StatusCode::OK, Source::Fields(fields.into()), outcome);
    Some(reply.with_bytes(&request.method, content))
}
