//! Requests that accept only a stored response: those with `only-if-cached`, and prefetches of clients where a site
//! answers these from the cache only. They are never sent to an origin.

use http::{Method, StatusCode};
use larder_semantics::status::Why;

use crate::base::outcome::{Kind, Outcome};
use crate::exchange::reply::Reply;
use crate::exchange::request::Request;

/// Returns the refusal of a GET or HEAD without a usable stored response, if it accepts only a stored one.
pub(crate) fn refusal(request: &Request) -> Option<Reply> {
    if !request.asked.only_if_cached {
        return declined(request);
    }
    let outcome = Outcome::forwarded(Kind::Failed, Why::OnlyIfCached);
    let text = "504: no stored response fits, and the request accepts no other (only-if-cached)\n";
    Some(Reply::text(StatusCode::GATEWAY_TIMEOUT, text.to_owned(), outcome))
}

/// Returns the refusal of a prefetch without a usable stored response, if it may not be sent to an origin.
pub(crate) fn declined(request: &Request) -> Option<Reply> {
    if !declines(request) {
        return None;
    }
    let outcome = Outcome::forwarded(Kind::Refused, Why::PrefetchNotStored);
    let text = "503: no stored response fits, and prefetches of clients are not sent to origins\n";
    Some(Reply::text(StatusCode::SERVICE_UNAVAILABLE, text.to_owned(), outcome))
}

/// Whether `request` is a prefetch that may not be sent to an origin. For a prefetch from another node of the cluster,
/// that node has already decided.
pub(crate) fn declines(request: &Request) -> bool {
    let is_safe = matches!(request.method, Method::GET | Method::HEAD);
    request.is_prefetch && is_safe && !request.by_peer && request.ruling.caching.declines_prefetches
}
