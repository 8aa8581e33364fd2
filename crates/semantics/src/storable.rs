//! Whether a response may be stored (RFC 9111 section 3), and which of its fields.

use http::{HeaderMap, HeaderName, Method, StatusCode, header};

use crate::coding::Compression;
use crate::directives::{RequestDirectives, ResponseDirectives};
use crate::fields::{Fields, members};
use crate::freshness::{Flags, Freshness, Lifetime, is_heuristically_cacheable};
use crate::lifetimes::{Ignored, Lifetimes};
use crate::range::ContentRange;
use crate::status::Why;
use crate::{key, vary};

/// What the RFC leaves to the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Share of the time since `Last-Modified` that a response without lifetime is fresh for, in
    /// percent (RFC 9111 section 4.2.2).
    pub heuristic_percent: u8,
    /// The longest such lifetime, in seconds.
    pub heuristic_max: u32,
    /// Such a lifetime also holds for requests with `Cookie`, whose answers may be for one user.
    pub guesses_with_cookies: bool,
    /// The targeted fields obeyed, lower case, the most important first (RFC 9213 section 2.2).
    pub targeted: Vec<String>,
    /// How stale a response may be when the origin fails and nobody says otherwise, in seconds
    /// (RFC 9111 section 4.2.4).
    pub stale_if_error: u32,
    /// How stale a response may be while it is revalidated, where the origin does not say, in
    /// seconds (RFC 5861 section 3).
    pub stale_while_revalidate: u32,
    /// Share of their lifetime, in percent, before the end of which popular responses are refreshed; 0: they are not.
    pub refresh_ahead: u8,
    /// Each use is validated, whatever the origin says of lifetimes. So what comes without any, or without a
    /// validator, may be stored as well.
    pub validated: bool,
    /// Which `Set-Cookie` fields are stored.
    pub cookies: Cookies,
    /// Requests that want a newer response than the stored one get the stored one (against RFC 9111 section 5.2.1).
    pub ignores_reloads: bool,
    /// Answers to POST that say they are their target's content, and for how long, are stored (RFC 9110 section 9.3.3).
    pub stores_posts: bool,
    /// Nothing is stored.
    pub stores_nothing: bool,
    /// Lifetimes in place of those of origins.
    pub lifetimes: Lifetimes,
    /// Directives of origins without effect.
    pub ignored: Ignored,
    /// What is sent to clients in another coding than the origin's.
    pub compression: Compression,
}

/// Which `Set-Cookie` fields are stored, and thus sent to all clients. The others go to the client only whose request
/// was answered with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cookies {
    /// Those whose values are too short to tell one client from another, such as `lang=en`, and that remove no cookie.
    #[default]
    Short,
    /// All.
    All,
    /// None.
    None,
}

/// Bytes of a cookie's value that cannot tell one client from another: a flag, or a language.
const SHORT: usize = 2;

impl Cookies {
    /// Whether a `Set-Cookie` field with this value is stored.
    fn keeps(self, field: &[u8]) -> bool {
        let mut parts = field.split(|&byte| byte == b';');
        let pair = parts.next().unwrap_or_default();
        let value = pair.iter().position(|&byte| byte == b'=').map_or(pair, |at| &pair[at + 1..]);
        // A field that removes a cookie would end the session of each client that receives it.
        let has_end = |part: &[u8]| {
            let name = part.split(|&byte| byte == b'=').next().unwrap_or_default().trim_ascii();
            name.eq_ignore_ascii_case(b"expires") || name.eq_ignore_ascii_case(b"max-age")
        };
        match self {
            Self::Short => (1..=SHORT).contains(&value.trim_ascii().len()) && !parts.any(has_end),
            Self::All => true,
            Self::None => false,
        }
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            heuristic_percent: 10,
            heuristic_max: 86_400,
            guesses_with_cookies: true,
            targeted: vec!["cdn-cache-control".into()],
            stale_if_error: 3_600,
            stale_while_revalidate: 0,
            refresh_ahead: 0,
            validated: false,
            cookies: Cookies::Short,
            ignores_reloads: false,
            stores_posts: true,
            stores_nothing: false,
            lifetimes: Lifetimes::default(),
            ignored: Ignored::default(),
            compression: Compression::default(),
        }
    }
}

impl Rules {
    /// Whether no lifetime may be guessed for this request.
    pub fn forbids_guess(&self, request: &impl Fields) -> bool {
        !self.guesses_with_cookies && (request.contains("cookie") || request.contains("client-cert"))
    }
}

/// When a response was asked for and when its head was received, in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// `request_time` (RFC 9111 section 4.2.3).
    pub requested: u32,
    /// `response_time`.
    pub received: u32,
    /// Its age is taken from `Age`, which the sending node counts by one clock; `Date`, which is of another clock, is
    /// not compared with this one.
    pub by_age: bool,
}

/// Judges the response to a GET, whole or partial; that the content arrives whole, and is as long
/// as a `Content-Range` says, is for the caller to see. A response with a validator but no
/// lifetime is storable with lifetime 0: each use is validated.
///
/// Other methods are refused: HEAD has nothing to store (but see [`crate::revalidate::head`]), and
/// POST has [`storable_post`].
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

