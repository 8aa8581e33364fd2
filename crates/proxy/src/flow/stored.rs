//! Stored responses for a request: which it selects, and whether they answer it.

use larder_semantics::directives::RequestDirectives;
use larder_semantics::fields::Fields;
use larder_semantics::freshness::Freshness;
use larder_semantics::reuse::{Reuse, reuse};
use larder_semantics::status::Why;
use larder_semantics::vary;
use larder_store::fill::Head;
use larder_store::{Entry, Resident};

use crate::base::clock;
use crate::base::outcome::{Kind, Outcome, Tier};
use crate::exchange::reply::Reply;
use crate::exchange::request::Request;
use crate::flow::answer;
use crate::flow::context::Context;

/// What the cache has for a request.
pub(crate) enum Found {
    /// An answer.
    Reply(Reply),
    /// An answer, and a reason to fetch a newer one meanwhile.
    ReplyAndRefresh(Reply, Entry),
    /// No answer, and why; perhaps a response to validate or to complete.
    Ask(Why, Option<Entry>),
}

/// What the tiers have under a request's key.
pub(crate) struct Held {
    /// The response that the request selects.
    pub(crate) entry: Option<Entry>,
    pub(crate) tier: Tier,
    /// All that memory has.
    pub(crate) resident: Option<Resident>,
}

/// What to do with the stored response for a GET or HEAD. Sends no request and changes nothing.
pub(crate) fn find(request: &Request, held: &Held) -> Found {
    let Some(entry) = &held.entry else {
        // Any variant's validator may turn out to be the right one's (RFC 9111 section 4.3.1),
        // but then the answer would have to be selected again; the origin simply answers.
        let why = if held.resident.is_some() { Why::VariantAbsent } else { Why::Absent };
        return Found::Ask(why, None);
    };
    if request.route.is_validated() {
        return Found::Ask(Why::AlwaysValidated, Some(entry.clone()));
    }
    if request.awaited.is_some() {
        return Found::Ask(Why::PositionAhead, Some(entry.clone()));
    }
    let now = clock::now();
    let reply = |kind, why| {
        let outcome = Outcome::hit(kind, why, entry.freshness().ttl(now)).from(held.tier);
        answer::from_entry(&request.method, &request.fields, entry.clone(), now, outcome)
    };
    let reply = match reuse(&request.freshness(entry), &request.asked, now) {
        Reuse::Fresh if *entry.key() != *request.key => reply(Kind::Hit, Why::EquivalentQuery),
        Reuse::Fresh => reply(Kind::Hit, Why::Fresh),
        Reuse::MaxStale => reply(Kind::StaleHit, Why::MaxStale),
        Reuse::StaleWhileRevalidate => {
            return match reply(Kind::StaleHit, Why::StaleWhileRevalidate) {
                Some(reply) => Found::ReplyAndRefresh(reply, entry.clone()),
                None => Found::Ask(Why::RangeAbsent, Some(entry.clone())),
            };
        }
        Reuse::Revalidate(why) | Reuse::OnlyIfCached(why) => {
            let is_guess = why == Why::Expired && entry.freshness().is_fresh(now);
            return Found::Ask(if is_guess { Why::CookieGuess } else { why }, Some(entry.clone()));
        }
    };
    match reply {
        Some(reply) => Found::Reply(reply),
        None => Found::Ask(Why::RangeAbsent, Some(entry.clone())),
    }
}

/// The signature this request would have, if the answer varies as the stored ones do.
pub(crate) fn expected(resident: &Resident, request: &Request) -> Vec<u8> {
    resident
        .variants()
        .first()
        .map(|entry| vary::again(entry.signature(), &request.fields))
        .unwrap_or_default()
}

/// Whether what one request fetched may answer another that came meanwhile: only what could be
/// reused later without asking may be shared now.
pub(crate) fn may_share(freshness: &Freshness, request: &Request) -> bool {
    matches!(
        reuse(&request.without_guess(*freshness), &request.asked, clock::now()),
        Reuse::Fresh | Reuse::MaxStale | Reuse::StaleWhileRevalidate
    )
}

/// Whether `request` selects a response with this head.
pub(crate) fn selects(head: &Head, request: &Request) -> bool {
    let fields = head.fields.view();
    head.signature.is_empty()
        || vary::matches(&head.signature, &request.fields, fields.first("content-language"))
}

/// Whether `request` selects a stored response.
pub(crate) fn selects_entry(entry: &Entry, request: &Request) -> bool {
    entry.signature().is_empty()
        || vary::matches(entry.signature(), &request.fields, entry.fields().first("content-language"))
}

/// Whether a request that wants nothing special would be answered with a stored response that is no error: the one that
/// `request` selects, or another variant.
pub(crate) fn is_served(cx: Context<'_>, request: &Request, stored: Option<&Entry>) -> bool {
    let store = &cx.worker.cache.store;
    let serves = |entry: &Entry| {
        let is_answer = entry.status().is_success() || entry.status().is_redirection();
        is_answer && is_fresh(&request.freshness(entry)) && store.current(entry.clone()).is_some()
    };
    stored.is_some_and(serves) || {
        let resident = store.memory.peek(&request.key, request.hash);
        resident.is_some_and(|resident| resident.variants().iter().any(serves))
    }
}

/// Whether a response that is as fresh as that answers a request which wants nothing special.
pub(crate) fn is_fresh(freshness: &Freshness) -> bool {
    reuse(freshness, &RequestDirectives::default(), clock::now()) == Reuse::Fresh
}
