//! Stored responses for a request: which of them it selects, and whether they answer it.

use larder_semantics::directives::RequestDirectives;
use larder_semantics::fields::Fields;
use larder_semantics::freshness::Freshness;
use larder_semantics::reuse::{Reuse, reuse};
use larder_semantics::status::Why;
use larder_semantics::vary;
use larder_store::fill::{Epoch, Head};
use larder_store::{Entry, Fills, Resident};

use crate::base::clock;
use crate::base::outcome::{Kind, Outcome, Tier};
use crate::cache::Cache;
use crate::exchange::reply::Reply;
use crate::exchange::request::Request;
use crate::flow::answer;
use crate::flow::context::Context;

/// The result of a lookup for a request.
pub(crate) enum Found {
    /// A reply.
    Reply(Reply),
    /// A reply from the cache, and the stale response to refresh in the background.
    ReplyAndRefresh(Reply, Entry),
    /// No reply: the reason, and perhaps a stored response to validate or to complete.
    Ask(Why, Option<Entry>),
}

/// The stored responses under a request's key.
pub(crate) struct Held {
    /// The response that the request selects.
    pub(crate) entry: Option<Entry>,
    pub(crate) tier: Tier,
    /// All variants in memory.
    pub(crate) resident: Option<Resident>,
}

/// The result of a lookup in the tiers that precedes a fetch.
pub(crate) struct Lookup {
    /// The response that the request selects, if it may help to answer the request.
    pub(crate) entry: Option<Entry>,
    /// The epoch in which the lookup began. Later purges and changes apply to the entry.
    pub(crate) epoch: Epoch,
}

impl Lookup {
    /// Returns the entry as purges and changes since the lookup have left it.
    pub(crate) fn left(self, fills: &Fills, request: &Request) -> Option<Entry> {
        fills.left_since((request.hash, self.epoch), self.entry?)
    }
}

/// Decides how to use the stored response for a GET or HEAD. Sends no request and changes nothing.
pub(crate) fn find(request: &Request, held: &Held) -> Found {
    let Some(entry) = &held.entry else {
        // The validator of any variant may match (RFC 9111 section 4.3.1), but then a variant would have to be selected
        // again for the answer; the origin simply sends the response.
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

/// Returns the signature that this request has if the answer varies by the same fields as the stored responses.
pub(crate) fn expected(resident: &Resident, request: &Request) -> Vec<u8> {
    resident
        .variants()
        .first()
        .map(|entry| vary::again(entry.signature(), &request.fields))
        .unwrap_or_default()
}

/// Whether the response to one request may answer another that arrived meanwhile. Only a response that could later be
/// reused without validation may be shared now.
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

/// Whether a stored response that is no error would answer a request without cache directives: the one that `request`
/// selects, or another variant.
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

/// Whether a response of this freshness answers a request without cache directives.
pub(crate) fn is_fresh(freshness: &Freshness) -> bool {
    reuse(freshness, &RequestDirectives::default(), clock::now()) == Reuse::Fresh
}

impl Held {
    /// Looks in memory and the near tiers for the response under `key` that `request` selects.
    pub(crate) async fn find(cache: &Cache, key: &[u8], request: &Request) -> Self {
        let (resident, selected) = selected(cache, key, request);
        if let Some(entry) = selected.and_then(|entry| cache.store.current(entry)) {
            return Self { entry: Some(entry), tier: Tier::Memory, resident };
        }
        let signature = |varies: &[u8]| vary::again(varies, &request.fields);
        Self::behind(cache.fills.recall(key, signature, clock::now()).await, resident)
    }

    /// [`find`](Self::find) as a dry run, without side effects. Blocks while near tiers read.
    pub(crate) fn explain(cache: &Cache, key: &[u8], request: &Request) -> Self {
        let (resident, selected) = selected(cache, key, request);
        if let Some(entry) = selected.and_then(|entry| cache.store.left(&entry)) {
            return Self { entry: Some(entry), tier: Tier::Memory, resident };
        }
        Self::behind(cache.store.explain(key, &|varies| vary::again(varies, &request.fields)), resident)
    }

    fn behind(found: Option<(Entry, Tier)>, resident: Option<Resident>) -> Self {
        let (entry, tier) = found.unzip();
        Self { entry, tier: tier.unwrap_or_default(), resident }
    }
}

/// Returns all variants that memory has under `key`, and the one that `request` selects.
fn selected(cache: &Cache, key: &[u8], request: &Request) -> (Option<Resident>, Option<Entry>) {
    let memory = &cache.store.memory;
    let resident = memory.peek(key, memory.hash(key));
    let selected = resident.as_ref().and_then(|resident| answer::select(resident, &request.fields)).cloned();
    (resident, selected)
}
