//! Decides whether a response may be stored (RFC 9111 section 3), and which of its fields.

use http::{HeaderMap, HeaderName, Method, StatusCode};

use crate::directives::{self, RequestDirectives, ResponseDirectives};
use crate::fields::{Fields, members};
use crate::freshness::{Flags, Freshness, is_heuristically_cacheable};
use crate::history::History;
use crate::lifetimes::Lifetime;
use crate::range::ContentRange;
use crate::status::Why;
use crate::{key, vary};

pub use crate::rules::{Cookies, Prediction, Rules, Times};

/// Decides about the response to a GET, whole or partial. The caller checks that the content arrives
/// completely, and is as long as a `Content-Range` says. A successful response with a validator but no
/// lifetime is storable with lifetime 0: each use is validated.
///
/// Other methods are refused: a response to HEAD has no content to store (but see
/// [`crate::revalidate::head`]), and POST has [`storable_post`].
pub fn storable(
    rules: &Rules,
    method: &Method,
    request: &impl Fields,
    status: StatusCode,
    response: &impl Fields,
    times: Times,
) -> Result<Freshness, Why> {
    if method != Method::GET {
        return Err(Why::MethodNotStorable);
    }
    judge(rules, request, status, response, times).map(|(freshness, _)| freshness)
}

/// Decides about the response to a POST, which may be stored as the response to later GETs of its `target` (a
/// key) when it declares itself the target's content, with a lifetime (RFC 9110 section 9.3.3).
pub fn storable_post(
    rules: &Rules,
    target: &[u8],
    request: &impl Fields,
    status: StatusCode,
    response: &impl Fields,
    times: Times,
) -> Result<Freshness, Why> {
    let mut location = Vec::new();
    let represents_target = response
        .first("content-location")
        .and_then(|reference| key::resolve(target, reference, &mut location))
        .is_some_and(|()| location == target);
    if !represents_target || !status.is_success() || status == StatusCode::PARTIAL_CONTENT {
        return Err(Why::ContentLocation);
    }
    match judge(rules, request, status, response, times)? {
        (freshness, Lifetime::Explicit(_)) => Ok(freshness),
        _ => Err(Why::NoFreshness),
    }
}

fn judge(
    rules: &Rules,
    request: &impl Fields,
    status: StatusCode,
    response: &impl Fields,
    times: Times,
) -> Result<(Freshness, Lifetime), Why> {
    if rules.stores_nothing {
        return Err(Why::NotByRule);
    }
    status_allows(status, response)?;
    if RequestDirectives::parse(request).no_store {
        return Err(Why::RequestNoStore);
    }
    let mut directives = ResponseDirectives::parse(response, &rules.targeted);
    rules.ignored.remove_from(&mut directives);
    directives_allow(&directives, status)?;
    if vary::is_any(response) && !rules.is_fixed {
        return Err(Why::VaryAny);
    }
    if request.contains("authorization") && !directives.permits_sharing() && !rules.shares_authorized {
        return Err(Why::Authorization);
    }
    // A response with lifetime 0 is stored because validations may give it a lifetime.
    let history = if rules.forbids_guess(request) { History::default() } else { times.history };
    let times = Times { history, ..times };
    let (freshness, lifetime) = Freshness::of(rules, &directives, status, response, times);
    if matches!(lifetime, Lifetime::Heuristic(_)) && !rules.validated && rules.forbids_guess(request) {
        return Err(Why::CookieGuess);
    }
    // Origins validate successful responses only (RFC 9110 section 13.2.1): another one can but stand in for a failure.
    let stands_in = rules.outlasts_limits || rules.stale_if_error.max(freshness.stale_if_error) > 0;
    if rules.validated && !status.is_success() && !stands_in {
        return Err(Why::NeverFresh);
    }
    let defined = is_heuristically_cacheable(status) || directives.public;
    if !((rules.validated || rules.keeps_stale) && defined) {
        usable(&freshness, lifetime, defined)?;
    }
    if response.contains("set-cookie") && !rules.is_fixed && !is_plainly_fresh(&freshness, lifetime) {
        return Err(Why::SetCookie);
    }
    Ok((freshness, lifetime))
}