/// Judges the response to a POST, which may be stored as the answer to later GETs of its target
/// `target` (a key) when it says that this is what it represents, and for how long
/// (RFC 9110 section 9.3.3).
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
    if vary::is_any(response) {
        return Err(Why::VaryAny);
    }
    // Section 3.5: these three allow sharing what was sent to somebody with credentials.
    let shared = directives.public || directives.must_revalidate || directives.s_maxage.is_some();
    if request.contains("authorization") && !shared {
        return Err(Why::Authorization);
    }
    let (freshness, lifetime) = Freshness::of(rules, &directives, status, response, times);
    if matches!(lifetime, Lifetime::Heuristic(_)) && !rules.validated && rules.forbids_guess(request) {
        return Err(Why::CookieGuess);
    }
    let defined = is_heuristically_cacheable(status) || directives.public;
    if !(rules.validated && defined) {
        usable(&freshness, lifetime, defined)?;
    }
    if response.contains("set-cookie") && !is_plainly_fresh(&freshness, lifetime) {
        return Err(Why::SetCookie);
    }
    Ok((freshness, lifetime))
}

/// Whether the origin itself wants the response reused as it is. One with a cookie needs that: on a
/// guess, by a rule, or after a 304, one client's cookie would go to another.
fn is_plainly_fresh(freshness: &Freshness, lifetime: Lifetime) -> bool {
    matches!(lifetime, Lifetime::Explicit(1..)) && !freshness.flags.contains(Flags::NO_CACHE)
}

/// Interim responses, and those to a condition or range of this very request, are not the
/// representation that others ask for.
fn status_allows(status: StatusCode, response: &impl Fields) -> Result<(), Why> {
    match status.as_u16() {
        ..200 | 304 | 412 | 416 => Err(Why::StatusNotStorable),
        206 if ContentRange::of(response).is_none() => Err(Why::BadContentRange),
        _ => Ok(()),
    }
}

fn directives_allow(directives: &ResponseDirectives, status: StatusCode) -> Result<(), Why> {
    if directives.must_understand && !is_understood(status) {
        return Err(Why::NotUnderstood);
    }
    if directives.no_store && !directives.must_understand {
        return Err(Why::ResponseNoStore);
    }
    if directives.private {
        return Err(Why::Private);
    }
    Ok(())
}

/// The status codes whose caching rules are known here: those of RFC 9110 section 15.
fn is_understood(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200..=206 | 300..=305 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 500..=505)
}

/// Whether the response can ever answer a request. `defined`: its status, or `public`, makes it
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

/// The fields of `response` that are stored (RFC 9111 section 3.1): neither those of the connection
/// and of proxies, nor `Trailer`, nor those that `no-cache="…"` or `private="…"` withholds, nor cookies that may be
/// meant for one client.
/// Signatures ([`crate::vary`]) and freshness are made from the whole response, before this.
pub fn storable_fields(rules: &Rules, response: &HeaderMap) -> HeaderMap {
    let mut stored = response.clone();
    remove_hop_by_hop(&mut stored);
    stored.remove(header::TRAILER);
    for name in ResponseDirectives::parse(response, &rules.targeted).withheld {
        stored.remove(name);
    }
    remove_cookies(rules, &mut stored);
    stored
}

fn remove_cookies(rules: &Rules, stored: &mut HeaderMap) {
    if !stored.contains_key(header::SET_COOKIE) {
        return;
    }
    let cookies: Vec<_> = stored.get_all(header::SET_COOKIE).iter().cloned().collect();
    stored.remove(header::SET_COOKIE);
    for cookie in cookies.into_iter().filter(|cookie| rules.cookies.keeps(cookie.as_bytes())) {
        stored.append(header::SET_COOKIE, cookie);
    }
}

/// Removes the fields that concern one connection, in either direction: `Connection` and what it
/// lists, `Upgrade`, `TE`, framing, and the conversation with proxies (RFC 9110 section 7.6.1).
///
/// `Trailer` stays, and `TE` goes even when it says `trailers`: a caller that forwards trailers
/// looks at them first and sends its own `TE: trailers`.
pub fn remove_hop_by_hop(fields: &mut HeaderMap) {
    let listed: Vec<_> =
        members(fields, "connection").filter_map(|m| HeaderName::from_bytes(m).ok()).collect();
    let own = HOP_BY_HOP.into_iter().map(HeaderName::from_static);
    for name in own.chain(listed) {
        fields.remove(name);
    }
}

/// Whether a field called so (in any case) is one that [`remove_hop_by_hop`] removes from `fields`.
///
/// `Connection` is read once. Messages with more than [`MOST_CONNECTION_OPTIONS`] are refused where they are read; of a
/// longer list, all other fields count as listed.
pub fn is_hop_by_hop(fields: &impl Fields) -> impl Fn(&[u8]) -> bool {
    let is_own = |name: &[u8]| HOP_BY_HOP.iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes()));
    let is_usual = |option: &[u8]| option.eq_ignore_ascii_case(b"close") || is_own(option);
    let options = members(fields, "connection").take(MOST_CONNECTION_OPTIONS + 1);
    let listed: Vec<_> = options.filter(|option| !is_usual(option)).collect();
    let is_too_long = listed.len() > MOST_CONNECTION_OPTIONS;
    move |name| is_own(name) || is_too_long || listed.iter().any(|listed| listed.eq_ignore_ascii_case(name))
}

/// Connection options that a message may have.
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

#[cfg(test)]
mod tests {
    use super::Cookies;

    #[test]
    fn only_cookies_that_tell_no_client_from_others_and_remove_none_are_stored() {
        for (field, is_short) in [
            ("lang=en; Path=/", true),
            ("a=b", true),
            ("b", true),
            ("sid=abc", false),
            ("sid=", false),
            ("", false),
            ("sid=; Path=/; max-age=0", false),
            ("sid=x; Expires=Thu, 01 Jan 1970 00:00:00 GMT", false),
            ("a=b; MAX-AGE =60", false),
        ] {
            assert_eq!(Cookies::Short.keeps(field.as_bytes()), is_short, "{field}");
            assert!(Cookies::All.keeps(field.as_bytes()) && !Cookies::None.keeps(field.as_bytes()));
        }
    }
}
