//! The decision on a request: a pure function of the request, the settings for it, the stored response that it selects,
//! and the time.
//!
//! Hits, the flow, prefetches, explanations and dry runs of a config all read it, so that an explanation names what
//! happens. It makes no replies, and knows no limits on requests.

use std::time::Duration;

use http::{Method, StatusCode, header};
use larder_semantics::directives::RequestDirectives;
use larder_semantics::fields::Fields;
use larder_semantics::freshness::{Flags, Freshness};
use larder_semantics::reuse::{Failure, Reuse, reuse, stale_on_error};
use larder_semantics::status::Why;
use larder_semantics::storable::Rules;
use larder_store::Entry;

use crate::base::networks::host_of;
use crate::base::outcome::Kind;
use crate::exchange::plan::Plan;
use crate::exchange::request::{Request, lacks_tls};
use crate::exchange::route::Route;
use crate::flow::storage_terms::StorageTerms;
use crate::flow::{answer, coded_stream};

/// What happens to a request, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It is refused.
    Refuse(Why),
    /// This proxy answers it itself.
    Own(Why),
    /// The selected response answers it.
    Hit(Why),
    /// The selected response answers it although it is stale, and is fetched again meanwhile.
    StaleAndRefresh,
    /// An origin validates the selected response.
    Revalidate(Why),
    /// An origin sends a response, which may be stored.
    Fetch(Why),
    /// An origin answers, past the cache.
    Pass(Why),
}

/// A request and the settings for it, as far as the decision depends on them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terms {
    /// Why the cache does not handle it; `None` if it handles it.
    pub(crate) bypass: Option<Why>,
    /// Whether it is a GET.
    pub(crate) is_get: bool,
    pub(crate) directives: RequestDirectives,
    /// Whether no heuristic lifetime applies to it. It matters only for a response with such a lifetime.
    pub(crate) forbids_guess: bool,
    /// Whether each use of a stored response is validated.
    pub(crate) is_validated: bool,
    /// Whether its client may know changes that this node does not know yet.
    pub(crate) is_ahead: bool,
    /// Whether it is a prefetch that may not be sent to an origin.
    pub(crate) is_for_cache_only: bool,
}

/// The stored response that a request selects, as far as the decision depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredResponse {
    pub(crate) freshness: Freshness,
    /// Whether it is stored for the URL of the request, and not for an equivalent query.
    is_own: bool,
    /// Whether it is a part of a representation (206).
    is_part: bool,
    /// Why it is not what the client wants, whatever its age: a condition fails, or it is a part that lacks requested bytes,
    /// or has them in a coding that the client does not accept.
    unfit: Option<Why>,
}

impl Decision {
    /// Returns the reason.
    #[inline]
    pub(crate) fn why(self) -> Why {
        use Decision::{Fetch, Hit, Own, Pass, Refuse, Revalidate, StaleAndRefresh};
        match self {
            StaleAndRefresh => Why::StaleWhileRevalidate,
            Refuse(why) | Own(why) | Hit(why) | Revalidate(why) | Fetch(why) | Pass(why) => why,
        }
    }

    /// Returns the kind of the outcome, which an origin's answer or its failure may change.
    #[inline]
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Hit(Why::MaxStale | Why::StaleIfError | Why::StaleIfSlow) | Self::StaleAndRefresh => {
                Kind::StaleHit
            }
            Self::Hit(_) => Kind::Hit,
            Self::Revalidate(_) | Self::Fetch(_) => Kind::Miss,
            Self::Own(_) | Self::Pass(_) => Kind::Pass,
            Self::Refuse(Why::OnlyIfCached) => Kind::Failed,
            Self::Refuse(_) => Kind::Refused,
        }
    }

    /// Whether the reply needs an answer of an origin.
    pub(crate) fn asks_origin(self) -> bool {
        matches!(self, Self::Revalidate(_) | Self::Fetch(_) | Self::Pass(_))
    }
}

impl Terms {
    /// Returns the terms of `request`; `has_content`: it has or had content.
    pub(crate) fn of(request: &Request, has_content: bool) -> Self {
        Self {
            bypass: match request.ruling.caches {
                true => bypass(&request.method, has_content, request.upgrade.is_some()),
                false => Some(Why::Bypass),
            },
            is_get: request.method == Method::GET,
            directives: request.asked,
            forbids_guess: request.forbids_guess,
            is_validated: request.route.is_validated(),
            is_ahead: request.awaited.is_some(),
            is_for_cache_only: request.is_for_cache_only(),
        }
    }