/// Whether the origin allows reuse with an explicit lifetime. A response with a cookie needs that: with a
/// heuristic lifetime, by a rule, or after a 304, one client's cookie would be sent to another.
fn is_plainly_fresh(freshness: &Freshness, lifetime: Lifetime) -> bool {
    matches!(lifetime, Lifetime::Explicit(1..)) && !freshness.flags.contains(Flags::NO_CACHE)
}

/// Interim responses, those to a condition or range of this request (226: the difference to what its client has), and those
/// about its client or connection (401, 407: it lacks credentials; 408: too slow; 421: not for this server; 425: too early in
/// it; 426: another protocol; RFC 6585: too many requests, too large fields, no login to the network) are not the
/// representation that other requests ask for.
fn status_allows(status: StatusCode, response: &impl Fields) -> Result<(), Why> {
    match status.as_u16() {
        ..200 | 226 | 304 | 401 | 407 | 408 | 412 | 416 | 421 | 425 | 426 | 428 | 429 | 431 | 511 => {
            Err(Why::StatusNotStorable)
        }
        206 if !ContentRange::of(response).is_some_and(|part| has_its_length(response, part)) => {
            Err(Why::BadContentRange)
        }
        206 => Ok(()),
        _ if has_part(response) => Err(Why::BadContentRange),
        _ => Ok(()),
    }
}

/// Whether a response that is not partial (206) has a range that is not all bytes: some interfaces send pages so, and some
/// servers parts of files, and the `Range` that selects one is not in `Vary`. Another value than numbers says nothing.
pub fn has_part(response: &impl Fields) -> bool {
    let is_range = |range: &[u8]| {
        range.contains(&b'/') && range.iter().all(|byte| byte.is_ascii_digit() || b"-/*".contains(byte))
    };
    response.first("content-range").is_some_and(|value| {
        let range = value.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
        is_range(range) && !ContentRange::parse(value).is_some_and(|part| part.is_whole())
    })
}

/// Whether the content of a partial response is as long as its `part`, as far as a field tells. Without one, a part of a whole
/// that grows may end anywhere in its range (RFC 8673 section 2.2).
fn has_its_length(response: &impl Fields, part: ContentRange) -> bool {
    let length: Option<u64> =
        response.first("content-length").and_then(|length| str::from_utf8(length).ok()?.parse().ok());
    length.map_or(part.complete().is_some(), |length| length == part.length())
}

fn directives_allow(directives: &ResponseDirectives, status: StatusCode) -> Result<(), Why> {
    if directives.must_understand && !is_understood(status) {
        return Err(Why::NotUnderstood);
    }
    if directives.forbids_storing() {
        return Err(Why::ResponseNoStore);
    }
    if directives.private {
        return Err(Why::Private);
    }
    Ok(())
}

/// Whether the caching rules of a status code are known here: those of RFC 9110 section 15.
fn is_understood(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200..=206 | 300..=305 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 500..=505)
}

/// Whether the response can ever answer a request. `defined` says whether its status, or `public`, makes it
/// storable without a lifetime.
fn usable(freshness: &Freshness, lifetime: Lifetime, defined: bool) -> Result<(), Why> {
    let validator = freshness.flags.contains(Flags::VALIDATOR);
    if lifetime == Lifetime::Unknown && !(validator && defined) {
        return Err(Why::NoFreshness);
    }
    let no_cache = freshness.flags.contains(Flags::NO_CACHE);
    let allowance = freshness.stale_while_revalidate.max(freshness.stale_if_error);
    let worthless = no_cache || (freshness.lifetime == 0 && allowance == 0);
    if worthless && !validator { Err(Why::NeverFresh) } else { Ok(()) }
}

