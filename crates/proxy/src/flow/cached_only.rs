//! Requests that accept only what is stored: those with `only-if-cached`, and prefetches of clients where a site answers them from
//! the cache only. No origin is asked for them.

use http::{Method, StatusCode};
use larder_semantics::status::Why;

use crate::base::outcome::{Kind, Outcome};
use crate::exchange::reply::Reply;
use crate::exchange::request::Request;

/// The reply to a GET that nothing stored answers, if it accepts nothing else.
pub(crate) fn refusal(request: &Request) -> Option<Reply> {
    if !request.asked.only_if_cached {
        return declined(request);
    }
    let outcome = Outcome::forwarded(Kind::Failed, Why::OnlyIfCached);
    let text = "504: nothing stored answers this request, and it asked for nothing else\n";
    Some(Reply::text(StatusCode::GATEWAY_TIMEOUT, text.to_owned(), outcome))
}

/// The reply to a prefetch that nothing stored answers, if no origin may be asked for it.
pub(crate) fn declined(request: &Request) -> Option<Reply> {
    if !declines(request) {
        return None;
    }
    let outcome = Outcome::forwarded(Kind::Refused, Why::PrefetchNotStored);
    let text = "503: nothing stored answers this prefetch, and no origin is asked for prefetches\n";
    Some(Reply::text(StatusCode::SERVICE_UNAVAILABLE, text.to_owned(), outcome))
}

/// Whether `request` is a prefetch for which no origin may be asked. A node of the cluster has decided that for its clients.
pub(crate) fn declines(request: &Request) -> bool {
    let is_safe = matches!(request.method, Method::GET | Method::HEAD);
    request.is_prefetch && is_safe && !request.by_peer && request.ruling.caching.declines_prefetches
}