    /// Returns the decision on a request that only an origin can answer.
    fn ask(&self, stored: Option<&StoredResponse>, why: Why) -> Decision {
        let may_be_validated = |stored: &StoredResponse| {
            stored.is_own && !stored.is_part && stored.freshness.flags.contains(Flags::VALIDATOR)
        };
        match stored {
            _ if self.directives.only_if_cached => Decision::Refuse(Why::OnlyIfCached),
            _ if self.is_for_cache_only => Decision::Refuse(Why::PrefetchNotStored),
            Some(stored) if self.is_get && may_be_validated(stored) => Decision::Revalidate(why),
            _ => Decision::Fetch(why),
        }
    }
}

impl StoredResponse {
    /// Returns those of `entry`, which a request with this method and these fields selects at `now` (UNIX seconds);
    /// `is_own`: it is stored for its URL; `is_undone`: whether the client gets it without the coding of the origin.
    #[inline]
    pub(crate) fn of(
        entry: &Entry,
        is_own: bool,
        request: (&Method, &impl Fields),
        now: u32,
        is_undone: impl FnOnce(&Entry) -> bool,
    ) -> Self {
        let is_part = entry.status() == StatusCode::PARTIAL_CONTENT;
        let lacks_range = || is_part && answer::lacks_range(request, entry, now, is_undone);
        let unfit = match answer::meets_conditions_for_origin(request.1, entry) {
            false => Some(Why::RequestIfMatch),
            true => lacks_range().then_some(Why::RangeAbsent),
        };
        Self { freshness: entry.freshness(), is_own, is_part, unfit }
    }

    /// Returns those of `entry`, which `request` selects.
    pub(crate) fn for_request(entry: &Entry, request: &Request, now: u32) -> Self {
        let (is_own, asker) = (*entry.key() == *request.key, (&request.method, &request.fields));
        Self::of(entry, is_own, asker, now, |entry| coded_stream::undoes(request, entry))
    }

    /// Returns the same response under other terms of storage.
    pub(crate) fn kept_as(self, terms: &StorageTerms) -> Self {
        let Freshness { received, initial_age, date, .. } = self.freshness;
        match self.freshness.is_taken_back() {
            true => self,
            false => Self { freshness: Freshness { received, initial_age, date, ..terms.freshness }, ..self },
        }
    }
}

/// Returns the decision to answer or to refuse `request` regardless of the cache and of origins, if that is made;
/// `lacks_credentials`: it lacks the password or the token that its rules require.
pub(crate) fn own(
    plan: &Plan,
    request: &Request,
    lacks_credentials: impl FnOnce() -> bool,
) -> Option<Decision> {
    // A node that forwards a request has checked its client.
    if !request.by_peer && !request.ruling.serves(request.client.ip()) {
        return Some(Decision::Refuse(Why::AccessDenied));
    }
    if request.unsigned.is_some() {
        return Some(Decision::Refuse(Why::AccessDenied));
    }
    // This precedes the request for a password, which would cross the network without encryption.
    if wants_https(request) {
        return Some(Decision::Own(Why::OnlyHttps));
    }
    if lacks_credentials() {
        return Some(Decision::Refuse(Why::Unauthorized));
    }
    if ends_here(request) {
        return Some(Decision::Own(Why::Method));
    }
    if is_port_forbidden(plan, request) {
        return Some(Decision::Refuse(Why::OriginForbidden));
    }
    if request.is_purge() {
        return Some(Decision::Own(Why::Method));
    }
    // That node has changed the request by its rules, which may not match it any more.
    let is_answered = !request.by_peer && request.ruling.answer.is_some();
    is_answered.then_some(Decision::Own(Why::ByRule))
}

/// Returns the decision on a request that the cache does not handle; `None` if it handles it.
#[inline]
pub(crate) fn before_lookup(terms: &Terms) -> Option<Decision> {
    let why = terms.bypass?;
    Some(if terms.is_for_cache_only { Decision::Refuse(Why::PrefetchNotStored) } else { Decision::Pass(why) })
}

/// Returns the decision on a request that is not answered by this proxy itself (RFC 9111 section 4). `stored` is the
/// response that it selects, or the reason why there is none. `now` is in UNIX seconds.
#[inline]
pub(crate) fn decide(terms: &Terms, stored: Result<StoredResponse, Why>, now: u32) -> Decision {
    if let Some(decision) = before_lookup(terms) {
        return decision;
    }
    let stored = match stored {
        Ok(stored) => stored,
        // The validator of any variant may match (RFC 9111 section 4.3.1), but then a variant would have to be selected
        // again for the answer; the origin simply sends the response.
        Err(why) => return terms.ask(None, why),
    };
    let ask = |why| terms.ask(Some(&stored), why);
    if terms.is_validated {
        return ask(Why::AlwaysValidated);
    }
    if terms.is_ahead {
        return ask(Why::PositionAhead);
    }
    let freshness = match terms.forbids_guess {
        true => stored.freshness.without_guess(),
        false => stored.freshness,
    };
    match (reuse(&freshness, &terms.directives, now), stored.unfit) {
        (Reuse::Revalidate(why) | Reuse::OnlyIfCached(why), _) => {
            let is_guess = why == Why::Expired && stored.freshness.is_fresh(now);
            ask(if is_guess { Why::CookieGuess } else { why })
        }
        (_, Some(why)) => ask(why),
        (Reuse::Fresh, None) if stored.is_own => Decision::Hit(Why::Fresh),
        (Reuse::Fresh, None) => Decision::Hit(Why::EquivalentQuery),
        (Reuse::MaxStale, None) => Decision::Hit(Why::MaxStale),
        (Reuse::StaleWhileRevalidate, None) => Decision::StaleAndRefresh,
    }
}