/// The field in which Next.js repeats each `Set-Cookie`.
const COPIED_COOKIES: &str = "x-middleware-set-cookie";

/// Returns a predicate: whether a line of `response`, given as name (in any case) and value, is stored (RFC 9111 section
/// 3.1). Not stored are the fields of the connection and of proxies, `Trailer`, those that `no-cache="…"` or `private="…"`
/// withholds, and cookies that may be meant for one client. Signatures ([`crate::vary`]) and freshness are made from the
/// whole response.
pub fn is_stored<'r>(rules: &'r Rules, response: &'r impl Fields) -> impl Fn(&[u8], &[u8]) -> bool + 'r {
    let withheld = directives::withheld(response, &rules.targeted);
    let concerns_hop = is_hop_by_hop(response);
    move |name, value| {
        let is = |own: &str| name.eq_ignore_ascii_case(own.as_bytes());
        let is_dropped = is("trailer") || is(COPIED_COOKIES) || concerns_hop(name);
        let stays = !is_dropped && !withheld.iter().any(|own| is(own.as_str()));
        stays && (!is("set-cookie") || rules.cookies.keeps(value))
    }
}

/// Returns the fields of `response` whose lines are [stored](is_stored).
pub fn storable_fields(rules: &Rules, response: &HeaderMap) -> HeaderMap {
    let is_stored = is_stored(rules, response);
    let stored =
        response.iter().filter(|(name, value)| is_stored(name.as_str().as_bytes(), value.as_bytes()));
    stored.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Removes the fields that concern one connection, in either direction: `Connection` and the fields that it
/// lists, `Upgrade`, `TE`, framing, and the fields of proxies (RFC 9110 section 7.6.1).
///
/// `Trailer` stays, and `TE` is removed even when it is `trailers`: a caller that forwards trailers reads
/// them first and sends a new `TE: trailers`.
pub fn remove_hop_by_hop(fields: &mut HeaderMap) {
    let listed: Vec<_> =
        members(fields, "connection").filter_map(|m| HeaderName::from_bytes(m).ok()).collect();
    let own = HOP_BY_HOP.into_iter().map(HeaderName::from_static);
    for name in own.chain(listed) {
        fields.remove(name);
    }
}

/// Returns a predicate: whether [`remove_hop_by_hop`] removes the field of a name (in any case) from `fields`.
///
/// `Connection` is read once. The reader of messages refuses those with more than
/// [`MOST_CONNECTION_OPTIONS`]; here, if the list is longer, all other fields count as listed.
pub fn is_hop_by_hop(fields: &impl Fields) -> impl Fn(&[u8]) -> bool {
    let is_usual = |option: &[u8]| option.eq_ignore_ascii_case(b"close") || is_always_hop_by_hop(option);
    let options = members(fields, "connection").take(MOST_CONNECTION_OPTIONS + 1);
    let mut listed = Vec::new();
    options.filter(|option| !is_usual(option)).for_each(|option| listed.push(option));
    let is_too_long = listed.len() > MOST_CONNECTION_OPTIONS;
    move |name| {
        is_always_hop_by_hop(name)
            || is_too_long
            || listed.iter().any(|listed| listed.eq_ignore_ascii_case(name))
    }
}

/// Whether the field of a name (in any case) concerns one connection, whatever `Connection` lists.
#[inline]
pub fn is_always_hop_by_hop(name: &[u8]) -> bool {
    let has_length = name.len() < 64 && LENGTHS & (1 << name.len()) != 0;
    has_length && HOP_BY_HOP.iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
}

/// The most connection options of a message.
pub const MOST_CONNECTION_OPTIONS: usize = 64;

const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// The lengths of these names: bit `n` is set if a name has `n` bytes. Most other names have another length.
const LENGTHS: u64 = {
    let (mut lengths, mut at) = (0, 0);
    while at < HOP_BY_HOP.len() {
        lengths |= 1 << HOP_BY_HOP[at].len();
        at += 1;
    }
    lengths
};
