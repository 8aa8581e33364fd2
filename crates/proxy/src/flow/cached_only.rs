//! Refusals of requests that accept only a stored response: those with `only-if-cached`, and prefetches of clients where
//! a site answers these from the cache only. They are never sent to an origin.

use http::StatusCode;
use larder_semantics::status::Why;

use crate::base::outcome::Outcome;
use crate::exchange::reply::Reply;
use crate::flow::decide::Decision;

/// Returns the refusal of a request without a usable stored response, for this reason.
pub(crate) fn refusal(why: Why) -> Reply {
    let (status, text) = match why {
        Why::OnlyIfCached => (
            StatusCode::GATEWAY_TIMEOUT,
            "504: no stored response fits, and the request accepts no other (only-if-cached)\n",
        ),
        _ => (
            StatusCode::SERVICE_UNAVAILABLE,
            "503: no stored response fits, and prefetches of clients are not sent to origins\n",
        ),
    };
    Reply::text(status, text.to_owned(), Outcome::forwarded(Decision::Refuse(why).kind(), why))
}