/// Whether the response to one request, of this freshness, may answer another that arrived meanwhile. Only a response
/// that could later be reused without validation may be shared at `now` (UNIX seconds).
pub(crate) fn may_share(freshness: &Freshness, request: &Request, now: u32) -> bool {
    matches!(
        reuse(&request.without_guess(*freshness), &request.asked, now),
        Reuse::Fresh | Reuse::MaxStale | Reuse::StaleWhileRevalidate
    )
}

/// Whether `entry` may answer `request` at `now` (UNIX seconds) although the origin fails (RFC 5861 section 4, RFC 9111
/// section 4.2.4). If it is not what the client wants, the client needs the error. A stored error is no better than a newer
/// one.
pub(crate) fn may_stand_in(
    rules: &Rules,
    request: &Request,
    entry: &Entry,
    failure: Failure,
    now: u32,
) -> bool {
    let is_old_error = matches!(failure, Failure::Status(_)) && entry.status().is_server_error();
    let is_fit = || StoredResponse::for_request(entry, request, now).unfit.is_none();
    !is_old_error
        && stale_on_error(&request.freshness(entry), &request.asked, rules, now, failure)
        && is_fit()
}

/// Returns how long `request`, which needs an answer of the origin for this reason, waits for it before `entry` answers at
/// `now` (UNIX seconds); `None`: as long as it takes. A response that has only expired may answer as if the origin had
/// failed (RFC 9111 section 4.2.4), unless the client requires a newer one.
pub(crate) fn patience_with(
    rules: &Rules,
    request: &Request,
    entry: &Entry,
    why: Why,
    now: u32,
) -> Option<Duration> {
    let limit = rules.stale_if_slow?;
    // A fetch in the background is one of the stored URL, not of an equivalent one.
    let is_own = *entry.key() == *request.key;
    // The response is too stale for a client that names a limit.
    let may_answer = is_own
        && why == Why::Expired
        // The fetch in the background is not of a part.
        && entry.status() != StatusCode::PARTIAL_CONTENT
        && !entry.status().is_server_error()
        && request.asked.max_stale.is_none()
        && !request.is_reload();
    (may_answer && may_stand_in(rules, request, entry, Failure::Unreachable, now)).then_some(limit)
}

/// Returns the reason why the cache does not handle such a request; `None` if it handles it.
#[inline]
pub(crate) fn bypass(method: &Method, has_content: bool, has_upgrade: bool) -> Option<Why> {
    match *method {
        Method::GET if !has_upgrade && !has_content => None,
        Method::HEAD if !has_content => None,
        Method::GET => Some(Why::Bypass),
        _ => Some(Why::Method),
    }
}

/// Whether `request` came without TLS to a site that is served over https only.
fn wants_https(request: &Request) -> bool {
    lacks_tls(&request.route, request.scheme) && request.path.starts_with('/') && !request.is_purge()
}

/// Whether `request` is an `OPTIONS` or a `TRACE` for this proxy: `OPTIONS *`, or one without forwards left (RFC 9110
/// section 7.6.2).
fn ends_here(request: &Request) -> bool {
    let is_last_hop = || request.fields.get(header::MAX_FORWARDS).is_some_and(|hops| hops.as_bytes() == b"0");
    match request.method {
        Method::OPTIONS => request.path == "*" || is_last_hop(),
        Method::TRACE => is_last_hop(),
        _ => false,
    }
}

/// Whether `request` is for a port that clients of the forward proxy may not reach. Tunnels have a rule of their own.
pub(crate) fn is_port_forbidden(plan: &Plan, request: &Request) -> bool {
    matches!(request.route, Route::Anywhere)
        && request.method != Method::CONNECT
        && !plan.settings.forward.ports.iter().any(|range| range.contains(&port(request)))
}

/// Returns the port that the URL of `request` names or implies; 0 if it is not a number of a port.
pub(crate) fn port(request: &Request) -> u16 {
    match port_of(&request.authority) {
        "" if request.scheme == "https" => 443,
        "" => 80,
        port => port.parse().unwrap_or(0),
    }
}

/// Returns the port of an authority as it was written; empty if there is none.
pub(crate) fn port_of(authority: &str) -> &str {
    authority[host_of(authority).len()..].trim_start_matches(':')
}

#[cfg(test)]
mod tests;
